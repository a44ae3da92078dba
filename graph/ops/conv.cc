#include "graph/ir/builder.h"
#include "graph/ops/operators.h"

namespace onward {

void AddConvOperators(OperatorFamily& list) {}

}  // namespace onward
