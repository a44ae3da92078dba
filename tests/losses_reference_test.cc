// Losses and their gradients against PyTorch's and Keras' own numbers
// (tests/reference/losses.json), through the reference and the best kernels.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "backend/runtime/interpreter.h"
#include "graph/base/errors.h"
#include "graph/ops/operators.h"
#include "graph/passes/autodiff.h"
#include "graph/passes/loss_terms.h"
#include "kernels/kernel.h"
#include "nlohmann/json.hpp"

namespace onward {
namespace {

using nlohmann::json;
using Measure = LossSpec::Measure;
using Scores = LossSpec::Scores;

const json& Reference() {
  static const json all = json::parse(std::ifstream("tests/reference/losses.json"));
  return all;
}

Dims ShapeOf(const json& array) {
  const auto shape = array["shape"].get<std::vector<int64_t>>();
  return Dims(shape.begin(), shape.end());
}

std::vector<double> Numbers(const std::string& name) {
  return Reference()["data"][name]["values"].get<std::vector<double>>();
}

Tensor Load(const std::string& name, DataType dtype) {
  const json& array = Reference()["data"][name];
  Tensor t(dtype, ShapeOf(array));
  const auto values = array["values"].get<std::vector<double>>();
  for (size_t i = 0; i < values.size(); ++i) {
    if (dtype == DataType::kFloat64) t.mutable_values<double>()[i] = values[i];
    if (dtype == DataType::kFloat32) t.mutable_values<float>()[i] = static_cast<float>(values[i]);
    if (dtype == DataType::kInt64) {
      t.mutable_values<int64_t>()[i] = static_cast<int64_t>(values[i]);
    }
  }
  return t;
}

LossSpec SpecOf(const json& c, bool keras) {
  const std::string name = c["loss"], prediction = c["prediction"];
  const json& options = c["options"];
  LossSpec spec;
  const bool binary = name.find("inary") != std::string::npos || name.rfind("BCE", 0) == 0;
  if (name == "MSELoss" || name == "MeanSquaredError") {
    spec.measure = Measure::kMeanSquared;
  } else if (name == "L1Loss" || name == "MeanAbsoluteError") {
    spec.measure = Measure::kMeanAbsolute;
  } else if (name == "HuberLoss" || name == "Huber") {
    spec.measure = Measure::kHuber;
  } else {
    spec.measure = binary ? Measure::kBinaryCrossEntropy : Measure::kCrossEntropy;
  }
  spec.scores = prediction == "log_probabilities"                       ? Scores::kLogProbabilities
                : prediction.find("probabilities") != std::string::npos ? Scores::kProbabilities
                                                                        : Scores::kLogits;
  spec.label_smoothing = options.value("label_smoothing", 0.0);
  spec.huber_delta = options.value("delta", 1.0);
  if (options.contains("weight")) spec.class_weights = Numbers(options["weight"]);
  if (options.contains("pos_weight")) spec.positive_weights = Numbers(options["pos_weight"]);
  if (options.contains("ignore_index")) spec.ignore_index = options["ignore_index"].get<int64_t>();
  if (options.contains("ignore_class")) spec.ignore_index = options["ignore_class"].get<int64_t>();
  const std::string target = c["target"];
  const bool numbers =
      target.find("labels") == 0 || target.find("image_labels") == 0 || target == "all_ignored";
  if (!keras && numbers && !spec.ignore_index.has_value()) spec.ignore_index = -100;
  if (keras) spec.class_axis = -1;
  return spec;
}

// value and gradient of the loss of a graph of its own.
struct Computed {
  double numerator = 0, denominator = 0;
  Tensor gradient;  // of the numerator
};

absl::StatusOr<Computed> Compute(const LossSpec& spec, const Tensor& prediction,
                                 const Tensor& labels, const Tensor* sample_weight,
                                 KernelRows choice) {
  Graph graph;
  Builder b(&graph, &StandardOperators());
  const Expr x = b.Wrap(graph.AddInput("x", prediction.type()));
  const Expr t = b.Wrap(graph.AddInput("labels", labels.type()));
  Expr w;
  if (sample_weight != nullptr) w = b.Wrap(graph.AddInput("weights", sample_weight->type()));
  absl::StatusOr<LossTerms> terms = BuildLossTerms(b, spec, x, t, w);
  if (!terms.ok()) return terms.status();
  const Expr one = b.Like(x, 1);
  const GradientSeed seed = {terms->numerator.value(), one.value()};
  Value* const target = x.value();
  auto gradients = AppendGradients(&graph, StandardOperators(), {&seed, 1}, {&target, 1});
  if (!gradients.ok()) return gradients.status();
  graph.AddOutput("numerator", terms->numerator.value());
  graph.AddOutput("denominator", terms->denominator.value());
  graph.AddOutput("dx", (*gradients)[0]);
  Interpreter interpreter(&StandardOperators(), &CpuKernels(), choice);
  std::vector<const Tensor*> feeds = {&prediction, &labels};
  if (sample_weight != nullptr) feeds.push_back(sample_weight);
  auto results = interpreter.Run(graph, feeds);
  if (!results.ok()) return results.status();
  Computed out;
  out.numerator = (*results)[0].At(0);
  out.denominator = (*results)[1].At(0);
  out.gradient = std::move((*results)[2]);
  return out;
}

void Follow(const json& c, bool keras, DataType dtype, KernelRows choice) {
  const LossSpec spec = SpecOf(c, keras);
  const json& options = c["options"];
  const std::string target = c["target"];
  const bool numbers =
      target.find("labels") == 0 || target.find("image_labels") == 0 || target == "all_ignored";
  const Tensor x = Load(c["prediction"], dtype);
  const Tensor labels = Load(target, numbers ? DataType::kInt64 : dtype);
  Tensor weights;
  const bool weighted = options.contains("sample_weight");
  if (weighted) weights = Load(options["sample_weight"], dtype);
  auto made = Compute(spec, x, labels, weighted ? &weights : nullptr, choice);
  ASSERT_TRUE(made.ok()) << made.status();
  const bool sum = options.value("reduction", "") == "sum";
  const double denominator = sum ? 1 : made->denominator;
  const double tolerance = dtype == DataType::kFloat64 ? 1e-12 : 2e-6;
  const double expected = c["value"].get<double>();
  EXPECT_NEAR(made->numerator / denominator, expected,
              tolerance * std::max(1.0, std::fabs(expected)));
  const auto gradient = c["gradient"].get<std::vector<double>>();
  ASSERT_EQ(static_cast<int64_t>(gradient.size()), made->gradient.elements());
  for (size_t i = 0; i < gradient.size(); ++i) {
    EXPECT_NEAR(made->gradient.At(static_cast<int64_t>(i)) / denominator, gradient[i],
                tolerance * std::max(1.0, std::fabs(gradient[i])))
        << "gradient " << i;
  }
}

TEST(Losses, EqualTheFrameworks) {
  int cases = 0;
  for (const bool keras : {false, true}) {
    for (const json& c : Reference()[keras ? "keras" : "torch"]) {
      if (c["loss"] == "SmoothL1Loss") continue;  // not one of ours
      json named = c;
      named.erase("gradient");
      for (const DataType dtype : {DataType::kFloat64, DataType::kFloat32}) {
        for (const auto choice : {KernelRows::kReference, KernelRows::kBest}) {
          SCOPED_TRACE((keras ? "keras " : "torch ") + named.dump() +
                       (dtype == DataType::kFloat64 ? " float64" : " float32"));
          Follow(c, keras, dtype, choice);
          ++cases;
        }
      }
    }
  }
  EXPECT_GE(cases, 38 * 4);
}

// The mean over nothing: a denominator of 0, and gradients of 0 rather than NaN.
TEST(Losses, AnIgnoredBatchGivesZeros) {
  LossSpec spec;
  spec.ignore_index = -100;
  spec.label_smoothing = 0.1;
  for (const Scores scores : {Scores::kLogits, Scores::kProbabilities, Scores::kLogProbabilities}) {
    spec.scores = scores;
    const Tensor x = Load("probabilities", DataType::kFloat32);
    const Tensor labels = Tensor::Full(DataType::kInt64, {x.dims()[0]}, -100);
    auto made = Compute(spec, x, labels, nullptr, KernelRows::kBest);
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_EQ(made->numerator, 0);
    EXPECT_EQ(made->denominator, 0);
    for (int64_t i = 0; i < x.elements(); ++i) EXPECT_EQ(made->gradient.At(i), 0);
  }
}

// The terms of parts of a batch add up to those of the whole.
TEST(Losses, TermsOfPartsAddUp) {
  LossSpec spec;
  spec.class_weights = {0.5, 1.5, 2.0, 0.25};
  spec.ignore_index = 3;
  const Tensor x = Load("logits", DataType::kFloat64);
  const Tensor labels = Load("labels", DataType::kInt64);
  auto whole = Compute(spec, x, labels, nullptr, KernelRows::kReference);
  ASSERT_TRUE(whole.ok()) << whole.status();
  double numerator = 0, denominator = 0;
  for (const auto& [first, count] : {std::pair<int64_t, int64_t>{0, 2}, {2, 3}}) {
    const Tensor part =
        Tensor::Of<double>({count, 4}, x.values<double>().subspan(4 * first, 4 * count));
    const Tensor its = Tensor::Of<int64_t>({count}, labels.values<int64_t>().subspan(first, count));
    auto made = Compute(spec, part, its, nullptr, KernelRows::kReference);
    ASSERT_TRUE(made.ok()) << made.status();
    numerator += made->numerator;
    denominator += made->denominator;
  }
  EXPECT_NEAR(numerator, whole->numerator, 1e-12);
  EXPECT_NEAR(denominator, whole->denominator, 1e-12);
}

// Classes along the last axis, as Keras has them, equal those along axis 1.
TEST(Losses, ClassesMayLieLast) {
  const Tensor first = Load("image_logits", DataType::kFloat64);  // [N, C, d...]
  const Dims& dims = first.dims();
  Dims last_dims = dims;
  last_dims.erase(last_dims.begin() + 1);
  last_dims.push_back(dims[1]);
  Tensor last(DataType::kFloat64, last_dims);
  const int64_t inner = first.elements() / dims[0] / dims[1];
  for (int64_t n = 0; n < dims[0]; ++n) {
    for (int64_t c = 0; c < dims[1]; ++c) {
      for (int64_t i = 0; i < inner; ++i) {
        last.mutable_values<double>()[(n * inner + i) * dims[1] + c] =
            first.values<double>()[(n * dims[1] + c) * inner + i];
      }
    }
  }
  const Tensor labels = Load("image_labels", DataType::kInt64);
  LossSpec spec;
  auto a = Compute(spec, first, labels, nullptr, KernelRows::kReference);
  spec.class_axis = -1;
  auto b = Compute(spec, last, labels, nullptr, KernelRows::kReference);
  ASSERT_TRUE(a.ok() && b.ok()) << a.status() << b.status();
  EXPECT_NEAR(a->numerator, b->numerator, 1e-12);
  EXPECT_EQ(a->denominator, b->denominator);
}

TEST(Losses, WhatDoesNotFitIsSaid) {
  const Tensor x = Load("logits", DataType::kFloat32);
  const auto code = [&](const LossSpec& spec, const Tensor& labels) {
    const auto made = Compute(spec, x, labels, nullptr, KernelRows::kBest);
    return made.ok() ? ExitCode::kDone : ExitCodeOf(made.status());
  };
  LossSpec spec;
  EXPECT_EQ(code(spec, Tensor(DataType::kInt64, {4})), ExitCode::kData);
  EXPECT_EQ(code(spec, Tensor(DataType::kFloat32, {5, 3})), ExitCode::kData);
  EXPECT_EQ(code(spec, Tensor::Full(DataType::kInt64, {5}, 4)), ExitCode::kData);
  EXPECT_EQ(code(spec, Tensor(DataType::kUint8, {5, 1})), ExitCode::kDone);
  EXPECT_EQ(code(spec, Tensor(DataType::kFloat32, {5})), ExitCode::kDone);
  spec.class_weights = {1, 2};
  EXPECT_EQ(code(spec, Tensor(DataType::kInt64, {5})), ExitCode::kUsage);
  spec.class_weights = {};
  spec.ignore_index = 1;
  EXPECT_EQ(code(spec, Tensor(DataType::kFloat32, {5, 4})), ExitCode::kUsage);
  spec.measure = Measure::kMeanSquared;
  EXPECT_EQ(code(spec, Tensor(DataType::kFloat32, {5, 3})), ExitCode::kData);
}

}  // namespace
}  // namespace onward
