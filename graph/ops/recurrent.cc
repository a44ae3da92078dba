// Recurrent networks. Sequences have known lengths when the graph is built, so each is
// written out step by step in products of matrices and elementwise operators.
#include <algorithm>
#include <cctype>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "graph/base/status_macros.h"
#include "graph/ir/builder.h"
#include "graph/ir/graph.h"
#include "graph/ops/operators.h"
#include "graph/ops/rules.h"

namespace onward {
namespace {

using Activation = std::function<Expr(Expr)>;

struct ActivationKind {
  const char* name;
  bool takes_alpha, takes_beta;
  double alpha, beta;  // where none is given
  Expr (*make)(Expr x, double alpha, double beta);
};

Expr Call(const char* op, Expr x, Attributes attributes = {}) {
  return x ? x.builder()->Op(op, {x}, std::move(attributes)) : Expr();
}

const std::vector<ActivationKind>& ActivationKinds() {
  static const auto* kinds = new std::vector<ActivationKind>{
      {"relu", false, false, 0, 0, [](Expr x, double, double) { return Call("Relu", x); }},
      {"tanh", false, false, 0, 0, [](Expr x, double, double) { return Call("Tanh", x); }},
      {"sigmoid", false, false, 0, 0, [](Expr x, double, double) { return Call("Sigmoid", x); }},
      {"affine", true, true, 1, 0, [](Expr x, double a, double b) { return a * x + b; }},
      {"leakyrelu", true, false, 0.01, 0,
       [](Expr x, double a, double) {
         return Call("LeakyRelu", x, {{"alpha", a}});
       }},
      {"thresholdedrelu", true, false, 1, 0,
       [](Expr x, double a, double) {
         return Call("ThresholdedRelu", x, {{"alpha", a}});
       }},
      {"scaledtanh", true, true, 1, 1,
       [](Expr x, double a, double b) { return a * Call("Tanh", b * x); }},
      {"hardsigmoid", true, true, 0.2, 0.5,
       [](Expr x, double a, double b) {
         return Call("HardSigmoid", x, {{"alpha", a}, {"beta", b}});
       }},
      {"elu", true, false, 1, 0,
       [](Expr x, double a, double) {
         return Call("Elu", x, {{"alpha", a}});
       }},
      {"softsign", false, false, 0, 0, [](Expr x, double, double) { return Call("Softsign", x); }},
      {"softplus", false, false, 0, 0, [](Expr x, double, double) { return Call("Softplus", x); }},
  };
  return *kinds;
}

const ActivationKind* FindActivation(const std::string& name) {
  const std::string lower = absl::AsciiStrToLower(name);
  for (const ActivationKind& kind : ActivationKinds()) {
    if (lower == kind.name) return &kind;
  }
  return nullptr;
}

// The three operators differ in their gates and in what they are called.
struct Family {
  int gates;                             // blocks of hidden_size rows in W, R and the biases
  std::vector<std::string> activations;  // of one direction
  bool has_cell;                         // a second state, and peepholes
};

Family FamilyOf(const std::string& op) {
  if (op == "LSTM") return {4, {"Sigmoid", "Tanh", "Tanh"}, true};
  if (op == "GRU") return {3, {"Sigmoid", "Tanh"}, false};
  return {1, {"Tanh"}, false};
}

int64_t DirectionsOf(const Attributes& attributes) {
  return attributes.String("direction", "forward") == "bidirectional" ? 2 : 1;
}

// Activations of all directions, in order; each takes its numbers off the lists.
std::vector<Activation> ActivationsOf(const Attributes& attributes, const Family& family) {
  std::vector<std::string> names = attributes.Strings("activations");
  const size_t wanted = family.activations.size() * DirectionsOf(attributes);
  if (names.empty()) {
    while (names.size() < wanted) {
      names.insert(names.end(), family.activations.begin(), family.activations.end());
    }
  }
  const std::vector<double> alphas = attributes.Floats("activation_alpha");
  const std::vector<double> betas = attributes.Floats("activation_beta");
  size_t alpha_at = 0, beta_at = 0;
  std::vector<Activation> out;
  for (size_t i = 0; i < wanted; ++i) {
    const ActivationKind* kind = FindActivation(names[i]);
    double alpha = kind->alpha, beta = kind->beta;
    if (kind->takes_alpha && alpha_at < alphas.size()) alpha = alphas[alpha_at++];
    if (kind->takes_beta && beta_at < betas.size()) beta = betas[beta_at++];
    const double clip = attributes.Float("clip", 0);
    out.push_back([kind, alpha, beta, clip](Expr x) {
      if (clip > 0 && x) {
        Builder& b = *x.builder();
        x = b.Op("Clip", {x, b.Like(x, -clip), b.Like(x, clip)});
      }
      return kind->make(x, alpha, beta);
    });
  }
  return out;
}

// What one direction reads at every step.
struct Direction {
  Builder& b;
  const Attributes& attributes;
  std::vector<Activation> f;
  int64_t hidden;
  Expr r;          // [gates * hidden, hidden]
  Expr r_bias;     // [gates * hidden], or empty; only GRU's last gate keeps it apart
  Expr peepholes;  // [3 * hidden], or empty

