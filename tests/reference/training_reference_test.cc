#include "tests/reference/training_reference.h"

#include <cmath>
#include <limits>
#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace onward {
namespace {

using ::testing::ElementsAre;

constexpr char kTwoInputs[] = "tests/reference/training-keras_two_inputs-keras_export-train.json";

TEST(TrainingReference, DrawsAsTheReadmeSays) {
  EXPECT_EQ(SyntheticDraw(0, 0), 14819496u);
  EXPECT_EQ(SyntheticDraw(0, 1), 9505325u);
  EXPECT_EQ(SyntheticDraw(7, 0), 12376646u);
}

TEST(TrainingReference, ReadsAFileAndRepeatsItsBatches) {
  const auto read = ReadTrainingReference(kTwoInputs);
  ASSERT_TRUE(read.ok()) << read.status();
  const TrainingReference& reference = *read;
  EXPECT_EQ(reference.model, "keras_two_inputs-keras_export-train.onnx");
  EXPECT_EQ(reference.loss, "sparse_categorical_crossentropy");
  ASSERT_EQ(reference.inputs.size(), 2u);
  EXPECT_EQ(reference.inputs[0].name, "image");
  ASSERT_EQ(reference.runs.size(), 2u);
  for (const TrainingRun& run : reference.runs) {
    EXPECT_EQ(run.losses.size(), static_cast<size_t>(reference.steps));
    EXPECT_EQ(run.parameters.size(), 12u);
    EXPECT_EQ(run.running_statistics.size(), 2u);
    EXPECT_GT(run.learning_rate, 0);
  }
  // Step 5 is the second of four batches again.
  const auto inputs = SyntheticInputs(reference, 5, DataType::kFloat32);
  const auto wide = SyntheticInputs(reference, 1, DataType::kFloat64);
  EXPECT_EQ(inputs[0].At(0), 1.9791927337646484);
  EXPECT_EQ(inputs[0].At(1), 0.48035311698913574);
  EXPECT_EQ(wide[1].At(16 * 5 - 1), 0.21595549583435059);
  for (int64_t i = 0; i < inputs[0].elements(); ++i) {
    ASSERT_EQ(inputs[0].At(i), wide[0].At(i)) << "not exact in float32";
  }
  const Tensor labels = SyntheticLabels(reference, 5);
  EXPECT_THAT(labels.values<int64_t>(),
              ElementsAre(1, 2, 1, 2, 1, 0, 0, 2, 1, 0, 2, 2, 1, 2, 2, 2));
}

TEST(TrainingReference, TakesAndComparesStatistics) {
  std::vector<double> numbers(20);
  for (int i = 0; i < 20; ++i) numbers[i] = i;
  const auto statistics =
      StatisticsOf(Tensor::Of<double>({4, 5}, absl::Span<const double>(numbers)));
  EXPECT_EQ(statistics.sum, 190);
  EXPECT_EQ(statistics.sum_of_squares, 2470);
  EXPECT_THAT(statistics.values, ElementsAre(0, 2, 5, 7, 10, 12, 15, 17));
  auto other = statistics;
  EXPECT_EQ(Difference(other, statistics, 1e-3), 0);
  other.values[4] = 11;
  EXPECT_DOUBLE_EQ(Difference(other, statistics, 1e-3), 0.1);
  other.values[0] = 1e-3;
  EXPECT_DOUBLE_EQ(Difference(other, statistics, 1e-3), 1);
  other.values[2] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(std::isnan(Difference(other, statistics, 1e-3)));
  other.values.pop_back();
  EXPECT_TRUE(std::isinf(Difference(other, statistics, 1e-3)));
}

TEST(TrainingReference, SaysWhatCannotBeRead) {
  EXPECT_EQ(ReadTrainingReference("tests/reference/absent.json").status().code(),
            absl::StatusCode::kNotFound);
  // A file of another family.
  EXPECT_EQ(ReadTrainingReference("tests/reference/optimizers.json").status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace onward
