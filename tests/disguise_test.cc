// Results depend on what a model means, not on names, the order of nodes, or nodes that
// do nothing: the models of tests/models in disguise train as they do without, on batches
// of changing size.
#include "graph/onnx/disguise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backend/runtime/interpreter.h"
#include "graph/onnx/text.h"
#include "graph/ops/operators.h"
#include "tests/reference_run.h"

namespace onward {
namespace {

struct Trap {
  const char* name;
  DisguiseOptions options;
};

std::vector<Trap> Traps() {
  std::vector<Trap> traps;
  const auto add = [&traps](const char* name, bool DisguiseOptions::*what) {
    DisguiseOptions options;
    if (what != nullptr) options.*what = true;
    traps.push_back({name, options});
  };
  add("nothing", nullptr);
  add("renamed", &DisguiseOptions::rename);
  add("reordered", &DisguiseOptions::reorder);
  add("identities", &DisguiseOptions::identities);
  add("casts", &DisguiseOptions::casts);
  add("transposes", &DisguiseOptions::transposes);
  for (uint64_t seed : {2, 3, 4}) {
    traps.push_back({"all", {seed, true, true, true, true, true}});
  }
  return traps;
}

constexpr const char* kModels[] = {
    "mlp-torch-ts-train",
    "mlp-torch-dynamo-train-raw",
    "cnnd-torch-ts-train",
    "cnnd-torch-dynamo-train",
    "cnnd-torch-dynamo-train-raw",
    "cnnd-torch-dynamo-eval",
    "keras_mlp-keras_export-train",
    "keras_cnn-keras_export-train",
    "keras_two_inputs-keras_export-train",
};

class DisguiseTest : public testing::TestWithParam<const char*> {};

TEST_P(DisguiseTest, TrainsAsBefore) {
  const auto reference =
      ReadTrainingReference(absl::StrCat("tests/reference/training-", GetParam(), ".json"));
  ASSERT_TRUE(reference.ok()) << reference.status();
  const auto model = OnnxModel::Load(absl::StrCat("tests/models/", reference->model));
  ASSERT_TRUE(model.ok()) << model.status();
  const TrainingRun& run = reference->runs[0];
  Setting setting;
  setting.steps = 3;
  setting.batch_sizes = {reference->batch, 1, reference->batch - 3};
  const auto expected = TrainOn(*reference, run, setting);
  ASSERT_TRUE(expected.ok()) << expected.status();
  ASSERT_FALSE(expected->parameters.empty());
  for (const Trap& trap : Traps()) {
    SCOPED_TRACE(absl::StrCat(trap.name, " by seed ", trap.options.seed));
    auto disguised = Disguise(**model, trap.options);
    ASSERT_TRUE(disguised.ok()) << disguised.status();
    Setting other = setting;
    other.model_bytes = std::move(disguised->bytes);
    other.names = std::move(disguised->names);
    const auto result = TrainOn(*reference, run, other);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->parameters, expected->parameters);
    EXPECT_EQ(FirstDifference(*result, *expected, 1e-9), "");
  }
}

std::string TestName(const testing::TestParamInfo<const char*>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

// Bodies read values of the graph around them, under their new names too.
TEST(Disguise, BodiesReadWhatIsRenamed) {
  const auto bytes = ModelFromText(
      "<ir_version: 10, opset_import: [\"\" : 21]> g (float[3] x, bool which) => (float[3] y)"
      "<float[3] w = {2, 3, 4}, int64 times = {3}> { a = Neg (x)"
      "  b = If (which) <then_branch = t () => (float[3] p) { p = Mul (a, w) },"
      "                  else_branch = e () => (float[3] q) { q = Add (a, w) }>"
      "  y = Loop <body = l (int64 i, bool go, float[3] v) => (bool on, float[3] u) {"
      "    on = Identity (go)"
      "    s = If (which) <then_branch = t2 () => (float[3] r) { r = Mul (v, a) },"
      "                    else_branch = e2 () => (float[3] r2) { r2 = Sub (v, w) }>"
      "    u = Add (s, b) }> (times, which, b) }");
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  const auto model = OnnxModel::FromBytes(*bytes, "bodies.onnx");
  ASSERT_TRUE(model.ok()) << model.status();
  const std::vector<ModelValue> inputs = {
      {ModelValue::Kind::kTensor,
       std::make_shared<const Tensor>(Tensor::Of<float>({3}, {1.0f, 2.0f, 0.5f})),
       {}},
      {ModelValue::Kind::kTensor, std::make_shared<const Tensor>(Tensor::Scalar<bool>(true)), {}}};
  Interpreter interpreter(&StandardOperators(), &CpuKernels());
  const auto expected = (*model)->Evaluate(StandardOperators(), &interpreter, inputs);
  ASSERT_TRUE(expected.ok()) << expected.status();
  for (const Trap& trap : Traps()) {
    SCOPED_TRACE(absl::StrCat(trap.name, " by seed ", trap.options.seed));
    const auto disguised = Disguise(**model, trap.options);
    ASSERT_TRUE(disguised.ok()) << disguised.status();
    const auto other = OnnxModel::FromBytes(disguised->bytes, "disguised.onnx");
    ASSERT_TRUE(other.ok()) << other.status();
    const auto result = (*other)->Evaluate(StandardOperators(), &interpreter, inputs);
    ASSERT_TRUE(result.ok()) << result.status();
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ((*result)[0].tensor->At(i), (*expected)[0].tensor->At(i)) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, DisguiseTest, testing::ValuesIn(kModels), TestName);

}  // namespace
}  // namespace onward
