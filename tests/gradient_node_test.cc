// Gradient of ONNX's training standard: the gradients of the nodes between xs and y.
#include <gtest/gtest.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "graph/ir/graph.h"
#include "tests/operator_values.h"

namespace onward {
namespace {

void ExpectAll(const std::string& text, const std::vector<Numbers>& feeds,
               const std::vector<Numbers>& expected) {
  auto graph = ParseFolded(text);
  ASSERT_TRUE(graph.ok()) << text << "\n" << graph.status();
  auto results = RunWith(KernelRows::kBest, **graph, feeds);
  ASSERT_TRUE(results.ok()) << text << "\n" << results.status();
  ASSERT_EQ(results->size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    ExpectNumbers((*results)[i], expected[i], absl::StrCat(text, " output ", i));
  }
}

constexpr char kProduct[] =
    "g (float a, float b) => (float d, float da, float db) { c = Add(a, b) d = Mul(c, a) "
    "da, db = ai.onnx.preview.training.Gradient <xs = [\"a\", \"b\"], y = \"d\"> (a, b) }";

TEST(GradientNode, IsWhatAutodiffMakes) {
  ExpectAll(kProduct, {{3}, {5}}, {{24}, {11}, {3}});
  // With what is not differentiated as a constant of the file, and a sum over y.
  ExpectAll(
      "g (float[3] x) => (float[3] dx) { w = Constant<value = float[3] {1.0, 2.0, 3.0}>() "
      "p = Mul(x, x) y = Mul(p, w) "
      "dx = ai.onnx.preview.training.Gradient <xs = [\"x\"], y = \"y\"> (x) }",
      {{1, -2, 0.5}}, {{2, -8, 3}});
}

TEST(GradientNode, IsTakenWhereItsInputsSay) {
  // At other places than the values of these names: z for a; k is held.
  ExpectAll(
      "g (float a, float z, float k) => (float y, float dz) { p = Mul(a, a) y = Mul(p, k) dz = "
      "ai.onnx.preview.training.Gradient <xs = [\"a\"], zs = [\"k\"], y = \"y\"> (z, k) }",
      {{3}, {10}, {2}}, {{18}, {40}});
}

TEST(GradientNode, OfWhatYDoesNotDependOnIsZero) {
  ExpectAll(
      "g (float[2] a, float[2] b) => (float[2] da, float[2] db) { y = Exp(a) da, db = "
      "ai.onnx.preview.training.Gradient <xs = [\"a\", \"b\"], y = \"y\"> (a, b) }",
      {{0, 0}, {1, 1}}, {{1, 1}, {0, 0}});
}

TEST(GradientNode, OfAGradient) {
  ExpectAll(
      "g (float x) => (float d, float dd) { a = Mul(x, x) y = Mul(a, x) "
      "d = ai.onnx.preview.training.Gradient <xs = [\"x\"], y = \"y\"> (x) "
      "dd = ai.onnx.preview.training.Gradient <xs = [\"x\"], y = \"d\"> (x) }",
      {{2}}, {{12}, {12}});
}

TEST(GradientNode, RefusesWhatMeansNothing) {
  for (const char* node : {"<xs = [\"a\"], y = \"nothing\"> (a)",
                           "<xs = [\"a\", \"b\"], y = \"y\"> (a)", "<xs = [\"a\"]> (a)"}) {
    const absl::Status status =
        ParseFolded(absl::StrCat("g (float a) => (float d) { y = Exp(a) d = "
                                 "ai.onnx.preview.training.Gradient ",
                                 node, " }"))
            .status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_NE(std::string(status.message()).find("node 'd'"), std::string::npos) << status;
  }
}

}  // namespace
}  // namespace onward
