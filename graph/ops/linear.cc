#include "graph/ir/builder.h"
#include "graph/ops/operators.h"

namespace onward {

void AddLinearOperators(OperatorFamily& list) {}

}  // namespace onward