  Expr Part(Expr x, int64_t at) const {
    const int64_t axis = x ? x.rank() - 1 : 0;
    return b.Op("Slice",
                {x, OneInt(b, at * hidden), OneInt(b, (at + 1) * hidden), OneInt(b, axis)});
  }
  Expr Rows(Expr x, int64_t from, int64_t to) const {
    return b.Op("Slice", {x, OneInt(b, from * hidden), OneInt(b, to * hidden), OneInt(b, 0)});
  }
  // x + h w'
  Expr Affine(Expr x, Expr h, Expr w) const {
    return b.Op("Gemm", {h, w, x}, {{"transB", int64_t{1}}});
  }
};

struct StepState {
  Expr h, c;
};

// h = f(x + h R')
StepState StepRnn(const Direction& d, Expr x, const StepState& s) {
  return {d.f[0](d.Affine(x, s.h, d.r)), Expr()};
}

// z, r = f(..);  n = g(x + (r h) R') or, linear_before_reset, g(x + r (h R' + bias));
// h = (1 - z) n + z h
StepState StepGru(const Direction& d, Expr x, const StepState& s) {
  Builder& b = d.b;
  Expr zr = b.Op("Slice", {x, OneInt(b, 0), OneInt(b, 2 * d.hidden), OneInt(b, 1)});
  zr = d.f[0](d.Affine(zr, s.h, d.Rows(d.r, 0, 2)));
  Expr z = d.Part(zr, 0), r = d.Part(zr, 1), last = d.Part(x, 2);
  Expr recurrent = d.Rows(d.r, 2, 3);
  Expr n;
  if (d.attributes.Int("linear_before_reset", 0) != 0) {
    Attributes transposed{{"transB", int64_t{1}}};
    Expr own = d.r_bias ? b.Op("Gemm", {s.h, recurrent, d.Part(d.r_bias, 2)}, transposed)
                        : b.Op("Gemm", {s.h, recurrent}, transposed);
    n = d.f[1](last + r * own);
  } else {
    n = d.f[1](d.Affine(last, r * s.h, recurrent));
  }
  return {(1 - z) * n + z * s.h, Expr()};
}

// i, f = f(.. + P c), c = f c + i g(..), o = f(.. + P c), h = o h(c); the gates lie in the
// order i, o, f, c, the peepholes in the order i, o, f.
StepState StepLstm(const Direction& d, Expr x, const StepState& s) {
  const bool coupled = d.attributes.Int("input_forget", 0) != 0;
  Expr all = d.Affine(x, s.h, d.r);
  Expr i = d.Part(all, 0), o = d.Part(all, 1), f = d.Part(all, 2), g = d.Part(all, 3);
  if (d.peepholes) {
    i = i + d.Part(d.peepholes, 0) * s.c;
    f = f + d.Part(d.peepholes, 2) * s.c;
  }
  i = d.f[0](i);
  f = coupled ? 1 - i : d.f[0](f);
  Expr c = f * s.c + i * d.f[1](g);
  if (d.peepholes) o = o + d.Part(d.peepholes, 1) * c;
  return {d.f[0](o) * d.f[2](c), c};
}

// All that the three operators have in common.
class Unrolled {
 public:
  explicit Unrolled(LowerContext& l)
      : l_(l),
        b_(l.b()),
        family_(FamilyOf(l.node().op().name)),
        batch_first_(l.attributes().Int("layout", 0) != 0),
        directions_(DirectionsOf(l.attributes())),
        hidden_(l.x(2).dims()[2]) {
    x_ = batch_first_ ? b_.Transpose(l.x(0), {1, 0, 2}) : l.x(0);
    steps_ = x_.dims()[0];
    batch_ = x_.dims()[1];
  }

