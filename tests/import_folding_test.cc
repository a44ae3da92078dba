// What import computes at once, and what it leaves to be trained.
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "backend/runtime/interpreter.h"
#include "graph/onnx/import.h"
#include "graph/onnx/text.h"
#include "graph/ops/operators.h"
#include "kernels/kernel.h"

namespace onward {
namespace {

// The graph of an ONNX text, for a batch of 2.
std::unique_ptr<Graph> Built(const std::string& graph) {
  const auto bytes =
      ModelFromText(absl::StrCat("<ir_version: 8, opset_import: [\"\" : 17]>\n", graph));
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  const auto model = OnnxModel::FromBytes(*bytes, "m.onnx");
  EXPECT_TRUE(model.ok()) << model.status();
  Interpreter interpreter(&StandardOperators(), &CpuKernels());
  Binding binding;
  binding.batch = 2;
  auto built = (*model)->Build(StandardOperators(), &interpreter, binding);
  EXPECT_TRUE(built.ok()) << built.status();
  return built.ok() ? *std::move(built) : nullptr;
}

// PyTorch writes the scales of an Upsample as two Constants.
TEST(ImportFolding, ScalesOfSeveralConstantsAreKnown) {
  const auto graph = Built(
      "g (float[N, 1, 3, 4] x) => (float[N, 1, 6, 8] y) { a = Constant <value_floats = [1.0, "
      "1.0]> () b = Constant <value_floats = [2.0, 2.0]> () s = Concat <axis = 0> (a, b) "
      "y = Resize <mode = \"nearest\"> (x, , s) }");
  ASSERT_NE(graph, nullptr);
  EXPECT_EQ(graph->outputs()[0].value->dims(), Dims({2, 1, 6, 8}));
}

// Initializers that meet in a Concat may be parameters: PyTorch orders gates so.
TEST(ImportFolding, InitializersAreNotJoined) {
  const auto graph = Built(
      "g (float[N, 4] x) => (float[N, 4] y) <float[2] a = {1.0, 2.0}, float[2] b = {3.0, "
      "4.0}> { w = Concat <axis = 0> (a, b) y = Add(x, w) }");
  ASSERT_NE(graph, nullptr);
  EXPECT_EQ(graph->num_nodes(), 2);
}

}  // namespace
}  // namespace onward
