// Quantisation in training.
#ifndef ONWARD_GRAPH_PASSES_QUANTISATION_H_
#define ONWARD_GRAPH_PASSES_QUANTISATION_H_

#include "absl/status/statusor.h"
#include "graph/ir/graph.h"
#include "graph/ir/operator.h"

namespace onward {

// QuantizeLinear, DynamicQuantizeLinear and DequantizeLinear become what they mean on
// reals. Where one of the first two feeds the last, the integers between them are gone:
// what was rounded stays a real, and gradients pass through the rounding as if it were
// not there, except where a value was clipped. Returns how many nodes were replaced.
absl::StatusOr<int> OpenQuantisation(Graph* graph, const OperatorSet& operators);

}  // namespace onward

#endif  // ONWARD_GRAPH_PASSES_QUANTISATION_H_
