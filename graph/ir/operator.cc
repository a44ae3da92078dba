#include "graph/ir/operator.h"

#include <algorithm>

#include "graph/ir/graph.h"

namespace onward {

int64_t LargestElements(const Node& node) {
  int64_t largest = 0;
  for (int i = 0; i < node.num_inputs(); ++i) {
    if (node.input(i) != nullptr) largest = std::max(largest, node.input(i)->type.elements());
  }
  for (int i = 0; i < node.num_outputs(); ++i) {
    if (node.output(i) != nullptr) largest = std::max(largest, node.output(i)->type.elements());
  }
  return largest;
}

double Operations(const Node& node) {
  const OperationsRule& rule = node.op().operations;
  return rule ? rule(node) : static_cast<double>(LargestElements(node));
}

}  // namespace onward
