#include "graph/passes/training_mode.h"

#include <gtest/gtest.h>

#include "graph/onnx/text.h"
#include "graph/ops/operators.h"

namespace onward {
namespace {

const Node* Drawing(const Graph& graph) {
  for (const Node* node : graph.nodes()) {
    if (node->attributes.Has("key")) return node;
  }
  return nullptr;
}

std::unique_ptr<Graph> InTraining(const std::string& text) {
  auto graph = ParseGraph(text, StandardOperators());
  EXPECT_TRUE(graph.ok()) << graph.status();
  const auto notes = ToTrainingMode(graph->get(), StandardOperators(), {});
  EXPECT_TRUE(notes.ok()) << notes.status();
  return *std::move(graph);
}

TEST(TrainingMode, RandomNumbersAreKeyedByStepAndSample) {
  for (const char* op : {"RandomUniformLike(x)", "RandomNormalLike(x)", "Bernoulli(x)"}) {
    const auto graph =
        InTraining(std::string("g (float[4, 3] x) => (float[4, 3] y) { y = ") + op + " }");
    const Node* node = Drawing(*graph);
    ASSERT_NE(node, nullptr) << op;
    EXPECT_EQ(node->op().domain, kOnward);
    EXPECT_EQ(node->input(0), graph->FindState(kSeedState)->current) << op;
    EXPECT_EQ(node->input(1), graph->FindState(kStepState)->current) << op;
    EXPECT_EQ(node->input(2), graph->FindInput(kSampleOffsetFeed)) << op;
    EXPECT_EQ(node->attributes.Int("axis", -1), 0) << op;
  }
}

TEST(TrainingMode, ASeedOfTheFileStays) {
  const auto graph = InTraining(
      "g (float[4, 3] x) => (float[2] y) { y = RandomUniform<shape = [2], seed = 3.0>() }");
  const Node* node = Drawing(*graph);
  ASSERT_NE(node, nullptr);
  ASSERT_NE(node->input(0)->constant, nullptr);
  EXPECT_EQ(node->input(0)->constant->IntAt(0), 3);
  EXPECT_EQ(node->input(1), graph->FindState(kStepState)->current);
  // One tensor for the whole batch: no sample has numbers of its own.
  EXPECT_EQ(node->attributes.Int("axis", -1), -1);
}

}  // namespace
}  // namespace onward
