#include "graph/ir/builder.h"
#include "graph/ops/operators.h"

namespace onward {

void AddShapeOperators(OperatorFamily& list) {}

}  // namespace onward
