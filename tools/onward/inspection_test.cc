#include "tools/onward/inspection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/onnx/text.h"

namespace onward {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Inspection Look(const std::string& graph, bool restore_biases = false) {
  const auto bytes =
      ModelFromText("<ir_version: 10, opset_import: [\"\" : 21, \"com.other\" : 1]> " + graph);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  auto model = OnnxModel::FromBytes(*bytes, "test");
  EXPECT_TRUE(model.ok()) << model.status();
  auto found = Examine(**model, {}, restore_biases);
  EXPECT_TRUE(found.ok()) << found.status();
  return *std::move(found);
}

std::vector<std::string> NamesOf(const Inspection::NamedTypes& types) {
  std::vector<std::string> names;
  for (const auto& [name, type] : types) names.push_back(name);
  return names;
}

TEST(Inspection, TellsParametersStatisticsAndOthers) {
  const Inspection found = Look(
      "g (float[N, 2, 4] x) => (float[N, 8] y)"
      " <float[2] s = {1, 2}, float[2] b = {0, 3}, float[2] m = {0, 0}, float[2] v = {1, 1},"
      "  int64[2] to = {0, -1}> {"
      "  n = BatchNormalization (x, s, b, m, v)"
      "  d = Dropout (n)"
      "  y = Reshape (d, to) }");
  EXPECT_EQ(found.obstacle, "");
  EXPECT_THAT(NamesOf(found.parameters), ElementsAre("s", "b"));
  EXPECT_THAT(NamesOf(found.statistics), ElementsAre("m", "v"));
  EXPECT_THAT(NamesOf(found.others), ElementsAre("to"));
  EXPECT_EQ(ElementsOf(found.parameters), 4);
  EXPECT_THAT(found.remarks, IsEmpty());
}

// There is no operator If; a branch that is known is read instead of it.
TEST(Inspection, ControlFlowThatIsReadAwayIsNoObstacle) {
  const Inspection found = Look(
      "g (float[N, 2] x) => (float[N, 2] y) <float[2] w = {1, 2}, bool yes = {1}> {"
      "  y = If (yes) <then_branch = t () => (float[N, 2] a) { a = Mul (x, w) },"
      "                else_branch = e () => (float[N, 2] b) { b = Identity (x) }> }");
  EXPECT_EQ(found.obstacle, "");
  EXPECT_THAT(NamesOf(found.parameters), ElementsAre("w"));
  EXPECT_THAT(found.unknown_operators, IsEmpty());
}

TEST(Inspection, SaysWhatTheExporterDid) {
  const Inspection found = Look(
      "g (float[5, 2, 4] x) => (float[5, 2, 4] y) <float[2, 2, 1] w = {1, 2, 3, 4},"
      " float[2] b = {0, 0}> { c = Conv (x, w, b)  y = Conv (c, w, b) }");
  EXPECT_EQ(found.obstacle, "");
  ASSERT_EQ(found.remarks.size(), 5u);
  EXPECT_THAT(found.remarks[0], HasSubstr("without BatchNormalization"));
  EXPECT_THAT(found.remarks[1], HasSubstr("no Dropout"));
  EXPECT_THAT(found.remarks[2], HasSubstr("the batch size 5 is written into input 'x'"));
  EXPECT_THAT(found.remarks[3], HasSubstr("'w' is read at 2 places and stays one parameter"));
  EXPECT_THAT(found.remarks[4], HasSubstr("the exporter merged equal parameters"));
  EXPECT_THAT(NamesOf(found.parameters), ElementsAre("w", "b@c", "b@y"));
}

TEST(Inspection, SaysWhyTheOthersDoNotTrain) {
  const Inspection found = Look(
      "g (float[N, 4] x) => (float[N, 4] y) <float[4, 4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, "
      "4, 5, 6, 0}, float[4] mask = {0, 1, 1, 0}, float half = {0.5}, int64[2] to = {-1, 4}, "
      "float[4] idle = {1, 2, 3, 4}, float[4] limit = {1, 2, 3, 5}> { a = MatMul (x, w) "
      "b = Mul (a, mask) c = Mul (b, half) d = Reshape (c, to) e = Greater (d, limit) "
      "f = Cast <to = 1> (e) y = Mul (d, f) }");
  EXPECT_EQ(found.obstacle, "");
  EXPECT_THAT(NamesOf(found.parameters), ElementsAre("w"));
  EXPECT_THAT(found.why_not.at("mask"), HasSubstr("mask"));
  EXPECT_THAT(found.why_not.at("half"), HasSubstr("single number"));
  EXPECT_THAT(found.why_not.at("to"), HasSubstr("not floating-point"));
  EXPECT_THAT(found.why_not.at("idle"), HasSubstr("nothing reads it"));
  EXPECT_THAT(found.why_not.at("limit"), HasSubstr("does not depend on it"));
}

TEST(Inspection, BiasesThatAreMissingAreTold) {
  const std::string text =
      "g (float[N, 2] x) => (float[N, 2] y) <float[2, 2] v = {1, 2, 3, 4}, float[2, 2] w = "
      "{5, 6, 7, 8}, float[2] b = {1, 2}> { a = MatMul (x, v) c = Relu (a) d = MatMul (c, w) "
      "y = Add (d, b) }";
  const Inspection told = Look(text);
  EXPECT_THAT(told.remarks,
              ::testing::Contains(
                  HasSubstr("1 layer has no bias: if the model had one there, it was all zero "
                            "and the exporter dropped it (--restore-biases gives back a.bias)")));
  EXPECT_THAT(NamesOf(told.parameters), ElementsAre("v", "w", "b"));
  const Inspection restored = Look(text, /*restore_biases=*/true);
  EXPECT_THAT(NamesOf(restored.parameters),
              ::testing::UnorderedElementsAre("v", "a.bias", "w", "b"));
}

// A head beside the other: each is a parameter, of one output.
TEST(Inspection, WhatReachesOneOutputIsNotCalledUnreached) {
  const Inspection found = Look(
      "g (float[N, 2] x) => (float[N, 2] y, float[N, 2] z) <float[2, 2] v = {1, 2, 3, 4}, "
      "float[2, 2] w = {5, 6, 7, 8}> { y = MatMul (x, v) z = MatMul (x, w) }");
  EXPECT_THAT(NamesOf(found.parameters), ::testing::UnorderedElementsAre("v", "w"));
  EXPECT_THAT(found.why_not, IsEmpty());
}

// A field of a protocol buffer that holds fewer than 128 bytes.
std::string Field(const std::string& tag, const std::string& bytes) {
  return tag + std::string(1, static_cast<char>(bytes.size())) + bytes;
}

// More of a model's graph (7): messages that follow one another are one.
std::string MoreOfGraph(const std::string& fields) { return Field("\x3a", fields); }

// What PyTorch's exporter writes of the model as it was (16).
std::string Signature(const std::string& lines) {
  const std::string entry =
      Field("\x0a", "pkg.torch.export.ExportedProgram.graph_signature") + Field("\x12", lines);
  return MoreOfGraph(Field("\x82\x01", entry));
}

std::vector<std::string> RemarksOf(const std::string& bytes) {
  auto model = OnnxModel::FromBytes(bytes, "test");
  EXPECT_TRUE(model.ok()) << model.status();
  return Examine(**model, {}, false)->remarks;
}

// With all parameters that the exporter says there were, or no running statistics among the
// buffers, nothing can have been folded.
TEST(Inspection, AWholeFileIsNotSuspected) {
  const auto look = [](const std::string& lines) {
    const auto bytes = ModelFromText(
        "<ir_version: 10, opset_import: [\"\" : 21]> g (float[N, 2, 4] x) => (float[N, 2, 4] y) "
        "<float[2, 2, 1] w = {1, 2, 3, 4}> { y = Conv (x, w) }");
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    return RemarksOf(lines.empty() ? *bytes : *bytes + Signature(lines));
  };
  const auto folded = ::testing::Contains(HasSubstr("without BatchNormalization"));
  const std::string statistics = "b: BUFFER target='n.running_mean'\n";
  EXPECT_THAT(look(""), folded);
  EXPECT_THAT(look("p: PARAMETER target='w'\n"), ::testing::Not(folded));
  EXPECT_THAT(look("p: PARAMETER target='v'\n"), ::testing::Not(folded));
  EXPECT_THAT(look("p: PARAMETER target='v'\n" + statistics), folded);
}

// Ones and zeros are no parameters where the exporter names others, unless none of the names
// is in the file: another tool has changed them.
TEST(Inspection, NamesOfAnotherToolMakeTheRecordMeanNothing) {
  const auto look = [](const std::string& parameter) {
    const auto bytes = ModelFromText(
        "<ir_version: 10, opset_import: [\"\" : 21]> g (float[N, 2] x) => (float[N, 2] y) "
        "<float[2, 2] w = {1, 2, 3, 4}, float[2] one = {1, 1}, float[2] zero = {0, 0}> {"
        "  h = MatMul (x, w) y = LayerNormalization (h, one, zero) }");
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    auto model = OnnxModel::FromBytes(
        *bytes + Signature("p: PARAMETER target='" + parameter + "'\n"), "test");
    EXPECT_TRUE(model.ok()) << model.status();
    return NamesOf(Examine(**model, {}, false)->parameters);
  };
  EXPECT_THAT(look("w"), ElementsAre("w"));
  EXPECT_THAT(look("fc.weight"), ::testing::UnorderedElementsAre("w", "one", "zero"));
}

// The exporter says which module a product is of, and whether that had a bias.
TEST(Inspection, ABiasIsMissedWhereTheModelHadOne) {
  const auto look = [](const std::string& parameter) {
    const auto bytes = ModelFromText(
        "<ir_version: 10, opset_import: [\"\" : 21]> g (float[N, 2] x) => (float[N, 2] y) "
        "<float[2, 2] w = {1, 2, 3, 4}> { h = Relu (x) }");
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    const std::string scopes =
        Field("\x0a", "pkg.torch.onnx.name_scopes") + Field("\x12", "['', 'net.fc', 'linear']");
    const std::string product = Field("\x0a", "h") + Field("\x0a", "w") + Field("\x12", "y") +
                                Field("\x22", "MatMul") + Field("\x4a", scopes);
    return RemarksOf(*bytes + MoreOfGraph(Field("\x0a", product)) +
                     Signature("p: PARAMETER target='" + parameter + "'\n"));
  };
  const auto missed = ::testing::Contains(HasSubstr("1 layer has no bias"));
  EXPECT_THAT(look("net.fc.bias"), missed);
  EXPECT_THAT(look("net.fc.in_proj_bias"), missed);
  EXPECT_THAT(look("net.fc.weight"), ::testing::Not(missed));
  EXPECT_THAT(look("net.fc.norm.bias"), ::testing::Not(missed));
}

TEST(Inspection, EqualAndTransposedInitializersAreTold) {
  const auto look = [](const std::string& numbers) {
    return Look(
        "g (int64[N] x) => (float[N, 4] y) <float[4, 2] table = {1, 2, 3, 4, 5, 6, 7, 8}, "
        "float[2, 4] out = {" +
        numbers + "}> { e = Gather (table, x) y = MatMul (e, out) }");
  };
  EXPECT_THAT(look("1, 3, 5, 7, 2, 4, 6, 8").remarks,
              ::testing::Contains(HasSubstr("'table' and 'out' hold the same values, transposed")));
  EXPECT_THAT(look("1, 3, 5, 7, 2, 4, 9, 8").remarks,
              ::testing::Not(::testing::Contains(HasSubstr("hold the same values"))));
}

TEST(Inspection, SaysWhyAModelCannotBeTrained) {
  EXPECT_THAT(Look("g (float[N, 2] x) => (float[N, 2] y) { y = Relu (x) }").obstacle,
              HasSubstr("no parameter"));
  EXPECT_THAT(Look("g (float[N, 2] x) => (float[N, 2] y) <float[3, 2] w = {1, 2, 3, 4, 5, 6}> {"
                   "  y = MatMul (x, w) }")
                  .obstacle,
              HasSubstr("MatMul"));
  const Inspection unknown = Look(
      "g (float[N, 2] x) => (float[N, 2] y) <float[2] w = {1, 2}> {"
      "  a = Add (x, w)  y = com.other.Strange (a) }");
  EXPECT_EQ(unknown.obstacle, "no operator com.other.Strange");
  EXPECT_THAT(NamesOf(unknown.others), ElementsAre("w"));
}

}  // namespace
}  // namespace onward
