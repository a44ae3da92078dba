#include "graph/passes/loss_terms.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "graph/base/errors.h"
#include "graph/base/status_macros.h"

namespace onward {
namespace {

using Measure = LossSpec::Measure;
using Scores = LossSpec::Scores;

constexpr double kClip = 1e-7;  // Keras' keras.config.epsilon()

absl::Status Misfit(ExitCode code, const std::string& text) {
  return WithExitCode(absl::InvalidArgumentError(text), code);
}

// Extents that are not 1.
Dims Squeezed(const Dims& dims) {
  Dims out;
  for (const int64_t d : dims) {
    if (d != 1) out.push_back(d);
  }
  return out;
}

Expr Sum(Builder& b, Expr x) {
  std::vector<int64_t> axes;
  for (int i = 0; i < x.rank(); ++i) axes.push_back(i);
  return b.ReduceSum(x, axes, false);
}

Expr Vector(Builder& b, DataType dtype, const std::vector<double>& numbers) {
  const Tensor wide =
      Tensor::Of<double>({static_cast<int64_t>(numbers.size())}, absl::MakeConstSpan(numbers));
  if (dtype == DataType::kFloat64) return b.Constant(wide.Clone());
  Tensor narrow(DataType::kFloat32, wide.dims());
  for (size_t i = 0; i < numbers.size(); ++i) {
    narrow.mutable_values<float>()[i] = static_cast<float>(numbers[i]);
  }
  return b.Constant(std::move(narrow));
}

Expr Clipped(Builder& b, Expr p) {
  return b.Op("Clip", {p, b.Like(p, kClip), b.Like(p, 1 - kClip)});
}

// One number per element of `losses` [N, ...] by which it counts.
absl::StatusOr<Expr> Weighted(Builder& b, Expr losses, Expr sample_weight) {
  if (!sample_weight) return losses;
  Expr w = b.Cast(sample_weight, losses.dtype());
  const Dims& dims = losses.dims();
  if (Elements(w.dims()) == Elements(dims)) return losses * b.Reshape(w, dims);
  if (!dims.empty() && Elements(w.dims()) == dims[0]) {
    Dims column(dims.size(), 1);
    column[0] = dims[0];
    return losses * b.Reshape(w, column);
  }
  return Misfit(ExitCode::kData, absl::StrCat("sample weights ", ToString(w.dims()),
                                              " do not fit losses ", ToString(dims)));
}

// numerator = sum(losses * sample weights * weights), denominator = sum(weights);
// without weights the number of losses.
absl::StatusOr<LossTerms> Terms(Builder& b, Expr losses, Expr weights, Expr sample_weight) {
  ASSIGN_OR_RETURN(Expr counted, Weighted(b, losses, sample_weight));
  LossTerms terms;
  terms.numerator = Sum(b, weights ? counted * weights : counted);
  terms.denominator =
      weights ? Sum(b, weights) : b.Like(losses, static_cast<double>(Elements(losses.dims())));
  return terms;
}

// ---- Cross-entropy over classes.

// Scores [N, C, ...] (classes brought to axis 1), and the extents of labels.
struct ClassScores {
  Expr x;
  Dims positions;  // of x: [N, ...]
  Dims given;      // of the predictions as they came, without the classes
};

absl::StatusOr<ClassScores> ScoresOf(Builder& b, const LossSpec& spec, Expr prediction) {
  const Dims& dims = prediction.dims();
  const int64_t rank = static_cast<int64_t>(dims.size());
  if (rank < 2) {
    return Misfit(ExitCode::kUsage,
                  absl::StrCat("a cross-entropy needs predictions [N, classes, ...], they are ",
                               ToString(dims)));
  }
  ASSIGN_OR_RETURN(const int64_t axis, NormalizeAxis(spec.class_axis, rank));
  if (axis == 0) {
    return Misfit(ExitCode::kUsage, "the classes of a cross-entropy cannot lie along the batch");
  }
  ClassScores s;
  s.given = dims;
  s.given.erase(s.given.begin() + axis);
  if (axis == 1) {
    s.x = prediction;
    s.positions = s.given;
  } else if (axis == rank - 1) {
    s.positions = {Elements(s.given)};
    s.x = b.Reshape(prediction, {s.positions[0], dims[axis]});
  } else {
    std::vector<int64_t> order = {0, axis};
    for (int64_t i = 1; i < rank; ++i) {
      if (i != axis) order.push_back(i);
    }
    s.x = b.Transpose(prediction, order);
    s.positions = s.given;
  }
  if (!spec.class_weights.empty() &&
      static_cast<int64_t>(spec.class_weights.size()) != s.x.dims()[1]) {
    return Misfit(ExitCode::kUsage, absl::StrCat(spec.class_weights.size(), " class weights for ",
                                                 s.x.dims()[1], " classes"));
  }
  return s;
}

absl::StatusOr<LossTerms> OfClassNumbers(Builder& b, const LossSpec& spec, const ClassScores& s,
                                         Expr labels, Expr sample_weight) {
  if (labels.dtype() != DataType::kInt32) labels = b.Cast(labels, DataType::kInt64);
  Attributes attributes;
  if (spec.ignore_index.has_value()) attributes.Set("ignore_index", *spec.ignore_index);
  if (spec.label_smoothing != 0) attributes.Set("label_smoothing", spec.label_smoothing);
  Expr x = s.x;
  if (spec.scores == Scores::kProbabilities) x = b.Op("Log", {Clipped(b, x)});
  std::vector<Expr> inputs = {x, b.Reshape(labels, s.positions)};
  if (!spec.class_weights.empty()) inputs.push_back(Vector(b, x.dtype(), spec.class_weights));
  // Smoothing spreads over all classes, which softmax of log-probabilities leaves as
  // they are.
  const bool picks = spec.scores == Scores::kLogProbabilities && spec.label_smoothing == 0;
  const std::vector<Expr> parts =
      b.Ops(picks ? "onward.NegativeLogLikelihood" : "onward.SoftmaxCrossEntropy", inputs,
            std::move(attributes), 2);
  RETURN_IF_ERROR(b.status());
  ASSIGN_OR_RETURN(Expr losses, Weighted(b, parts[0], sample_weight));
  return LossTerms{Sum(b, losses), Sum(b, parts[1])};
}

absl::StatusOr<LossTerms> OfTargets(Builder& b, const LossSpec& spec, const ClassScores& s,
                                    Expr prediction, Expr labels, Expr sample_weight) {
  if (spec.ignore_index.has_value()) {
    return Misfit(ExitCode::kUsage, "ignore_index needs labels that are numbers of classes");
  }
  // As the predictions were brought to [N, C, ...].
  ClassScores moved;
  ASSIGN_OR_RETURN(
      moved, ScoresOf(b, spec, b.Reshape(b.Cast(labels, prediction.dtype()), prediction.dims())));
  Expr t = moved.x;
  const double classes = static_cast<double>(s.x.dims()[1]);
  if (spec.label_smoothing != 0) {
    t = t * (1 - spec.label_smoothing) + spec.label_smoothing / classes;
  }
  if (!spec.class_weights.empty()) {
    Dims per_class(t.dims().size(), 1);
    per_class[1] = t.dims()[1];
    t = t * b.Reshape(Vector(b, t.dtype(), spec.class_weights), per_class);
  }
  Expr losses;
  if (spec.scores == Scores::kLogits) {
    losses = b.Op("onward.SoftmaxCrossEntropyDense", {s.x, t});
  } else {
    Expr log_p = s.x;
    if (spec.scores == Scores::kProbabilities) {
      log_p = b.Op("Log", {Clipped(b, s.x / b.ReduceSum(s.x, {1}, true))});
    }
    losses = -b.ReduceSum(t * log_p, {1}, false);
  }
  return Terms(b, losses, Expr(), sample_weight);
}

absl::StatusOr<LossTerms> CrossEntropy(Builder& b, const LossSpec& spec, Expr prediction,
                                       Expr labels, Expr sample_weight) {
  ASSIGN_OR_RETURN(const ClassScores s, ScoresOf(b, spec, prediction));
  const Dims squeezed = Squeezed(labels.dims());
  // With one class, or one sample, extents may not tell; floating labels of the
  // predictions' extents are targets.
  const bool numbers = Squeezed(s.given) == squeezed;
  const bool targets = Squeezed(prediction.dims()) == squeezed;
  if (targets && (!numbers || IsFloating(labels.dtype()))) {
    return OfTargets(b, spec, s, prediction, labels, sample_weight);
  }
  if (numbers) return OfClassNumbers(b, spec, s, labels, sample_weight);
  return Misfit(
      ExitCode::kData,
      absl::StrCat("labels ", ToString(labels.dims()), " do not fit predictions ",
                   ToString(prediction.dims()), ": numbers of classes have extents ",
                   ToString(s.given), ", target probabilities ", ToString(prediction.dims())));
}

// ---- Losses between elements.

absl::StatusOr<Expr> ElementLabels(Builder& b, Expr prediction, Expr labels) {
  if (Squeezed(labels.dims()) != Squeezed(prediction.dims())) {
    return Misfit(ExitCode::kData,
                  absl::StrCat("labels ", ToString(labels.dims()), " do not fit predictions ",
                               ToString(prediction.dims())));
  }
  return b.Reshape(b.Cast(labels, prediction.dtype()), prediction.dims());
}

absl::StatusOr<LossTerms> BinaryCrossEntropy(Builder& b, const LossSpec& spec, Expr x, Expr labels,
                                             Expr sample_weight) {
  if (!spec.class_weights.empty() && spec.class_weights.size() != 2) {
    return Misfit(ExitCode::kUsage, absl::StrCat("a binary cross-entropy has two class weights, ",
                                                 spec.class_weights.size(), " are given"));
  }
  if (spec.scores == Scores::kLogProbabilities) {
    return Misfit(ExitCode::kUsage, "a binary cross-entropy takes logits or probabilities");
  }
  ASSIGN_OR_RETURN(Expr t, ElementLabels(b, x, labels));
  Expr weights;
  if (!spec.class_weights.empty()) {
    const double zero = spec.class_weights[0], one = spec.class_weights[1];
    weights = t * (one - zero) + zero;
  }
  Expr keep;
  if (spec.ignore_index.has_value()) {
    const Expr ignored = b.Like(t, static_cast<double>(*spec.ignore_index));
    keep = b.Op("Not", {b.Op("Equal", {t, ignored})});
    t = b.Where(keep, t, b.Like(t, 0));
    weights = b.Where(keep, weights ? weights : b.Expand(b.Like(t, 1), t.dims()), b.Like(t, 0));
  }
  if (spec.label_smoothing != 0) t = t * (1 - spec.label_smoothing) + spec.label_smoothing / 2;
  Expr losses;
  if (spec.scores == Scores::kLogits) {
    std::vector<Expr> inputs = {x, t};
    if (!spec.positive_weights.empty()) {
      inputs.push_back(Vector(b, x.dtype(), spec.positive_weights));
    }
    losses = b.Op("onward.SigmoidCrossEntropy", inputs);
  } else {
    const Expr p = Clipped(b, x);
    losses = -(t * b.Op("Log", {p}) + (1 - t) * b.Op("Log", {1 - p}));
  }
  return Terms(b, losses, weights, sample_weight);
}

absl::StatusOr<LossTerms> Distance(Builder& b, const LossSpec& spec, Expr x, Expr labels,
                                   Expr sample_weight) {
  ASSIGN_OR_RETURN(const Expr t, ElementLabels(b, x, labels));
  const Expr d = x - t;
  if (spec.measure == Measure::kMeanSquared) return Terms(b, d * d, Expr(), sample_weight);
  const Expr a = b.Op("Abs", {d});
  if (spec.measure == Measure::kMeanAbsolute) return Terms(b, a, Expr(), sample_weight);
  // q = min(a, delta): q a - q q / 2 is a a / 2 up to delta, delta a - delta delta / 2
  // beyond; where a = delta, q has no part in the derivative.
  const Expr q = b.Op("Min", {a, b.Like(a, spec.huber_delta)});
  return Terms(b, q * (a - q * 0.5), Expr(), sample_weight);
}

}  // namespace

absl::StatusOr<LossTerms> BuildLossTerms(Builder& builder, const LossSpec& spec, Expr prediction,
                                         Expr labels, Expr sample_weight) {
  if (!IsFloating(prediction.dtype())) {
    return Misfit(ExitCode::kUsage, absl::StrCat("predictions are ", Name(prediction.dtype()),
                                                 ", not floating numbers"));
  }
  // Sums over a batch want more digits than halves have.
  if (prediction.dtype() == DataType::kFloat16 || prediction.dtype() == DataType::kBfloat16) {
    prediction = builder.Cast(prediction, DataType::kFloat32);
    if (IsFloating(labels.dtype())) labels = builder.Cast(labels, DataType::kFloat32);
  }
  absl::StatusOr<LossTerms> terms;
  switch (spec.measure) {
    case Measure::kCrossEntropy:
      terms = CrossEntropy(builder, spec, prediction, labels, sample_weight);
      break;
    case Measure::kBinaryCrossEntropy:
      terms = BinaryCrossEntropy(builder, spec, prediction, labels, sample_weight);
      break;
    case Measure::kMeanSquared:
    case Measure::kMeanAbsolute:
    case Measure::kHuber:
      terms = Distance(builder, spec, prediction, labels, sample_weight);
      break;
  }
  RETURN_IF_ERROR(builder.status());
  return terms;
}

}  // namespace onward
