// Reference loops do less than 2 % of the operations of the seed models' steps: all
// models of tests/models, in batches of 64 (or what the file fixes), in float32.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "backend/training/walk.h"
#include "graph/base/status_macros.h"
#include "graph/onnx/text.h"
#include "kernels/kernel.h"

namespace onward {
namespace {

constexpr int64_t kSamples = 64;
constexpr double kMostByReference = 0.02;

struct Work {
  double operations = 0;
  std::map<std::string, double> reference;  // by kernel
  double by_reference = 0;
  double of_nodes = 0;  // without copies that a plan adds
};

absl::StatusOr<Work> WorkOf(const OnnxModel& model, const LossRequest& loss,
                            const KernelTable* kernels = nullptr) {
  WalkOptions options;
  options.kernels = kernels;
  for (const ModelInput& input : model.inputs()) {
    FeedSpec feed{input.name, input.dtype, {}};
    for (size_t i = 1; i < input.extents.size(); ++i) feed.dims.push_back(input.extents[i].size);
    options.inputs.push_back(std::move(feed));
  }
  options.loss = loss;
  options.optimizer.rule = OptimizerSpec::Rule::kAdam;
  options.placement.devices = {Device{}};
  ASSIGN_OR_RETURN(std::unique_ptr<Walk> walk, Walk::Create(&model, std::move(options)));
  const Extent& batch = model.inputs()[0].extents[0];
  ASSIGN_OR_RETURN(const Plan plan,
                   walk->TrainingPlan(batch.size == kDynamic ? kSamples : batch.size));
  Work work;
  for (const PlanProgram& program : plan.programs) {
    for (const PlanStep& step : program.steps) {
      work.operations += step.operations;
      const bool copy = step.op == "onward.Reorder" || step.op == "Identity";
      if (!copy) work.of_nodes += step.operations;
      if (!step.reference) continue;
      work.by_reference += step.operations;
      work.reference[step.kernel] += step.operations;
    }
  }
  return work;
}

std::string Shown(const Work& work) {
  std::string out = absl::StrCat(work.operations, " operations");
  for (const auto& [kernel, operations] : work.reference) {
    absl::StrAppend(&out, ", ", kernel, " ", 100 * operations / work.operations, " %");
  }
  return out;
}

LossRequest CrossEntropy() {
  LossRequest loss;
  loss.kind = LossRequest::Kind::kCrossEntropy;
  return loss;
}

// The tutorial's MLP with every loss, on labels of its kind.
TEST(ReferenceShare, IsSmallForEveryLoss) {
  auto model = OnnxModel::Load("tests/models/keras_mlp-keras_export-train.onnx");
  ASSERT_TRUE(model.ok()) << model.status();
  std::vector<std::pair<std::string, LossRequest>> losses;
  losses.emplace_back("class numbers", CrossEntropy());
  LossRequest loss = CrossEntropy();
  loss.label_dtype = DataType::kFloat32;
  loss.label_dims = {10};
  losses.emplace_back("one-hot", loss);
  loss.label_smoothing = 0.1;
  losses.emplace_back("one-hot, smoothed", loss);
  loss.label_smoothing = 0;
  for (const auto& [name, kind] : {std::make_pair("binary", LossRequest::Kind::kBinaryCrossEntropy),
                                   std::make_pair("squared", LossRequest::Kind::kMeanSquared),
                                   std::make_pair("absolute", LossRequest::Kind::kMeanAbsolute),
                                   std::make_pair("huber", LossRequest::Kind::kHuber)}) {
    loss.kind = kind;
    losses.emplace_back(name, loss);
  }
  for (const auto& [name, request] : losses) {
    const auto work = WorkOf(**model, request);
    ASSERT_TRUE(work.ok()) << name << ": " << work.status();
    EXPECT_LT(work->by_reference, kMostByReference * work->operations) << name;
    std::printf("%-20s %s\n", name.c_str(), Shown(*work).c_str());
  }
}

// A count is of what a node means, whichever kernel does it.
TEST(Operations, AreThoseOfTheFormula) {
  const auto count = [](const std::string& text) {
    const auto graph = ParseGraph(text, StandardOperators());
    EXPECT_TRUE(graph.ok()) << graph.status();
    return graph.ok() ? Operations(*(*graph)->first()) : 0;
  };
  EXPECT_EQ(count("g (float[4, 5] a, float[5, 6] b) => (float[4, 6] y) { y = MatMul(a, b) }"),
            2 * 4 * 5 * 6);
  EXPECT_EQ(count("g (float[5, 4] a, float[6, 5] b, float[6] c) => (float[4, 6] y)"
                  " { y = Gemm<transA = 1, transB = 1>(a, b, c) }"),
            2 * 4 * 5 * 6);
  // Each of 2 x 6 x 3 x 3 outputs takes 2 channels of 3 x 3 taps.
  const double conv = 2 * (2 * 6 * 3 * 3) * (2 * 3 * 3);
  EXPECT_EQ(count("g (float[2, 4, 5, 5] x, float[6, 2, 3, 3] w) => (float[2, 6, 3, 3] y)"
                  " { y = Conv<group = 2>(x, w) }"),
            conv);
  EXPECT_EQ(count("g (float[2, 6, 3, 3] dy, float[6, 2, 3, 3] w) => (float[2, 4, 5, 5] dx)"
                  " { dx = onward.ConvDataGradient<shape = [2, 4, 5, 5], group = 2>(dy, w) }"),
            conv);
  EXPECT_EQ(count("g (float[2, 6, 3, 3] dy, float[2, 4, 5, 5] x) => (float[6, 2, 3, 3] dw)"
                  " { dw = onward.ConvFilterGradient<shape = [6, 2, 3, 3], group = 2>(dy, x) }"),
            conv);
  EXPECT_EQ(count("g (float[2, 3, 4, 4] x) => (float[2, 3, 2, 2] y)"
                  " { y = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(x) }"),
            2 * 3 * 4 * 4);
  EXPECT_EQ(count("g (float[7, 3] x, float[3] b) => (float[7, 3] y) { y = Add(x, b) }"), 7 * 3);
  EXPECT_EQ(count("g (float[100, 3] e, int64[2] i) => (float[2, 3] y) { y = Gather(e, i) }"),
            2 * 3);
  EXPECT_EQ(count("g (float[2, 3] x) => (float y) { y = ReduceSum<keepdims = 0>(x) }"), 2 * 3);
}

TEST(Operations, DoNotDependOnKernels) {
  auto model = OnnxModel::Load("tests/models/cnnd-torch-ts-train.onnx");
  ASSERT_TRUE(model.ok()) << model.status();
  KernelTable own;
  for (const Kernel& kernel : CpuKernels()) {
    if (!absl::StartsWith(kernel.name, "onednn.")) own.push_back(kernel);
  }
  const auto best = WorkOf(**model, CrossEntropy());
  const auto slow = WorkOf(**model, CrossEntropy(), &own);
  ASSERT_TRUE(best.ok()) << best.status();
  ASSERT_TRUE(slow.ok()) << slow.status();
  EXPECT_GT(best->of_nodes, 1e6);
  EXPECT_EQ(best->of_nodes, slow->of_nodes);
  // Without the library, reference loops do most of the work: the share sees it.
  EXPECT_GT(slow->by_reference, 0.5 * slow->operations);
}

TEST(ReferenceShare, IsSmallForEverySeedModel) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator("tests/models")) {
    // tf2onnx's training form holds an operator that ONNX does not have.
    const std::string name = entry.path().filename().string();
    if (name == "keras_cnn-tf2onnx_function-train.onnx") continue;
    if (entry.path().extension() == ".onnx") paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  ASSERT_GE(paths.size(), 20u);
  for (const std::string& path : paths) {
    auto model = OnnxModel::Load(path);
    ASSERT_TRUE(model.ok()) << model.status();
    const auto work = WorkOf(**model, CrossEntropy());
    ASSERT_TRUE(work.ok()) << path << ": " << work.status();
    EXPECT_GT(work->operations, 1e5) << path;
    EXPECT_LT(work->by_reference, kMostByReference * work->operations) << path;
    std::printf("%-55s %s\n", path.c_str(), Shown(*work).c_str());
  }
}

}  // namespace
}  // namespace onward
