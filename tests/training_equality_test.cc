// Trains the models of tests/models as the frameworks that exported them do, from the
// same weights on the same batches, and compares every loss and every parameter with
// theirs (tests/reference).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "tests/reference_run.h"

namespace onward {
namespace {

// The largest relative difference of a loss.
double LossDifference(const TrainingRun& run, const Result& result) {
  double worst = result.losses.size() == run.losses.size() ? 0 : INFINITY;
  for (size_t i = 0; i < run.losses.size() && std::isfinite(worst); ++i) {
    worst = std::max(worst, std::fabs(result.losses[i] - run.losses[i]) / std::fabs(run.losses[i]));
  }
  return worst;
}

struct Arrays {
  double difference = 0;  // the largest
  std::string where;
  int compared = 0;
};

Arrays CompareArrays(const TrainingRun& run, const Result& result) {
  Arrays arrays;
  for (const auto* expected : {&run.parameters, &run.running_statistics}) {
    for (const auto& [name, statistics] : *expected) {
      const auto& skipped = run.zero_gradient;
      if (std::find(skipped.begin(), skipped.end(), name) != skipped.end()) continue;
      const auto it = result.states.find(name);
      const double difference = it == result.states.end()
                                    ? INFINITY
                                    : Difference(StatisticsOf(it->second), statistics, 0.05);
      if (!(difference <= arrays.difference)) {
        arrays.difference = difference;
        arrays.where = name;
      }
      ++arrays.compared;
    }
  }
  return arrays;
}

void Print(const TrainingReference& reference, const TrainingRun& run, double loss,
           const Arrays& arrays) {
  std::printf("%-45s %-12s losses differ by %.1e at most, %d arrays by %.1e\n",
              reference.model.c_str(), run.name.c_str(), loss, arrays.compared, arrays.difference);
}

TEST(TrainingEquality, EveryReferenceInFloat64) {
  int runs = 0;
  for (const std::string& path : References()) {
    auto reference = ReadTrainingReference(path);
    ASSERT_TRUE(reference.ok()) << reference.status();
    for (const TrainingRun& run : reference->runs) {
      auto result = TrainOn(*reference, run, {});
      ASSERT_TRUE(result.ok()) << path << " " << run.name << ": " << result.status();
      const double loss = LossDifference(run, *result);
      const Arrays arrays = CompareArrays(run, *result);
      Print(*reference, run, loss, arrays);
      EXPECT_LT(loss, 1e-8) << path << " " << run.name;
      EXPECT_LT(arrays.difference, 1e-5) << path << " " << run.name << " " << arrays.where;
      EXPECT_GT(arrays.compared, 0);
      ++runs;
    }
  }
  EXPECT_GE(runs, 40);
}

TEST(TrainingEquality, Float32WhereTheFrameworksOwnFloat32IsClose) {
  int runs = 0;
  for (const std::string& path : References()) {
    auto reference = ReadTrainingReference(path);
    ASSERT_TRUE(reference.ok()) << reference.status();
    for (const TrainingRun& run : reference->runs) {
      if (run.float32_loss_difference > 2e-5) continue;
      // A ReLU whose input is within rounding of zero may go either way, and the
      // parameters with it; another number of threads rounds in another way.
      double loss = INFINITY;
      Arrays arrays;
      for (int threads : {2, 1}) {
        Setting setting;
        setting.dtype = DataType::kFloat32;
        setting.threads = threads;
        auto result = TrainOn(*reference, run, setting);
        ASSERT_TRUE(result.ok()) << path << " " << run.name << ": " << result.status();
        loss = LossDifference(run, *result);
        arrays = CompareArrays(run, *result);
        if (loss < 1e-4 && arrays.difference < 1e-3) break;
      }
      Print(*reference, run, loss, arrays);
      EXPECT_LT(loss, 1e-4) << path << " " << run.name;
      EXPECT_LT(arrays.difference, 1e-3) << path << " " << run.name << " " << arrays.where;
      EXPECT_GT(arrays.compared, 0);
      ++runs;
    }
  }
  EXPECT_GE(runs, 25);
}

}  // namespace
}  // namespace onward
