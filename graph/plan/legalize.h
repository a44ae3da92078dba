// Lowering what no kernel takes as it stands.
#ifndef ONWARD_GRAPH_PLAN_LEGALIZE_H_
#define ONWARD_GRAPH_PLAN_LEGALIZE_H_

#include "absl/status/statusor.h"
#include "graph/base/device.h"
#include "graph/ir/graph.h"
#include "graph/ir/operator.h"
#include "graph/plan/planner.h"

namespace onward {

// Replaces every node that no kernel of `device` accepts, with that many threads and
// layouts left open, by its operator's lowering where it has one, until none is left.
// A node without either stays: the plan says why it cannot run. Returns whether it
// changed the graph.
absl::StatusOr<bool> Legalize(Graph* graph, const OperatorSet& operators,
                              const KernelOracle& kernels, const Device& device, int threads);

}  // namespace onward

#endif  // ONWARD_GRAPH_PLAN_LEGALIZE_H_
