// The trained file, imported again, has the same parameters and gives the same outputs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backend/data/npy.h"
#include "backend/training/trainer.h"
#include "tests/reference/training_reference.h"

namespace onward {
namespace {

namespace fs = std::filesystem;

// Of parameters and running statistics, by the name of the state.
using Values = std::map<std::string, Tensor>;

// Where two sets of values differ, for people; empty where they do not.
std::string FirstDifference(const Values& a, const Values& b) {
  for (const auto& [name, value] : b) {
    if (a.find(name) == a.end()) return absl::StrCat("there is no ", name);
  }
  for (const auto& [name, value] : a) {
    const auto it = b.find(name);
    if (it == b.end()) return absl::StrCat("there is a ", name);
    if (value.type() != it->second.type()) return absl::StrCat(name, " has another type");
    if (std::memcmp(value.data(), it->second.data(), value.bytes()) != 0) return name;
  }
  return "";
}

class ExportEquality : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(testing::TempDir(), "/export_equality_", GetParam());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    auto reference =
        ReadTrainingReference(absl::StrCat("tests/reference/training-", GetParam(), ".json"));
    ASSERT_TRUE(reference.ok()) << reference.status();
    config_.model = absl::StrCat("tests/models/", reference->model);
    const std::vector<Tensor> inputs = SyntheticInputs(*reference, 0, DataType::kFloat32);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const std::string path = absl::StrCat(folder_, "/x", i, ".npy");
      ASSERT_TRUE(WriteNpy(path, inputs[i].view()).ok());
      config_.data.push_back({reference->inputs[i].name, path});
    }
    const std::string labels = folder_ + "/labels.npy";
    ASSERT_TRUE(WriteNpy(labels, SyntheticLabels(*reference, 0).view()).ok());
    config_.labels = {{"", labels}};
    config_.loss = *ParseLoss("cross_entropy");
    config_.optimizer.kind = OptimizerKind::kAdam;
    config_.batch_size = std::max<int64_t>(1, reference->batch / 2);
    config_.epochs = 2;
    config_.threads = 1;
  }

  static std::unique_ptr<Trainer> Make(const RunConfig& config, Command command) {
    auto trainer = Trainer::Create(config, command, {});
    EXPECT_TRUE(trainer.ok()) << trainer.status();
    return trainer.ok() ? *std::move(trainer) : nullptr;
  }

  static Values ValuesOf(Trainer& trainer) {
    Values values;
    const StateStore& states = trainer.session().states();
    for (const auto* list : {&trainer.walk().parameters().list, &trainer.walk().statistics()}) {
      for (const Parameter& p : *list) {
        if (!p.frozen) values.emplace(p.state, states.Read(p.state));
      }
    }
    return values;
  }

  std::vector<std::pair<std::string, Tensor>> Predict(Trainer& trainer) const {
    auto outputs = trainer.Predict();
    EXPECT_TRUE(outputs.ok()) << outputs.status();
    return outputs.ok() ? *std::move(outputs) : std::vector<std::pair<std::string, Tensor>>();
  }

  std::string folder_;
  RunConfig config_;
};

TEST_P(ExportEquality, TheImportedFileIsTheTrainedModel) {
  RunConfig config = config_;
  config.checkpoint_dir = folder_ + "/run";
  const std::unique_ptr<Trainer> trained = Make(config, Command::kTrain);
  ASSERT_NE(trained, nullptr);
  const Values before = ValuesOf(*trained);
  ASSERT_TRUE(trained->Fit().ok());
  const Values after = ValuesOf(*trained);
  EXPECT_NE(FirstDifference(before, after), "");
  RunConfig exported = config_;
  exported.model = folder_ + "/trained.onnx";
  const auto lines = trained->Export(exported.model);
  ASSERT_TRUE(lines.ok()) << lines.status();

  const std::unique_ptr<Trainer> again = Make(exported, Command::kTrain);
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(FirstDifference(ValuesOf(*again), after), "");

  // The same model with the values of the checkpoint, and the exported one.
  const std::unique_ptr<Trainer> a = Make(config_, Command::kPredict);
  const std::unique_ptr<Trainer> b = Make(exported, Command::kPredict);
  ASSERT_TRUE(a != nullptr && b != nullptr);
  const auto untrained = Predict(*a), found = Predict(*b);
  const std::unique_ptr<Trainer> c = Make(config_, Command::kPredict);
  ASSERT_NE(c, nullptr);
  std::vector<std::pair<std::string, Tensor>> expected;
  {
    // Plans bring the states: one is made by predicting.
    Predict(*c);
    for (const auto& [name, value] : after) {
      ASSERT_TRUE(c->session().states().Write(name, value).ok()) << name;
    }
    expected = Predict(*c);
  }
  ASSERT_EQ(found.size(), expected.size());
  double moved = 0;
  for (size_t k = 0; k < found.size(); ++k) {
    const Tensor &x = found[k].second, &y = expected[k].second;
    EXPECT_EQ(found[k].first, expected[k].first);
    ASSERT_EQ(x.type(), y.type());
    for (int64_t i = 0; i < x.elements(); ++i) {
      ASSERT_NEAR(x.At(i), y.At(i), 1e-5 * std::max(1.0, std::fabs(y.At(i))))
          << found[k].first << " element " << i;
      moved = std::max(moved, std::fabs(x.At(i) - untrained[k].second.At(i)));
    }
  }
  EXPECT_GT(moved, 1e-3);  // training did something
}

// A value that the export forgot or changed would be seen.
TEST_P(ExportEquality, AnotherValueIsSeen) {
  const std::unique_ptr<Trainer> trainer = Make(config_, Command::kTrain);
  ASSERT_NE(trainer, nullptr);
  RunConfig exported = config_;
  exported.model = folder_ + "/trained.onnx";
  ASSERT_TRUE(trainer->Export(exported.model).ok());
  const Values right = ValuesOf(*trainer);
  for (const auto& [name, value] : right) {
    Tensor changed(value.type().dtype, value.dims());
    std::memcpy(changed.data(), value.data(), value.bytes());
    static_cast<unsigned char*>(changed.data())[0] ^= 1;
    ASSERT_TRUE(trainer->session().states().Write(name, changed).ok());
    ASSERT_TRUE(trainer->Export(exported.model).ok());
    ASSERT_TRUE(trainer->session().states().Write(name, value).ok());
    const std::unique_ptr<Trainer> again = Make(exported, Command::kTrain);
    ASSERT_NE(again, nullptr);
    EXPECT_EQ(FirstDifference(ValuesOf(*again), right), name);
  }
}

std::string TestName(const testing::TestParamInfo<const char*>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Models, ExportEquality,
                         testing::Values("mlp-torch-ts-train", "cnnd-torch-dynamo-train-raw",
                                         "cnnd-torch-ts-eval", "keras_cnn-keras_export-train",
                                         "keras_two_inputs-keras_export-train",
                                         "resnet18thin-torch-ts-train"),
                         TestName);

}  // namespace
}  // namespace onward
