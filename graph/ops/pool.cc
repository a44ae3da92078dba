#include "graph/ir/builder.h"
#include "graph/ops/operators.h"

namespace onward {

void AddPoolOperators(OperatorFamily& list) {}

}  // namespace onward
