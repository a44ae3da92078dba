// Conversions of data types.
#include "graph/ir/builder.h"
#include "graph/ops/operators.h"

namespace onward {

void AddCastOperators(OperatorFamily& list) {
  // y = x in another type;  dx = dy in x's type (no gradient leaves an integer)
  list.push_back(
      Operator("", "Cast")
          .Elementwise()
          .Example("g (float[2, 3] x) => (double[2, 3] y) { y = Cast<to = 11>(x) }")
          .Example("g (double[2, 3] x) => (float[2, 3] z, double[2, 3] y) "
                   "{ z = Cast<to = 1>(x) y = Cast<to = 11>(x) }")
          .Example("g (float[9] large_x) => (int64[9] y) { y = Cast<to = 7>(large_x) }")
          .Example("g (float[9] large_x) => (int32[9] y) { y = Cast<to = 6>(large_x) }")
          .Example("g (float[9] large_x) => (uint8[9] y) { p = Abs(large_x) y = Cast<to = 2>(p) }")
          .Example("g (float[3] x) => (bool[3] y) { y = Cast<to = 9>(x) }")
          .Example("g (int64[5] signed_x) => (float[5] y) { y = Cast<to = 1>(signed_x) }")
          .Example("g (bool[5] x) => (float[5] y) { y = Cast<to = 1>(x) }")
          .Example("g (int64[5] signed_x) => (bool[5] y) { y = Cast<to = 9>(signed_x) }")
          // To every other type and back.
          .Example("g (float[9] large_x) => (float16[9] h, float[9] y) "
                   "{ h = Cast<to = 10>(large_x) y = Cast<to = 1>(h) }")
          .Example("g (float[9] large_x) => (float[9] y) "
                   "{ h = Cast<to = 16>(large_x) y = Cast<to = 1>(h) }")
          .Example("g (float[9] large_x) => (float[9] y) "
                   "{ h = Cast<to = 17>(large_x) y = Cast<to = 1>(h) }")
          .Example("g (float[9] large_x) => (float[9] y) "
                   "{ h = Cast<to = 18, saturate = 0>(large_x) y = Cast<to = 1>(h) }")
          .Example("g (float[9] large_x) => (float[9] y) "
                   "{ h = Cast<to = 19, saturate = 1>(large_x) y = Cast<to = 1>(h) }")
          .Example("g (float[9] large_x) => (float[9] y) "
                   "{ h = Cast<to = 20>(large_x) y = Cast<to = 1>(h) }")
          .Example("g (float[9] positive_x) => (float[9] y) { h = Cast<to = 24, round_mode = "
                   "\"down\">(positive_x) y = Cast<to = 1>(h) }")
          .Example("g (float[9] positive_x) => (float[9] y) { h = Cast<to = 24, round_mode = "
                   "\"nearest\">(positive_x) y = Cast<to = 1>(h) }")
          .Example("g (float[9] large_x) => (float[9] y) "
                   "{ h = Cast<to = 23>(large_x) y = Cast<to = 1>(h) }")
          .Example("g (int32[9] signed_x) => (int32[9] y) "
                   "{ h = Cast<to = 22>(signed_x) y = Cast<to = 6>(h) }")
          .Example("g (float[9] large_x) => (float[9] y) "
                   "{ h = Cast<to = 8>(large_x) y = Cast<to = 1>(h) }")
          .Gradient([](GradientContext& g) {
            g.dx(0, g.b().Cast(g.dy(), g.x().dtype()));
            return absl::OkStatus();
          }));

  // The same bits as another type of as many.
  list.push_back(
      Operator("", "BitCast")
          .Elementwise()
          .Example("g (double[2, 3] x) => (int64[2, 3] y) { y = BitCast<to = 7>(x) }")
          .Example("g (int64[5] signed_x) => (double[5] y) { y = BitCast<to = 11>(signed_x) }")
          .Example("g (uint8[5] x) => (int8[5] y) { y = BitCast<to = 3>(x) }")
          .NotDifferentiable("its result is bits"));

  // y = x in the type of the second input
  list.push_back(
      Operator("", "CastLike")
          .Elementwise()
          // The second input lends its type only.
          .Samples([](const Node&, absl::Span<const SampleAxis> inputs, int) { return inputs[0]; })
          .Example("g (float[2, 3] x, double[1] t) => (double[2, 3] y) { y = CastLike(x, t) }")
          .Example("g (int64[3] x, float[1] t) => (float[3] y) { y = CastLike(x, t) }")
          .AlwaysLower([](LowerContext& l) {
            Expr x = l.x(0);
            Attributes attributes = l.attributes();
            attributes.Set("to", static_cast<int64_t>(l.x(1).dtype()));
            l.y(0, x.dtype() == l.x(1).dtype() ? l.b().Op("Identity", {x})
                                               : l.b().Op("Cast", {x}, std::move(attributes)));
            return absl::OkStatus();
          }));
}

}  // namespace onward
