#include "graph/ir/builder.h"
#include "graph/ops/operators.h"

namespace onward {

void AddLossOperators(OperatorFamily& list) {}

}  // namespace onward
