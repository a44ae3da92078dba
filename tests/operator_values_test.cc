// Numbers that the generated suite cannot express: ties, zeros, infinities, what
// overflows, indices that repeat or are out of range, conversions. Every case runs
// with the reference loops and with the best kernels.
#include "tests/operator_values.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "backend/runtime/interpreter.h"
#include "graph/base/errors.h"
#include "graph/base/status_macros.h"
#include "graph/ir/builder.h"
#include "graph/ops/operators.h"
#include "graph/passes/autodiff.h"
#include "graph/passes/sample_axis.h"

namespace onward {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

TEST(OperatorValues, TiesShareOneUnitOfGradient) {
  ExpectGradients("g (float[3] a, float[3] b) => (float[3] y) { y = Max(a, b) }",
                  {{1, 2, 3}, {1, 5, 0}}, {1, 1, 1}, {{0.5, 0, 1}, {0.5, 1, 0}});
  ExpectGradients("g (float[2] a, float[2] b, float[2] c) => (float[2] y) { y = Min(a, b, c) }",
                  {{1, 4}, {1, 5}, {1, 4}}, {3, 1}, {{1, 0.5}, {1, 0}, {1, 0.5}});
  ExpectGradients("g (float[2] a) => (float[2] y) { y = Max(a, a, a) }", {{1, -2}}, {1, 2},
                  {{1, 2}});
  // A broadcast input collects its shares.
  ExpectGradients("g (float[3] a, float b) => (float[3] y) { y = Max(a, b) }", {{1, 2, 3}, {2}},
                  {1, 1, 1}, {{0, 0.5, 1}, {1.5}});
  ExpectGradients(
      "g (float[2, 3] x) => (float[2, 1] y) "
      "{ a = Constant<value_ints = [1]>() y = ReduceMax(x, a) }",
      {{1, 1, 0, 2, 3, 3}}, {1, 4}, {{0.5, 0.5, 0, 0, 2, 2}});
  ExpectGradients("g (float[4] x) => (float y) { y = ReduceMin<keepdims = 0>(x) }", {{7, 7, 7, 7}},
                  {1}, {{0.25, 0.25, 0.25, 0.25}});
}

TEST(OperatorValues, KinksHaveNoSlope) {
  ExpectGradients("g (float[3] x) => (float[3] y) { y = Abs(x) }", {{-2, 0, 3}}, {1, 1, 1},
                  {{-1, 0, 1}});
  ExpectGradients("g (float[3] x) => (float[3] y) { y = Relu(x) }", {{-2, 0, 3}}, {1, 1, 1},
                  {{0, 0, 1}});
  ExpectOutput("g (float[4] x) => (float[4] y) { y = Sign(x) }", {{-2, 0, 3, kNan}},
               {-1, 0, 1, kNan});
  ExpectOutput("g (float[3] x) => (float[3] y) { y = Relu(x) }", {{kNan, -kInf, kInf}},
               {kNan, 0, kInf});
  ExpectOutput("g (float[6] x) => (float[6] y) { y = Round(x) }",
               {{0.5, 1.5, 2.5, -0.5, -1.5, 0.7}}, {0, 2, 2, 0, -2, 1});
}

TEST(OperatorValues, ZerosGiveNumbers) {
  ExpectGradients("g (float[2] x) => (float[2] y) { y = Sqrt(x) }", {{0, 4}}, {1, 1}, {{0, 0.25}});
  ExpectGradients(
      "g (float[2, 2] x) => (float[2] y) { a = Constant<value_ints = [1]>() "
      "y = ReduceL2<keepdims = 0>(x, a) }",
      {{0, 0, 3, 4}}, {1, 1}, {{0, 0, 0.6, 0.8}});
  ExpectGradients(
      "g (float[3, 3] x) => (float[3] y) { a = Constant<value_ints = [1]>() "
      "y = ReduceProd<keepdims = 0>(x, a) }",
      {{2, 3, 4, 0, 3, 4, 0, 0, 4}}, {1, 1, 1}, {{12, 8, 6, 12, 0, 0, 0, 0, 0}});
  ExpectGradients(
      "g (float[2, 2] data, int64[3, 2] i, float[3, 2] u) => (float[2, 2] y) "
      "{ y = ScatterElements<reduction = \"mul\">(data, i, u) }",
      {{2, 3, 4, 5}, {0, 0, 0, 0, 1, 0}, {0, 2, 3, 0, 5, 0}}, {1, 1, 1, 1},
      {{0, 0, 5, 1}, {6, 0, 0, 0, 4, 0}});
}

TEST(OperatorValues, Powers) {
  // x^0 at 0 is 1 with slope 0, also through the exponent; 0^2 has slope 0.
  ExpectGradients("g (float[3] x, float[3] e) => (float[3] y) { y = Pow(x, e) }",
                  {{0, 0, 2}, {0, 2, 3}}, {1, 1, 1}, {{0, 0, 12}, {0, 0, 8 * std::log(2.0)}});
  // A negative base with an integral exponent: the exponent gets nothing.
  ExpectGradients("g (float[2] x, float[2] e) => (float[2] y) { y = Pow(x, e) }",
                  {{-2, -2}, {3, 2}}, {1, 1}, {{12, -4}, {0, 0}});
  ExpectOutput("g (float[3] x, float[3] e) => (float[3] y) { y = Pow(x, e) }",
               {{-2, 0, -8}, {3, 0, 0.5}}, {-8, 1, kNan});
  ExpectOutput("g (int64[4] x, int64[4] e) => (int64[4] y) { y = Pow(x, e) }",
               {{3, -2, 2, -1}, {4, 3, -1, -3}}, {81, -8, 0, -1});
  ExpectOutput("g (int32[2] x, float e) => (int32[2] y) { y = Pow(x, e) }", {{4, 9}, {0.5}},
               {2, 3});
  ExpectGradients(
      "g (float[2] x) => (float[2] y) "
      "{ e = Constant<value = int64 {2}>() y = Pow(x, e) }",
      {{0, 3}}, {1, 1}, {{0, 6}});
}

TEST(OperatorValues, ClipAndItsBounds) {
  const std::string clip =
      "g (float[3] x, float low, float high) => (float[3] y) "
      "{ y = Clip(x, low, high) }";
  ExpectGradients(clip, {{-2, 0.5, 2}, {-1}, {1}}, {1, 2, 4}, {{0, 2, 0}, {1}, {4}});
  // On a bound the gradient is the input's.
  ExpectGradients(clip, {{-1, 0, 1}, {-1}, {1}}, {1, 2, 4}, {{1, 2, 4}, {0}, {0}});
  // Bounds that cross: all is the upper one.
  ExpectOutput(clip, {{-2, 0.5, 2}, {1}, {-1}}, {-1, -1, -1});
  ExpectGradients(clip, {{-2, 0.5, 2}, {1}, {-1}}, {1, 2, 4}, {{0, 0, 0}, {0}, {7}});
  ExpectOutput("g (int32[3] x, int32 low) => (int32[3] y) { y = Clip(x, low) }", {{-5, 0, 5}, {1}},
               {1, 1, 5});
}

TEST(OperatorValues, LargeNumbersInFloat32) {
  ExpectOutput("g (float[4] x) => (float[4] y) { y = Sigmoid(x) }", {{-200, 200, -30, 0}},
               {0, 1, std::exp(-30.0), 0.5});
  ExpectOutput("g (float[3] x) => (float[3] y) { y = Softplus(x) }", {{-200, 200, -30}},
               {0, 200, std::exp(-30.0)});
  ExpectOutput("g (float[4] x) => (float y) { y = ReduceLogSumExp<keepdims = 0>(x) }",
               {{1000, 1000, 999, -kInf}}, {1000 + std::log(2 + std::exp(-1.0))});
  ExpectOutput("g (float[2] x) => (float y) { y = ReduceLogSumExp<keepdims = 0>(x) }",
               {{-kInf, -kInf}}, {-kInf});
  ExpectOutput("g (float[2] x) => (float y) { y = ReduceLogSumExp<keepdims = 0>(x) }", {{1, kInf}},
               {kInf});
  ExpectGradients("g (float[2] x) => (float y) { y = ReduceLogSumExp<keepdims = 0>(x) }",
                  {{1000, 1000}}, {1}, {{0.5, 0.5}});
  ExpectOutput("g (float[3] x) => (float[3] y) { y = Mish(x) }", {{-200, 200, 1}},
               {0, 200, std::tanh(std::log1p(std::exp(1.0)))});
  ExpectGradients("g (float[2] x) => (float[2] y) { y = Sigmoid(x) }", {{-200, 200}}, {1, 1},
                  {{0, 0}});
}

TEST(OperatorValues, IntegersAndConversions) {
  ExpectOutput("g (int64[4] a, int64[4] b) => (int64[4] y) { y = Div(a, b) }",
               {{7, -7, 7, -7}, {2, 2, -2, -2}}, {3, -3, -3, 3});
  ExpectOutput("g (int64[4] a, int64[4] b) => (int64[4] y) { y = Mod(a, b) }",
               {{7, -7, 7, -7}, {3, 3, -3, -3}}, {1, 2, -2, -1});
  ExpectOutput("g (int64[4] a, int64[4] b) => (int64[4] y) { y = Mod<fmod = 1>(a, b) }",
               {{7, -7, 7, -7}, {3, 3, -3, -3}}, {1, -1, 1, -1});
  ExpectOutput("g (float[2] a, float[2] b) => (float[2] y) { y = Mod(a, b) }",
               {{-5.5, 5.5}, {3, -3}}, {0.5, -0.5});
  ExpectOutput("g (float[5] x) => (int64[5] y) { y = Cast<to = 7>(x) }",
               {{2.9, -2.9, 0.5, -0.5, 7}}, {2, -2, 0, 0, 7});
  ExpectOutput("g (float[4] x) => (bool[4] y) { y = Cast<to = 9>(x) }", {{0, -0.0, 0.5, -3}},
               {0, 0, 1, 1});
  ExpectOutput("g (bool[2] x) => (float[2] y) { y = Cast<to = 1>(x) }", {{0, 1}}, {0, 1});
  ExpectGradients("g (float[2] x) => (double[2] y) { y = Cast<to = 11>(x) }", {{1, 2}}, {3, 4},
                  {{3, 4}});
  ExpectOutput(
      "g (uint8[3] a, uint8[3] n) => (uint8[3] y) "
      "{ y = BitShift<direction = \"LEFT\">(a, n) }",
      {{1, 255, 3}, {3, 4, 8}}, {8, 240, 0});
}

// No conversion of a real is undefined behaviour: out of range the bound, NaN is 0.
TEST(OperatorValues, ReferenceCastSaturates) {
  auto graph = ParseFolded("g (float[5] x) => (int32[5] y) { y = Cast<to = 6>(x) }");
  ASSERT_TRUE(graph.ok()) << graph.status();
  auto results = RunWith(KernelRows::kReference, **graph, {{1e20, -1e20, kNan, kInf, -kInf}});
  ASSERT_TRUE(results.ok()) << results.status();
  ExpectNumbers((*results)[0], {2147483647.0, -2147483648.0, 0, 2147483647.0, -2147483648.0},
                "Cast");
}

TEST(OperatorValues, NoGradientPassesAnInteger) {
  auto graph =
      ParseFolded("g (float[2] x) => (float[2] y) { i = Cast<to = 7>(x) y = Cast<to = 1>(i) }");
  ASSERT_TRUE(graph.ok()) << graph.status();
  Value* y = (*graph)->outputs()[0].value;
  Builder builder(graph->get(), &StandardOperators());
  const GradientSeed seed{y, builder.Zeros(y->type).value()};
  auto gradients =
      AppendGradients(graph->get(), StandardOperators(), {seed}, {(*graph)->inputs()[0].get()});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  EXPECT_EQ((*gradients)[0], nullptr);
}

TEST(OperatorValues, EmptySets) {
  const auto reduce = [](const std::string& op) {
    return absl::StrCat("g (float[0, 2] x) => (float[2] y) { a = Constant<value_ints = [0]>() y = ",
                        op, "<keepdims = 0>(x, a) }");
  };
  ExpectOutput(reduce("ReduceSum"), {{}}, {0, 0});
  ExpectOutput(reduce("ReduceProd"), {{}}, {1, 1});
  ExpectOutput(reduce("ReduceMean"), {{}}, {kNan, kNan});
  ExpectOutput(reduce("ReduceMax"), {{}}, {-kInf, -kInf});
  ExpectOutput(reduce("ReduceMin"), {{}}, {kInf, kInf});
  ExpectOutput(reduce("ReduceL2"), {{}}, {0, 0});
  ExpectOutput(reduce("ReduceLogSum"), {{}}, {-kInf, -kInf});
  ExpectOutput(reduce("ReduceLogSumExp"), {{}}, {-kInf, -kInf});
}

TEST(OperatorValues, ReductionsWithoutAxesStillWork) {
  const auto noop = [](const std::string& op) {
    return absl::StrCat("g (float[2] x) => (float[2] y) { y = ", op,
                        "<noop_with_empty_axes = 1>(x) }");
  };
  ExpectOutput(noop("ReduceSum"), {{-3, 2}}, {-3, 2});
  ExpectOutput(noop("ReduceSumSquare"), {{-3, 2}}, {9, 4});
  ExpectOutput(noop("ReduceL1"), {{-3, 2}}, {3, 2});
  ExpectOutput(noop("ReduceLogSum"), {{1, 2}}, {0, std::log(2.0)});
  ExpectGradients(noop("ReduceSumSquare"), {{-3, 2}}, {1, 1}, {{-6, 4}});
}

TEST(OperatorValues, Searches) {
  ExpectOutput("g (float[4] x) => (int64[1] y) { y = ArgMax(x) }", {{1, 3, 3, 2}}, {1});
  ExpectOutput("g (float[4] x) => (int64[1] y) { y = ArgMax<select_last_index = 1>(x) }",
               {{1, 3, 3, 2}}, {2});
  ExpectOutput("g (int64[4] x) => (int64 y) { y = ArgMin<keepdims = 0, select_last_index = 1>(x) }",
               {{1, 3, 1, 2}}, {2});
  ExpectOutput(
      "g (float[4] x) => (float[4] y) { a = Constant<value_int = 0>() "
      "y = CumSum<exclusive = 1, reverse = 1>(x, a) }",
      {{1, 2, 3, 4}}, {9, 7, 4, 0});
}

// An output that nobody reads may have no name: its places are found again.
TEST(OperatorValues, TopKWithoutIndices) {
  Graph graph;
  Builder builder(&graph, &StandardOperators());
  Value* x = graph.AddInput("x", {DataType::kFloat32, {4}, {}});
  Value* k = builder.Ints(std::vector<int64_t>{2}).value();
  auto node = builder.AddNode(StandardOperators().Find("", "TopK"), {x, k}, {}, 2, {"v", ""});
  ASSERT_TRUE(node.ok()) << node.status();
  ASSERT_EQ((*node)->output(1), nullptr);
  const GradientSeed seed{(*node)->output(0),
                          builder.Constant(Tensor::Of<float>({2}, {10, 20})).value()};
  auto gradients = AppendGradients(&graph, StandardOperators(), {seed}, {x});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  graph.AddOutput("v", (*node)->output(0));
  graph.AddOutput("dx", (*gradients)[0]);
  auto results = RunWith(KernelRows::kReference, graph, {{3, 1, 4, 1}});
  ASSERT_TRUE(results.ok()) << results.status();
  ExpectNumbers((*results)[0], {4, 3}, "TopK");
  ExpectNumbers((*results)[1], {20, 0, 10, 0}, "gradient of TopK");
}

TEST(OperatorValues, RepeatedAndNegativeIndices) {
  ExpectGradients("g (float[3, 2] data, int64[4] i) => (float[4, 2] y) { y = Gather(data, i) }",
                  {{1, 2, 3, 4, 5, 6}, {0, -3, 2, 0}}, {1, 2, 3, 4, 5, 6, 7, 8},
                  {{1 + 3 + 7, 2 + 4 + 8, 0, 0, 5, 6}});
  ExpectGradients("g (float[3] data, int32[4] i) => (float[4] y) { y = GatherElements(data, i) }",
                  {{1, 2, 3}, {-1, 2, 0, 2}}, {1, 2, 4, 8}, {{4, 0, 11}});
  ExpectGradients("g (float[3] data, int64[3, 1] i) => (float[3] y) { y = GatherND(data, i) }",
                  {{1, 2, 3}, {1, -2, 0}}, {1, 2, 4}, {{4, 3, 0}});
  ExpectGradients("g (float[2] x) => (float[2] y) { y = Mul(x, x) }", {{3, -4}}, {1, 1}, {{6, -8}});
  ExpectGradients(
      "g (float[3] data, int64[2] i, float[2] u) => (float[3] y) "
      "{ y = ScatterElements<reduction = \"max\">(data, i, u) }",
      {{1, 5, 2}, {0, 0}, {1, 1}}, {3, 1, 1}, {{1, 1, 1}, {1, 1}});
}

TEST(OperatorValues, IndicesOutOfRangeAreErrorsOfData) {
  for (const char* text :
       {"g (float[3] data, int64[2] i) => (float[2] y) { y = Gather(data, i) }",
        "g (float[3] data, int64[2] i) => (float[2] y) { y = GatherElements(data, i) }",
        "g (float[3] data, int64[2] i) => (float[2] y) "
        "{ a = Constant<value_ints = [-1]>() j = Unsqueeze(i, a) y = GatherND(data, j) }",
        "g (float[3] data, int64[2] i) => (float[3] y) "
        "{ u = Constant<value_floats = [1.0, 2.0]>() y = ScatterElements(data, i, u) }"}) {
    auto graph = ParseFolded(text);
    ASSERT_TRUE(graph.ok()) << text << "\n" << graph.status();
    for (double wrong : {3.0, -4.0}) {
      const auto results = RunWith(KernelRows::kBest, **graph, {{1, 2, 3}, {0, wrong}});
      ASSERT_FALSE(results.ok()) << text;
      EXPECT_EQ(ExitCodeOf(results.status()), ExitCode::kData) << results.status();
      EXPECT_NE(std::string(results.status().message()).find("out of range"), std::string::npos);
    }
  }
}

TEST(OperatorValues, Patterns) {
  // ONNX's own examples of DepthToSpace.
  Numbers deep;
  for (int i = 0; i < 16; ++i) deep.push_back(i);
  ExpectOutput(
      "g (float[1, 8, 1, 2] x) => (float[1, 2, 2, 4] y) "
      "{ y = DepthToSpace<blocksize = 2>(x) }",
      {deep}, {0, 4, 1, 5, 8, 12, 9, 13, 2, 6, 3, 7, 10, 14, 11, 15});
  ExpectOutput(
      "g (float[1, 8, 1, 2] x) => (float[1, 2, 2, 4] y) "
      "{ y = DepthToSpace<blocksize = 2, mode = \"CRD\">(x) }",
      {deep}, {0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15});
  for (const char* mode : {"DCR", "CRD"}) {
    ExpectOutput(
        absl::StrCat("g (float[1, 8, 1, 2] x) => (float[1, 8, 1, 2] y) "
                     "{ s = DepthToSpace<blocksize = 2, mode = \"",
                     mode, "\">(x) y = SpaceToDepth<blocksize = 2, mode = \"", mode, "\">(s) }"),
        {deep}, deep);
  }
  const auto pad = [](const char* mode) {
    return absl::StrCat(
        "g (float[3] x) => (float[8] y) { p = Constant<value_ints = [2, 3]>() "
        "y = Pad<mode = \"",
        mode, "\">(x, p) }");
  };
  ExpectOutput(pad("constant"), {{1, 2, 3}}, {0, 0, 1, 2, 3, 0, 0, 0});
  ExpectOutput(pad("edge"), {{1, 2, 3}}, {1, 1, 1, 2, 3, 3, 3, 3});
  ExpectOutput(pad("reflect"), {{1, 2, 3}}, {3, 2, 1, 2, 3, 2, 1, 2});
  ExpectOutput(pad("wrap"), {{1, 2, 3}}, {2, 3, 1, 2, 3, 1, 2, 3});
  ExpectGradients(pad("reflect"), {{1, 2, 3}}, {1, 1, 1, 1, 1, 1, 1, 1}, {{2, 4, 2}});
  ExpectGradients(pad("edge"), {{1, 2, 3}}, {1, 1, 1, 1, 1, 1, 1, 1}, {{3, 1, 4}});
  ExpectOutput(
      "g (int64[3] i) => (float[3, 2] y) { d = Constant<value_int = 2>() "
      "v = Constant<value_floats = [0.5, 2.0]>() y = OneHot(i, d, v) }",
      {{0, -1, 5}}, {2, 0.5, 0.5, 2, 0.5, 0.5});
  ExpectOutput(
      "g (float[2, 3] x) => (float[3, 3] y) "
      "{ a = Trilu(x) p = Constant<value_ints = [0, 0, 1, 0]>() y = Pad(a, p) }",
      {{1, 2, 3, 4, 5, 6}}, {1, 2, 3, 0, 5, 6, 0, 0, 0});
}

TEST(OperatorValues, ReshapeMayStayInItsMemory) {
  std::vector<float> numbers{1, 2, 3, 4, 5, 6};
  const TensorType x{DataType::kFloat32, {2, 3}, {}}, y{DataType::kFloat32, {6}, {}};
  const Attributes attributes;
  KernelCall call;
  call.op = "Reshape";
  call.attributes = &attributes;
  call.inputs = {&x};
  call.outputs = {&y};
  for (const Kernel& kernel : CpuKernels()) {
    if (kernel.op != call.op) continue;
    const KernelNeeds needs = kernel.describe(call);
    ASSERT_EQ(needs.aliases.size(), 1u);
    EXPECT_EQ(needs.aliases[0], std::make_pair(0, 0));
    KernelMemory memory{{{x, numbers.data()}}, {{y, numbers.data()}}, nullptr};
    auto bound = kernel.prepare(call, memory, Execution());
    ASSERT_TRUE(bound.ok() && (*bound)->Run().ok());
    EXPECT_EQ(numbers, (std::vector<float>{1, 2, 3, 4, 5, 6}));
  }
}

// ---- Where the samples lie.

SampleAxis AxisOfOutput(const std::string& text) {
  auto graph = ParseFolded(text);
  EXPECT_TRUE(graph.ok()) << text << "\n" << graph.status();
  if (!graph.ok()) return SampleAxis::None();
  const SampleAxes axes = FindSampleAxes(**graph);
  return axes.at((*graph)->outputs()[0].value);
}

// Graphs from x of [6, 4, 5] whose output has its samples on `axis`.
void ExpectAxis(const std::string& body, SampleAxis expected) {
  const SampleAxis actual =
      AxisOfOutput(absl::StrCat("g (float[6, 4, 5] x) => (float y) { ", body, " }"));
  EXPECT_TRUE(actual == expected) << body << "\n found kind " << static_cast<int>(actual.kind)
                                  << " axis " << actual.axis << " inner " << actual.inner;
}

TEST(SampleAxisRules, FollowTheAxis) {
  const auto shape = [](const char* ints, const char* call) {
    return absl::StrCat("s = Constant<value_ints = [", ints, "]>() y = ", call);
  };
  ExpectAxis(shape("24, 5", "Reshape(x, s)"), SampleAxis::Axis(0, 4));
  ExpectAxis(shape("6, 20", "Reshape(x, s)"), SampleAxis::Axis(0));
  ExpectAxis(shape("1, 6, 20", "Reshape(x, s)"), SampleAxis::Axis(1));
  ExpectAxis(shape("3, 2, 20", "Reshape(x, s)"), SampleAxis::Mixed());
  ExpectAxis("t = Transpose<perm = [1, 0, 2]>(x) " + shape("24, 5", "Reshape(t, s)"),
             SampleAxis::Mixed());
  ExpectAxis(
      "s = Constant<value_ints = [24, 5]>() r = Constant<value_ints = [6, 4, 5]>() "
      "m = Reshape(x, s) y = Reshape(m, r)",
      SampleAxis::Axis(0));
  ExpectAxis("y = Flatten(x)", SampleAxis::Axis(0));
  ExpectAxis("y = Flatten<axis = 2>(x)", SampleAxis::Axis(0, 4));
  ExpectAxis("y = Transpose(x)", SampleAxis::Axis(2));
  ExpectAxis(shape("0, 2", "Unsqueeze(x, s)"), SampleAxis::Axis(1));
  ExpectAxis("s = Constant<value_ints = [0]>() u = Unsqueeze(x, s) y = Squeeze(u, s)",
             SampleAxis::Axis(0));
  ExpectAxis(shape("2, 6, 4, 5", "Expand(x, s)"), SampleAxis::Axis(1));
  ExpectAxis(shape("1, 2, 1", "Tile(x, s)"), SampleAxis::Axis(0));
  ExpectAxis(shape("2, 1, 1", "Tile(x, s)"), SampleAxis::Mixed());
  ExpectAxis("y = Concat<axis = 1>(x, x)", SampleAxis::Axis(0));
  ExpectAxis("y = Concat<axis = 0>(x, x)", SampleAxis::Mixed());
  ExpectAxis("y, z = Split<axis = 1, num_outputs = 2>(x)", SampleAxis::Axis(0));
  ExpectAxis("y, z = Split<num_outputs = 2>(x)", SampleAxis::Mixed());
  ExpectAxis(
      "b = Constant<value_ints = [0, 1]>() e = Constant<value_ints = [6, 3]>() "
      "y = Slice(x, b, e)",
      SampleAxis::Axis(0));
  ExpectAxis("b = Constant<value_ints = [1]>() e = Constant<value_ints = [6]>() y = Slice(x, b, e)",
             SampleAxis::Mixed());
  ExpectAxis(shape("0, 1, 1, 0, 1, 1", "Pad(x, s)"), SampleAxis::Axis(0));
  ExpectAxis(shape("1, 0, 0, 0, 0, 0", "Pad(x, s)"), SampleAxis::Mixed());
}

TEST(SampleAxisRules, ReductionsAndIndices) {
  ExpectAxis("a = Constant<value_ints = [1]>() y = ReduceSum<keepdims = 0>(x, a)",
             SampleAxis::Axis(0));
  ExpectAxis(
      "t = Transpose<perm = [1, 0, 2]>(x) a = Constant<value_ints = [0, -1]>() "
      "y = ReduceMean<keepdims = 0>(t, a)",
      SampleAxis::Axis(0));
  ExpectAxis("t = Transpose<perm = [1, 0, 2]>(x) y = ReduceMax(t)", SampleAxis::Mixed());
  ExpectAxis("a = Constant<value_ints = [0]>() y = ReduceSum(x, a)", SampleAxis::Mixed());
  ExpectAxis("y = ArgMax<axis = -1, keepdims = 0>(x)", SampleAxis::Axis(0));
  ExpectAxis("y = ArgMax(x)", SampleAxis::Mixed());
  ExpectAxis("a = Constant<value_int = 1>() y = CumSum(x, a)", SampleAxis::Axis(0));
  ExpectAxis("a = Constant<value_int = 0>() y = CumSum(x, a)", SampleAxis::Mixed());
  ExpectAxis("i = Constant<value_ints = [0, 1]>() y = Gather<axis = 1>(x, i)", SampleAxis::Axis(0));
  ExpectAxis("i = Constant<value_ints = [0, 1]>() y = Gather(x, i)", SampleAxis::Mixed());
  ExpectAxis(
      "i = Cast<to = 7>(x) s = Constant<value_ints = [9, 3]>() t = ConstantOfShape(s) y = "
      "Gather(t, i)",
      SampleAxis::Axis(0));
  ExpectAxis("f = Flatten(x) y = EyeLike(f)", SampleAxis::None());
  ExpectAxis(
      "d = Constant<value_int = 3>() v = Constant<value_floats = [0.0, 1.0]>() "
      "y = OneHot<axis = 0>(x, d, v)",
      SampleAxis::Axis(1));
  ExpectAxis("y = Trilu(x)", SampleAxis::Axis(0));
}

TEST(OperatorValues, ImagesInEveryPixelFormat) {
  // "P6 1 2 255\n": an orange pixel above a blue one.
  const auto decoded = [](const char* dims, const char* format) {
    return absl::StrCat("g (float[1] one) => (float[", dims,
                        "] y) { f = Constant<value = uint8[17] ",
                        "{80, 54, 32, 49, 32, 50, 32, 50, 53, 53, 10, 250, 100, 7, 0, 8, 255}>() ",
                        "p = ImageDecoder<pixel_format = \"", format,
                        "\">(f) q = Cast<to = 1>(p) y = Mul(q, one) }");
  };
  ExpectOutput(decoded("2, 1, 3", "RGB"), {{1}}, {250, 100, 7, 0, 8, 255});
  ExpectOutput(decoded("2, 1, 3", "BGR"), {{1}}, {7, 100, 250, 255, 8, 0});
  ExpectOutput(decoded("2, 1, 1", "Grayscale"), {{1}}, {134, 34});
  EXPECT_FALSE(ParseFolded(decoded("2, 1, 3", "HSV")).ok());
}

TEST(OperatorValues, BinarizerComparesIntegersWithAnyThreshold) {
  const auto with = [](const char* type, const char* threshold) {
    return absl::StrCat("g (", type, "[4] x) => (", type,
                        "[4] y) { y = ai.onnx.ml.Binarizer<threshold = ", threshold, ">(x) }");
  };
  ExpectOutput(with("float", "0.5"), {{0.25, 0.5, 0.75, kNan}}, {0, 0, 1, 0});
  ExpectOutput(with("int64", "0.5"), {{-1, 0, 1, 2}}, {0, 0, 1, 1});
  ExpectOutput(with("int32", "-1.5"), {{-3, -2, -1, 0}}, {0, 0, 1, 1});
  ExpectOutput(with("int32", "1e10"), {{-1, 0, 1, 2147483647}}, {0, 0, 0, 0});
}

TEST(OperatorValues, FeaturesAreTakenFromTheLastAxis) {
  ExpectOutput(
      "g (float[2, 3] x, int64[2] i) => (float[2, 2] z) "
      "{ z = ai.onnx.ml.ArrayFeatureExtractor(x, i) }",
      {{1, 2, 3, 4, 5, 6}, {2, 0}}, {3, 1, 6, 4});
}

}  // namespace
}  // namespace onward