  absl::Status Run() {
    std::vector<Expr> y, h, c;
    for (int64_t k = 0; k < directions_; ++k) {
      OneDirection(k, &y, &h, &c);
      if (!b_.status().ok()) return b_.status();
    }
    const auto joined = [&](const std::vector<Expr>& parts, int64_t axis) {
      return b_.Op("Concat", parts, {{"axis", axis}});
    };
    // The directions stand before the batch, or, batch first, behind it.
    if (l_.wants(0)) {
      Expr all = joined(y, 1);
      l_.y(0, batch_first_ ? b_.Transpose(all, {2, 0, 1, 3}) : all);
    }
    for (int i : {1, 2}) {
      if (!l_.wants(i)) continue;
      Expr all = joined(i == 1 ? h : c, 0);
      l_.y(i, batch_first_ ? b_.Transpose(all, {1, 0, 2}) : all);
    }
    return absl::OkStatus();
  }

 private:
  // Part k of the first axis of an input, without that axis; empty where it is absent.
  Expr Of(int input, int64_t k, bool has_batch = false) {
    if (!l_.has_x(input)) return Expr();
    Expr x = l_.x(input);
    if (has_batch && batch_first_) x = b_.Transpose(x, {1, 0, 2});
    return b_.Op("Gather", {x, b_.Constant(Tensor::Scalar<int64_t>(k))}, {{"axis", int64_t{0}}});
  }

  Expr Initial(int input, int64_t k) {
    Expr given = Of(input, k, true);
    return given ? given : b_.Zeros({x_.dtype(), {batch_, hidden_}, {}});
  }

  // x W' and the biases, for all steps at once: [steps, batch, gates * hidden]. GRU's
  // recurrent bias of the last gate may have to stay behind the reset gate.
  Expr Projected(int64_t k, Direction* d) {
    const int64_t rows = steps_ * batch_, width = family_.gates * hidden_;
    std::vector<Expr> terms = {b_.Reshape(x_, {rows, x_.dims()[2]}), Of(1, k)};
    Expr both = Of(3, k);
    if (both) {
      const auto half = [&](int64_t at) {
        return b_.Op("Slice",
                     {both, OneInt(b_, at * width), OneInt(b_, (at + 1) * width), OneInt(b_, 0)});
      };
      d->r_bias = half(1);
      Expr added = d->r_bias;
      if (l_.attributes().Int("linear_before_reset", 0) != 0) {
        std::vector<double> gates(width, 1.0);
        std::fill(gates.begin() + 2 * hidden_, gates.end(), 0.0);
        added = added * Reals(b_, added.dtype(), {width}, gates);
      }
      terms.push_back(half(0) + added);
    }
    return b_.Reshape(b_.Op("Gemm", terms, {{"transB", int64_t{1}}}), {steps_, batch_, width});
  }

