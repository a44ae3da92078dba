#include "graph/passes/fuse_products.h"

#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "graph/ir/verifier.h"
#include "graph/onnx/text.h"
#include "graph/ops/operators.h"

namespace onward {
namespace {

std::string Fuse(const std::string& text) {
  auto graph = ParseGraph(text, StandardOperators());
  EXPECT_TRUE(graph.ok()) << graph.status();
  auto changed = FuseProducts(graph->get(), StandardOperators());
  EXPECT_TRUE(changed.ok()) << changed.status();
  EXPECT_TRUE(Verify(**graph).ok());
  return ToText(**graph);
}

TEST(FuseProducts, MatMulTakesItsBiasAndItsRelu) {
  const std::string text = Fuse(
      "g (float[2, 3] x, float[3, 4] w, float[4] b) => (float[2, 4] y)"
      "{ p = MatMul(x, w) s = Add(b, p) y = Relu(s) }");
  EXPECT_TRUE(
      absl::StrContains(text, "onward.FusedMatMul <activation: string = \"Relu\"> (x, w, b)"))
      << text;
  EXPECT_FALSE(absl::StrContains(text, "Add"));
}

TEST(FuseProducts, GemmAndConvTakeTheirRelu) {
  EXPECT_TRUE(
      absl::StrContains(Fuse("g (float[2, 3] x, float[4, 3] w, float[4] b) => (float[2, 4] y)"
                             "{ p = Gemm<transB = 1>(x, w, b) y = Relu(p) }"),
                        "onward.FusedMatMul"));
  EXPECT_TRUE(
      absl::StrContains(Fuse("g (float[1, 2, 5, 5] x, float[3, 2, 3, 3] w) => (float[1, 3, 3, 3] y)"
                             "{ p = Conv(x, w) y = Relu(p) }"),
                        "onward.FusedConv"));
}

TEST(FuseProducts, AValueWithAnotherReaderStays) {
  const std::string text = Fuse(
      "g (float[2, 3] x, float[3, 4] w) => (float[2, 4] y, float[2, 4] z)"
      "{ p = MatMul(x, w) y = Relu(p) z = Neg(p) }");
  EXPECT_FALSE(absl::StrContains(text, "Fused")) << text;
}

TEST(FuseProducts, ScaledGemmAndBiasOfAnotherShapeStay) {
  EXPECT_FALSE(
      absl::StrContains(Fuse("g (float[2, 3] x, float[3, 4] w, float[4] b) => (float[2, 4] y)"
                             "{ p = Gemm<alpha = 2.0>(x, w, b) y = Relu(p) }"),
                        "Fused"));
  EXPECT_FALSE(
      absl::StrContains(Fuse("g (float[2, 3] x, float[3, 4] w, float[2, 1] b) => (float[2, 4] y)"
                             "{ p = MatMul(x, w) y = Add(p, b) }"),
                        "Fused"));
}

}  // namespace
}  // namespace onward
