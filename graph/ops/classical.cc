// Operators of ai.onnx.ml, of classical machine learning: what exporters write around the
// models of other libraries, and trees.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/base/status_macros.h"
#include "graph/ir/builder.h"
#include "graph/ir/graph.h"
#include "graph/onnx/schema.h"
#include "graph/ops/operators.h"
#include "graph/ops/rules.h"

namespace onward {
namespace {

constexpr char kClassical[] = "ai.onnx.ml";

// ---- ArrayFeatureExtractor: z[.., k] = x[.., y[k]], y flattened. One axis alone is a row.

absl::Status InferExtractor(InferContext& c) {
  RETURN_IF_ERROR(CheckOnnxCall(kClassical, "ArrayFeatureExtractor", c));
  Dims z = c.input(0).dims;
  if (z.empty()) return absl::InvalidArgumentError("X has no axis, expected at least one");
  z.back() = Elements(c.input(1).dims);
  if (z.size() == 1) z.insert(z.begin(), 1);
  c.SetOutput(0, c.input(0).dtype, std::move(z));
  return absl::OkStatus();
}

absl::Status LowerExtractor(LowerContext& l) {
  Builder& b = l.b();
  Expr x = l.x(0);
  if (x.rank() == 1) x = b.Reshape(x, {1, x.dims()[0]});
  Expr places = b.Reshape(l.x(1), {Elements(l.x(1).dims())});
  l.y(0, b.Op("Gather", {x, places}, {{"axis", int64_t{-1}}}));
  return absl::OkStatus();
}

Operator ArrayFeatureExtractor() {
  const auto with = [](const char* x, const char* y, const char* z) {
    return absl::StrCat("g (", x, " x, int64", y, " labels_y) => (", z,
                        " z) { z = ai.onnx.ml.ArrayFeatureExtractor(x, labels_y) }");
  };
  return Operator(kClassical, "ArrayFeatureExtractor")
      .Example(with("float[2, 4]", "[3]", "float[2, 3]"))
      .Example(with("float[3]", "[1, 2]", "float[1, 2]"))
      .Example(with("int64[2, 2, 3]", "[0]", "int64[2, 2, 0]"))
      .Infer(InferExtractor)
      .AlwaysLower(LowerExtractor)
      .Samples([](const Node& node, absl::Span<const SampleAxis> in, int) {
        return SamplesUnless(in[0], in[0].axis + 1 == node.input(0)->rank());
      });
}

// ---- Binarizer: y = x > threshold ? 1 : 0.

absl::Status LowerBinarizer(LowerContext& l) {
  Builder& b = l.b();
  const DataType dtype = l.x(0).dtype();
  double threshold = l.attributes().Float("threshold", 0);
  // An integer is above the threshold where it is above the integer below that; one of
  // int32 outside of its range is compared as int64.
  Expr x = l.x(0);
  if (IsInteger(dtype)) {
    constexpr double kMost = 4611686018427387904.0;  // 2^62: a float32, and an int64
    threshold = std::min(std::max(std::floor(threshold), -kMost), kMost);
    if (std::isnan(threshold)) return absl::InvalidArgumentError("threshold is not a number");
    x = b.Cast(x, DataType::kInt64);
  }
  l.y(0, b.Cast(b.Op("Greater", {x, b.Like(x, threshold)}), dtype));
  return absl::OkStatus();
}

Operator Binarizer() {
  return Operator(kClassical, "Binarizer")
      .Elementwise()
      .Example("g (float[2, 3] x) => (float[2, 3] y) { y = ai.onnx.ml.Binarizer(x) }")
      .Example(
          "g (int64[2, 9] signed_x) => (int64[2, 9] y) "
          "{ y = ai.onnx.ml.Binarizer<threshold = 0.5>(signed_x) }")
      .Example(
          "g (int32[9] signed_x) => (int32[9] y) "
          "{ y = ai.onnx.ml.Binarizer<threshold = -1e20>(signed_x) }")
      .AlwaysLower(LowerBinarizer);
}

// ---- LabelEncoder: y = the value of the key that equals x, or the default.

Operator LabelEncoder() {
  const auto with = [](const char* y, const char* attributes) {
    return absl::StrCat("g (int64[2, 3] labels_x) => (", y,
                        "[2, 3] y) { y = "
                        "ai.onnx.ml.LabelEncoder<",
                        attributes, ">(labels_x) }");
  };
  return Operator(kClassical, "LabelEncoder")
      .Elementwise()
      .Example(with("int64", "keys_int64s = [2, 0], values_int64s = [5, 6]"))
      .Example(with("float",
                    "keys_int64s = [2, 0], values_floats = [0.5, 1.5], "
                    "default_float = 2.5"))
      .Example(with("string", "keys_int64s = [2, 0], values_strings = [\"a\", \"b\"]"))
      .Example(
          "g (int64[5] labels_x) => (int16[5] y) { s = Cast<to = 8>(labels_x) y = "
          "ai.onnx.ml.LabelEncoder<keys_strings = [\"2\", \"0\", \"0\"], values_tensor = "
          "int16[3] {1, 2, 3}, default_tensor = int16[1] {42}>(s) }")
      .Example(
          "g (int32[5] labels_x) => (int32[5] y) { y = ai.onnx.ml.LabelEncoder<keys_tensor = "
          "int32[2] {2, 0}, values_tensor = int32[2] {1, 2}>(labels_x) }")
      .NotDifferentiable("it looks keys up in a table, which is constant between them");
}

// ---- TreeEnsemble: for each sample x[n] and target t, the sum (mean, least, greatest) of
// the weights of the leaves that x[n] reaches in the trees and that are of that target.

absl::Status InferTrees(InferContext& c) {
  // The types of the attributes need not be X's: it may be computed in a wider one.
  RETURN_IF_ERROR(CheckOnnxCall(kClassical, "TreeEnsemble", c));
  const Dims& x = c.input(0).dims;
  const int64_t targets = c.attributes().Int("n_targets", -1);
  if (x.size() != 2 || targets < 0) {
    return absl::InvalidArgumentError(absl::StrCat("X is ", ToString(x), " and n_targets ", targets,
                                                   ", expected [samples, features] and a number"));
  }
  c.SetOutput(0, c.input(0).dtype, {x[0], targets});
  return absl::OkStatus();
}

// Two trees: one of four leaves, one of a set and two leaves.
std::string TreesExample(const char* more) {
  return absl::StrCat(
      "g (float[5, 2] x) => (float[5, 2] y) { y = ai.onnx.ml.TreeEnsemble<n_targets = 2, "
      "tree_roots = [0, 3], nodes_modes = uint8[4] {0, 3, 1, 6}, nodes_featureids = [0, 1, 1, 0], "
      "nodes_splits = float[4] {0.0, 0.1, -0.3, 0.0}, nodes_truenodeids = [1, 0, 2, 4], "
      "nodes_trueleafs = [0, 1, 1, 1], nodes_falsenodeids = [2, 1, 3, 5], nodes_falseleafs = "
      "[0, 1, 1, 1], membership_values = float[3] {2.0, 3.0, nan}, leaf_targetids = "
      "[0, 1, 0, 1, 1, 0], leaf_weights = float[6] {1.0, -2.0, 0.5, 0.25, 3.0, 0.75}",
      more, ">(x) }");
}

Operator TreeEnsemble() {
  return Operator(kClassical, "TreeEnsemble")
      .Example(TreesExample(""))
      .Example(TreesExample(", aggregate_function = 0, post_transform = 1"))
      .Example(TreesExample(", aggregate_function = 2, post_transform = 2"))
      .Example(TreesExample(", aggregate_function = 3, post_transform = 3"))
      .Example(
          "g (float[3, 1] x) => (float[3, 1] y) { y = ai.onnx.ml.TreeEnsemble<n_targets = 1, "
          "tree_roots = [0], nodes_modes = uint8[1] {2}, nodes_featureids = [0], nodes_splits = "
          "float[1] {0.0}, nodes_truenodeids = [0], nodes_trueleafs = [1], nodes_falsenodeids = "
          "[1], nodes_falseleafs = [1], nodes_missing_value_tracks_true = [1], leaf_targetids = "
          "[0, 0], leaf_weights = float[2] {0.25, 0.9}, post_transform = 4>(x) }")
      .Infer(InferTrees)
      .Samples([](const Node&, absl::Span<const SampleAxis> in, int) {
        return SamplesUnless(in[0], in[0].axis != 0);
      })
      .NotDifferentiable("trees choose a leaf, whose weight does not change with x");
}

}  // namespace

void AddClassicalOperators(OperatorFamily& list) {
  list.push_back(ArrayFeatureExtractor());
  list.push_back(Binarizer());
  list.push_back(LabelEncoder());
  list.push_back(TreeEnsemble());
}

}  // namespace onward
