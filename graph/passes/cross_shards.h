// Where values cross the shards of a batch.
#ifndef ONWARD_GRAPH_PASSES_CROSS_SHARDS_H_
#define ONWARD_GRAPH_PASSES_CROSS_SHARDS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "graph/ir/graph.h"
#include "graph/ir/operator.h"

namespace onward {

// An AllReduce node for each value; returns the sums over all shards. Other uses of
// the values stay as they are.
absl::StatusOr<std::vector<Value*>> ReduceAcrossShards(Graph* graph, const OperatorSet& operators,
                                                       absl::Span<Value* const> values);

// Running statistics are updated with the mean and variance over the samples of all
// shards: n = sum n_i, mean = sum n_i m_i / n, and the variance from squares shifted
// by the running mean K, which is the same everywhere:
// sum n_i (v_i + (m_i - K)^2) / n - (mean - K)^2. Normalisation itself keeps to its
// shard's.
absl::Status CombineStatistics(Graph* graph, const OperatorSet& operators);

}  // namespace onward

#endif  // ONWARD_GRAPH_PASSES_CROSS_SHARDS_H_
