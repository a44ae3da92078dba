#include "graph/passes/given_loss.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "graph/base/errors.h"
#include "graph/base/status_macros.h"
#include "graph/passes/training_mode.h"

namespace onward {
namespace {

Expr SumOfAll(Builder* b, Expr x) { return b->Op("ReduceSum", {x}, {{"keepdims", int64_t{0}}}); }

// 1 over all shards together: 1 for the one with the batch's first sample, 0 for others.
Expr OneOverShards(Builder* b, DataType dtype) {
  return b->Cast(
      b->Op("Equal", {b->Wrap(SampleOffset(b->graph())), b->Scalar(DataType::kInt64, 0)}), dtype);
}

bool CoversAllAxes(const Node& node) {
  const int rank = node.input(0)->rank();
  if (node.input(1) == nullptr) return node.attributes.Int("noop_with_empty_axes", 0) == 0;
  if (node.input(1)->constant == nullptr) return false;
  const Tensor& axes = *node.input(1)->constant;
  if (axes.elements() == 0) return node.attributes.Int("noop_with_empty_axes", 0) == 0;
  std::vector<bool> covered(rank, false);
  for (int64_t i = 0; i < axes.elements(); ++i) {
    const int64_t axis = axes.IntAt(i);
    covered[axis < 0 ? axis + rank : axis] = true;
  }
  return std::find(covered.begin(), covered.end(), false) == covered.end();
}

// A loss whose numerator is the sum over all of `summed`. Constant factors come before the
// sum, so that nothing but the sum mixes samples.
struct Parts {
  Expr summed;
  Expr denominator;
};

std::optional<Parts> TermsOfReduction(Builder* b, const Node& node) {
  if (node.input(0)->rank() == 0 || !CoversAllAxes(node)) return std::nullopt;
  Expr x = b->Wrap(node.input(0));
  const double count = static_cast<double>(Elements(x.dims()));
  return Parts{x, node.op().name == "ReduceMean" ? b->Scalar(x.dtype(), count)
                                                 : OneOverShards(b, x.dtype())};
}

// SoftmaxCrossEntropyLoss and NegativeLogLikelihoodLoss: the mean is divided by the
// weights of the labels that count.
std::optional<Parts> TermsOfLikelihood(Builder* b, const Node& node) {
  const std::string reduction = node.attributes.String("reduction", "mean");
  if (reduction != "mean" && reduction != "sum") return std::nullopt;
  Expr scores = b->Wrap(node.input(0)), labels = b->Wrap(node.input(1));
  std::vector<Expr> inputs = {scores, labels};
  if (node.input(2) != nullptr) inputs.push_back(b->Wrap(node.input(2)));
  Attributes attributes = node.attributes;
  attributes.Set("reduction", std::string("none"));
  Expr each = b->Op(node.op().name, inputs, std::move(attributes));
  if (reduction == "sum") return Parts{each, OneOverShards(b, scores.dtype())};
  Expr weights;
  Expr classes = labels;
  if (node.attributes.Has("ignore_index")) {
    Expr ignored = b->Op(
        "Equal",
        {labels, b->Like(labels, static_cast<double>(node.attributes.Int("ignore_index", 0)))});
    weights = b->Cast(b->Op("Not", {ignored}), scores.dtype());
    classes = b->Where(ignored, b->Like(labels, 0), labels);
  }
  if (node.input(2) != nullptr) {
    Expr of_class = b->Op("Gather", {b->Wrap(node.input(2)), classes});
    weights = weights ? weights * of_class : of_class;
  }
  const double count = static_cast<double>(Elements(labels.dims()));
  return Parts{each, weights ? SumOfAll(b, weights) : b->Scalar(scores.dtype(), count)};
}

// Follows a single number back to the reduction that makes it.
std::optional<Parts> TermsOfNumber(Builder* b, const Value* value) {
  const Node* node = value->producer;
  if (node == nullptr || !node->op().domain.empty()) return std::nullopt;
  const std::string& op = node->op().name;
  if (op == "ReduceMean" || op == "ReduceSum") return TermsOfReduction(b, *node);
  if (op == "SoftmaxCrossEntropyLoss" || op == "NegativeLogLikelihoodLoss") {
    return TermsOfLikelihood(b, *node);
  }
  const auto is_number = [&](int i) {
    const Value* v = node->input(i);
    return v != nullptr && v->constant != nullptr && v->constant->elements() == 1;
  };
  const bool keeps = op == "Identity" || op == "Squeeze" || op == "Unsqueeze" || op == "Reshape" ||
                     op == "Flatten" || op == "Neg" || op == "Mul" || op == "Div";
  const int from = op == "Mul" && is_number(0) ? 1 : 0;
  const bool scaled = op == "Mul" || op == "Div";
  if (!keeps || (scaled && !is_number(1 - from))) return std::nullopt;
  if (Elements(node->input(from)->dims()) != 1) return std::nullopt;
  std::optional<Parts> terms = TermsOfNumber(b, node->input(from));
  if (!terms.has_value()) return terms;
  if (op == "Neg") terms->summed = -terms->summed;
  if (scaled) {
    const double factor = node->input(1 - from)->constant->At(0);
    terms->summed = op == "Mul" ? terms->summed * factor : terms->summed / factor;
  }
  return terms;
}

}  // namespace

absl::StatusOr<LossTerms> TermsOfLoss(Builder* builder, Value* loss) {
  if (!IsFloating(loss->dtype())) {
    return WithExitCode(absl::InvalidArgumentError(
                            absl::StrCat("the loss '", loss->name, "' is ", ToString(loss->type),
                                         ", expected a floating-point output")),
                        ExitCode::kUsage);
  }
  Expr whole = builder->Wrap(loss);
  std::optional<Parts> parts;
  if (Elements(loss->dims()) == 1) parts = TermsOfNumber(builder, loss);
  if (!parts.has_value()) {
    const double count = static_cast<double>(Elements(loss->dims()));
    parts = Parts{whole, builder->Scalar(loss->dtype(), count)};
  }
  const LossTerms terms = {SumOfAll(builder, parts->summed), parts->denominator};
  RETURN_IF_ERROR(builder->status());
  return terms;
}

}  // namespace onward
