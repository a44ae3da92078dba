#include "graph/ir/builder.h"
#include "graph/ops/operators.h"

namespace onward {

void AddOptimizerOperators(OperatorFamily& list) {}

}  // namespace onward
