// Metrics as sums over samples.
#ifndef ONWARD_GRAPH_PASSES_METRICS_H_
#define ONWARD_GRAPH_PASSES_METRICS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "graph/ir/graph.h"
#include "graph/ir/operator.h"
#include "graph/passes/loss.h"

namespace onward {

inline constexpr char kMetricsOutput[] = "metrics";

struct MetricRequest {
  enum class Kind { kAccuracy, kTopK, kMeanAbsolute, kMeanSquared };
  Kind kind = Kind::kAccuracy;
  int k = 1;  // kTopK
};

// Appends the metrics of the loss's prediction against its labels and returns a
// vector of float64: numerator and denominator of the loss, then of each metric,
// summed over the samples of the graph. A mean over any set of batches is the sum of
// numerators over the sum of denominators.
//   accuracy: samples whose largest score is the label's (one score: whose side of
//             one half, or of zero for logits, is); over counted samples
//   top-k:    samples with fewer than k scores above the label's
//   mae, mse: over elements
absl::StatusOr<Value*> AttachMetrics(Graph* graph, const OperatorSet& operators,
                                     const LossValues& loss,
                                     const std::vector<MetricRequest>& metrics);

}  // namespace onward

#endif  // ONWARD_GRAPH_PASSES_METRICS_H_
