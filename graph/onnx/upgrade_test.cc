// Rows of upgrade.cc about operators that only the door knows. Those that the rest knows
// too are tried with numbers (tests/opset_history_test.cc).
#include "graph/onnx/upgrade.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/onnx/canonical.h"
#include "onnx/defs/parser.h"

namespace onward {
namespace {

// The graph, of one opset, in the canonical one.
absl::StatusOr<onnx::GraphProto> Upgraded(int opset, const std::string& graph) {
  onnx::ModelProto model;
  const std::string text =
      absl::StrCat("<ir_version: 8, opset_import: [\"\" : ", opset, "]> ", graph);
  const auto parsed = onnx::OnnxParser::Parse(model, text.c_str());
  EXPECT_TRUE(parsed.IsOK()) << parsed.ErrorMessage();
  auto canonical = ToCanonicalOpset(model);
  if (!canonical.ok()) return canonical.status();
  return std::move(*(*canonical)->mutable_graph());
}

// The only node of that operator.
onnx::NodeProto Only(const onnx::GraphProto& graph, const std::string& op) {
  onnx::NodeProto found;
  int count = 0;
  for (const onnx::NodeProto& node : graph.node()) {
    if (node.op_type() != op) continue;
    found = node;
    ++count;
  }
  EXPECT_EQ(count, 1) << op;
  return found;
}

std::string Word(const onnx::NodeProto& node, const std::string& attribute) {
  for (const auto& a : node.attribute()) {
    if (a.name() == attribute) return a.s();
  }
  return "";
}

// The numbers of a constant, however it is written.
std::vector<float> Numbers(const onnx::GraphProto& graph, const std::string& name) {
  onnx::TensorProto tensor;
  for (const auto& t : graph.initializer()) {
    if (t.name() == name) tensor = t;
  }
  for (const onnx::NodeProto& node : graph.node()) {
    if (node.output_size() == 1 && node.output(0) == name) tensor = node.attribute(0).t();
  }
  if (!tensor.has_raw_data()) return {tensor.float_data().begin(), tensor.float_data().end()};
  std::vector<float> numbers(tensor.raw_data().size() / sizeof(float));
  std::memcpy(numbers.data(), tensor.raw_data().data(), numbers.size() * sizeof(float));
  return numbers;
}

TEST(Upgrade, UpsampleAndOldResizeKeepTheirWayOfFindingPixels) {
  const std::string head = "g (float[1, 1, 2, 3] x) => (float[1, 1, 4, 9] y) ";
  const std::string scales = "{ s = Constant <value = float[4] {1, 1, 2, 3}> () ";
  for (const std::string mode : {"nearest", "linear"}) {
    const std::string attribute = absl::StrCat("mode = \"", mode, "\"");
    for (const auto& [opset, body] : std::vector<std::pair<int, std::string>>{
             {7, absl::StrCat("{ y = Upsample <scales = [1.0, 1.0, 2.0, 3.0], ", attribute,
                              "> (x) }")},
             {9, absl::StrCat(scales, "y = Upsample <", attribute, "> (x, s) }")},
             {10, absl::StrCat(scales, "y = Resize <", attribute, "> (x, s) }")}}) {
      SCOPED_TRACE(absl::StrCat("opset ", opset, ": ", body));
      const auto graph = Upgraded(opset, head + body);
      ASSERT_TRUE(graph.ok()) << graph.status();
      const onnx::NodeProto resize = Only(*graph, "Resize");
      ASSERT_GE(resize.input_size(), 3);
      EXPECT_EQ(resize.input(0), "x");
      EXPECT_EQ(Numbers(*graph, resize.input(2)), (std::vector<float>{1, 1, 2, 3}));
      EXPECT_EQ(resize.output(0), "y");
      EXPECT_EQ(Word(resize, "mode"), mode);
      EXPECT_EQ(Word(resize, "coordinate_transformation_mode"), "asymmetric");
      EXPECT_EQ(Word(resize, "nearest_mode"), "floor");
    }
  }
}

TEST(Upgrade, ResizeThatSaysHowStaysAsItIs) {
  const auto graph = Upgraded(
      11,
      "g (float[1, 1, 2, 3] x) => (float[1, 1, 4, 9] y) "
      "{ r = Constant <value = float[0] {}> () s = Constant <value = float[4] {1, 1, 2, 3}> () "
      "y = Resize <coordinate_transformation_mode = \"align_corners\", nearest_mode = \"ceil\"> "
      "(x, r, s) }");
  ASSERT_TRUE(graph.ok()) << graph.status();
  const onnx::NodeProto resize = Only(*graph, "Resize");
  EXPECT_EQ(Word(resize, "coordinate_transformation_mode"), "align_corners");
  EXPECT_EQ(Word(resize, "nearest_mode"), "ceil");
}

}  // namespace
}  // namespace onward
