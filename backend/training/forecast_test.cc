// A run takes exactly the memory that was forecast for it.
#include "backend/training/forecast.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "backend/data/npy.h"
#include "backend/training/trainer.h"

namespace onward {
namespace {

class ForecastTest : public testing::Test {
 protected:
  void SetUp() override {
    Write("x", "labels", 50);
    Write("vx", "vlabels", 21);
    config_.model = "tests/models/keras_mlp-keras_export-train.onnx";
    config_.data = {{"", Path("x")}};
    config_.labels = {{"", Path("labels")}};
    config_.loss = *ParseLoss("sparse_categorical_crossentropy");
    config_.metrics = {*ParseMetric("accuracy")};
    config_.optimizer.kind = OptimizerKind::kAdam;
    config_.batch_size = 16;
    config_.threads = 2;
  }

  static std::string Path(const std::string& name) {
    return absl::StrCat(testing::TempDir(), "/forecast_", name, ".npy");
  }

  static void Write(const std::string& x, const std::string& labels, int64_t rows) {
    ASSERT_TRUE(WriteNpy(Path(x), Tensor::Full(DataType::kFloat32, {rows, 784}, 0.5).view()).ok());
    ASSERT_TRUE(WriteNpy(Path(labels), Tensor::Full(DataType::kInt64, {rows}, 3).view()).ok());
  }

  // What the run holds in its end, when all its plans have been made.
  void ExpectExact() {
    const auto model = OnnxModel::Load(config_.model);
    ASSERT_TRUE(model.ok()) << model.status();
    const auto data = ReadRunData(config_, Command::kTrain, **model);
    ASSERT_TRUE(data.ok()) << data.status();
    const auto forecast = ForecastMemory(config_, **model, **data);
    ASSERT_TRUE(forecast.ok()) << forecast.status();
    EXPECT_GT(forecast->arenas, 0);
    EXPECT_GE(forecast->data, 50 * 784 * 4);
    EXPECT_GT(forecast->model, 200000);
    const auto trainer = Trainer::Create(config_, Command::kTrain, {});
    ASSERT_TRUE(trainer.ok()) << trainer.status();
    const absl::Status fit = (*trainer)->Fit();
    ASSERT_TRUE(fit.ok()) << fit;
    EXPECT_EQ((*trainer)->bytes(), forecast->total());
  }

  RunConfig config_;
};

TEST_F(ForecastTest, OneDevice) { ExpectExact(); }

TEST_F(ForecastTest, WholeBatchesOnly) {
  config_.drop_last = true;
  ExpectExact();
  config_.batch_size = 25;
  ExpectExact();
}

TEST_F(ForecastTest, ABatchThatIsLargerThanTheData) {
  config_.batch_size = 1000;
  ExpectExact();
}

TEST_F(ForecastTest, TwoDevicesWithValidation) {
  config_.devices = {{Device::Kind::kCpu, 0}, {Device::Kind::kCpu, 1}};
  config_.validation_data = {{"", Path("vx")}};
  config_.validation_labels = {{"", Path("vlabels")}};
  ExpectExact();
}

TEST_F(ForecastTest, AccumulationAndAPartSetAside) {
  config_.accumulate = 2;
  config_.validation_split = 0.3;
  ExpectExact();
}

TEST_F(ForecastTest, FixedShards) {
  config_.shards = 4;
  ExpectExact();
}

}  // namespace
}  // namespace onward
