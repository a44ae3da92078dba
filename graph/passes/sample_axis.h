// Where the samples of the batch lie in every value.
#ifndef ONWARD_GRAPH_PASSES_SAMPLE_AXIS_H_
#define ONWARD_GRAPH_PASSES_SAMPLE_AXIS_H_

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "graph/ir/graph.h"
#include "graph/ir/operator.h"

namespace onward {

using SampleAxes = absl::flat_hash_map<const Value*, SampleAxis>;

// One sweep. Inputs have their samples on axis 0, except scalars; constants and
// states have none. Elementwise operators are settled here, others by the rule in
// their block; without a rule, and wherever axes do not fit, a value is mixed.
SampleAxes FindSampleAxes(const Graph& graph);

// Unimplemented (kUntrainable), naming the first forward node whose result mixes
// samples: the batch cannot be split before `value`, which must be one number per
// sample or a sum over samples. Batch normalisation, whose statistics are those of
// a shard, does not count.
absl::Status CheckSplittable(const Graph& graph, const Value* value);

}  // namespace onward

#endif  // ONWARD_GRAPH_PASSES_SAMPLE_AXIS_H_
