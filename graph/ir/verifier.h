// Checks the invariants of graph/ir/graph.h.
#ifndef ONWARD_GRAPH_IR_VERIFIER_H_
#define ONWARD_GRAPH_IR_VERIFIER_H_

#include "absl/status/status.h"
#include "graph/ir/graph.h"

namespace onward {

// Internal, naming the node, where an invariant does not hold: order, use lists,
// unique names, inferred types equal to stored ones, states with a fitting next.
// Runs before and after every pass.
absl::Status Verify(const Graph& graph);

}  // namespace onward

#endif  // ONWARD_GRAPH_IR_VERIFIER_H_
