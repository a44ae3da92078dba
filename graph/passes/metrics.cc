#include "graph/passes/metrics.h"

#include "graph/base/errors.h"
#include "graph/base/status_macros.h"
#include "graph/ir/builder.h"

namespace onward {
namespace {

Expr Total(Builder* b, Expr x) {
  return b->Op("ReduceSum", {b->Cast(x, DataType::kFloat64)}, {{"keepdims", int64_t{0}}});
}

struct Fraction {
  Expr numerator;
  Expr denominator;
};

Fraction OverCounted(Builder* b, const LossValues& loss, Expr hits, int64_t samples) {
  hits = b->Cast(hits, DataType::kFloat64);
  if (loss.counted == nullptr) {
    return {Total(b, hits), b->Scalar(DataType::kFloat64, static_cast<double>(samples))};
  }
  Expr counted = b->Cast(b->Wrap(loss.counted), DataType::kFloat64);
  return {Total(b, hits * counted), Total(b, counted)};
}

// One score per sample: on the label's side of the threshold?
Fraction BinaryAccuracy(Builder* b, const LossValues& loss) {
  Expr scores = b->Wrap(loss.scores);
  Expr says = b->Op("Greater", {scores, b->Like(scores, loss.threshold)});
  Expr is = b->Op("Greater", {b->Wrap(loss.labels), b->Like(b->Wrap(loss.labels), 0.5)});
  Expr hits = b->Op("Equal", {says, is});
  return {Total(b, hits),
          b->Scalar(DataType::kFloat64, static_cast<double>(Elements(scores.dims())))};
}

Fraction Accuracy(Builder* b, const LossValues& loss) {
  if (loss.labels->type.dtype != DataType::kInt64) return BinaryAccuracy(b, loss);
  Expr best =
      b->Op("ArgMax", {b->Wrap(loss.scores)}, {{"axis", int64_t{1}}, {"keepdims", int64_t{0}}});
  Expr hits = b->Op("Equal", {best, b->Wrap(loss.labels)});
  return OverCounted(b, loss, hits, loss.labels->dims()[0]);
}

Fraction TopK(Builder* b, const LossValues& loss, int k) {
  Expr scores = b->Wrap(loss.scores);
  const int64_t rows = scores.dims()[0];
  const int64_t classes = scores.dims()[1];
  // Ignored labels may be no class: any column serves, for they do not count.
  Expr labels = b->Op("Clip", {b->Wrap(loss.labels), b->Scalar(DataType::kInt64, 0),
                               b->Scalar(DataType::kInt64, static_cast<double>(classes - 1))});
  Expr own =
      b->Op("GatherElements", {scores, b->Reshape(labels, {rows, 1})}, {{"axis", int64_t{1}}});
  Expr above = b->Cast(b->Op("Greater", {scores, own}), DataType::kFloat32);
  Expr count = b->ReduceSum(above, {1}, false);
  Expr hits = b->Op("Less", {count, b->Like(count, k)});
  return OverCounted(b, loss, hits, rows);
}

Fraction MeanError(Builder* b, const LossValues& loss, bool squared) {
  Expr prediction = b->Wrap(loss.prediction);
  Expr labels = b->Reshape(b->Cast(b->Wrap(loss.labels), prediction.dtype()), prediction.dims());
  Expr difference = prediction - labels;
  Expr error = squared ? difference * difference : b->Op("Abs", {difference});
  return {Total(b, error),
          b->Scalar(DataType::kFloat64, static_cast<double>(Elements(prediction.dims())))};
}

absl::Status Usage(const char* message) {
  return WithExitCode(absl::InvalidArgumentError(message), ExitCode::kUsage);
}

absl::StatusOr<Fraction> MetricOf(Builder* b, const LossValues& loss, const MetricRequest& metric) {
  switch (metric.kind) {
    case MetricRequest::Kind::kAccuracy:
      if (loss.scores == nullptr) return Usage("accuracy needs a cross-entropy loss");
      return Accuracy(b, loss);
    case MetricRequest::Kind::kTopK:
      if (loss.scores == nullptr || loss.labels->type.dtype != DataType::kInt64) {
        return Usage("top-k accuracy needs a cross-entropy loss over classes");
      }
      return TopK(b, loss, metric.k);
    default:
      if (loss.labels == nullptr ||
          Elements(loss.labels->dims()) != Elements(loss.prediction->dims())) {
        return Usage("mae and mse need labels of the prediction's shape");
      }
      return MeanError(b, loss, metric.kind == MetricRequest::Kind::kMeanSquared);
  }
}

}  // namespace

absl::StatusOr<Value*> AttachMetrics(Graph* graph, const OperatorSet& operators,
                                     const LossValues& loss,
                                     const std::vector<MetricRequest>& metrics) {
  Builder b(graph, &operators);
  b.SetPhase(Phase::kMetric);
  b.SetScope("metrics");
  b.SetSource("metrics");
  std::vector<Expr> parts;
  const auto add = [&](Expr x) { parts.push_back(b.Reshape(b.Cast(x, DataType::kFloat64), {1})); };
  add(b.Wrap(loss.numerator));
  add(b.Wrap(loss.denominator));
  for (const MetricRequest& metric : metrics) {
    ASSIGN_OR_RETURN(const Fraction ratio, MetricOf(&b, loss, metric));
    add(ratio.numerator);
    add(ratio.denominator);
  }
  Expr all = b.Op("Concat", parts, {{"axis", int64_t{0}}});
  RETURN_IF_ERROR(b.status());
  return all.value();
}

}  // namespace onward
