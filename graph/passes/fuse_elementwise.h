// Fusion of elementwise nodes into programs that pass over memory once.
#ifndef ONWARD_GRAPH_PASSES_FUSE_ELEMENTWISE_H_
#define ONWARD_GRAPH_PASSES_FUSE_ELEMENTWISE_H_

#include "absl/status/statusor.h"
#include "graph/ir/graph.h"
#include "graph/ir/operator.h"

namespace onward {

struct ElementwiseFusion {
  // May nodes of different phases be in one group? Default: no, so that an update is
  // not drawn into the backward pass, nor anything over a reduction.
  bool across_phases = false;
  // Nodes of a group at most. Default: 48.
  int most_nodes = 48;
};

// Replaces connected groups of two or more elementwise nodes with results of the same
// extents (and the same device and, by default, phase) by one onward.Elementwise each.
// A group is convex: no value leaves it and comes back. Scalar constants become numbers
// of the program; values that are read outside become its outputs. An Expand whose
// reader broadcasts anyway is left out. A comparison with a
// number is repeated in each group that reads it rather than stored.
//
// Returns whether it changed the graph. Deterministic; O((nodes + uses) log nodes). The
// order of nodes changes no more than the groups ask for.
absl::StatusOr<bool> FuseElementwise(Graph* graph, const OperatorSet& operators,
                                     const ElementwiseFusion& fusion = {});

}  // namespace onward

#endif  // ONWARD_GRAPH_PASSES_FUSE_ELEMENTWISE_H_
