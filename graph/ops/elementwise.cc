// Elementwise operators on broadcast inputs: arithmetic, comparison, logic, choice.
// (Functions of one real are in elementwise_math.cc.)
#include "absl/strings/str_cat.h"
#include "graph/ir/builder.h"
#include "graph/ops/operators.h"
#include "graph/ops/rules.h"

namespace onward {
namespace {

void AddArithmetic(OperatorFamily& list) {
  // y = a + b;  da = dy, db = dy
  list.push_back(
      Operator("", "Add")
          .Elementwise()
          .Example("g (float[2, 3] a, float[3] b) => (float[2, 3] y) { y = Add(a, b) }")
          .Example("g (float[2, 1] a, float[1, 3] b) => (float[2, 3] y) { y = Add(a, b) }")
          .Example("g (float[0, 3] a, float[3] b) => (float[0, 3] y) { y = Add(a, b) }")
          .Example("g (float x) => (float y) { y = Add(x, x) }")
          .Example("g (int64[2] signed_a, int64[2] b) => (int64[2] y) { y = Add(signed_a, b) }")
          .Gradient([](GradientContext& g) {
            g.dx(0, g.dy());
            g.dx(1, g.dy());
            return absl::OkStatus();
          }));

  // y = a - b;  da = dy, db = -dy
  list.push_back(
      Operator("", "Sub")
          .Elementwise()
          .Example("g (float[2, 3] a, float[3] b) => (float[2, 3] y) { y = Sub(a, b) }")
          .Example("g (float[3] a, float[2, 1] b) => (float[2, 3] y) { y = Sub(a, b) }")
          .Example("g (float[3] x) => (float[3] y) { y = Sub(x, x) }")
          .Example("g (int32[2] signed_a, int32[2] b) => (int32[2] y) { y = Sub(signed_a, b) }")
          .Gradient([](GradientContext& g) {
            g.dx(0, g.dy());
            if (g.wants(1)) g.dx(1, -g.dy());
            return absl::OkStatus();
          }));

  // y = a * b;  da = dy * b, db = dy * a
  list.push_back(Operator("", "Mul")
                     .Elementwise()
                     .Example("g (float[2, 3] a, float[3] b) => (float[2, 3] y) { y = Mul(a, b) }")
                     .Example("g (float[2, 3] a, float b) => (float[2, 3] y) { y = Mul(a, b) }")
                     .Example("g (float[3] x) => (float[3] y) { y = Mul(x, x) }")
                     .Example("g (int64[3] signed_a, int64[2, 1] signed_b) => (int64[2, 3] y) "
                              "{ y = Mul(signed_a, signed_b) }")
                     .Gradient([](GradientContext& g) {
                       if (g.wants(0)) g.dx(0, g.dy() * g.x(1));
                       if (g.wants(1)) g.dx(1, g.dy() * g.x(0));
                       return absl::OkStatus();
                     }));
}

void AddDivisions(OperatorFamily& list) {
  // y = a / b;  da = dy / b, db = -dy * y / b
  list.push_back(Operator("", "Div")
                     .Elementwise()
                     .Example("g (float[2, 3] a, float[3] positive_b) => (float[2, 3] y) { y = "
                              "Div(a, positive_b) }")
                     .Example("g (float[3] a, float[2, 1] positive_b) => (float[2, 3] y) { y = "
                              "Div(a, positive_b) }")
                     .Example("g (float[3] x) => (float[3] y) { y = Div(x, x) }")
                     .Example("g (int64[7] signed_a) => (int64[7] y) "
                              "{ two = Constant<value = int64[1] {2}>() y = Div(signed_a, two) }")
                     .Gradient([](GradientContext& g) {
                       Expr da = g.dy() / g.x(1);
                       g.dx(0, da);
                       if (g.wants(1)) g.dx(1, -(da * g.y()));
                       return absl::OkStatus();
                     }));

  // y = a - b * q, q = floor(a / b) or, with fmod, trunc(a / b);  da = dy, db = -dy * q
  list.push_back(
      Operator("", "Mod")
          .Elementwise()
          .Example("g (float[2, 5] large_a, float[5] unit_b) => (float[2, 5] y) "
                   "{ y = Mod<fmod = 1>(large_a, unit_b) }")
          .Example("g (float[2, 5] large_a, float[5] unit_b) => (float[2, 5] y) "
                   "{ y = Mod(large_a, unit_b) }")
          .Example("g (int64[9] signed_a) => (int64[9] y) "
                   "{ b = Constant<value = int64[1] {-2}>() y = Mod(signed_a, b) }")
          .Example("g (int32[9] signed_a) => (int32[9] y) "
                   "{ b = Constant<value = int32[1] {2}>() y = Mod<fmod = 1>(signed_a, b) }")
          .Gradient([](GradientContext& g) {
            g.dx(0, g.dy());
            if (g.wants(1)) {
              g.dx(1, -(g.dy() * g.b().Op("Round", {(g.x(0) - g.y()) / g.x(1)})));
            }
            return absl::OkStatus();
          }));
}

void AddSums(OperatorFamily& list) {
  // y = -x;  dx = -dy
  list.push_back(Operator("", "Neg")
                     .Elementwise()
                     .Example("g (float[2, 3] x) => (float[2, 3] y) { y = Neg(x) }")
                     .Example("g (int8[4] signed_x) => (int8[4] y) { y = Neg(signed_x) }")
                     .Gradient([](GradientContext& g) {
                       g.dx(0, -g.dy());
                       return absl::OkStatus();
                     }));

  // y = sum of x_i;  dx_i = dy
  list.push_back(Operator("", "Sum")
                     .Elementwise()
                     .Example("g (float[2, 3] a, float[3] b, float[2, 1] c) => (float[2, 3] y) { y "
                              "= Sum(a, b, c) }")
                     .Example("g (float[3] x) => (float[3] y) { y = Sum(x, x, x) }")
                     .Example("g (float[3] x) => (float[3] y) { y = Sum(x) }")
                     .Gradient([](GradientContext& g) {
                       for (int i = 0; i < g.num_inputs(); ++i) g.dx(i, g.dy());
                       return absl::OkStatus();
                     }));

  // y = (sum of x_i) / n;  dx_i = dy / n
  list.push_back(Operator("", "Mean")
                     .Elementwise()
                     .Example("g (float[2, 3] a, float[3] b, float[2, 1] c) => (float[2, 3] y) { y "
                              "= Mean(a, b, c) }")
                     .Example("g (float[3] x) => (float[3] y) { y = Mean(x, x) }")
                     .Gradient([](GradientContext& g) {
                       Expr part = g.dy() / g.num_inputs();
                       for (int i = 0; i < g.num_inputs(); ++i) g.dx(i, part);
                       return absl::OkStatus();
                     }));
}

// y = x ^ e;  dx = dy * e * x^(e - 1), and 0 where e = 0, whatever x;
//             de = dy * y * log(x) where x > 0, and 0 elsewhere
absl::Status PowGradient(GradientContext& g) {
  Builder& b = g.b();
  Expr x = g.x(0);
  Expr e = b.Cast(g.x(1), x.dtype());
  const Tensor* known = g.x(1).value()->constant.get();
  const bool square = known != nullptr && known->elements() == 1 && known->At(0) == 2;
  if (g.wants(0) && square) {
    g.dx(0, 2 * (g.dy() * x));
  } else if (g.wants(0)) {
    Expr slope = e * b.Op("Pow", {x, e - 1});
    g.dx(0, g.dy() * b.Where(b.Op("Equal", {e, b.Like(e, 0)}), b.Like(e, 0), slope));
  }
  if (g.wants(1)) {
    Expr positive = b.Op("Greater", {x, b.Like(x, 0)});
    Expr log = b.Op("Log", {b.Where(positive, x, b.Like(x, 1))});
    g.dx(1, b.Cast(KeepWhere(positive, g.dy() * g.y() * log), g.x(1).dtype()));
  }
  return absl::OkStatus();
}

// y = max of x_i (or min): those that equal y share dy in equal parts.
absl::Status ExtremeGradient(GradientContext& g) {
  std::vector<Expr> chosen;
  for (int i = 0; i < g.num_inputs(); ++i) {
    chosen.push_back(AsNumber(g.b().Op("Equal", {g.x(i), g.y()}), g.y()));
  }
  Expr count = chosen[0];
  for (size_t i = 1; i < chosen.size(); ++i) count = count + chosen[i];
  Expr share = g.dy() / count;
  for (int i = 0; i < g.num_inputs(); ++i) {
    if (g.wants(i)) g.dx(i, share * chosen[i]);
  }
  return absl::OkStatus();
}

void AddPowAndExtremes(OperatorFamily& list) {
  list.push_back(
      Operator("", "Pow")
          .Elementwise()
          .Example("g (float[2, 3] positive_x, float[3] e) => (float[2, 3] y) { y = "
                   "Pow(positive_x, e) }")
          .Example("g (float[3] positive_x, float[2, 1] e) => (float[2, 3] y) { y = "
                   "Pow(positive_x, e) }")
          .Example(
              "g (float[2, 3] x, int64[3] labels_e) => (float[2, 3] y) { y = Pow(x, labels_e) }")
          .Example("g (float[2, 3] x) => (float[2, 3] y) "
                   "{ e = Constant<value = float {2.0}>() y = Pow(x, e) }")
          .Example("g (float[2, 3] x) => (float[2, 3] y) "
                   "{ e = Constant<value = int32[3] {0, 3, -1}>() y = Pow(x, e) }")
          .Example("g (int64[7] signed_x) => (int64[7] y) "
                   "{ e = Constant<value = int64 {3}>() y = Pow(signed_x, e) }")
          .Example("g (int32[7] signed_x) => (int32[7] y) "
                   "{ e = Constant<value = float {2.0}>() y = Pow(signed_x, e) }")
          .Gradient(PowGradient));

  list.push_back(Operator("", "Max")
                     .Elementwise()
                     .Example("g (float[2, 3] a, float[3] b) => (float[2, 3] y) { y = Max(a, b) }")
                     .Example("g (float[2, 3] a, float[3] b, float[2, 1] c) => (float[2, 3] y) { y "
                              "= Max(a, b, c) }")
                     .Example("g (float[3] x) => (float[3] y) { y = Max(x, x, x) }")
                     .Example("g (float[3] x) => (float[3] y) { y = Max(x) }")
                     .Example("g (int64[5] signed_a, int64[5] signed_b) => (int64[5] y) { y = "
                              "Max(signed_a, signed_b) }")
                     .Gradient(ExtremeGradient));

  list.push_back(Operator("", "Min")
                     .Elementwise()
                     .Example("g (float[2, 3] a, float[3] b) => (float[2, 3] y) { y = Min(a, b) }")
                     .Example("g (float[2, 3] a, float[3] b, float[2, 1] c) => (float[2, 3] y) { y "
                              "= Min(a, b, c) }")
                     .Example("g (float[3] x) => (float[3] y) { y = Min(x, x, x) }")
                     .Example("g (int8[5] signed_a, int8[5] signed_b) => (int8[5] y) { y = "
                              "Min(signed_a, signed_b) }")
                     .Gradient(ExtremeGradient));
}

// y = min(max(x, low), high).  dx = dy where low <= x <= high;
// dlow = sum of dy where x < low <= high;  dhigh = sum of dy where max(x, low) > high
absl::Status ClipGradient(GradientContext& g) {
  Builder& b = g.b();
  Expr over, under;
  Expr raised = g.x(0);
  if (g.has_x(1)) {
    under = b.Op("Less", {raised, g.x(1)});
    raised = b.Op("Max", {raised, g.x(1)});
  }
  if (g.has_x(2)) over = b.Op("Greater", {raised, g.x(2)});
  if (under && over) under = b.Op("And", {under, b.Op("Not", {over})});
  const Expr zero = b.Like(g.dy(), 0);
  Expr dx = g.dy();
  if (under) dx = b.Where(under, zero, dx);
  if (over) dx = b.Where(over, zero, dx);
  g.dx(0, dx);
  if (g.wants(1)) g.dx(1, b.Where(under, g.dy(), zero));
  if (g.wants(2)) g.dx(2, b.Where(over, g.dy(), zero));
  return absl::OkStatus();
}

void AddChoice(OperatorFamily& list) {
  // y = a where the condition holds, b elsewhere
  list.push_back(
      Operator("", "Where")
          .Elementwise()
          .Example("g (bool[2, 3] c, float[2, 3] a, float[3] b) => (float[2, 3] y) { y = Where(c, "
                   "a, b) }")
          .Example(
              "g (bool[3] c, float[2, 1] a, float b) => (float[2, 3] y) { y = Where(c, a, b) }")
          .Example("g (bool[3] c, int64[3] signed_a, int64[3] b) => (int64[3] y) { y = Where(c, "
                   "signed_a, b) }")
          .Gradient([](GradientContext& g) {
            Expr zero = g.b().Like(g.dy(), 0);
            if (g.wants(1)) g.dx(1, g.b().Where(g.x(0), g.dy(), zero));
            if (g.wants(2)) g.dx(2, g.b().Where(g.x(0), zero, g.dy()));
            return absl::OkStatus();
          }));

  list.push_back(
      Operator("", "Clip")
          .Elementwise()
          .Example("g (float[2, 5] x, float low) => (float[2, 5] y) "
                   "{ high = Constant<value = float {0.5}>() y = Clip(x, low, high) }")
          .Example(
              "g (float[9] x, float low, float high) => (float[9] y) { y = Clip(x, low, high) }")
          .Example("g (float[9] x, float low) => (float[9] y) { y = Clip(x, low) }")
          .Example("g (float[9] x, float high) => (float[9] y) { y = Clip(x, , high) }")
          .Example("g (float[9] x) => (float[9] y) { y = Clip(x) }")
          .Example("g (float[9] x) => (float[9] y) { low = Constant<value = float {0.5}>() "
                   "high = Constant<value = float {-0.5}>() y = Clip(x, low, high) }")
          .Example("g (int64[7] signed_x) => (int64[7] y) { low = Constant<value = int64 {-1}>() "
                   "high = Constant<value = int64 {2}>() y = Clip(signed_x, low, high) }")
          .Gradient(ClipGradient));
}

void AddIdentity(OperatorFamily& list) {
  // y = x
  list.push_back(Operator("", "Identity")
                     .Elementwise()
                     .Example("g (float[2, 3] x) => (float[2, 3] y) { y = Identity(x) }")
                     .Example("g (bool[3] x) => (bool[3] y) { y = Identity(x) }")
                     .Gradient([](GradientContext& g) {
                       g.dx(0, g.dy());
                       return absl::OkStatus();
                     }));
}

// A comparison of numbers. Its result is a truth value.
Operator Comparison(const char* name, bool of_bools) {
  Operator op("", name);
  op.Elementwise()
      .Example(
          absl::StrCat("g (float[2, 3] a, float[3] b) => (bool[2, 3] y) { y = ", name, "(a, b) }"))
      .Example(absl::StrCat("g (float[2, 3] a) => (bool[2, 3] y) { y = ", name, "(a, a) }"))
      .Example(absl::StrCat(
          "g (int64[2, 3] labels_a, int64[2, 1] labels_b) => (bool[2, 3] y) { y = ", name,
          "(labels_a, labels_b) }"))
      .Example(absl::StrCat("g (int32[5] signed_a, int32[5] signed_b) => (bool[5] y) { y = ", name,
                            "(signed_a, signed_b) }"))
      .NotDifferentiable("its result is a truth value");
  if (of_bools) {
    op.Example(
        absl::StrCat("g (bool[2, 3] a, bool[3] b) => (bool[2, 3] y) { y = ", name, "(a, b) }"));
  }
  return op;
}

Operator Logic(const char* name) {
  Operator op("", name);
  op.Elementwise()
      .Example(
          absl::StrCat("g (bool[2, 3] a, bool[3] b) => (bool[2, 3] y) { y = ", name, "(a, b) }"))
      .Example(
          absl::StrCat("g (bool[3] a, bool[2, 1] b) => (bool[2, 3] y) { y = ", name, "(a, b) }"))
      .NotDifferentiable("its result is a truth value");
  return op;
}

Operator Bitwise(const char* name) {
  Operator op("", name);
  op.Elementwise()
      .Example(absl::StrCat("g (int32[2, 3] signed_a, int32[3] signed_b) => (int32[2, 3] y) { y = ",
                            name, "(signed_a, signed_b) }"))
      .Example(absl::StrCat("g (uint8[2, 3] labels_a, uint8[3] labels_b) => (uint8[2, 3] y) { y = ",
                            name, "(labels_a, labels_b) }"))
      .NotDifferentiable("its result is an integer");
  return op;
}

void AddComparisonAndLogic(OperatorFamily& list) {
  list.push_back(Comparison("Equal", true));
  list.push_back(Comparison("Greater", false));
  list.push_back(Comparison("GreaterOrEqual", false));
  list.push_back(Comparison("Less", false));
  list.push_back(Comparison("LessOrEqual", false));
  list.push_back(Logic("And"));
  list.push_back(Logic("Or"));
  list.push_back(Logic("Xor"));
  list.push_back(Operator("", "Not")
                     .Elementwise()
                     .Example("g (bool[2, 3] x) => (bool[2, 3] y) { y = Not(x) }")
                     .NotDifferentiable("its result is a truth value"));
  list.push_back(Bitwise("BitwiseAnd"));
  list.push_back(Bitwise("BitwiseOr"));
  list.push_back(Bitwise("BitwiseXor"));
  list.push_back(Operator("", "BitwiseNot")
                     .Elementwise()
                     .Example("g (int32[5] signed_x) => (int32[5] y) { y = BitwiseNot(signed_x) }")
                     .Example("g (uint8[5] labels_x) => (uint8[5] y) { y = BitwiseNot(labels_x) }")
                     .NotDifferentiable("its result is an integer"));
  list.push_back(Operator("", "BitShift")
                     .Elementwise()
                     .Example("g (uint8[2, 3] labels_a, uint8[3] labels_n) => (uint8[2, 3] y) "
                              "{ y = BitShift<direction = \"LEFT\">(labels_a, labels_n) }")
                     .Example("g (uint8[2, 3] labels_a, uint8[3] labels_n) => (uint8[2, 3] y) "
                              "{ y = BitShift<direction = \"RIGHT\">(labels_a, labels_n) }")
                     .Example("g (int32[2, 3] labels_a) => (int32[2, 3] y) { m = Neg(labels_a) "
                              "n = Constant<value = int32[3] {-1, 1, 32}>() "
                              "y = BitShift<direction = \"RIGHT\">(m, n) }")
                     .Example("g (int8[2, 3] labels_a) => (int8[2, 3] y) { "
                              "n = Constant<value = int8[3] {-1, 7, 8}>() "
                              "y = BitShift<direction = \"LEFT\">(labels_a, n) }")
                     .NotDifferentiable("its result is an integer"));
  list.push_back(Operator("", "IsNaN")
                     .Elementwise()
                     .Example("g (float[2, 3] x) => (bool[2, 3] y) "
                              "{ zero = Sub(x, x) nan = Div(zero, zero) y = IsNaN(nan) }")
                     .Example("g (float[2, 3] x) => (bool[2, 3] y) { y = IsNaN(x) }")
                     .NotDifferentiable("its result is a truth value"));
  Operator is_inf("", "IsInf");
  is_inf.Elementwise().NotDifferentiable("its result is a truth value");
  for (const char* attributes : {"", "<detect_negative = 0>", "<detect_positive = 0>",
                                 "<detect_negative = 0, detect_positive = 0>"}) {
    is_inf.Example(
        absl::StrCat("g (float[2, 3] x) => (bool[2, 3] y) "
                     "{ zero = Sub(x, x) infinite = Div(x, zero) y = IsInf",
                     attributes, "(infinite) }"));
  }
  list.push_back(is_inf);
}

}  // namespace

void AddElementwiseOperators(OperatorFamily& list) {
  AddArithmetic(list);
  AddDivisions(list);
  AddSums(list);
  AddPowAndExtremes(list);
  AddChoice(list);
  AddIdentity(list);
  AddComparisonAndLogic(list);
}

}  // namespace onward
