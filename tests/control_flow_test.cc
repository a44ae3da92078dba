// Control flow, sequences and optionals: gone when a model is read, with the right values.
#include <string>
#include <vector>

#include "backend/runtime/interpreter.h"
#include "graph/base/status_macros.h"
#include "graph/onnx/import.h"
#include "graph/onnx/text.h"
#include "graph/ops/operators.h"
#include "gtest/gtest.h"

namespace onward {
namespace {

constexpr char kHead[] = "<ir_version: 10, opset_import: [\"\" : 21]>\n";

std::unique_ptr<OnnxModel> Model(const std::string& text) {
  auto bytes = ModelFromText(kHead + text);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  if (!bytes.ok()) return nullptr;
  auto model = OnnxModel::FromBytes(*bytes, "test.onnx");
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? *std::move(model) : nullptr;
}

ModelValue Floats(Dims dims, std::vector<float> values) {
  ModelValue value;
  value.tensor = std::make_shared<const Tensor>(Tensor::Of<float>(std::move(dims), values));
  return value;
}

ModelValue Ints(Dims dims, std::vector<int64_t> values) {
  ModelValue value;
  value.tensor = std::make_shared<const Tensor>(Tensor::Of<int64_t>(std::move(dims), values));
  return value;
}

ModelValue Bool(bool b) {
  ModelValue value;
  value.tensor = std::make_shared<const Tensor>(Tensor::Scalar<bool>(b));
  return value;
}

absl::StatusOr<std::vector<ModelValue>> Evaluate(const std::string& text,
                                                 const std::vector<ModelValue>& inputs) {
  const auto model = Model(text);
  Interpreter interpreter(&StandardOperators(), &CpuKernels());
  return model->Evaluate(StandardOperators(), &interpreter, inputs);
}

std::vector<double> Numbers(const ModelValue& value) {
  std::vector<double> out;
  for (int64_t i = 0; i < value.tensor->elements(); ++i) out.push_back(value.tensor->At(i));
  return out;
}

// Doubles x until it is over 100, and keeps each on the way: data decides how often.
constexpr char kDoubling[] = R"(
g (float[1] x) => (float[1] last, float[n, 1] all) {
  forever = Constant<value = int64 {9223372036854775807}>()
  yes = Constant<value = bool {1}>()
  last, all = Loop<body = b (int64 i, bool go, float[1] v) => (bool on, float[1] w, float[1] s) {
    two = Constant<value = float {2}>()
    hundred = Constant<value = float[1] {100}>()
    zero = Constant<value = int64[1] {0}>()
    w = Mul(v, two)
    less = Less(w, hundred)
    on = Squeeze(less, zero)
    s = Identity(w)
  }>(forever, yes, x)
})";

TEST(ControlFlow, DataDecidesHowOftenALoopRuns) {
  const auto out = Evaluate(kDoubling, {Floats({1}, {10})});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(Numbers((*out)[0]), (std::vector<double>{160}));
  EXPECT_EQ(Numbers((*out)[1]), (std::vector<double>{20, 40, 80, 160}));
  EXPECT_EQ((*out)[1].tensor->dims(), (Dims{4, 1}));
}

TEST(ControlFlow, AnOutputWhoseShapeIsDataIsRefusedByAGraph) {
  const auto model = Model(kDoubling);
  Interpreter interpreter(&StandardOperators(), &CpuKernels());
  const auto graph = model->Build(StandardOperators(), &interpreter, Binding{});
  ASSERT_FALSE(graph.ok());
  EXPECT_NE(graph.status().message().find("the shape of output 'all' depends on data"),
            std::string::npos)
      << graph.status();
}

TEST(ControlFlow, BranchesReadWhatIsOutside) {
  const std::string text = R"(
g (bool c, float[2] x) => (float[2] y) {
  y = If(c) <then_branch = t () => (float[2] a) { a = Add(x, x) },
             else_branch = e () => (float[2] b) { b = Neg(x) }>
})";
  const auto yes = Evaluate(text, {Bool(true), Floats({2}, {1, 2})});
  ASSERT_TRUE(yes.ok()) << yes.status();
  EXPECT_EQ(Numbers((*yes)[0]), (std::vector<double>{2, 4}));
  const auto no = Evaluate(text, {Bool(false), Floats({2}, {1, 2})});
  ASSERT_TRUE(no.ok()) << no.status();
  EXPECT_EQ(Numbers((*no)[0]), (std::vector<double>{-1, -2}));
}

