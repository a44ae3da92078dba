// Operators that work element by element on broadcast inputs.
#include "graph/ir/builder.h"
#include "graph/ops/operators.h"

namespace onward {

void AddElementwiseOperators(OperatorFamily& list) {
  // y = a + b;  da = dy, db = dy
  list.push_back(Operator("", "Add")
                     .Elementwise()
                     .Example("g (float[2, 3] a, float[3] b) => (float[2, 3] y) { y = Add(a, b) }")
                     .Gradient([](GradientContext& g) {
                       g.dx(0, g.dy());
                       g.dx(1, g.dy());
                       return absl::OkStatus();
                     }));

  // y = x
  list.push_back(Operator("", "Identity")
                     .Elementwise()
                     .Example("g (float[2, 3] x) => (float[2, 3] y) { y = Identity(x) }")
                     .Gradient([](GradientContext& g) {
                       g.dx(0, g.dy());
                       return absl::OkStatus();
                     }));
}

}  // namespace onward
