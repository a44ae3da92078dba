// Functions of one real, element by element: powers, exponentials, angles, activations.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "graph/ir/builder.h"
#include "graph/ops/checked.h"
#include "graph/ops/operators.h"
#include "graph/ops/rules.h"

namespace onward {
namespace {

// What a rule y = f(x) gives: dx from dy, x and y.
struct Unary {
  Builder& b;
  const Attributes& attributes;
  Expr x, y, dy;
  Expr Op(const char* name, Expr a) const { return b.Op(name, {a}); }
  Expr Sigmoid(Expr a) const { return b.Op("Sigmoid", {a}); }
  Expr Above(Expr a, double bound) const { return b.Op("Greater", {a, b.Like(a, bound)}); }
  Expr Below(Expr a, double bound) const { return b.Op("Less", {a, b.Like(a, bound)}); }
  double Number(const char* name, double otherwise) const {
    return attributes.Float(name, otherwise);
  }
};

// An operator of one input with its derivative; `inputs` names how examples are
// filled ("positive", "unit", "large", "").
Operator Function(const char* name, const char* fill, Expr (*derivative)(const Unary&)) {
  const std::string x = *fill == 0 ? "x" : absl::StrCat(fill, "_x");
  Operator op("", name);
  op.Elementwise()
      .Example(
          absl::StrCat("g (float[3, 4] ", x, ") => (float[3, 4] y) { y = ", name, "(", x, ") }"))
      .Example(
          absl::StrCat("g (float[0, 4] ", x, ") => (float[0, 4] y) { y = ", name, "(", x, ") }"))
      .Gradient([derivative](GradientContext& g) {
        g.dx(0, derivative(Unary{g.b(), g.attributes(), g.x(), g.y(), g.dy()}));
        return absl::OkStatus();
      });
  return op;
}

// The same with examples for attributes.
Operator Function(const char* name, const char* fill, Expr (*derivative)(const Unary&),
                  const std::vector<const char*>& attributes) {
  const std::string x = *fill == 0 ? "x" : absl::StrCat(fill, "_x");
  Operator op = Function(name, fill, derivative);
  for (const char* a : attributes) {
    op.Example(absl::StrCat("g (float[3, 4] ", x, ") => (float[3, 4] y) { y = ", name, "<", a, ">(",
                            x, ") }"));
  }
  return op;
}

// A function in steps: its derivative is zero wherever there is one.
Operator Steps(const char* name) {
  Operator op("", name);
  op.Elementwise()
      .Example(
          absl::StrCat("g (float[3, 4] large_x) => (float[3, 4] y) { y = ", name, "(large_x) }"))
      .NotDifferentiable("its derivative is zero wherever there is one");
  return op;
}

void AddPowersAndExponentials(OperatorFamily& list) {
  list.push_back(Function("Abs", "", [](const Unary& u) {
                   return u.dy * u.Op("Sign", u.x);
                 }).Example("g (int64[5] signed_x) => (int64[5] y) { y = Abs(signed_x) }"));
  list.push_back(
      Steps("Sign").Example("g (int8[5] signed_x) => (int8[5] y) { y = Sign(signed_x) }"));
  list.push_back(Steps("Ceil"));
  list.push_back(Steps("Floor"));
  list.push_back(Steps("Round"));
  list.push_back(
      Function("Reciprocal", "positive", [](const Unary& u) { return -(u.dy * u.y * u.y); }));
  // dx = dy / (2 y), and 0 where y = 0: the slope there is infinite, and one zero
  // activation would spoil every parameter.
  list.push_back(Function("Sqrt", "positive", [](const Unary& u) {
    Expr zero = u.b.Op("Equal", {u.y, u.b.Like(u.y, 0)});
    return u.b.Where(zero, u.b.Like(u.y, 0), u.dy / (2 * u.y));
  }));
  list.push_back(Function("Exp", "", [](const Unary& u) { return u.dy * u.y; }));
  list.push_back(Function("Log", "positive", [](const Unary& u) { return u.dy / u.x; }));
  list.push_back(Function("Erf", "", [](const Unary& u) {
    return u.dy * (2 / std::sqrt(M_PI) * u.Op("Exp", -(u.x * u.x)));
  }));
}

void AddAngles(OperatorFamily& list) {
  list.push_back(Function("Sin", "", [](const Unary& u) { return u.dy * u.Op("Cos", u.x); }));
  list.push_back(Function("Cos", "", [](const Unary& u) { return -(u.dy * u.Op("Sin", u.x)); }));
  list.push_back(Function("Tan", "", [](const Unary& u) { return u.dy * (1 + u.y * u.y); }));
  list.push_back(
      Function("Asin", "unit", [](const Unary& u) { return u.dy / u.Op("Sqrt", 1 - u.x * u.x); }));
  list.push_back(Function("Acos", "unit",
                          [](const Unary& u) { return -(u.dy / u.Op("Sqrt", 1 - u.x * u.x)); }));
  list.push_back(Function("Atan", "", [](const Unary& u) { return u.dy / (1 + u.x * u.x); }));
  list.push_back(Function("Sinh", "", [](const Unary& u) { return u.dy * u.Op("Cosh", u.x); }));
  list.push_back(Function("Cosh", "", [](const Unary& u) { return u.dy * u.Op("Sinh", u.x); }));
  list.push_back(Function("Tanh", "", [](const Unary& u) { return u.dy * (1 - u.y * u.y); }));
  list.push_back(
      Function("Asinh", "", [](const Unary& u) { return u.dy / u.Op("Sqrt", 1 + u.x * u.x); }));
  // Defined from 1 upwards.
  Operator acosh("", "Acosh");
  acosh.Elementwise()
      .Example(
          "g (float[3, 4] positive_x) => (float[3, 4] y) "
          "{ one = Constant<value = float {1.0}>() x = Add(positive_x, one) y = Acosh(x) }")
      .Gradient([](GradientContext& g) {
        g.dx(0, g.dy() / g.b().Op("Sqrt", {(g.x() - 1) * (g.x() + 1)}));
        return absl::OkStatus();
      });
  list.push_back(acosh);
  list.push_back(
      Function("Atanh", "unit", [](const Unary& u) { return u.dy / ((1 - u.x) * (1 + u.x)); }));
}

void AddRectifiers(OperatorFamily& list) {
  // At 0 the slope of Relu is 0.
  list.push_back(Function("Relu", "", [](const Unary& u) {
                   return KeepWhere(u.Above(u.y, 0), u.dy);
                 }).Example("g (int32[5] signed_x) => (int32[5] y) { y = Relu(signed_x) }"));
  list.push_back(Function("LeakyRelu", "",
                          [](const Unary& u) {
                            return u.b.Where(u.Above(u.x, 0), u.dy,
                                             u.dy * u.Number("alpha", 0.01f));
                          },
                          {"alpha = 0.25"}));
  list.push_back(
      Function("ThresholdedRelu", "large",
               [](const Unary& u) { return KeepWhere(u.Above(u.x, u.Number("alpha", 1)), u.dy); },
               {"alpha = 0.25"}));
}

// The schema's inference does not look.
absl::Status CheckSlope(InferContext& c) {
  const Dims &x = c.input(0).dims, &slope = c.input(1).dims;
  bool fits = slope.size() <= x.size();
  for (size_t i = 0; fits && i < slope.size(); ++i) {
    const int64_t extent = slope[slope.size() - 1 - i], of_x = x[x.size() - 1 - i];
    fits = extent == 1 || extent == of_x || extent == kDynamic || of_x == kDynamic;
  }
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the slope is ", ToString(slope), ", which is not broadcast to ", ToString(x)));
}

void AddBends(OperatorFamily& list) {
  // y = alpha (exp(x) - 1) below 0, so its slope there is y + alpha.
  list.push_back(Function("Elu", "large",
                          [](const Unary& u) {
                            return u.b.Where(u.Above(u.x, 0), u.dy,
                                             u.dy * (u.y + u.Number("alpha", 1)));
                          },
                          {"alpha = 0.5"}));
  list.push_back(Function("Selu", "large",
                          [](const Unary& u) {
                            const double gamma = u.Number("gamma", 1.05070102214813232421875);
                            const double bend =
                                gamma * u.Number("alpha", 1.67326319217681884765625);
                            return u.b.Where(u.Above(u.x, 0), u.dy * gamma, u.dy * (u.y + bend));
                          },
                          {"alpha = 0.5, gamma = 2.0"}));
  list.push_back(Function("Celu", "large",
                          [](const Unary& u) {
                            return u.b.Where(u.Above(u.x, 0), u.dy,
                                             u.dy * (u.y / u.Number("alpha", 1) + 1));
                          },
                          {"alpha = 0.5"}));
  list.push_back(Function("Shrink", "large",
                          [](const Unary& u) {
                            return KeepWhere(u.Above(u.Op("Abs", u.x), u.Number("lambd", 0.5)),
                                             u.dy);
                          },
                          {"lambd = 1.5, bias = 0.25", "bias = -0.5"})
                     .Example("g (int64[5] signed_x) => (int64[5] y) "
                              "{ y = Shrink<lambd = 1.5, bias = 1.0>(signed_x) }"));
  list.push_back(Function("HardSigmoid", "large",
                          [](const Unary& u) {
                            Expr sloping = u.b.Op("And", {u.Above(u.y, 0), u.Below(u.y, 1)});
                            return KeepWhere(sloping, u.dy * u.Number("alpha", 0.2f));
                          },
                          {"alpha = 0.5, beta = 0.25"}));
  // y = x * clip(x / 6 + 1 / 2, 0, 1); its slope between -3 and 3 is x / 3 + 1 / 2.
  list.push_back(Function("HardSwish", "large", [](const Unary& u) {
    Expr bent = KeepWhere(u.Above(u.x, -3), u.dy * (u.x / 3 + 0.5));
    return u.b.Where(u.Above(u.x, 3), u.dy, bent);
  }));
  // y = x where x >= 0, slope * x elsewhere
  list.push_back(
      Operator("", "PRelu")
          .Infer(OnnxInferenceAnd("PRelu", CheckSlope))
          .Elementwise()
          .Example("g (float[2, 3, 4] x, float[3, 1] slope) => (float[2, 3, 4] y) { y = PRelu(x, "
                   "slope) }")
          .Example("g (float[2, 3] x, float[1] slope) => (float[2, 3] y) { y = PRelu(x, slope) }")
          .Example("g (int64[5] signed_x, int64[1] signed_slope) => (int64[5] y) "
                   "{ y = PRelu(signed_x, signed_slope) }")
          .Gradient([](GradientContext& g) {
            Builder& b = g.b();
            Expr positive = b.Op("Greater", {g.x(0), b.Like(g.x(0), 0)});
            if (g.wants(0)) g.dx(0, b.Where(positive, g.dy(), g.dy() * g.x(1)));
            if (g.wants(1)) g.dx(1, b.Where(positive, b.Like(g.dy(), 0), g.dy() * g.x(0)));
            return absl::OkStatus();
          }));
}

// Phi(x) + x * phi(x), or the derivative of its approximation by tanh.
Expr GeluGradient(const Unary& u) {
  if (u.attributes.String("approximate", "none") == "tanh") {
    const double k = std::sqrt(2 / M_PI);
    Expr square = u.x * u.x;
    Expr t = u.Op("Tanh", k * (u.x * (1 + 0.044715 * square)));
    Expr inner = k * (1 + 3 * 0.044715 * square);
    return u.dy * (0.5 * (1 + t) + 0.5 * (u.x * (1 - t * t) * inner));
  }
  Expr phi = 1 / std::sqrt(2 * M_PI) * u.Op("Exp", -0.5 * (u.x * u.x));
  return u.dy * (0.5 * (1 + u.Op("Erf", std::sqrt(0.5) * u.x)) + u.x * phi);
}

void AddSmooth(OperatorFamily& list) {
  list.push_back(
      Function("Sigmoid", "large", [](const Unary& u) { return u.dy * (u.y * (1 - u.y)); }));
  list.push_back(
      Function("Softplus", "large", [](const Unary& u) { return u.dy * u.Sigmoid(u.x); }));
  list.push_back(Function("Softsign", "", [](const Unary& u) {
    Expr denominator = 1 + u.Op("Abs", u.x);
    return u.dy / (denominator * denominator);
  }));
  // y = x s with s = sigmoid(alpha x);  y' = s + alpha y (1 - s)
  list.push_back(Function("Swish", "large",
                          [](const Unary& u) {
                            const double alpha = u.Number("alpha", 1);
                            Expr s = u.Sigmoid(alpha * u.x);
                            return u.dy * (s + alpha * (u.y * (1 - s)));
                          },
                          {"alpha = 0.5"}));
  // y = swish(a) b
  list.push_back(
      Operator("", "SwiGLU")
          .Elementwise()
          .Example("g (float[2, 3] large_a, float[2, 3] b) => (float[2, 3] y) "
                   "{ y = SwiGLU(large_a, b) }")
          .Example("g (float[2, 3] large_a, float[2, 3] b) => (float[2, 3] y) "
                   "{ y = SwiGLU<alpha = 0.5>(large_a, b) }")
          .AlwaysLower([](LowerContext& l) {
            l.y(0, l.b().Op("Swish", {l.x(0)}, {{"alpha", l.attributes().Float("alpha", 1)}}) *
                       l.x(1));
            return absl::OkStatus();
          }));
  // y = x t with t = tanh(softplus(x));  y' = t + x (1 - t t) sigmoid(x)
  list.push_back(Function("Mish", "large", [](const Unary& u) {
    Expr t = u.Op("Tanh", u.Op("Softplus", u.x));
    return u.dy * (t + u.x * (1 - t * t) * u.Sigmoid(u.x));
  }));
  list.push_back(Function("Gelu", "large", GeluGradient,
                          {"approximate = \"none\"", "approximate = \"tanh\""}));
}

}  // namespace

void AddElementwiseMathOperators(OperatorFamily& list) {
  AddPowersAndExponentials(list);
  AddAngles(list);
  AddRectifiers(list);
  AddBends(list);
  AddSmooth(list);
}

}  // namespace onward