TEST(ControlFlow, ALoopOfNoIterationStacksNothing) {
  const auto out = Evaluate(R"(
g (int64 n, float[2] x) => (float[2] last, float[k, 2] all) {
  last, all = Loop<body = b (int64 i, bool go, float[2] v) => (bool on, float[2] w, float[2] s) {
    on = Identity(go)
    w = Add(v, v)
    s = Identity(w)
  }>(n, "", x)
})",
                            {Ints({}, {0}), Floats({2}, {1, 2})});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(Numbers((*out)[0]), (std::vector<double>{1, 2}));
  EXPECT_EQ((*out)[1].tensor->dims(), (Dims{0, 2}));
}

TEST(ControlFlow, AKnownLoopIsUnrolledInAGraph) {
  const auto model = Model(R"(
g (float[2] x) => (float[2] y, float[3, 2] all)
<float[2] w = {2, 3}>
{
  three = Constant<value = int64 {3}>()
  y, all = Loop<body = b (int64 i, bool go, float[2] v) => (bool on, float[2] u, float[2] s) {
    on = Identity(go)
    u = Mul(v, w)
    s = Identity(u)
  }>(three, "", x)
})");
  Interpreter interpreter(&StandardOperators(), &CpuKernels());
  const auto graph = model->Build(StandardOperators(), &interpreter, Binding{});
  ASSERT_TRUE(graph.ok()) << graph.status();
  int products = 0;
  for (const Node* node : (*graph)->nodes()) {
    EXPECT_NE(node->op().name, "Loop");
    products += node->op().name == "Mul" ? 1 : 0;
  }
  EXPECT_EQ(products, 3);
  const Tensor x = Tensor::Of<float>({2}, {1, 1});
  const auto out = interpreter.Run(**graph, {&x});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ((*out)[0].At(0), 8);
  EXPECT_EQ((*out)[0].At(1), 27);
  EXPECT_EQ((*out)[1].At(3), 9);
}

TEST(ControlFlow, ScanRunsBackwardOverAnyAxis) {
  const auto out = Evaluate(R"(
g (float[1] s, float[1, 3] x) => (float[1] last, float[1, 3] sums) {
  last, sums = Scan<num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [-1],
                    scan_input_directions = [1], scan_output_directions = [1],
                    body = b (float[1] a, float[1] e) => (float[1] n, float[1] o) {
    n = Add(a, e)
    o = Identity(n)
  }>(s, x)
})",
                            {Floats({1}, {0}), Floats({1, 3}, {1, 2, 3})});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(Numbers((*out)[0]), (std::vector<double>{6}));
  EXPECT_EQ(Numbers((*out)[1]), (std::vector<double>{6, 5, 3}));
}

TEST(ControlFlow, SequencesAreSplitChangedAndJoined) {
  const auto out = Evaluate(R"(
g (float[5, 1] x, float[2, 1] more) => (float[n, 1] y, int64 count, float[2, 1] second) {
  two = Constant<value = int64 {2}>()
  one = Constant<value = int64 {1}>()
  back = Constant<value = int64 {-1}>()
  parts = SplitToSequence<axis = 0>(x, two)
  longer = SequenceInsert(parts, more, one)
  shorter = SequenceErase(longer, back)
  count = SequenceLength(shorter)
  second = SequenceAt(shorter, one)
  y = ConcatFromSequence<axis = 0>(shorter)
})",
                            {Floats({5, 1}, {1, 2, 3, 4, 5}), Floats({2, 1}, {8, 9})});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(Numbers((*out)[0]), (std::vector<double>{1, 2, 8, 9, 3, 4}));
  EXPECT_EQ(Numbers((*out)[1]), (std::vector<double>{3}));
  EXPECT_EQ(Numbers((*out)[2]), (std::vector<double>{8, 9}));
}

TEST(ControlFlow, APositionOutsideIsAnErrorThatNamesTheNode) {
  const auto out = Evaluate(R"(
g (float[2] x) => (float[2] y) {
  five = Constant<value = int64 {5}>()
  s = SequenceConstruct(x, x)
  y = SequenceAt(s, five)
})",
                            {Floats({2}, {1, 2})});
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(std::string(out.status().message()),
            "test.onnx: node 'y' (SequenceAt, opset 21): position 5 is outside of the sequence of "
            "2");
}

TEST(ControlFlow, AnEndlessLoopOverConstantsIsRefused) {
  const auto model = Model(R"(
g (float[2] x) => (float[2] y) {
  yes = Constant<value = bool {1}>()
  y = Loop<body = b (int64 i, bool go, float[2] v) => (bool on, float[2] u) {
    on = Identity(go)
    u = Identity(v)
  }>("", yes, x)
})");
  Interpreter interpreter(&StandardOperators(), &CpuKernels());
  const auto graph = model->Build(StandardOperators(), &interpreter, Binding{});
  ASSERT_FALSE(graph.ok());
  EXPECT_NE(graph.status().message().find("200000 nodes"), std::string::npos) << graph.status();
}

}  // namespace
}  // namespace onward
