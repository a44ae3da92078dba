#include "graph/passes/parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/base/errors.h"
#include "graph/onnx/text.h"
#include "graph/ops/operators.h"

namespace onward {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// As torchvision's models normalise their input; a learnt scale; a table of positions.
constexpr char kModel[] = R"(g (float[4, 2, 2, 2] x) => (float[4, 2, 2, 2] y)
  <float[1, 2, 1, 1] mean = {0.4, 0.5}, float[1, 2, 1, 1] deviation = {0.2, 0.3},
   float[2, 2, 1, 1] w = {1, 2, 3, 4}, float[1] alpha = {0.5}, float[2, 2, 2] place =
   {1, 2, 3, 4, 5, 6, 7, 8}, float[1, 2, 1, 1] gate = {0, 1}>
  { a = Sub (x, mean) b = Div (a, deviation) c = Conv (b, w) d = Mul (alpha, c)
    e = Add (d, place) y = Mul (e, gate) })";

absl::StatusOr<Parameters> Find(const std::string& text, const ParameterOptions& options) {
  const auto graph = ParseGraph(text, StandardOperators());
  EXPECT_TRUE(graph.ok()) << graph.status();
  return FindParameters(**graph, (*graph)->outputs()[0].value, options);
}

std::vector<std::string> Names(const absl::StatusOr<Parameters>& parameters) {
  std::vector<std::string> names;
  EXPECT_TRUE(parameters.ok()) << parameters.status();
  if (!parameters.ok()) return names;
  for (const Parameter& p : parameters->list) names.push_back(p.initializer);
  return names;
}

TEST(Parameters, WhatLooksLikeAConstantDoesNotTrain) {
  const auto found = Find(kModel, {});
  EXPECT_THAT(Names(found), UnorderedElementsAre("w", "place"));
  EXPECT_THAT(found->untrained.at("mean"), HasSubstr("standardises"));
  EXPECT_THAT(found->untrained.at("deviation"), HasSubstr("standardises"));
  EXPECT_THAT(found->untrained.at("alpha"), HasSubstr("--also-train"));
  EXPECT_THAT(found->untrained.at("gate"), HasSubstr("mask"));
  EXPECT_THAT(found->notes, UnorderedElementsAre(HasSubstr("'mean'"), HasSubstr("'deviation'"),
                                                 HasSubstr("'gate'")));
}

TEST(Parameters, UnlessItIsAskedFor) {
  ParameterOptions options;
  options.also_train = {"al*", "gate", "mean"};
  const auto found = Find(kModel, options);
  EXPECT_THAT(Names(found), UnorderedElementsAre("w", "place", "alpha", "gate", "mean"));
  EXPECT_THAT(found->notes, ElementsAre(HasSubstr("'deviation'")));
  options.also_train = {"alfa"};
  const auto none = Find(kModel, options);
  EXPECT_EQ(ExitCodeOf(none.status()), ExitCode::kUsage);
  EXPECT_THAT(std::string(none.status().message()), HasSubstr("--also-train 'alfa'"));
}

TEST(Parameters, WhatTheExporterSaysCounts) {
  ParameterOptions options;
  options.known_parameters = {"w", "alpha", "deviation"};
  options.known_buffers = {"place", "mean"};
  const auto found = Find(kModel, options);
  EXPECT_THAT(Names(found), UnorderedElementsAre("w", "alpha", "deviation"));
  EXPECT_THAT(found->untrained.at("place"), HasSubstr("buffer"));
  EXPECT_THAT(found->notes, ElementsAre(HasSubstr("'gate'")));
}

// What Keras' exporter makes of a BatchNormalization on the input is no preprocessing.
TEST(Parameters, AScaleAndAShiftOfTheInputTrain) {
  const auto found = Find(R"(g (float[4, 2] x) => (float[4, 2] y)
    <float[2] scale = {1, 2}, float[2] shift = {3, 4}, float[2, 2] w = {1, 2, 3, 4}>
    { a = Mul (x, scale) b = Add (a, shift) y = MatMul (b, w) })",
                          {});
  EXPECT_THAT(Names(found), UnorderedElementsAre("scale", "shift", "w"));
  EXPECT_THAT(found->notes, IsEmpty());
}

