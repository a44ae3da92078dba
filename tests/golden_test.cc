// Golden texts of three tiny nets: the step of one replica, the step on all devices,
// and the plan, on one device and on two. A change of meaning anywhere in the walk
// shows in one of them. They hold nothing that depends on the machine: kernels are
// Onward's own, on one thread a device (those of libraries choose layouts by the
// processor).
#include "tests/golden.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <regex>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "backend/training/walk.h"
#include "graph/base/status_macros.h"
#include "graph/onnx/text.h"

namespace onward {
namespace {

constexpr int64_t kBatch = 4;
constexpr char kHeader[] = "<ir_version: 10, opset_import: [\"\" : 21]>\n";

// "float[2, 3] w = {...}": numbers that differ, so that no weight is taken for several
// that an exporter has merged.
std::string Weight(const std::string& name, const Dims& dims) {
  std::string out = absl::StrCat("float[", absl::StrJoin(dims, ", "), "] ", name, " = {");
  for (int64_t i = 0; i < Elements(dims); ++i) {
    absl::StrAppend(&out, i == 0 ? "" : ", ", (i * 37 + 11) % 64, ".0");
  }
  return out + "}";
}

struct Net {
  std::string text;
  FeedSpec input;
  OptimizerSpec optimizer;
};

Net Mlp() {
  return {
      absl::StrCat(kHeader, "mlp (float[N, 3] x) => (float[N, 2] y) <", Weight("w1", {3, 4}), ", ",
                   Weight("b1", {4}), ", ", Weight("w2", {4, 2}), ", ", Weight("b2", {2}), R"(> {
    h = Gemm(x, w1, b1)
    r = Relu(h)
    l = Gemm(r, w2, b2)
    y = Softmax(l)
  })"),
      {"x", DataType::kFloat32, {3}},
      {}};
}

Net Cnn() {
  Net net = {
      absl::StrCat(kHeader, "cnn (float[N, 1, 4, 4] x) => (float[N, 2] y) <",
                   Weight("w", {2, 1, 3, 3}), ", ", Weight("scale", {2}), ", ",
                   Weight("shift", {2}), ", ", Weight("mean", {2}), ", ", Weight("variance", {2}),
                   ", float ratio = {0.5}, ", Weight("v", {2, 2}), ", ", Weight("b", {2}), R"(> {
    c = Conv<pads = [1, 1, 1, 1]>(x, w)
    n = BatchNormalization(c, scale, shift, mean, variance)
    r = Relu(n)
    g = GlobalAveragePool(r)
    f = Flatten(g)
    d = Dropout(f, ratio)
    y = Gemm(d, v, b)
  })"),
      {"x", DataType::kFloat32, {1, 4, 4}},
      {}};
  net.optimizer.momentum = 0.9;
  return net;
}

// The embedding is also the last layer's weight.
Net Tied() {
  Net net = {absl::StrCat(kHeader, "tied (int64[N, 3] ids) => (float[N, 5] y) <",
                          Weight("embedding", {5, 2}), R"(> {
    e = Gather(embedding, ids)
    m = ReduceSum<keepdims = 0>(e, axes)
    t = Transpose<perm = [1, 0]>(embedding)
    y = MatMul(m, t)
  })"),
             {"ids", DataType::kInt64, {3}},
             {}};
  net.text.replace(net.text.find("}> {"), 4, "}, int64[1] axes = {1}> {");
  net.optimizer.rule = OptimizerSpec::Rule::kAdam;
  return net;
}

const KernelTable& OwnKernels() {
  static const KernelTable* const table = [] {
    auto* rows = new KernelTable;
    for (const Kernel& kernel : CpuKernels()) {
      if (!absl::StartsWith(kernel.name, "onednn.")) rows->push_back(kernel);
    }
    return rows;
  }();
  return *table;
}

// A graph's text with a line for each of its values' types, which changes touch singly.
std::string Lines(const Graph& graph) {
  static const std::regex* const type = new std::regex(", (?=(float|double|int64|int32|bool)[ [])");
  std::vector<std::string> lines = absl::StrSplit(ToText(graph), '\n');
  for (std::string& line : lines) {
    if (!absl::StartsWith(line, "   [")) line = std::regex_replace(line, *type, ",\n      ");
  }
  return absl::StrJoin(lines, "\n") + "\n";
}

// The golden texts of a net on so many devices, by stage.
absl::StatusOr<std::map<std::string, std::string>> TextsOf(const Net& net, int devices) {
  ASSIGN_OR_RETURN(const std::string bytes, ModelFromText(net.text));
  ASSIGN_OR_RETURN(std::unique_ptr<OnnxModel> model, OnnxModel::FromBytes(bytes, "net"));
  WalkOptions options;
  options.inputs = {net.input};
  options.loss.kind = LossRequest::Kind::kCrossEntropy;
  options.metrics = {{MetricRequest::Kind::kAccuracy, 1}};
  options.optimizer = net.optimizer;
  options.seed = 7;
  for (int d = 0; d < devices; ++d) {
    options.placement.devices.push_back({Device::Kind::kCpu, d});
  }
  options.placement.threads = devices;
  options.placement.shards = devices;
  options.kernels = &OwnKernels();
  std::map<std::string, std::string> texts;
  const auto observe = [&](const Stage& stage) {
    if (stage.name == "fused") texts["step"] = Lines(*stage.graph);
    if (stage.name == "replicated") texts["replicated"] = Lines(*stage.graph);
    if (stage.plan != nullptr) texts["plan"] = ToText(*stage.plan);
    return absl::OkStatus();
  };
  ASSIGN_OR_RETURN(std::unique_ptr<Walk> walk, Walk::Create(model.get(), options, observe));
  RETURN_IF_ERROR(walk->TrainingPlan(kBatch).status());
  return texts;
}

void ExpectGoldens(const std::string& name, const Net& net) {
  for (int devices : {1, 2}) {
    const auto texts = TextsOf(net, devices);
    ASSERT_TRUE(texts.ok()) << texts.status();
    ASSERT_EQ(texts->size(), 3u);
    for (const auto& [stage, text] : *texts) {
      ExpectGolden(absl::StrCat(name, "-", devices, "-", stage, ".txt"), text);
    }
  }
}

TEST(Golden, Mlp) { ExpectGoldens("mlp", Mlp()); }
TEST(Golden, CnnWithBatchNormAndDropout) { ExpectGoldens("cnn", Cnn()); }
TEST(Golden, TiedEmbedding) { ExpectGoldens("tied", Tied()); }

}  // namespace
}  // namespace onward
