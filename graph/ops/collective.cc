#include "graph/ir/builder.h"
#include "graph/ops/operators.h"

namespace onward {

void AddCollectiveOperators(OperatorFamily& list) {}

}  // namespace onward
