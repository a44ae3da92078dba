#include "tests/reference_run.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "backend/training/session.h"
#include "backend/training/walk.h"
#include "graph/base/status_macros.h"

namespace onward {
namespace {

WalkOptions OptionsFor(const TrainingReference& reference, const TrainingRun& run,
                       const Setting& setting) {
  WalkOptions options;
  for (const auto& input : reference.inputs) {
    options.inputs.push_back(
        {input.name, setting.dtype, Dims(input.dims.begin() + 1, input.dims.end())});
  }
  options.loss.kind = LossRequest::Kind::kCrossEntropy;
  options.dropout = setting.dropout;
  const bool keras = absl::StartsWith(reference.framework, "Keras");
  options.optimizer.formula = keras ? FormulaOf::kKeras : FormulaOf::kPyTorch;
  if (run.optimizer == "adam") {
    options.optimizer.rule = OptimizerSpec::Rule::kAdam;
    options.optimizer.beta1 = run.beta_1;
    options.optimizer.beta2 = run.beta_2;
    options.optimizer.epsilon = run.epsilon;
  } else {
    options.optimizer.momentum = run.momentum;
  }
  for (int d = 0; d < setting.devices; ++d) {
    options.placement.devices.push_back({Device::Kind::kCpu, d});
  }
  options.placement.threads = setting.threads;
  options.placement.shards = setting.shards == 0 ? setting.devices : setting.shards;
  options.placement.fixed_shards = setting.fixed_shards;
  options.placement.bucket_bytes = static_cast<int64_t>(setting.bucket_bytes);
  return options;
}

// Writes a batch into set 0, shard by shard.
void FillBatch(const TrainingReference& reference, int64_t step, int64_t rows,
               const Setting& setting, const std::vector<FeedSpec>& feeds,
               const FeedBuffers& buffers, int shards) {
  std::vector<Tensor> tensors = SyntheticInputs(reference, step, setting.dtype);
  tensors.push_back(SyntheticLabels(reference, step));
  const std::vector<int64_t> sizes = ShardSizes(rows, shards);
  for (size_t f = 0; f < feeds.size(); ++f) {
    const int64_t row = tensors[f].bytes() / reference.batch;
    int64_t begin = 0;
    for (int s = 0; s < shards; ++s) {
      std::memcpy(buffers.Memory(feeds[f].name, s, 0),
                  static_cast<const char*>(tensors[f].data()) + begin * row, sizes[s] * row);
      begin += sizes[s];
    }
  }
}

}  // namespace

std::vector<std::string> References() {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator("tests/reference")) {
    const std::string name = entry.path().filename().string();
    if (absl::StartsWith(name, "training-")) paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

absl::StatusOr<Result> TrainOn(const TrainingReference& reference, const TrainingRun& run,
                               const Setting& setting) {
  ASSIGN_OR_RETURN(std::unique_ptr<OnnxModel> model,
                   OnnxModel::Load(absl::StrCat("tests/models/", reference.model)));
  if (setting.dtype == DataType::kFloat64) RETURN_IF_ERROR(model->WidenToFloat64());
  WalkOptions options = OptionsFor(reference, run, setting);
  std::vector<FeedSpec> feeds = options.inputs;
  feeds.push_back({kLabelsFeed, DataType::kInt64, {}});
  const int shards = options.placement.shards;
  const int64_t rows = setting.rows < 0 ? reference.batch : setting.rows;
  ASSIGN_OR_RETURN(std::unique_ptr<Walk> walk, Walk::Create(model.get(), std::move(options)));
  Session session(walk.get());
  ASSIGN_OR_RETURN(std::unique_ptr<FeedBuffers> buffers,
                   FeedBuffers::Create(feeds, rows, shards, 2));
  Result result;
  const int64_t steps = setting.steps < 0 ? reference.steps : setting.steps;
  for (int64_t step = 0; step < steps; ++step) {
    FillBatch(reference, step, rows, setting, feeds, *buffers, shards);
    std::vector<MetricSum> sums;
    RETURN_IF_ERROR(session.Train(*buffers, 0, rows, run.learning_rate, &sums));
    result.losses.push_back(sums[0].numerator / sums[0].denominator);
  }
  for (const auto& named : session.states().names()) {
    result.states.emplace(named.name, session.states().Read(named.name));
  }
  ASSIGN_OR_RETURN(const Executor* executor, session.TrainingExecutor(*buffers, rows));
  result.plan = ToText(executor->plan());
  return result;
}

}  // namespace onward