  void OneDirection(int64_t k, std::vector<Expr>* y, std::vector<Expr>* h, std::vector<Expr>* c) {
    const std::vector<Activation> all = ActivationsOf(l_.attributes(), family_);
    const size_t own = family_.activations.size();
    Direction d{b_,      l_.attributes(), {all.begin() + own * k, all.begin() + own * (k + 1)},
                hidden_, Of(2, k),        Expr(),
                Expr()};
    if (family_.has_cell) d.peepholes = Of(7, k);
    Expr projected = Projected(k, &d);
    // (Split, whose gradient is one Concat: that of a Gather would be as long as all steps.)
    std::vector<Expr> inputs;
    if (steps_ > 0) {
      inputs = b_.Ops("Split", {projected}, {{"axis", int64_t{0}}, {"num_outputs", steps_}},
                      static_cast<int>(steps_));
    }
    StepState state{Initial(5, k), family_.has_cell ? Initial(6, k) : Expr()};
    const bool back = k == 1 || l_.attributes().String("direction", "forward") == "reverse";
    std::vector<Expr> outputs(steps_);
    for (int64_t i = 0; i < steps_ && b_.status().ok(); ++i) {
      const int64_t t = back ? steps_ - 1 - i : i;
      outputs[t] = Step(d, inputs[t], t, &state);
    }
    if (l_.wants(0)) {
      y->push_back(steps_ == 0 ? b_.Zeros({x_.dtype(), {0, 1, batch_, hidden_}, {}})
                               : b_.Op("Concat", outputs, {{"axis", int64_t{0}}}));
    }
    h->push_back(b_.Reshape(state.h, {1, batch_, hidden_}));
    if (family_.has_cell) c->push_back(b_.Reshape(state.c, {1, batch_, hidden_}));
  }

  // Behind the end of a sequence its states stay, and its output is zero.
  Expr Step(const Direction& d, Expr input, int64_t t, StepState* state) {
    Expr x = b_.Reshape(input, {batch_, family_.gates * hidden_});
    StepState next = family_.has_cell     ? StepLstm(d, x, *state)
                     : family_.gates == 3 ? StepGru(d, x, *state)
                                          : StepRnn(d, x, *state);
    Expr y = next.h;
    if (l_.has_x(4)) {
      Expr lens = b_.Reshape(l_.x(4), {batch_, 1});
      Expr runs = b_.Op("Greater", {lens, b_.Like(lens, static_cast<double>(t))});
      y = KeepWhere(runs, next.h);
      next.h = b_.Where(runs, next.h, state->h);
      if (next.c) next.c = b_.Where(runs, next.c, state->c);
    }
    *state = next;
    return l_.wants(0) ? b_.Reshape(y, {1, 1, batch_, hidden_}) : Expr();
  }

  LowerContext& l_;
  Builder& b_;
  Family family_;
  bool batch_first_;
  int64_t directions_, hidden_, steps_ = 0, batch_ = 0;
  Expr x_;  // [steps, batch, input]
};

absl::Status CheckActivations(const InferContext& c, const Family& family) {
  const std::vector<std::string> names = c.attributes().Strings("activations");
  const size_t wanted = family.activations.size() * DirectionsOf(c.attributes());
  // RNN's default has one for each of two directions.
  if (!names.empty() && names.size() < wanted) {
    return absl::InvalidArgumentError(
        absl::StrCat("there are ", names.size(), " activations, expected ", wanted));
  }
  for (const std::string& name : names) {
    if (FindActivation(name) == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("no activation '", name, "'"));
    }
  }
  return absl::OkStatus();
}

absl::Status InferRecurrent(InferContext& c) {
  const Family family = FamilyOf(c.op().name);
  const std::string direction = c.attributes().String("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional") {
    return absl::InvalidArgumentError(absl::StrCat("no direction '", direction, "'"));
  }
  RETURN_IF_ERROR(CheckActivations(c, family));
  if (!c.has(0) || !c.has(1) || !c.has(2) || c.input(0).dims.size() != 3 ||
      c.input(2).dims.size() != 3) {
    return absl::InvalidArgumentError("expected X, W and R of three axes");
  }
  const bool batch_first = c.attributes().Int("layout", 0) != 0;
  const int64_t directions = DirectionsOf(c.attributes());
  const Dims x = c.input(0).dims;
  const int64_t steps = x[batch_first ? 1 : 0], batch = x[batch_first ? 0 : 1];
  const int64_t hidden = c.input(2).dims[2], width = family.gates * hidden;
  if (c.attributes().Has("hidden_size") && c.attributes().Int("hidden_size", 0) != hidden) {
    return absl::InvalidArgumentError(absl::StrCat("hidden_size is ",
                                                   c.attributes().Int("hidden_size", 0), ", but R ",
                                                   ToString(c.input(2).dims)));
  }
  const Dims state =
      batch_first ? Dims{batch, directions, hidden} : Dims{directions, batch, hidden};
  const std::vector<Dims> expected = {x,
                                      {directions, width, x[2]},
                                      {directions, width, hidden},
                                      {directions, 2 * width},
                                      {batch},
                                      state,
                                      state,
                                      {directions, 3 * hidden}};
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (!c.has(i)) continue;
    const DataType type = i == 4 ? DataType::kInt32 : c.input(0).dtype;
    if (i >= (family.has_cell ? 8 : 6) || c.input(i).dims != expected[i] ||
        c.input(i).dtype != type) {
      return absl::InvalidArgumentError(absl::StrCat(
          "input ", i, " is ", ToString(c.input(i)), ", expected ", std::string(Name(type)), " ",
          i < 8 ? ToString(expected[i]) : std::string("none")));
    }
  }
  const DataType type = c.input(0).dtype;
  c.SetOutput(0, type,
              batch_first ? Dims{batch, steps, directions, hidden}
                          : Dims{steps, directions, batch, hidden});
  c.SetOutput(1, type, state);
  c.SetOutput(2, type, state);
  return absl::OkStatus();
}

