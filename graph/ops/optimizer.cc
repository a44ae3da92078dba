// Optimizer updates: one node per parameter, one pass over memory.
//
// Every update takes the gradient as a sum and makes the gradient g that it uses:
//   g = gradient * scale / denominator      (0 where the denominator is 0)
//   g = min(max(g, -clip_value), clip_value)   where clip_value > 0
// `denominator` and `scale` are optional scalars: the loss's denominator over the
// global batch, and the factor of clipping by norm. Then, with weight decay w:
//   variant "torch", coupled:     g = g + w p
//   decoupled, and variant "keras":  p = p - lr w p, before the update
// Scalars may be of either floating type; what is made of them (rates, corrections)
// is computed in float64 and then rounded to the parameter's type. Derivatives of
// an update, should anyone want them, go through its lowering.
#include <string>

#include "absl/strings/str_cat.h"
#include "graph/base/status_macros.h"
#include "graph/ir/builder.h"
#include "graph/ops/operators.h"
#include "graph/ops/rules.h"

namespace onward {
namespace {

// Inputs of one update, by position. Moments lie between the gradient and the
// learning rate; what follows them is optional.
struct Slots {
  int moments;
  int learning_rate() const { return 2 + moments; }
  int step() const { return 3 + moments; }
  int denominator() const { return 4 + moments; }
  int scale() const { return 5 + moments; }
};

absl::Status CheckScalar(const InferContext& c, int i, const char* what, bool integer) {
  if (!c.has(i)) return absl::OkStatus();
  const TensorType& type = c.input(i);
  const bool fits = integer ? type.dtype == DataType::kInt64 : IsFloating(type.dtype);
  if (fits && type.elements() == 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(c.op().id(), ": ", what, " must be one ",
                                                 integer ? "int64" : "floating number", ", is ",
                                                 ToString(type)));
}

// Outputs: the new parameter, then a new value of each moment that is given.
InferRule InferUpdate(Slots slots) {
  return [slots](InferContext& c) -> absl::Status {
    const std::string variant = c.attributes().String("variant", "torch");
    if (variant != "torch" && variant != "keras") {
      return absl::InvalidArgumentError(
          absl::StrCat(c.op().id(), ": variant is torch or keras, not ", variant));
    }
    if (!c.has(0) || !c.has(1) || !c.has(slots.learning_rate())) {
      return absl::InvalidArgumentError(
          absl::StrCat(c.op().id(), ": parameter, gradient and learning rate must be given"));
    }
    for (int i = 1; i < 2 + slots.moments; ++i) {
      if (!c.has(i) || c.input(i) == c.input(0)) continue;
      return absl::InvalidArgumentError(absl::StrCat(c.op().id(), ": the parameter is ",
                                                     ToString(c.input(0)), ", input ", i, " is ",
                                                     ToString(c.input(i))));
    }
    RETURN_IF_ERROR(CheckScalar(c, slots.learning_rate(), "the learning rate", false));
    RETURN_IF_ERROR(CheckScalar(c, slots.step(), "the step", true));
    RETURN_IF_ERROR(CheckScalar(c, slots.denominator(), "the denominator", false));
    RETURN_IF_ERROR(CheckScalar(c, slots.scale(), "the scale", false));
    c.SetOutput(0, c.input(0).dtype, c.input(0).dims);
    for (int i = 0; i < slots.moments; ++i) {
      if (c.has(2 + i)) c.SetOutput(1 + i, c.input(0).dtype, c.input(0).dims);
    }
    return absl::OkStatus();
  };
}

absl::Status Need(const InferContext& c, bool needed, int i, const char* what) {
  if (!needed || c.has(i)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(c.op().id(), ": with these attributes it needs ", what));
}

// What the lowerings have in common: p after decoupled decay, g, and scalars in
// float64, which Narrow brings to the parameter's type once they are formed.
class Update {
 public:
  Update(LowerContext& c, Slots slots)
      : keras(c.attributes().String("variant", "torch") == "keras"),
        b(c.b()),
        p(c.x(0)),
        g(c.x(1)),
        c_(c),
        slots_(slots) {
    const Expr one = Real(1);
    Expr factor = c.has_x(slots.scale()) ? Scalar(slots.scale()) : one;
    if (c.has_x(slots.denominator())) {
      const Expr denominator = Scalar(slots.denominator());
      const Expr none = b.Op("Equal", {denominator, Real(0)});
      factor = factor / b.Where(none, one, denominator);
      g = b.Where(none, b.Like(g, 0), g * Narrow(factor));
    } else {
      g = g * Narrow(factor);
    }
    const double most = attribute("clip_value", 0);
    if (most > 0) g = b.Op("Clip", {g, b.Like(p, -most), b.Like(p, most)});
    const double decay = attribute("weight_decay", 0);
    if (decay == 0) return;
    if (keras || c.attributes().Int("decoupled", 0) != 0) {
      p = p * Narrow(1 - lr() * decay);
    } else {
      g = g + p * decay;
    }
  }

