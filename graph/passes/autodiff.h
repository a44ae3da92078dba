// Reverse-mode differentiation, from graph to graph.
#ifndef ONWARD_GRAPH_PASSES_AUTODIFF_H_
#define ONWARD_GRAPH_PASSES_AUTODIFF_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "graph/ir/graph.h"
#include "graph/ir/operator.h"

namespace onward {

// Where differentiation starts: `dy` is the gradient of the (never formed) loss
// with respect to `y`, of y's type.
struct GradientSeed {
  Value* y = nullptr;
  Value* dy = nullptr;
};

// Appends to `graph` the nodes that compute the gradients of sum(y * dy) over all
// seeds with respect to `targets` (inputs, states or any values of floating type)
// and returns them in that order; null for a target that the seeds do not depend
// on through differentiable inputs.
//
// No gradient that no target needs is computed. Gradients of a value with several
// uses are added, and a gradient is summed down to the shape of what was
// broadcast, here and nowhere else. A node whose operator has a lowering but no
// rule is replaced by its lowering first. Unimplemented, naming the node, where an
// operator on the way has neither.
absl::StatusOr<std::vector<Value*>> AppendGradients(Graph* graph, const OperatorSet& operators,
                                                    absl::Span<const GradientSeed> seeds,
                                                    absl::Span<Value* const> targets);

}  // namespace onward

#endif  // ONWARD_GRAPH_PASSES_AUTODIFF_H_
