// Operators that only plans use.
#include "graph/ir/builder.h"
#include "graph/ops/operators.h"

namespace onward {

void AddLayoutOperators(OperatorFamily& list) {
  // y = x, in another order in memory. Graphs have no layouts: plans insert it where a
  // kernel wants its input in an order that it does not have.
  list.push_back(Operator(kOnward, "Reorder")
                     .Elementwise()
                     .Gradient([](GradientContext& g) {
                       g.dx(0, g.dy());
                       return absl::OkStatus();
                     })
                     .Infer([](InferContext& c) {
                       c.SetOutput(0, c.input(0).dtype, c.input(0).dims);
                       return absl::OkStatus();
                     })
                     .Example("g (float[2, 3, 4, 5] x) => (float[2, 3, 4, 5] y) "
                              "{ y = onward.Reorder(x) }"));
}

}  // namespace onward