  double attribute(const char* name, double otherwise) const {
    return c_.attributes().Float(name, otherwise);
  }
  Expr lr() { return Scalar(slots_.learning_rate()); }
  // The number of this update, from 1.
  Expr Step() { return Scalar(slots_.step()); }
  // base to the power of the step.
  Expr Power(double base) { return b.Op("Pow", {Real(base), Step()}); }
  Expr Narrow(Expr scalar) { return b.Cast(scalar, p.dtype()); }
  Expr Real(double number) { return b.Scalar(DataType::kFloat64, number); }
  Expr Sqrt(Expr x) { return b.Op("Sqrt", {x}); }
  bool has_moment(int i) const { return c_.has_x(2 + i); }
  Expr moment(int i) { return c_.x(2 + i); }
  void Give(int output, Expr value) { c_.y(output, value); }

  const bool keras;
  Builder& b;
  Expr p;
  Expr g;

 private:
  Expr Scalar(int i) { return b.Reshape(b.Cast(c_.x(i), DataType::kFloat64), {}); }

  LowerContext& c_;
  const Slots slots_;
};

// torch:  m' = mu m + (1 - dampening) g   (g itself at step 1 where dampening != 0)
//         d = nesterov ? g + mu m' : m';  p' = p - lr d
// keras:  m' = mu m - lr g;  p' = p + (nesterov ? mu m' - lr g : m')
// Without a momentum input: p' = p - lr g.
constexpr Slots kSgd{1};
absl::Status LowerSgd(LowerContext& c) {
  Update u(c, kSgd);
  const Expr lr = u.Narrow(u.lr());
  if (!u.has_moment(0)) {
    u.Give(0, u.p - u.g * lr);
    return absl::OkStatus();
  }
  const double mu = u.attribute("momentum", 0);
  const bool nesterov = c.attributes().Int("nesterov", 0) != 0;
  if (u.keras) {
    const Expr m = u.moment(0) * mu - u.g * lr;
    u.Give(0, nesterov ? u.p + m * mu - u.g * lr : u.p + m);
    u.Give(1, m);
    return absl::OkStatus();
  }
  const double dampening = u.attribute("dampening", 0);
  Expr m = u.moment(0) * mu + u.g * (1 - dampening);
  if (dampening != 0) {
    m = u.b.Where(u.b.Op("Equal", {u.Step(), u.Real(1)}), u.g, m);
  }
  u.Give(0, u.p - (nesterov ? u.g + m * mu : m) * lr);
  u.Give(1, m);
  return absl::OkStatus();
}

// m' = m + (g - m) (1 - beta1);  v' = v + (g g - v) (1 - beta2);  t = step
// torch:  p' = p - lr / (1 - beta1^t) m' / (sqrt(v') / sqrt(1 - beta2^t) + epsilon)
// keras:  p' = p - lr sqrt(1 - beta2^t) / (1 - beta1^t) m' / (sqrt(v') + epsilon)
// amsgrad (a third moment): the root is of the largest v' so far.
constexpr Slots kAdam{3};
absl::Status LowerAdam(LowerContext& c) {
  Update u(c, kAdam);
  const double beta1 = u.attribute("beta1", 0.9), beta2 = u.attribute("beta2", 0.999);
  const double epsilon = u.attribute("epsilon", u.keras ? 1e-7 : 1e-8);
  const Expr m = u.moment(0) + (u.g - u.moment(0)) * (1 - beta1);
  const Expr v = u.moment(1) + (u.g * u.g - u.moment(1)) * (1 - beta2);
  Expr root = v;
  if (u.has_moment(2)) {
    root = u.b.Op("Max", {u.moment(2), v});
    u.Give(3, root);
  }
  root = u.Sqrt(root);
  const Expr correction1 = 1 - u.Power(beta1);
  const Expr root2 = u.Sqrt(1 - u.Power(beta2));
  const Expr rate = u.lr() / correction1;
  u.Give(0, u.keras ? u.p - m * u.Narrow(rate * root2) / (root + epsilon)
                    : u.p - m * u.Narrow(rate) / (root / u.Narrow(root2) + epsilon));
  u.Give(1, m);
  u.Give(2, v);
  return absl::OkStatus();
}

// v' = rho v + (1 - rho) g g;  centered: a' = a + (g - a) (1 - rho)
// torch:  d = g / (sqrt(v' [- a' a']) + epsilon);   [m' = mu m + d;]  p' = p - lr (m' or d)
// keras:  d = lr g / sqrt(v' [- a' a'] + epsilon);  [m' = mu m + d;]  p' = p - (m' or d)
// Moments: v, then that of momentum, then a.
constexpr Slots kRmsProp{3};
absl::Status LowerRmsProp(LowerContext& c) {
  Update u(c, kRmsProp);
  const Expr lr = u.Narrow(u.lr());
  const double rho = u.attribute("rho", u.keras ? 0.9 : 0.99);
  const double epsilon = u.attribute("epsilon", u.keras ? 1e-7 : 1e-8);
  const Expr v = u.moment(0) * rho + u.g * u.g * (1 - rho);
  u.Give(1, v);
  Expr spread = v;
  if (u.has_moment(2)) {
    const Expr average = u.moment(2) + (u.g - u.moment(2)) * (1 - rho);
    u.Give(3, average);
    spread = v - average * average;
  }
  Expr d = u.keras ? u.g * lr / u.Sqrt(spread + epsilon) : u.g / (u.Sqrt(spread) + epsilon);
  if (u.has_moment(1)) {
    d = u.moment(1) * u.attribute("momentum", 0) + d;
    u.Give(2, d);
  }
  u.Give(0, u.keras ? u.p - d : u.p - d * lr);
  return absl::OkStatus();
}

// s' = s + g g
// torch:  p' = p - lr / (1 + (step - 1) learning_rate_decay) g / (sqrt(s') + epsilon)
// keras:  p' = p - lr g / sqrt(s' + epsilon)
constexpr Slots kAdagrad{1};
absl::Status LowerAdagrad(LowerContext& c) {
  Update u(c, kAdagrad);
  const double epsilon = u.attribute("epsilon", u.keras ? 1e-7 : 1e-10);
  const double decay = u.attribute("learning_rate_decay", 0);
  const Expr s = u.moment(0) + u.g * u.g;
  const Expr rate = u.Narrow(decay == 0 ? u.lr() : u.lr() / (1 + (u.Step() - 1) * decay));
  u.Give(0, u.p - u.g * rate / (u.keras ? u.Sqrt(s + epsilon) : u.Sqrt(s) + epsilon));
  u.Give(1, s);
  return absl::OkStatus();
}

// An example: parameter and gradient [2, 3], the moments named, the scalars given.
// unit_mean, the mean gradient of RMSprop, is made small: the mean square exceeds its
// square.
std::string Text(const char* op, const char* attributes, const std::vector<std::string>& moments,
                 bool step, bool denominator, bool scale) {
  std::string inputs = "float[2, 3] p, float[2, 3] g";
  std::string call = "p, g";
  std::string outputs = "float[2, 3] q", results = "q";
  // The step counts from 1: 1 or 2.
  std::string before = step ? "c = Constant <value = int64 {1}>() t = Add(one, c) " : "";
  for (const std::string& m : moments) {
    const bool small = m == "unit_mean";
    if (small) {
      absl::StrAppend(&before,
                      "h = Constant <value = float[1] {0.25}>() mean = Mul(unit_mean, h) ");
    }
    absl::StrAppend(&call, ", ", small ? "mean" : m);
    if (m.empty()) {
      absl::StrAppend(&results, ", ");
      continue;
    }
    absl::StrAppend(&inputs, ", float[2, 3] ", m);
    absl::StrAppend(&outputs, ", float[2, 3] new_", m);
    absl::StrAppend(&results, ", new_", m);
  }
  absl::StrAppend(&inputs, ", float[1] positive_lr");
  absl::StrAppend(&call, ", positive_lr");
  if (step) absl::StrAppend(&inputs, ", int64 one");
  if (step || denominator || scale) absl::StrAppend(&call, step ? ", t" : ", ");
  if (denominator) absl::StrAppend(&inputs, ", float[1] positive_n");
  if (denominator || scale) absl::StrAppend(&call, denominator ? ", positive_n" : ", ");
  if (scale) absl::StrAppend(&inputs, ", float[1] positive_scale");
  if (scale) absl::StrAppend(&call, ", positive_scale");
  return absl::StrCat("g (", inputs, ") => (", outputs, ") { ", before, results, " = onward.", op,
                      " <", attributes, ">(", call, ") }");
}

void AddSgd(OperatorFamily& list) {
  list.push_back(
      Operator(kOnward, "SgdUpdate")
          .Example("g (float[3] p, float[3] g, float[1] positive_lr) => (float[3] q) "
                   "{ q = onward.SgdUpdate(p, g, , positive_lr) }")
          .Example("g (float[0] p, float[0] g, float[1] positive_lr) => (float[0] q) "
                   "{ q = onward.SgdUpdate(p, g, , positive_lr) }")
          .Example(
              Text("SgdUpdate", "momentum = 0.9, weight_decay = 0.1", {"m"}, false, true, true))
          .Example(Text("SgdUpdate", "momentum = 0.9, nesterov = 1, clip_value = 0.3", {"m"}, false,
                        false, true))
          .Example(Text("SgdUpdate", "momentum = 0.9, dampening = 0.25", {"m"}, true, false, false))
          .Example(Text("SgdUpdate", "momentum = 0.9, variant = \"keras\", weight_decay = 0.1",
                        {"m"}, false, true, false))
          .Example(Text("SgdUpdate", "momentum = 0.9, nesterov = 1, variant = \"keras\"", {"m"},
                        false, false, false))
          .Infer([](InferContext& c) -> absl::Status {
            RETURN_IF_ERROR(InferUpdate(kSgd)(c));
            const double momentum = c.attributes().Float("momentum", 0);
            RETURN_IF_ERROR(Need(c, momentum != 0, 2, "the momentum"));
            return Need(c, c.attributes().Float("dampening", 0) != 0, kSgd.step(), "the step");
          })
          .Operations(PerElement(5))
          .ByRanges(2 + kSgd.moments)
          .Lower(LowerSgd));
}

void AddAdam(OperatorFamily& list) {
  list.push_back(
      Operator(kOnward, "AdamUpdate")
          .Example(
              Text("AdamUpdate", "weight_decay = 0.1", {"m", "positive_v", ""}, true, true, true))
          .Example(Text("AdamUpdate",
                        "decoupled = 1, weight_decay = 0.1, epsilon = 0.01, beta1 = "
                        "0.5, beta2 = 0.75",
                        {"m", "positive_v", ""}, true, false, false))
          .Example(Text("AdamUpdate", "variant = \"keras\", weight_decay = 0.1, clip_value = 0.2",
                        {"m", "positive_v", ""}, true, true, false))
          .Example(Text("AdamUpdate", "amsgrad = 1", {"m", "unit_v", "positive_largest"}, true,
                        false, false))
          .Example(Text("AdamUpdate", "amsgrad = 1, variant = \"keras\"",
                        {"m", "positive_v", "unit_largest"}, true, false, false))
          .Infer([](InferContext& c) -> absl::Status {
            RETURN_IF_ERROR(InferUpdate(kAdam)(c));
            RETURN_IF_ERROR(Need(c, true, 2, "both moments"));
            RETURN_IF_ERROR(Need(c, true, 3, "both moments"));
            RETURN_IF_ERROR(
                Need(c, c.attributes().Int("amsgrad", 0) != 0, 4, "the largest mean square"));
            return Need(c, true, kAdam.step(), "the step");
          })
          .Operations(PerElement(12))
          .ByRanges(2 + kAdam.moments)
          .Lower(LowerAdam));
}

void AddRmsProp(OperatorFamily& list) {
  list.push_back(
      Operator(kOnward, "RmsPropUpdate")
          .Example(Text("RmsPropUpdate", "rho = 0.75", {"positive_v", "", ""}, false, true, true))
          .Example(Text("RmsPropUpdate", "momentum = 0.5, weight_decay = 0.1",
                        {"positive_v", "m", ""}, false, false, false))
          .Example(Text("RmsPropUpdate", "centered = 1, momentum = 0.5, epsilon = 0.01",
                        {"positive_v", "m", "unit_mean"}, false, false, false))
          .Example(Text("RmsPropUpdate", "centered = 1, variant = \"keras\", clip_value = 0.2",
                        {"positive_v", "", "unit_mean"}, false, false, false))
          .Example(Text("RmsPropUpdate", "variant = \"keras\", momentum = 0.5, weight_decay = 0.1",
                        {"positive_v", "m", ""}, false, true, false))
          .Infer([](InferContext& c) -> absl::Status {
            RETURN_IF_ERROR(InferUpdate(kRmsProp)(c));
            RETURN_IF_ERROR(Need(c, true, 2, "the mean square"));
            const Attributes& a = c.attributes();
            RETURN_IF_ERROR(Need(c, a.Float("momentum", 0) != 0, 3, "the momentum"));
            return Need(c, a.Int("centered", 0) != 0, 4, "the mean gradient");
          })
          .Operations(PerElement(12))
          .ByRanges(2 + kRmsProp.moments)
          .Lower(LowerRmsProp));
}

void AddAdagrad(OperatorFamily& list) {
  list.push_back(
      Operator(kOnward, "AdagradUpdate")
          .Example(Text("AdagradUpdate", "weight_decay = 0.1", {"positive_s"}, false, true, true))
          .Example(Text("AdagradUpdate", "learning_rate_decay = 0.25, epsilon = 0.01",
                        {"positive_s"}, true, false, false))
          .Example(Text("AdagradUpdate",
                        "variant = \"keras\", clip_value = 0.2, weight_decay = 0.1", {"positive_s"},
                        false, true, false))
          .Infer([](InferContext& c) -> absl::Status {
            RETURN_IF_ERROR(InferUpdate(kAdagrad)(c));
            RETURN_IF_ERROR(Need(c, true, 2, "the sum of squares"));
            const double decay = c.attributes().Float("learning_rate_decay", 0);
            return Need(c, decay != 0, kAdagrad.step(), "the step");
          })
          .Operations(PerElement(8))
          .ByRanges(2 + kAdagrad.moments)
          .Lower(LowerAdagrad));
}

}  // namespace

void AddOptimizerOperators(OperatorFamily& list) {
  AddSgd(list);
  AddAdam(list);
  AddRmsProp(list);
  AddAdagrad(list);
}

}  // namespace onward
