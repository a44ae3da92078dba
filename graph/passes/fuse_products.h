// Fusion of products and convolutions with the bias and the activation behind them.
#ifndef ONWARD_GRAPH_PASSES_FUSE_PRODUCTS_H_
#define ONWARD_GRAPH_PASSES_FUSE_PRODUCTS_H_

#include "absl/status/statusor.h"
#include "graph/ir/graph.h"
#include "graph/ir/operator.h"

namespace onward {

// MatMul + Add of a row, Gemm, and Conv become onward.FusedMatMul or onward.FusedConv
// where a Relu follows, or a MatMul's bias; the value in between must have no other
// reader. Runs after differentiation: the fused operators have no gradient. Returns
// whether it changed the graph; one sweep.
absl::StatusOr<bool> FuseProducts(Graph* graph, const OperatorSet& operators);

}  // namespace onward

#endif  // ONWARD_GRAPH_PASSES_FUSE_PRODUCTS_H_
