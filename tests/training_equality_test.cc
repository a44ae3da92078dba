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
