#include "graph/passes/widen.h"

#include <gtest/gtest.h>

#include <string>

#include "graph/ir/verifier.h"
#include "graph/onnx/text.h"
#include "graph/ops/operators.h"

namespace onward {
namespace {

// A backend that multiplies and adds float32 and int64 only, and casts anything.
bool Computes(const KernelCall& call) {
  if (call.op == "Cast") return true;
  for (const TensorType* t : call.inputs) {
    if (t != nullptr && t->dtype != DataType::kFloat32 && t->dtype != DataType::kInt64)
      return false;
  }
  return call.op == "MatMul" || call.op == "Add" || call.op == "Gather";
}

std::string After(const std::string& text, bool expect_change) {
  auto graph = ParseGraph(text, StandardOperators());
  EXPECT_TRUE(graph.ok()) << graph.status();
  if (!graph.ok()) return "";
  const auto changed = Widen(graph->get(), StandardOperators(), Computes);
  EXPECT_TRUE(changed.ok() && *changed == expect_change) << changed.status();
  EXPECT_TRUE(Verify(**graph).ok()) << Verify(**graph);
  std::string out;
  for (const Node* node : (*graph)->nodes()) {
    out += node->op().name + " " + std::string(Name(node->output(0)->dtype())) + "\n";
  }
  EXPECT_EQ((*graph)->outputs()[0].value->dtype(),
            (*ParseGraph(text, StandardOperators()))->outputs()[0].value->dtype());
  return out;
}

TEST(Widen, HalvesAreComputedInFloat32AndRoundedPerNode) {
  EXPECT_EQ(After("g (float16[2, 3] a, float16[3, 2] b, float16[2] c) => (float16[2, 2] y) "
                  "{ m = MatMul(a, b) y = Add(m, c) }",
                  true),
            "Cast float32\nCast float32\nMatMul float32\nCast float16\n"
            "Cast float32\nCast float32\nAdd float32\nCast float16\n");
  EXPECT_EQ(After("g (bfloat16[2] a) => (bfloat16[2] y) { y = Add(a, a) }", true),
            "Cast float32\nCast float32\nAdd float32\nCast bfloat16\n");
}

TEST(Widen, IndicesStayAsTheyAre) {
  EXPECT_EQ(
      After("g (float16[2, 3] a, int64[2] i) => (float16[2, 3] y) { y = Gather(a, i) }", true),
      "Cast float32\nGather float32\nCast float16\n");
}

TEST(Widen, IntegersAreComputedInInt64) {
  EXPECT_EQ(After("g (uint16[2] a) => (uint16[2] y) { y = Add(a, a) }", true),
            "Cast int64\nCast int64\nAdd int64\nCast uint16\n");
}

TEST(Widen, WhatHasAKernelStays) {
  After("g (float[2] a) => (float[2] y) { y = Add(a, a) }", false);
  After("g (float[2] a) => (float16[2] y) { y = Cast<to = 10>(a) }", false);
}

}  // namespace
}  // namespace onward
