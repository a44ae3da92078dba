// Reductions, searches and running sums along axes.
#include "absl/strings/str_cat.h"
#include "graph/base/status_macros.h"
#include "graph/ir/builder.h"
#include "graph/ops/checked.h"
#include "graph/ops/operators.h"
#include "graph/ops/rules.h"

namespace onward {
namespace {

// The axes, not negative, that a reduction goes over; empty: none.
absl::StatusOr<std::vector<int64_t>> ReducedAxes(const Node& node) {
  const int64_t rank = node.input(0)->rank();
  ASSIGN_OR_RETURN(std::vector<int64_t> axes, ConstantInts(node, 1));
  if (axes.empty() && node.attributes.Int("noop_with_empty_axes", 0) == 0) return Iota(rank);
  for (int64_t& axis : axes) axis = FromBack(axis, rank);
  return axes;
}

Dims WithOnes(Dims dims, const std::vector<int64_t>& axes) {
  for (int64_t axis : axes) dims[axis] = 1;
  return dims;
}

// What the rules of reductions read: x, and y and dy with the reduced axes kept
// as extents of 1, so that they broadcast against x.
struct Reduced {
  Builder& b;
  std::vector<int64_t> axes;
  int64_t count;  // elements behind one result
  Expr x, y, dy;
  Expr Sum(Expr a) const { return b.ReduceSum(a, axes, true); }
  Expr Is(Expr a, Expr c) const { return b.Op("Equal", {a, c}); }
};

// A block of a reduction: dx may be smaller than x where it is the same all along
// the reduced axes.
Operator Reduction(const char* name, const char* fill, Expr (*rule)(const Reduced&)) {
  const std::string x = *fill == 0 ? "x" : absl::StrCat(fill, "_x");
  const auto example = [&](const char* dims, const char* axes, const char* attributes,
                           const char* out) {
    return *axes == 0 ? absl::StrCat("g (float[", dims, "] ", x, ") => (float", out,
                                     " y) { y = ", name, attributes, "(", x, ") }")
                      : absl::StrCat("g (float[", dims, "] ", x, ") => (float", out,
                                     " y) { axes = Constant<value = int64", axes, ">() y = ", name,
                                     attributes, "(", x, ", axes) }");
  };
  Operator op("", name);
  op.Example(example("2, 3, 4", "[1] {1}", "", "[2, 1, 4]"))
      .Example(example("2, 3, 4", "[2] {-1, 0}", "<keepdims = 0>", "[3]"))
      .Example(example("2, 3", "", "", "[1, 1]"))
      .Example(example("2, 3", "", "<keepdims = 0>", " "))
      .Example(example("2, 3", "[0] {}", "<keepdims = 0>", " "))
      .Example(example("2, 3", "[0] {}", "<noop_with_empty_axes = 1>", "[2, 3]"))
      .Example(example("2, 3", "", "<noop_with_empty_axes = 1, keepdims = 0>", "[2, 3]"))
      .Example(example("2, 3", "[1] {-1}", "<noop_with_empty_axes = 1>", "[2, 1]"))
      .Example(example("2, 1", "[1] {1}", "<keepdims = 1>", "[2, 1]"))
      .Example(example("2, 0", "[1] {1}", "<keepdims = 0>", "[2]"))
      .Gradient([rule](GradientContext& g) -> absl::Status {
        ASSIGN_OR_RETURN(const std::vector<int64_t> axes, ReducedAxes(g.node()));
        const Dims kept = WithOnes(g.x().dims(), axes);
        int64_t count = 1;
        for (int64_t axis : axes) count *= g.x().dims()[axis];
        const Reduced r{
            g.b(), axes, count, g.x(), g.b().Reshape(g.y(), kept), g.b().Reshape(g.dy(), kept)};
        g.dx(0, g.b().Expand(rule(r), g.x().dims()));
        return absl::OkStatus();
      })
      .Samples([](const Node& node, absl::Span<const SampleAxis> inputs, int) {
        const SampleAxis& x = inputs[0];
        if (x.kind != SampleAxis::Kind::kAxis) return x;
        const absl::StatusOr<std::vector<int64_t>> axes = ReducedAxes(node);
        if (!axes.ok()) return SampleAxis::Mixed();
        int below = 0;
        for (int64_t axis : *axes) {
          if (axis == x.axis) return SampleAxis::Mixed();
          below += axis < x.axis ? 1 : 0;
        }
        const bool keep = node.attributes.Int("keepdims", 1) != 0;
        return SampleAxis::Axis(keep ? x.axis : x.axis - below, x.inner);
      });
  return op;
}

// Those that equal the result share dy in equal parts.
Expr ExtremeRule(const Reduced& r) {
  Expr chosen = AsNumber(r.Is(r.x, r.y), r.x);
  return r.dy / r.Sum(chosen) * chosen;
}

// dx_i = dy * (product of the others). With a zero among them it is zero; P / x_i,
// P being the product of all that are not zero, is the product of the others
// that are not.
Expr ProductRule(const Reduced& r) {
  Expr zero = r.Is(r.x, r.b.Like(r.x, 0));
  Expr nonzero = r.b.Where(zero, r.b.Like(r.x, 1), r.x);
  Expr product = r.axes.empty() ? nonzero
                                : r.b.Op("ReduceProd", {nonzero, r.b.Ints(r.axes)},
                                         {{"keepdims", int64_t{1}}});
  Expr is_zero = AsNumber(zero, r.x);
  Expr other_zeros = r.Sum(is_zero) - is_zero;
  return KeepWhere(r.Is(other_zeros, r.b.Like(r.x, 0)), r.dy * (product / nonzero));
}

// Reductions that take integers too.
Operator WithIntegers(Operator op) {
  op.Example(
      absl::StrCat("g (int64[2, 9] signed_x) => (int64[2, 1] y) "
                   "{ axes = Constant<value = int64[1] {1}>() y = ",
                   op.name, "(signed_x, axes) }"));
  return op;
}

void AddReductions(OperatorFamily& list) {
  // y = sum of x;  dx = dy
  list.push_back(WithIntegers(Reduction("ReduceSum", "", [](const Reduced& r) { return r.dy; })));
  // y = sum of x / n;  dx = dy / n
  list.push_back(WithIntegers(Reduction(
      "ReduceMean", "", [](const Reduced& r) { return r.dy / static_cast<double>(r.count); })));
  list.push_back(WithIntegers(Reduction("ReduceMax", "", ExtremeRule))
                     .Example("g (bool[2, 3] x) => (bool[1, 1] y) { y = ReduceMax(x) }"));
  list.push_back(WithIntegers(Reduction("ReduceMin", "", ExtremeRule))
                     .Example("g (bool[2, 3] x) => (bool[1, 1] y) { y = ReduceMin(x) }"));
  list.push_back(WithIntegers(Reduction("ReduceProd", "", ProductRule)));
  // y = sum of |x|;  dx = dy * sign(x)
  list.push_back(WithIntegers(
      Reduction("ReduceL1", "", [](const Reduced& r) { return r.dy * r.b.Op("Sign", {r.x}); })));
  // y = sqrt(sum of x x);  dx = dy * x / y, and 0 where all are 0
  list.push_back(WithIntegers(Reduction("ReduceL2", "", [](const Reduced& r) {
    Expr length = r.b.Where(r.Is(r.y, r.b.Like(r.y, 0)), r.b.Like(r.y, 1), r.y);
    return r.dy * (r.x / length);
  })));
  // y = sum of x x;  dx = 2 dy x
  list.push_back(WithIntegers(
      Reduction("ReduceSumSquare", "", [](const Reduced& r) { return 2 * (r.dy * r.x); })));
  // y = log(sum of x);  dx = dy / sum
  list.push_back(
      Reduction("ReduceLogSum", "positive", [](const Reduced& r) { return r.dy / r.Sum(r.x); }));
  // y = log(sum of exp(x));  dx = dy * e / sum of e with e = exp(x - max x): exp(x - y)
  // would keep y's rounding, which is large where y is
  list.push_back(Reduction("ReduceLogSumExp", "large", [](const Reduced& r) {
    Expr most = r.axes.empty()
                    ? r.x
                    : r.b.Op("ReduceMax", {r.x, r.b.Ints(r.axes)}, {{"keepdims", int64_t{1}}});
    Expr e = r.b.Op("Exp", {r.x - most});
    return r.dy * (e / r.Sum(e));
  }));
}

Operator Search(const char* name) {
  Operator op("", name);
  op.NotDifferentiable("its result is an index")
      .Samples([](const Node& node, absl::Span<const SampleAxis> inputs, int) {
        const SampleAxis& x = inputs[0];
        if (x.kind != SampleAxis::Kind::kAxis) return x;
        const int64_t axis = FromBack(node.attributes.Int("axis", 0), node.input(0)->rank());
        if (axis == x.axis) return SampleAxis::Mixed();
        const bool moves = node.attributes.Int("keepdims", 1) == 0 && axis < x.axis;
        return SampleAxis::Axis(x.axis - (moves ? 1 : 0), x.inner);
      });
  const auto example = [&](const char* x, const char* attributes, const char* out) {
    op.Example(
        absl::StrCat("g (", x, " x) => (int64", out, " y) { y = ", name, attributes, "(x) }"));
  };
  example("float[3, 4]", "", "[1, 4]");
  example("float[3, 4]", "<axis = 1, keepdims = 0>", "[3]");
  example("float[2, 3, 4]", "<axis = -2, keepdims = 0>", "[2, 4]");
  op.Example(absl::StrCat("g (int64[3, 9] labels_x) => (int64[3, 1] y) { y = ", name,
                          "<axis = 1>(labels_x) }"));
  op.Example(absl::StrCat("g (int32[3, 9] labels_x) => (int64[3, 1] y) { y = ", name,
                          "<axis = 1, select_last_index = 1>(labels_x) }"));
  return op;
}

// Samples of an operator whose input 1 is the axis that it goes along.
SampleAxis SamplesOffGivenAxis(const Node& node, absl::Span<const SampleAxis> inputs, int) {
  std::vector<int64_t> axis;
  if (!ConstantInts(node, 1, &axis)) return SampleAxis::Mixed();
  return SamplesUnless(inputs[0], FromBack(axis[0], node.input(0)->rank()) == inputs[0].axis);
}

// y_k = x_0 + .. + x_k (exclusive: to k - 1; reverse: from the end);
// dx = the same of dy from the other end
Operator CumSum() {
  Operator op("", "CumSum");
  for (const char* attributes :
       {"", "<exclusive = 1>", "<reverse = 1>", "<exclusive = 1, reverse = 1>"}) {
    op.Example(
        absl::StrCat("g (float[2, 4, 3] x) => (float[2, 4, 3] y) "
                     "{ axis = Constant<value_int = -2>() y = CumSum",
                     attributes, "(x, axis) }"));
  }
  op.Example(
        "g (int64[5] signed_x) => (int64[5] y) "
        "{ axis = Constant<value = int32 {0}>() y = CumSum(signed_x, axis) }")
      .Example(
          "g (float[2, 0] x) => (float[2, 0] y) "
          "{ axis = Constant<value_int = 1>() y = CumSum(x, axis) }")
      .Gradient([](GradientContext& g) {
        const AttributeValue reverse = int64_t{g.attributes().Int("reverse", 0) == 0 ? 1 : 0};
        const AttributeValue exclusive = g.attributes().Int("exclusive", 0);
        g.dx(0, g.b().Op("CumSum", {g.dy(), g.x(1)},
                         {{"exclusive", exclusive}, {"reverse", reverse}}));
        return absl::OkStatus();
      })
      .Samples(SamplesOffGivenAxis);
  return op;
}

// y_k = x_0 * .. * x_k (exclusive: to k - 1; reverse: from the end). In doubling steps
// y = y * (y moved by s, with ones behind it), s = 1, 2, 4, ..: slopes are right at zeros
// too, and there are log2(n) steps.
absl::Status LowerCumProd(LowerContext& l) {
  Builder& b = l.b();
  ASSIGN_OR_RETURN(const std::vector<int64_t> given, ConstantInts(l.node(), 1));
  const Dims dims = l.x().dims();
  const int64_t axis = FromBack(given[0], l.x().rank()), n = dims[axis];
  const bool reverse = l.attributes().Int("reverse", 0) != 0;
  const auto moved = [&](Expr y, int64_t by) {
    Dims filled = dims;
    filled[axis] = by;
    Expr ones = b.Expand(b.Like(y, 1), filled);
    Expr kept = b.Op("Slice", {y, OneInt(b, reverse ? by : 0), OneInt(b, reverse ? n : n - by),
                               OneInt(b, axis)});
    return b.Op("Concat", reverse ? std::vector<Expr>{kept, ones} : std::vector<Expr>{ones, kept},
                {{"axis", axis}});
  };
  Expr y = b.Op("Identity", {l.x()});
  if (n > 0 && l.attributes().Int("exclusive", 0) != 0) y = moved(y, 1);
  for (int64_t by = 1; by < n; by *= 2) y = y * moved(y, by);
  l.y(0, y);
  return absl::OkStatus();
}

absl::Status CheckCumProd(InferContext& c) {
  const Tensor* axis = c.constant(1);
  if (axis == nullptr) return absl::OkStatus();  // told when it is lowered
  if (axis->elements() != 1) return absl::InvalidArgumentError("axis is not one number");
  return NormalizeAxis(axis->IntAt(0), c.input(0).dims.size()).status();
}

Operator CumProd() {
  Operator op("", "CumProd");
  for (const char* attributes :
       {"", "<exclusive = 1>", "<reverse = 1>", "<exclusive = 1, reverse = 1>"}) {
    op.Example(
        absl::StrCat("g (float[2, 5, 3] x) => (float[2, 5, 3] y) "
                     "{ axis = Constant<value_int = -2>() y = CumProd",
                     attributes, "(x, axis) }"));
  }
  op.Example(
        "g (int64[5] signed_x) => (int64[5] y) "
        "{ axis = Constant<value = int32 {0}>() y = CumProd(signed_x, axis) }")
      .Example(
          "g (float[2, 0] x) => (float[2, 0] y) "
          "{ axis = Constant<value_int = 1>() y = CumProd<exclusive = 1>(x, axis) }")
      .Example(
          "g (float[1, 2] x) => (float[1, 2] y) "
          "{ axis = Constant<value_int = 0>() y = CumProd<exclusive = 1>(x, axis) }")
      .Infer(OnnxInferenceAnd("CumProd", CheckCumProd))
      .AlwaysLower(LowerCumProd)
      .Samples(SamplesOffGivenAxis);
  return op;
}

}  // namespace

void AddReduceOperators(OperatorFamily& list) {
  AddReductions(list);
  list.push_back(Search("ArgMax"));
  list.push_back(Search("ArgMin"));
  list.push_back(CumSum());
  list.push_back(CumProd());
}

}  // namespace onward
