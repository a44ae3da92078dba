#include "tests/model_trial.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backend/training/config.h"
#include "backend/training/run_data.h"
#include "backend/training/session.h"
#include "backend/training/trainer.h"
#include "backend/training/walk.h"
#include "graph/base/errors.h"
#include "graph/base/status_macros.h"
#include "graph/plan/plan.h"

namespace onward {
namespace {

constexpr int64_t kOpenExtent = 3;
constexpr int64_t kMostBytes = 16 << 20;
constexpr double kMostOperations = 1e8;

RunConfig ConfigFor(const OnnxModel& model) {
  RunConfig config;
  config.loss.kind = LossKind::kMeanSquared;
  config.threads = 1;
  if (!model.outputs().empty()) config.prediction = model.outputs()[0].name;
  for (const ModelInput& input : model.inputs()) {
    for (size_t axis = 1; axis < input.extents.size(); ++axis) {
      if (input.extents[axis].size != kDynamic) continue;
      config.dims.emplace_back(absl::StrCat(input.name, ".", axis), kOpenExtent);
    }
  }
  return config;
}

// Small enough to be run in a test?
bool IsSmall(const Plan& plan, const RunData& data, int64_t samples) {
  double bytes = static_cast<double>(plan.StateBytes(0) + plan.ConstantBytes());
  std::vector<FeedSpec> feeds = data.inputs;  // also what the plan does not read
  if (data.labels.has_value()) feeds.push_back(*data.labels);
  for (const FeedSpec& feed : feeds) {
    bytes += 8.0 * static_cast<double>(samples) * static_cast<double>(Elements(feed.dims));
  }
  bytes += static_cast<double>(plan.ArenaBytes(0) + plan.FeedBytes(0) + plan.OutputBytes(0));
  double operations = 0;
  for (const PlanProgram& program : plan.programs) {
    for (const PlanStep& step : program.steps) operations += step.operations;
  }
  return bytes <= kMostBytes && operations <= kMostOperations;
}

absl::Status OneStep(Walk* walk, const RunData& data, int64_t samples, bool trains) {
  std::vector<FeedSpec> feeds = data.inputs;
  if (data.labels.has_value()) feeds.push_back(*data.labels);
  ASSIGN_OR_RETURN(std::unique_ptr<FeedBuffers> buffers, FeedBuffers::Create(feeds, samples, 1, 2));
  Session session(walk);
  std::vector<MetricSum> sums;
  if (trains) RETURN_IF_ERROR(session.Train(*buffers, 0, samples, 0.1, &sums));
  return session.Predict(*buffers, 0, samples).status();
}

absl::Status TryTo(bool train, const OnnxModel& model) {
  RunConfig config = ConfigFor(model);
  if (!train) config.loss.kind = LossKind::kNone;
  ASSIGN_OR_RETURN(const std::unique_ptr<RunData> data, AssumeRunData(config, model));
  ASSIGN_OR_RETURN(std::unique_ptr<Walk> walk,
                   Walk::Create(&model, WalkOptionsOf(config, *data), nullptr));
  const int64_t samples = model.FixedBatch(2);
  ASSIGN_OR_RETURN(const Plan plan,
                   train ? walk->TrainingPlan(samples) : walk->PredictionPlan(samples));
  return IsSmall(plan, *data, samples) ? OneStep(walk.get(), *data, samples, train)
                                       : absl::OkStatus();
}

}  // namespace

absl::Status TryModel(const OnnxModel& model) {
  model.OperatorCounts();
  absl::Status trained = TryTo(/*train=*/true, model);
  if (trained.ok()) return trained;
  absl::Status predicted = TryTo(/*train=*/false, model);
  return Complaint(predicted).empty() ? trained : predicted;
}

absl::Status TryModel(const std::string& bytes) {
  ASSIGN_OR_RETURN(const std::unique_ptr<OnnxModel> model,
                   OnnxModel::FromBytes(bytes, "hostile.onnx"));
  return TryModel(*model);
}

std::string Complaint(const absl::Status& status) {
  if (status.ok()) return "";
  const std::string message(status.message());
  if (message.size() < 10) return "says nothing";
  if (message.size() > 1000) return absl::StrCat("is ", message.size(), " bytes long");
  const bool one_line = std::all_of(message.begin(), message.end(),
                                    [](unsigned char c) { return c >= 0x20 && c != 0x7f; });
  if (!one_line) return "is not one line of text";
  if (ExitCodeOf(status) == ExitCode::kInternal) return "is called a fault of ours";
  return "";
}

}  // namespace onward
