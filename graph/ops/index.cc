#include "graph/ir/builder.h"
#include "graph/ops/operators.h"

namespace onward {

void AddIndexOperators(OperatorFamily& list) {}

}  // namespace onward
