// Types for which the backend has no kernel are computed in wider ones.
#ifndef ONWARD_GRAPH_PASSES_WIDEN_H_
#define ONWARD_GRAPH_PASSES_WIDEN_H_

#include <functional>

#include "absl/status/statusor.h"
#include "graph/base/kernel_call.h"
#include "graph/ir/graph.h"
#include "graph/ir/operator.h"

namespace onward {

// Is there a kernel for such a call?
using HasKernel = std::function<bool(const KernelCall& call)>;

// A node on float16 or bfloat16 for which there is none is computed in float32, one on
// integers in int64: its inputs are cast, and its outputs are cast back, which rounds once
// per node. Tells whether anything changed.
absl::StatusOr<bool> Widen(Graph* graph, const OperatorSet& operators, const HasKernel& has_kernel);

}  // namespace onward

#endif  // ONWARD_GRAPH_PASSES_WIDEN_H_
