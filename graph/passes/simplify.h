// Passes that make a graph smaller without changing what it means.
#ifndef ONWARD_GRAPH_PASSES_SIMPLIFY_H_
#define ONWARD_GRAPH_PASSES_SIMPLIFY_H_

#include <functional>

#include "absl/status/statusor.h"
#include "graph/ir/evaluator.h"
#include "graph/ir/graph.h"
#include "graph/ir/operator.h"

namespace onward {

// Each returns whether it changed the graph; each is one sweep, linear in nodes.

// Removes nodes whose outputs nothing reads (collectives stay).
bool RemoveDeadCode(Graph* graph);

// Removes nodes that give their input unchanged: Identity, reshapes and casts to
// what is there already, additions of zero and multiplications by one.
bool RemoveIdentities(Graph* graph);

// Joins nodes of one operator with the same inputs and attributes, and constants of
// the same content (up to 64 elements).
bool JoinCommonCode(Graph* graph);

// Computes nodes all of whose inputs are constant, if the result has at most 2^22
// elements or is no larger than what it is made of.
absl::StatusOr<bool> FoldConstants(Graph* graph, Evaluator* evaluator);

// Replaces the nodes that `which` names by their lowerings, until it names none. REQUIRES: it
// names only nodes whose operators have one.
absl::StatusOr<bool> LowerNodes(Graph* graph, const OperatorSet& operators,
                                const std::function<bool(const Node&)>& which);

// The same of nodes whose operator has no kernel.
absl::StatusOr<bool> LowerOperators(Graph* graph, const OperatorSet& operators);

// All of the above, until nothing changes.
absl::Status Simplify(Graph* graph, const OperatorSet& operators, Evaluator* evaluator);

}  // namespace onward

#endif  // ONWARD_GRAPH_PASSES_SIMPLIFY_H_
