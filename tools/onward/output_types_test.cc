#include "tools/onward/output_types.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/onnx/text.h"

namespace onward {
namespace {

using ::testing::ElementsAre;

std::unique_ptr<OnnxModel> Model(const std::string& graph) {
  const auto bytes = ModelFromText("<ir_version: 10, opset_import: [\"\" : 21]> " + graph);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  auto model = OnnxModel::FromBytes(*bytes, "test");
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

// "4", "N", "?"
std::vector<std::string> Extents(const ModelOutput& output) {
  std::vector<std::string> out;
  for (const Extent& e : output.extents) {
    out.push_back(e.size != kDynamic ? std::to_string(e.size) : e.symbol.empty() ? "?" : e.symbol);
  }
  return out;
}

TEST(OutputTypes, WhatTheFileDoesNotDeclareIsInferred) {
  // Declared are: names of its own, and a scalar that is none.
  const auto model = Model(
      "g (float[N, 3, H, W] x) => (float[batch, c, h, w] y, float[a, b] flat, float z, float m) {"
      "  y = MaxPool <kernel_shape = [1, 1]> (x)"
      "  flat = Flatten (x)"
      "  z = Flatten (x)"
      "  m = ReduceMean <keepdims = 0> (x) }");
  const std::vector<ModelOutput> outputs = TypedOutputs(*model);
  ASSERT_EQ(outputs.size(), 4u);
  EXPECT_THAT(Extents(outputs[0]), ElementsAre("batch", "3", "h", "w"));
  EXPECT_THAT(Extents(outputs[1]), ElementsAre("a", "b"));
  EXPECT_THAT(Extents(outputs[2]), ElementsAre("N", "?"));
  EXPECT_EQ(outputs[3].dtype, DataType::kFloat32);
  EXPECT_TRUE(Extents(outputs[3]).empty());
}

// A table of 50 positions, as language models have one: no longer sequence can be.
TEST(OutputTypes, SizesAreTriedThatTheModelTakes) {
  const auto model = Model(
      "g (float[batch, seq, 2] x) => (float[?, ?, ?] y)"
      "<int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[3] size = {1, 50, 2}> {"
      "  table = ConstantOfShape (size)"
      "  shape = Shape (x)"
      "  length = Slice (shape, one, two)"
      "  places = Slice (table, zero, length, one)"
      "  y = Add (x, places) }");
  const std::vector<ModelOutput> outputs = TypedOutputs(*model);
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_THAT(Extents(outputs[0]), ElementsAre("batch", "seq", "2"));
}

TEST(OutputTypes, OpenExtentsKeepTheInputsSymbols) {
  const auto model = Model(
      "g (float[N, 3, H, W] x, int64[M, 2] i) => (float[?, ?, ?, ?] y, float[?, ?] flat, int64[?, "
      "?] j) {"
      "  y = Relu (x)"
      "  flat = Flatten (x)"
      "  j = Transpose (i) }");
  std::vector<ModelOutput> outputs = TypedOutputs(*model);
  ASSERT_EQ(outputs.size(), 3u);
  EXPECT_THAT(Extents(outputs[0]), ElementsAre("N", "3", "H", "W"));
  EXPECT_THAT(Extents(outputs[1]), ElementsAre("N", "?"));
  EXPECT_THAT(Extents(outputs[2]), ElementsAre("2", "M"));
  EXPECT_EQ(outputs[2].dtype, DataType::kInt64);
}

TEST(OutputTypes, AreAsDeclaredWhereTheGraphCannotBeBuilt) {
  const auto model = Model("g (float[N, 3] x) => (float[N, 5] y) { y = MatMul (x, x) }");
  const std::vector<ModelOutput> outputs = TypedOutputs(*model);
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_THAT(Extents(outputs[0]), ElementsAre("N", "5"));
}

}  // namespace
}  // namespace onward
