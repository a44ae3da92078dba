// Trains the models of tests/models as the frameworks that exported them do, from the
// same weights on the same batches, and compares every loss and every parameter with
// theirs (tests/reference).
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "backend/training/session.h"
#include "backend/training/walk.h"
#include "graph/base/status_macros.h"
#include "tests/reference/training_reference.h"

namespace onward {
namespace {

struct Setting {
  DataType dtype = DataType::kFloat64;
  int devices = 1;
  int threads = 1;
  int shards = 0;   // 0: one per device
  bool fixed_shards = false;
};

std::vector<std::string> References() {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator("tests/reference")) {
    const std::string name = entry.path().filename().string();
    if (absl::StartsWith(name, "training-")) paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

WalkOptions OptionsFor(const TrainingReference& reference, const TrainingRun& run,
                       const Setting& setting) {
  WalkOptions options;
  for (const auto& input : reference.inputs) {
    options.inputs.push_back(
        {input.name, setting.dtype, Dims(input.dims.begin() + 1, input.dims.end())});
  }
  options.loss.kind = LossRequest::Kind::kCrossEntropy;
  options.dropout = false;
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
  return options;
}

// Writes a batch into set 0, shard by shard.
void FillBatch(const TrainingReference& reference, int64_t step, const Setting& setting,
               const std::vector<FeedSpec>& feeds, const FeedBuffers& buffers, int shards) {
  std::vector<Tensor> tensors = SyntheticInputs(reference, step, setting.dtype);
  tensors.push_back(SyntheticLabels(reference, step));
  const std::vector<int64_t> sizes = ShardSizes(reference.batch, shards);
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

struct Result {
  std::vector<double> losses;
  std::map<std::string, Tensor> states;
};

absl::StatusOr<Result> TrainOn(const TrainingReference& reference, const TrainingRun& run,
                               const Setting& setting) {
  ASSIGN_OR_RETURN(std::unique_ptr<OnnxModel> model,
                   OnnxModel::Load(absl::StrCat("tests/models/", reference.model)));
  if (setting.dtype == DataType::kFloat64) RETURN_IF_ERROR(model->WidenToFloat64());
  WalkOptions options = OptionsFor(reference, run, setting);
  std::vector<FeedSpec> feeds = options.inputs;
  feeds.push_back({kLabelsFeed, DataType::kInt64, {}});
  const int shards = options.placement.shards;
  ASSIGN_OR_RETURN(std::unique_ptr<Walk> walk, Walk::Create(model.get(), std::move(options)));
  Session session(walk.get());
  ASSIGN_OR_RETURN(std::unique_ptr<FeedBuffers> buffers,
                   FeedBuffers::Create(feeds, reference.batch, shards, 2));
  Result result;
  for (int64_t step = 0; step < reference.steps; ++step) {
    FillBatch(reference, step, setting, feeds, *buffers, shards);
    std::vector<MetricSum> sums;
    RETURN_IF_ERROR(session.Train(*buffers, 0, reference.batch, run.learning_rate, &sums));
    result.losses.push_back(sums[0].numerator / sums[0].denominator);
  }
  for (const auto& named : session.states().names()) {
    result.states.emplace(named.name, session.states().Read(named.name));
  }
  return result;
}

void Compare(const TrainingReference& reference, const TrainingRun& run, const Result& result,
             double loss_tolerance, double parameter_tolerance) {
  const std::string where = absl::StrCat(reference.model, " ", run.name);
  ASSERT_EQ(result.losses.size(), run.losses.size());
  double worst = 0;
  for (size_t i = 0; i < run.losses.size(); ++i) {
    worst = std::max(worst, std::fabs(result.losses[i] - run.losses[i]) / std::fabs(run.losses[i]));
    ASSERT_NEAR(result.losses[i], run.losses[i], loss_tolerance * std::fabs(run.losses[i]))
        << where << " step " << i;
  }
  int compared = 0;
  for (const auto* expected : {&run.parameters, &run.running_statistics}) {
    for (const auto& [name, statistics] : *expected) {
      if (std::find(run.zero_gradient.begin(), run.zero_gradient.end(), name) !=
          run.zero_gradient.end()) {
        continue;
      }
      const auto it = result.states.find(name);
      ASSERT_TRUE(it != result.states.end()) << where << ": no state " << name;
      EXPECT_LT(Difference(StatisticsOf(it->second), statistics, 0.05), parameter_tolerance)
          << where << " " << name;
      ++compared;
    }
  }
  EXPECT_GT(compared, 0);
  std::printf("%-50s %-12s loss differs by at most %.1e, %d arrays compared\n",
              reference.model.c_str(), run.name.c_str(), worst, compared);
}

TEST(TrainingEquality, EveryReferenceInFloat64) {
  int runs = 0;
  for (const std::string& path : References()) {
    auto reference = ReadTrainingReference(path);
    ASSERT_TRUE(reference.ok()) << reference.status();
    for (const TrainingRun& run : reference->runs) {
      auto result = TrainOn(*reference, run, {});
      ASSERT_TRUE(result.ok()) << path << " " << run.name << ": " << result.status();
      Compare(*reference, run, *result, 1e-6, 1e-5);
      if (HasFatalFailure()) return;
      ++runs;
    }
  }
  EXPECT_GE(runs, 30);
}

TEST(TrainingEquality, Float32WhereTheFrameworksOwnFloat32IsClose) {
  int runs = 0;
  for (const std::string& path : References()) {
    auto reference = ReadTrainingReference(path);
    ASSERT_TRUE(reference.ok()) << reference.status();
    for (const TrainingRun& run : reference->runs) {
      if (run.float32_loss_difference > 2e-5) continue;
      Setting setting;
      setting.dtype = DataType::kFloat32;
      setting.threads = 2;
      auto result = TrainOn(*reference, run, setting);
      ASSERT_TRUE(result.ok()) << path << " " << run.name << ": " << result.status();
      Compare(*reference, run, *result, 1e-4, 1e-3);
      if (HasFatalFailure()) return;
      ++runs;
    }
  }
  EXPECT_GE(runs, 15);
}

}  // namespace
}  // namespace onward
