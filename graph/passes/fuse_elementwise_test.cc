#include "graph/passes/fuse_elementwise.h"

#include <gtest/gtest.h>

#include <string>

#include "graph/ir/verifier.h"
#include "graph/onnx/text.h"
#include "graph/ops/operators.h"

namespace onward {
namespace {

std::unique_ptr<Graph> Parse(const std::string& text) {
  auto graph = ParseGraph(text, StandardOperators());
  EXPECT_TRUE(graph.ok()) << graph.status() << "\n" << text;
  return graph.ok() ? std::move(*graph) : nullptr;
}

// "Op(inputs) -> outputs" a line; programs in brackets.
std::string Lines(const Graph& graph) {
  std::string out;
  for (const Node* node : graph.nodes()) {
    out += node->op().name + "(";
    for (int i = 0; i < node->num_inputs(); ++i) {
      out += (i == 0 ? "" : ", ") + (node->input(i) == nullptr ? "" : node->input(i)->name);
    }
    out += ") -> ";
    for (int i = 0; i < node->num_outputs(); ++i) {
      out += (i == 0 ? "" : ", ") + node->output(i)->name;
    }
    const std::string program = node->attributes.String("program", "");
    out += (program.empty() ? "" : " [" + program + "]") + "\n";
  }
  return out;
}

std::string Fuse(const std::string& text, bool expect_change = true,
                 const ElementwiseFusion& fusion = {}) {
  auto graph = Parse(text);
  if (graph == nullptr) return "";
  const auto changed = FuseElementwise(graph.get(), StandardOperators(), fusion);
  EXPECT_TRUE(changed.ok()) << changed.status();
  EXPECT_EQ(changed.ok() && *changed, expect_change) << text;
  EXPECT_TRUE(Verify(*graph).ok()) << Verify(*graph) << "\n" << ToText(*graph);
  // A second time there is nothing left to do, and the text can be read back.
  const std::string lines = Lines(*graph);
  const auto again = FuseElementwise(graph.get(), StandardOperators(), fusion);
  EXPECT_TRUE(again.ok() && !*again);
  const auto read = Parse(ToText(*graph));
  EXPECT_TRUE(read != nullptr && Lines(*read) == lines) << ToText(*graph);
  return lines;
}

TEST(FuseElementwise, AChainBecomesOneNode) {
  EXPECT_EQ(Fuse(R"(g (float[4, 8] x, float[8] b) => (float[4, 8] y) {
              s = Add(x, b)
              r = Relu(s)
              y = Neg(r) })"),
            "Elementwise(x, b) -> y [float32 x0, float32 x1 -> t2: t0:float32 = Add(x0, x1); "
            "t1:float32 = Relu(t0); t2:float32 = Neg(t1)]\n");
}

TEST(FuseElementwise, ValuesReadOutsideAreOutputs) {
  EXPECT_EQ(Fuse(R"(g (float[4, 8] x) => (float[4, 8] y, float[8, 4] z) {
              r = Relu(x)
              y = Exp(r)
              z = Transpose(r) })"),
            "Elementwise(x) -> r, y [float32 x0 -> t0, t1: t0:float32 = Relu(x0); t1:float32 = "
            "Exp(t0)]\n"
            "Transpose(r) -> z\n");
}

// x -> Relu -> Transpose -> Add, with Relu read by Add too: the two may not be one node.
TEST(FuseElementwise, AGroupIsConvex) {
  EXPECT_EQ(Fuse(R"(g (float[4, 4] x) => (float[4, 4] y) {
              r = Relu(x)
              m = Transpose(r)
              y = Add(r, m) })",
                 /*expect_change=*/false),
            "Relu(x) -> r\nTranspose(r) -> m\nAdd(r, m) -> y\n");
}

// What is ready early joins what needs it late, where nothing between depends on it.
TEST(FuseElementwise, AProducerJoinsItsLaterReader) {
  EXPECT_EQ(Fuse(R"(g (float[4, 4] x, float[4, 4] w) => (float[4, 4] y) {
              r = Relu(x)
              m = Transpose(w)
              y = Add(r, m) })"),
            "Transpose(w) -> m\n"
            "Elementwise(x, m) -> y [float32 x0, float32 x1 -> t1: t0:float32 = Relu(x0); "
            "t1:float32 = Add(t0, x1)]\n");
}

TEST(FuseElementwise, NumbersBecomeInstructions) {
  EXPECT_EQ(Fuse(R"(g (float[3] x) => (float[3] y) <float half = {0.5}, float two = {2}> {
              a = Mul(x, half)
              y = Pow(a, two) })"),
            "Elementwise(x) -> y [float32 x0 -> t3: t0:float32 = Constant<0.5>(); t1:float32 = "
            "Mul(x0, t0); t2:float32 = Constant<2>(); t3:float32 = Mul(t1, t1)]\n");
}

