#include "graph/ir/builder.h"
#include "graph/ops/operators.h"

namespace onward {

void AddReduceOperators(OperatorFamily& list) {}

}  // namespace onward
