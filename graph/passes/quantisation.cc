#include "graph/passes/quantisation.h"

#include <string>

#include "graph/base/status_macros.h"
#include "graph/ir/builder.h"

namespace onward {
namespace {

absl::StatusOr<int> LowerAll(Graph* graph, const OperatorSet& operators, const char* name) {
  int lowered = 0;
  for (Node* node = graph->first(); node != nullptr;) {
    Node* const next = node->next();
    if (node->op().id() == name) {
      RETURN_IF_ERROR(LowerNode(graph, &operators, node));
      ++lowered;
    }
    node = next;
  }
  return lowered;
}

}  // namespace

absl::StatusOr<int> OpenQuantisation(Graph* graph, const OperatorSet& operators) {
  int lowered = 0;
  // (The dynamic form is stated by the other; what dequantises looks at what quantises.)
  for (const char* name : {"DynamicQuantizeLinear", "QuantizeLinear", "DequantizeLinear"}) {
    ASSIGN_OR_RETURN(const int of_this, LowerAll(graph, operators, name));
    lowered += of_this;
  }
  return lowered;
}

}  // namespace onward