// The extents of the result come from a constant: it stays an input.
TEST(FuseElementwise, AConstantThatGivesTheRankStays) {
  EXPECT_EQ(Fuse(R"(g (float[3] x) => (float[1, 3] y) <float[1, 1] half = {0.5}> {
              a = Mul(x, half)
              y = Neg(a) })"),
            "Elementwise(x, half) -> y [float32 x0, float32 x1 -> t1: t0:float32 = Mul(x0, x1); "
            "t1:float32 = Neg(t0)]\n");
}

TEST(FuseElementwise, OtherExtentsStayOutside) {
  EXPECT_EQ(Fuse(R"(g (float[4, 1] x, float[4, 6] z) => (float[4, 6] y) {
              a = Exp(x)
              b = Neg(a)
              c = Mul(b, z)
              y = Abs(c) })"),
            "Elementwise(x) -> b [float32 x0 -> t1: t0:float32 = Exp(x0); t1:float32 = Neg(t0)]\n"
            "Elementwise(b, z) -> y [float32 x0, float32 x1 -> t1: t0:float32 = Mul(x0, x1); "
            "t1:float32 = Abs(t0)]\n");
}

TEST(FuseElementwise, PhasesStayApartUnlessAsked) {
  const std::string text = "g (float[3] x) => (float[3] y) { a = Exp(x) y = Neg(a) }";
  auto graph = Parse(text);
  graph->last()->phase = Phase::kUpdate;
  auto changed = FuseElementwise(graph.get(), StandardOperators());
  ASSERT_TRUE(changed.ok());
  EXPECT_FALSE(*changed);
  ElementwiseFusion across;
  across.across_phases = true;
  changed = FuseElementwise(graph.get(), StandardOperators(), across);
  ASSERT_TRUE(changed.ok());
  EXPECT_TRUE(*changed);
  EXPECT_EQ(graph->num_nodes(), 1);
}

// One mask, read in two places: made in both, and stored in neither.
TEST(FuseElementwise, MasksAreMadeAgain) {
  EXPECT_EQ(Fuse(R"(g (float[4, 4] x, float[4, 4] d) => (float[4, 4] y, float[4, 4] z)
                    <float zero = {0}> {
              m = Greater(x, zero)
              y = Where(m, d, zero)
              p = Transpose(y)
              z = Where(m, p, zero) })"),
            "Elementwise(x, d) -> y [float32 x0, float32 x1 -> t2: t0:float32 = Constant<0>(); "
            "t1:bool = Greater(x0, t0); t2:float32 = Where(t1, x1, t0)]\n"
            "Transpose(y) -> p\n"
            "Elementwise(x, p) -> z [float32 x0, float32 x1 -> t2: t0:float32 = Constant<0>(); "
            "t1:bool = Greater(x0, t0); t2:float32 = Where(t1, x1, t0)]\n");
}

TEST(FuseElementwise, AnExpandIsLeftOutWhereItsReaderBroadcasts) {
  const std::string head = "g (float[2, 3, 4] x, float[2, 3, 1] d) => (float[2, 3, 4] y) ";
  EXPECT_EQ(Fuse(head + R"({
              shape = Constant<value = int64[3] {2, 3, 4}>()
              e = Expand(d, shape)
              y = Mul(e, x) })"),
            "Mul(d, x) -> y\n");
  // Nothing else has the extents of the result.
  Fuse(head + R"({
              shape = Constant<value = int64[3] {2, 3, 4}>()
              e = Expand(d, shape)
              y = Exp(e) })",
       /*expect_change=*/false);
}

TEST(FuseElementwise, GroupsAreNoLargerThanAsked) {
  ElementwiseFusion fusion;
  fusion.most_nodes = 2;
  auto graph =
      Parse("g (float[3] x) => (float[3] y) { a = Exp(x) b = Neg(a) c = Abs(b) y = Exp(c) }");
  const auto changed = FuseElementwise(graph.get(), StandardOperators(), fusion);
  ASSERT_TRUE(changed.ok() && *changed);
  EXPECT_EQ(graph->num_nodes(), 2);
  EXPECT_TRUE(Verify(*graph).ok());
}

TEST(FuseElementwise, AGroupThatNobodyReadsGoes) {
  EXPECT_EQ(Fuse("g (float[3] x) => (float[3] y) { a = Exp(x) b = Neg(a) y = Abs(x) }"),
            "Abs(x) -> y\n");
}

TEST(FuseElementwise, OneNodeStaysAsItIs) {
  Fuse("g (float[3] x) => (float[3] y) { y = Exp(x) }", /*expect_change=*/false);
}

}  // namespace
}  // namespace onward
