#include "backend/training/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "absl/strings/match.h"
#include "graph/base/errors.h"

namespace onward {
namespace {

TEST(MetricSums, MeansOverUnevenBatchesAreThoseOfTheSamples) {
  MetricSums sums({"loss", "accuracy"});
  // Batches of 4 and 1: a mean of means would give 3.5 and 0.75.
  ASSERT_TRUE(sums.Add(1, {{8, 4}, {2, 4}}).ok());
  ASSERT_TRUE(sums.Add(2, {{5, 1}, {1, 1}}).ok());
  const auto values = sums.Values("val_");
  ASSERT_EQ(values.size(), 2u);
  EXPECT_EQ(values[0].first, "val_loss");
  EXPECT_DOUBLE_EQ(values[0].second, 13.0 / 5);
  EXPECT_EQ(values[1].first, "val_accuracy");
  EXPECT_DOUBLE_EQ(values[1].second, 0.6);
  sums.Clear();
  ASSERT_TRUE(sums.Add(3, {{1, 2}, {0, 2}}).ok());
  EXPECT_EQ(sums.Value(0), 0.5);
}

TEST(MetricSums, WhereNothingCountedThereIsNoValue) {
  MetricSums sums({"loss"});
  EXPECT_TRUE(std::isnan(sums.Value(0)));
  ASSERT_TRUE(sums.Add(1, {{0, 0}}).ok());  // all labels ignored
  EXPECT_TRUE(std::isnan(sums.Value(0)));
  ASSERT_TRUE(sums.Add(2, {{3, 2}}).ok());
  EXPECT_EQ(sums.Value(0), 1.5);
}

TEST(MetricSums, DivergenceIsNamedAndNotAdded) {
  MetricSums sums({"loss", "mse"});
  ASSERT_TRUE(sums.Add(1, {{4, 2}, {1, 2}}).ok());
  const double nan = std::numeric_limits<double>::quiet_NaN();
  absl::Status status = sums.Add(7, {{nan, 2}, {1, 2}});
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kDiverged);
  EXPECT_TRUE(absl::StrContains(status.message(), "step 7: loss is NaN")) << status;
  status = sums.Add(8, {{1, 2}, {-std::numeric_limits<double>::infinity(), 2}});
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kDiverged);
  EXPECT_TRUE(absl::StrContains(status.message(), "step 8: mse is infinite")) << status;
  EXPECT_EQ(sums.Value(0), 2);
  EXPECT_EQ(sums.Value(1), 0.5);
}

TEST(MetricSums, ResumeIsExact) {
  MetricSums sums({"loss", "accuracy"});
  ASSERT_TRUE(sums.Add(1, {{0.1 + 0.2, 1.0 / 3}, {1e-310, 7}}).ok());
  MetricSums read({"loss", "accuracy"});
  ASSERT_TRUE(read.FromJson(nlohmann::json::parse(sums.ToJson().dump())).ok());
  EXPECT_EQ(read.Value(0), sums.Value(0));
  EXPECT_EQ(read.Value(1), sums.Value(1));
  MetricSums others({"loss", "mae"});
  EXPECT_EQ(ExitCodeOf(others.FromJson(sums.ToJson())), ExitCode::kNoCheckpoint);
  for (const char* text : {"null", "[]", "[1,2]", R"([{"name":"loss"},{"name":"accuracy"}])",
                           R"([{"name":"loss","numerator":null,"denominator":1},{}])"}) {
    EXPECT_EQ(ExitCodeOf(read.FromJson(nlohmann::json::parse(text))), ExitCode::kNoCheckpoint);
  }
  EXPECT_EQ(read.Value(0), sums.Value(0));
}

}  // namespace
}  // namespace onward