// Where the batch is, if the samples are there in all that has them.
SampleAxis RecurrentSamples(const Node& node, absl::Span<const SampleAxis> inputs, int output) {
  const bool batch_first = node.attributes.Int("layout", 0) != 0;
  const auto is = [&](int i, int axis) {
    return i >= static_cast<int>(inputs.size()) || inputs[i].kind == SampleAxis::Kind::kNone ||
           inputs[i] == SampleAxis::Axis(axis);
  };
  const int of_state = batch_first ? 0 : 1;
  bool good = is(0, of_state) && is(4, 0) && is(5, of_state) && is(6, of_state);
  for (int i : {1, 2, 3, 7}) {
    good =
        good && (i >= static_cast<int>(inputs.size()) || inputs[i].kind == SampleAxis::Kind::kNone);
  }
  if (!good) return SampleAxis::Mixed();
  return SampleAxis::Axis(batch_first ? 0 : output == 0 ? 2 : 1);
}

// A multiplication and an addition for each weight, at every step of every sample.
double RecurrentOperations(const Node& node) {
  const Dims& x = node.input(0)->dims();
  const double weights = static_cast<double>(node.input(1)->type.elements()) +
                         static_cast<double>(node.input(2)->type.elements());
  return 2 * weights * static_cast<double>(x[0]) * static_cast<double>(x[1]);
}

// Examples that all three share, `gates` blocks of two hidden elements each.
Operator Recurrent(const std::string& name) {
  const int gates = FamilyOf(name).gates;
  const bool cell = FamilyOf(name).has_cell;
  Operator op("", name);
  const auto example = [&](bool two, bool batch_first, const std::string& inputs,
                           const std::string& names, const std::string& outputs,
                           const std::string& results, std::string attributes) {
    const int d = two ? 2 : 1;
    absl::StrAppend(&attributes, attributes.empty() ? "" : ", ", "hidden_size = 2");
    op.Example(absl::StrCat("g (float", batch_first ? "[2, 3, 3]" : "[3, 2, 3]", " x, float[", d,
                            ", ", gates * 2, ", 3] w, float[", d, ", ", gates * 2, ", 2] r", inputs,
                            ") => (", outputs, ") { ", results, " = ", name, "<", attributes,
                            ">(x, w, r", names, ") }"));
  };
  const std::string bias = absl::StrCat(", float[1, ", gates * 4, "] b");
  const std::string biases = absl::StrCat(", float[2, ", gates * 4, "] b");
  const std::string c = cell ? ", float[1, 2, 2] c" : "";
  const std::string initial = absl::StrCat(", float[1, 2, 2] h", c), h = cell ? ", h, c" : ", h";
  example(false, false, "", "", "float[3, 1, 2, 2] y", "y", "");
  example(false, false, bias, ", b", "float[3, 1, 2, 2] y, float[1, 2, 2] y_h", "y, y_h",
          "direction = \"reverse\"");
  example(false, false, absl::StrCat(bias, initial), absl::StrCat(", b, ", h), "float[1, 2, 2] y_h",
          ", y_h", "");
  example(true, false,
          absl::StrCat(biases, ", int32[2] labels_n, float[2, 2, 2] h",
                       cell ? ", float[2, 2, 2] c" : ""),
          absl::StrCat(", b, labels_n", h), "float[3, 2, 2, 2] y, float[2, 2, 2] y_h", "y, y_h",
          "direction = \"bidirectional\"");
  example(true, true, absl::StrCat(biases, ", float[2, 2, 2] h", cell ? ", float[2, 2, 2] c" : ""),
          absl::StrCat(", b, ", h), "float[2, 3, 2, 2] y, float[2, 2, 2] y_h", "y, y_h",
          "direction = \"bidirectional\", layout = 1");
  op.Infer(InferRecurrent)
      .AlwaysLower([](LowerContext& l) { return Unrolled(l).Run(); })
      .Operations(RecurrentOperations)
      .Samples(RecurrentSamples);
  return op;
}

