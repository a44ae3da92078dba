// The passes between what a graph means and its plan.
#ifndef ONWARD_BACKEND_RUNTIME_PREPARE_FOR_PLAN_H_
#define ONWARD_BACKEND_RUNTIME_PREPARE_FOR_PLAN_H_

#include <functional>

#include "absl/status/status.h"
#include "graph/base/device.h"
#include "graph/ir/evaluator.h"
#include "graph/ir/graph.h"
#include "graph/ir/operator.h"
#include "graph/plan/planner.h"

namespace onward {

// Called with the name of a stage and the graph as it is then. An error ends the passes.
using GraphObserver = std::function<absl::Status(const char* stage, const Graph& graph)>;

// Simplifies the graph of one replica, gives types and operators that no kernel of `device`
// takes with so many threads the form of others that one does, and fuses. The stages that
// `observe` (which may be empty) sees: "simplified", "fused".
absl::Status PrepareForPlan(Graph* graph, const OperatorSet& operators, Evaluator* evaluator,
                            const KernelOracle& oracle, const Device& device, int threads,
                            const GraphObserver& observe);

}  // namespace onward

#endif  // ONWARD_BACKEND_RUNTIME_PREPARE_FOR_PLAN_H_
