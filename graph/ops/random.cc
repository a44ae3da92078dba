#include "graph/ir/builder.h"
#include "graph/ops/operators.h"

namespace onward {

void AddRandomOperators(OperatorFamily& list) {}

}  // namespace onward