// Every activation, as RNN's.
Operator Rnn() {
  Operator op = Recurrent("RNN");
  const auto with = [&](const std::string& attributes) {
    op.Example(absl::StrCat(
        "g (float[2, 1, 2] x, float[1, 2, 2] w, float[1, 2, 2] r) => (float[2, 1, 1, 2] y) "
        "{ y = RNN<hidden_size = 2, ",
        attributes, ">(x, w, r) }"));
  };
  for (const ActivationKind& kind : ActivationKinds()) {
    with(absl::StrCat("activations = [\"", kind.name, "\"]"));
    if (!kind.takes_alpha) continue;
    with(absl::StrCat("activations = [\"", kind.name, "\"], activation_alpha = [0.3]",
                      kind.takes_beta ? ", activation_beta = [0.4]" : ""));
  }
  with("clip = 0.4");
  op.Example(
      "g (float[2, 1, 2] x, float[2, 2, 2] w, float[2, 2, 2] r) => (float[2, 2, 1, 2] y) "
      "{ y = RNN<direction = \"bidirectional\", activations = [\"Relu\", \"Affine\"], "
      "activation_alpha = [0.5], activation_beta = [0.25]>(x, w, r) }");
  return op;
}

Operator Gru() {
  Operator op = Recurrent("GRU");
  for (const char* bias : {"", ", b"}) {
    op.Example(absl::StrCat(
        "g (float[2, 2, 3] x, float[1, 6, 3] w, float[1, 6, 2] r, float[1, 12] b) => "
        "(float[2, 1, 2, 2] y) { y = GRU<linear_before_reset = 1, hidden_size = 2>(x, w, r",
        bias, ") }"));
  }
  return op;
}

Operator Lstm() {
  Operator op = Recurrent("LSTM");
  for (const char* coupled : {"0", "1"}) {
    op.Example(absl::StrCat(
        "g (float[3, 2, 2] x, float[1, 8, 2] w, float[1, 8, 2] r, float[1, 6] p, "
        "int32[2] labels_n) => (float[3, 1, 2, 2] y, float[1, 2, 2] y_h, float[1, 2, 2] y_c) "
        "{ y, y_h, y_c = LSTM<hidden_size = 2, input_forget = ",
        coupled, ", clip = 0.9>(x, w, r, , labels_n, , , p) }"));
  }
  op.Example(
      "g (float[2, 2, 2] x, float[1, 8, 2] w, float[1, 8, 2] r) => (float[1, 2, 2] y_c) "
      "{ , , y_c = LSTM<activations = [\"HardSigmoid\", \"Softsign\", \"Relu\"]>(x, w, r) }");
  return op;
}

}  // namespace

void AddRecurrentOperators(OperatorFamily& list) {
  list.push_back(Rnn());
  list.push_back(Gru());
  list.push_back(Lstm());
}

}  // namespace onward
