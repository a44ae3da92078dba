// The optimizers of ONNX's training standard (ai.onnx.preview.training). One node updates
// any number of tensors: inputs are the learning rate R, the number T of updates before, then
// all tensors X, all gradients G, and all of each accumulated value; outputs are the new X
// and the new accumulated values in the same order. (Gradient is no operator here: the
// importer makes it of the graph.)
#include "absl/strings/str_cat.h"
#include "graph/base/status_macros.h"
#include "graph/ir/builder.h"
#include "graph/ir/graph.h"
#include "graph/ops/operators.h"
#include "graph/ops/rules.h"

namespace onward {
namespace {

constexpr char kTraining[] = "ai.onnx.preview.training";

// Where the tensors of an update are, with so many accumulated values for each.
struct Updates {
  int moments = 1;
  int count = 0;  // of tensors
  int x(int i) const { return 2 + i; }
  int g(int i) const { return 2 + count + i; }
  int moment(int m, int i) const { return 2 + (2 + m) * count + i; }
  int new_moment(int m, int i) const { return (1 + m) * count + i; }
};

Updates ReadUpdates(int inputs, int moments) {
  return {moments, std::max(0, inputs - 2) / (2 + moments)};
}

InferRule InferUpdates(int moments) {
  return [moments](InferContext& c) -> absl::Status {
    const Updates u = ReadUpdates(c.num_inputs(), moments);
    const bool scalars = c.num_inputs() > 2 && c.has(0) && c.has(1) && c.input(0).elements() == 1 &&
                         c.input(1).elements() == 1 && IsFloating(c.input(0).dtype) &&
                         c.input(1).dtype == DataType::kInt64;
    if (!scalars || c.num_inputs() != 2 + (2 + moments) * u.count ||
        c.num_outputs() > (1 + moments) * u.count) {
      return absl::InvalidArgumentError(absl::StrCat(
          "expected a learning rate, an int64 number of updates and ", 2 + moments,
          " tensors for each of the tensors that are updated, got ", c.num_inputs(), " inputs"));
    }
    for (int i = 0; i < u.count; ++i) {
      for (int k = 0; k < 2 + moments; ++k) {
        const int at = u.x(i) + k * u.count;
        if (c.has(at) && IsFloating(c.input(at).dtype) && c.input(at) == c.input(u.x(i))) continue;
        return absl::InvalidArgumentError(
            absl::StrCat("input ", at, " is not of the floating type and extents of tensor ", i,
                         ", which it belongs to"));
      }
      for (int k = 0; k < 1 + moments; ++k) {
        c.SetOutput(i + k * u.count, c.input(u.x(i)).dtype, c.input(u.x(i)).dims);
      }
    }
    return absl::OkStatus();
  };
}

// `x` where t > 0, else `first`, t the number of updates before.
Expr LaterOn(LowerContext& l, Expr x, Expr first) {
  Expr t = l.b().Reshape(l.x(1), {});
  return l.b().Where(l.b().Op("Greater", {t, l.b().Like(t, 0)}), x, first);
}

// g = norm_coefficient x + g
Expr Regularized(LowerContext& l, Expr x, Expr g) {
  const double norm = l.attributes().Float("norm_coefficient", 0);
  return norm == 0 ? g : norm * x + g;
}

// r = R / (1 + T decay_factor);  h = h + g^2;  x = x - r g / (sqrt(h) + epsilon)
absl::Status LowerAdagrad(LowerContext& l) {
  Builder& b = l.b();
  const Updates u = ReadUpdates(l.num_inputs(), 1);
  for (int i = 0; i < u.count; ++i) {
    Expr x = l.x(u.x(i)), g = Regularized(l, x, l.x(u.g(i)));
    Expr t = b.Cast(b.Reshape(l.x(1), {}), x.dtype());
    Expr r = b.Cast(b.Reshape(l.x(0), {}), x.dtype()) /
             (1 + t * l.attributes().Float("decay_factor", 0));
    Expr h = l.x(u.moment(0, i)) + g * g;
    Expr root = b.Op("Sqrt", {h}) + l.attributes().Float("epsilon", 1e-6f);
    l.y(i, x - r * g / root);
    l.y(u.new_moment(0, i), h);
  }
  return absl::OkStatus();
}

// v = alpha v + (1 - alpha) g;  h = beta h + (1 - beta) g^2
// r = R sqrt(1 - beta^T) / (1 - alpha^T) where T > 0, else R
// x = (1 - norm_coefficient_post) (x - r v / (sqrt(h) + epsilon))
absl::Status LowerAdam(LowerContext& l) {
  Builder& b = l.b();
  const Attributes& a = l.attributes();
  const double alpha = a.Float("alpha", 0.9f), beta = a.Float("beta", 0.999f);
  const Updates u = ReadUpdates(l.num_inputs(), 2);
  // In float64: 1 - beta^T has few digits left of float32's.
  const DataType wide = DataType::kFloat64;
  Expr rate = b.Cast(b.Reshape(l.x(0), {}), wide);
  Expr t = b.Cast(b.Reshape(l.x(1), {}), wide);
  // Powers of what may not be 0, so that T = 0 divides by no zero.
  Expr steps = b.Op("Max", {t, b.Like(t, 1)});
  const auto lacking = [&](double base) { return 1 - b.Op("Pow", {b.Like(t, base), steps}); };
  rate = LaterOn(l, rate * b.Op("Sqrt", {lacking(beta)}) / lacking(alpha), rate);
  for (int i = 0; i < u.count; ++i) {
    Expr x = l.x(u.x(i)), g = Regularized(l, x, l.x(u.g(i)));
    Expr v = alpha * l.x(u.moment(0, i)) + (1 - alpha) * g;
    Expr h = beta * l.x(u.moment(1, i)) + (1 - beta) * (g * g);
    Expr root = b.Op("Sqrt", {h}) + a.Float("epsilon", 1e-6f);
    Expr y = x - b.Cast(rate, x.dtype()) * (v / root);
    const double post = a.Float("norm_coefficient_post", 0);
    l.y(i, post == 0 ? y : (1 - post) * y);
    l.y(u.new_moment(0, i), v);
    l.y(u.new_moment(1, i), h);
  }
  return absl::OkStatus();
}

// v = alpha v + (beta where T > 0, else 1) g
// x = x - R v, or with Nesterov's momentum x - R (g + alpha v)
absl::Status LowerMomentum(LowerContext& l) {
  Builder& b = l.b();
  const double alpha = l.attributes().Float("alpha", 0), beta = l.attributes().Float("beta", 0);
  const bool nesterov = l.attributes().String("mode", "standard") == "nesterov";
  const Updates u = ReadUpdates(l.num_inputs(), 1);
  for (int i = 0; i < u.count; ++i) {
    Expr x = l.x(u.x(i)), g = Regularized(l, x, l.x(u.g(i)));
    Expr share = LaterOn(l, b.Like(x, beta), b.Like(x, 1));
    Expr v = alpha * l.x(u.moment(0, i)) + share * g;
    Expr rate = b.Cast(b.Reshape(l.x(0), {}), x.dtype());
    l.y(i, x - rate * (nesterov ? g + alpha * v : v));
    l.y(u.new_moment(0, i), v);
  }
  return absl::OkStatus();
}

absl::Status InferMomentum(InferContext& c) {
  const std::string mode = c.attributes().String("mode", "");
  if (mode != "standard" && mode != "nesterov") {
    return absl::InvalidArgumentError(
        absl::StrCat("mode is '", mode, "', expected standard or nesterov"));
  }
  return InferUpdates(1)(c);
}

// One tensor after no update and after some, then two tensors.
void AddExamples(Operator& op, const std::string& attributes, int moments) {
  const auto list = [&](const char* prefix, const char* type, int count) {
    std::string text;
    for (int i = 0; i < count; ++i) {
      absl::StrAppend(&text, i > 0 ? ", " : "", type, i > 0 && *type != 0 ? "" : "", prefix, i);
    }
    return text;
  };
  for (const char* t : {"0", "3"}) {
    const int in = 2 + moments, out = 1 + moments;
    op.Example(absl::StrCat("g (float positive_r, ", list("positive_", "float[2, 3] ", in),
                            ") => (", list("y", "float[2, 3] ", out),
                            ") { t = Constant<value = int64 {", t, "}>() ", list("y", "", out),
                            " = ai.onnx.preview.training.", op.name, "<", attributes,
                            ">(positive_r, t, ", list("positive_", "", in), ") }"));
  }
  std::string inputs, names, outputs, results;
  for (int k = 0; k < 2 + moments; ++k) {
    absl::StrAppend(&inputs, ", float[2] positive_a", k, ", float[0] positive_b", k);
    absl::StrAppend(&names, ", positive_a", k, ", positive_b", k);
    if (k > moments) continue;
    absl::StrAppend(&outputs, k > 0 ? ", " : "", "float[2] y", k, ", float[0] z", k);
    absl::StrAppend(&results, k > 0 ? ", " : "", "y", k, ", z", k);
  }
  op.Example(absl::StrCat("g (float[1] positive_r, int64[1] t", inputs, ") => (", outputs, ") { ",
                          results, " = ai.onnx.preview.training.", op.name, "<", attributes,
                          ">(positive_r, t", names, ") }"));
}

Operator Optimizer(const char* name, int moments, LowerRule rule) {
  Operator op(kTraining, name);
  op.Infer(InferUpdates(moments)).AlwaysLower(std::move(rule)).Samples(SamplesMixed);
  return op;
}

}  // namespace

void AddTrainingOperators(OperatorFamily& list) {
  Operator adagrad = Optimizer("Adagrad", 1, LowerAdagrad);
  AddExamples(adagrad, "decay_factor = 0.1, epsilon = 0.00001, norm_coefficient = 0.01", 1);
  AddExamples(adagrad, "epsilon = 0.1", 1);
  list.push_back(std::move(adagrad));
  Operator adam = Optimizer("Adam", 2, LowerAdam);
  AddExamples(adam, "alpha = 0.95, beta = 0.85, epsilon = 0.01, norm_coefficient = 0.001", 2);
  AddExamples(adam, "norm_coefficient_post = 0.1, epsilon = 0.01", 2);
  list.push_back(std::move(adam));
  Operator momentum = Optimizer("Momentum", 1, LowerMomentum);
  momentum.Infer(InferMomentum);
  for (const char* mode : {"standard", "nesterov"}) {
    AddExamples(
        momentum,
        absl::StrCat("alpha = 0.95, beta = 0.1, norm_coefficient = 0.001, mode = \"", mode, "\""),
        1);
  }
  list.push_back(std::move(momentum));
}

}  // namespace onward