// A variance that the exporter turned into a factor; and a Sub behind a weight.
TEST(Parameters, PreprocessingEndsAtTheFirstWeight) {
  const auto found = Find(R"(g (float[4, 2] x) => (float[4, 2] y)
    <float[2] mean = {1, 2}, float[2] factor = {3, 4}, float[2, 2] w = {1, 2, 3, 4},
     float[2] threshold = {5, 6}>
    { a = Sub (x, mean) b = Mul (a, factor) c = MatMul (b, w) y = Sub (c, threshold) })",
                          {});
  EXPECT_THAT(Names(found), UnorderedElementsAre("w", "threshold"));
}

// The slope of a PRelu, as PyTorch's older exporter gives it its rank; and a gain.
TEST(Parameters, ASingleSlopeTrainsAndASingleFactorDoesNot) {
  const auto found = Find(R"(g (float[4, 2, 3] x) => (float[4, 2, 3] y)
    <float[1] slope = {0.25}, float[1] gain = {0.5}, int64[1] axes = {1}>
    { s = Unsqueeze (slope, axes) a = PRelu (x, s) g = Unsqueeze (gain, axes) y = Mul (a, g) })",
                          {});
  EXPECT_THAT(Names(found), ElementsAre("slope"));
  EXPECT_THAT(found->untrained.at("gain"), HasSubstr("single number"));
}

// PyTorch's GroupNorm is an InstanceNormalization of ones and zeros, with its own scale
// and shift behind it.
TEST(Parameters, OnesAndZerosThatTheExporterFilledInDoNotTrain) {
  constexpr char kNormalized[] = R"(g (float[4, 2, 3] x) => (float[4, 2, 3] y)
    <float[2] ones = {1, 1}, float[2] zeros = {0, 0}, float[2, 1] scale = {1, 1}>
    { a = InstanceNormalization (x, ones, zeros) y = Mul (a, scale) })";
  ParameterOptions options;
  options.known_parameters = {"weight"};  // which is the scale, reshaped
  const auto found = Find(kNormalized, options);
  EXPECT_THAT(Names(found), ElementsAre("scale"));
  EXPECT_THAT(found->untrained.at("ones"), HasSubstr("no such parameter"));
  EXPECT_THAT(Names(Find(kNormalized, {})), UnorderedElementsAre("ones", "zeros", "scale"));
  options.known_parameters = {"ones", "zeros"};
  EXPECT_THAT(Names(Find(kNormalized, options)), UnorderedElementsAre("ones", "zeros", "scale"));
}

// A fresh layer that is used twice has one bias, though it is all zero.
TEST(Parameters, MergedOnesAreToldFromTiedOnes) {
  constexpr char kTwice[] = R"(g (float[4, 2] x) => (float[4, 2] y) <float[2] b = {0, 0}>
    { p = Add (x, b) y = Add (p, b) })";
  for (const bool may_merge : {true, false}) {
    ParameterOptions options;
    options.may_merge = may_merge;
    const auto found = Find(kTwice, options);
    EXPECT_EQ(Names(found).size(), may_merge ? 2 : 1);
    EXPECT_THAT(found->notes, ElementsAre(HasSubstr(may_merge ? "merged" : "stays one")));
  }
}

TEST(Parameters, ExportersThatMergeAreTold) {
  const auto may_merge = [](const std::string& producer) {
    const auto bytes =
        ModelFromText("<ir_version: 10, opset_import: [\"\" : 21], producer_name: \"" + producer +
                      "\"> g (float[2] x) => (float[2] y) { y = Relu (x) }");
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    const auto model = OnnxModel::FromBytes(*bytes, "test");
    EXPECT_TRUE(model.ok()) << model.status();
    ParameterOptions options;
    KnowFromExporter(**model, &options);
    return options.may_merge;
  };
  EXPECT_FALSE(may_merge("pytorch"));
  EXPECT_FALSE(may_merge("onward keras_export"));
  EXPECT_TRUE(may_merge("tf2onnx"));
}

}  // namespace
}  // namespace onward
