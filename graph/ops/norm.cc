#include "graph/ir/builder.h"
#include "graph/ops/operators.h"

namespace onward {

void AddNormOperators(OperatorFamily& list) {}

}  // namespace onward
