// What no kernel takes as it stands is lowered, and nothing else.
#include "graph/plan/legalize.h"

#include <gtest/gtest.h>

#include "backend/runtime/kernel_oracle.h"
#include "graph/ops/operators.h"
#include "kernels/kernel.h"
#include "tests/operator_values.h"

namespace onward {
namespace {

bool Holds(const Graph& graph, const std::string& op) {
  for (const Node* node : graph.nodes()) {
    if (node->op().id() == op) return true;
  }
  return false;
}

absl::StatusOr<bool> LegalizeFor(Graph* graph) {
  const TableOracle oracle(&CpuKernels());
  return Legalize(graph, StandardOperators(), oracle, Device{}, 2);
}

// Every node has a kernel afterwards, and the outputs are what they were.
void ExpectLowered(const std::string& text, const std::string& op,
                   const std::vector<Numbers>& feeds) {
  auto graph = ParseFolded(text);
  ASSERT_TRUE(graph.ok()) << graph.status();
  auto before = RunWith(KernelRows::kReference, **graph, feeds);
  ASSERT_TRUE(before.ok()) << before.status();
  ASSERT_TRUE(Holds(**graph, op));
  auto changed = LegalizeFor(graph->get());
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_TRUE(*changed);
  EXPECT_FALSE(Holds(**graph, op));
  auto again = LegalizeFor(graph->get());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_FALSE(*again);
  auto after = RunWith(KernelRows::kBest, **graph, feeds);
  ASSERT_TRUE(after.ok()) << after.status();
  for (size_t i = 0; i < before->size(); ++i) ExpectNumbers((*after)[i], (*before)[i], text);
}

TEST(Legalize, LowersWhatNoKernelTakes) {
  // The one kernel gives no statistics, and takes float32 only.
  ExpectLowered(
      "g (float[2, 4] x, float[4] s) => (float[2, 4] y, float[2, 1] m, float[2, 1] i) "
      "{ y, m, i = LayerNormalization(x, s) }",
      "LayerNormalization", {{1, 2, 3, 5, 0, -1, 2, 4}, {1, 2, 0.5, 1}});
  ExpectLowered(
      "g (double[2, 4] x, double[4] s) => (double[2, 4] y) { y = LayerNormalization(x, s) }",
      "LayerNormalization", {{1, 2, 3, 5, 0, -1, 2, 4}, {1, 2, 0.5, 1}});
}

TEST(Legalize, LeavesWhatHasAKernel) {
  auto graph = ParseFolded(
      "g (float[2, 4] x, float[4] s, float[4] b) => (float[2, 4] y) "
      "{ n = LayerNormalization(x, s, b) y = Softmax(n) }");
  ASSERT_TRUE(graph.ok()) << graph.status();
  auto changed = LegalizeFor(graph->get());
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_FALSE(*changed);
  EXPECT_TRUE(Holds(**graph, "LayerNormalization"));
}

}  // namespace
}  // namespace onward
