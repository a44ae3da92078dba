// Losses of classification. The loss pass composes the rest (squared, absolute and
// Huber errors, losses on probabilities) of plain nodes: graph/passes/loss_terms.h.
//
// Classes are axis 1 of logits [N, C, d...]; labels are integers [N, d...] in
// [0, C); w are the class weights [C], all 1 where absent; W is their sum. A label
// equal to ignore_index has loss and weight 0 and gets no gradient. Another label
// outside [0, C) is an error of data.
//
// Label smoothing s is PyTorch's: with class weights, the share s of a label is
// spread over all classes by s / C * w_c. For one-hot labels without class weights
// it equals Keras', who smooths the labels themselves: t_c (1 - s) + s / C.
#include <string>

#include "absl/strings/str_cat.h"
#include "graph/base/status_macros.h"
#include "graph/ir/builder.h"
#include "graph/ir/graph.h"
#include "graph/ops/operators.h"
#include "graph/ops/rules.h"

namespace onward {
namespace {

// [N, C, d...] without its classes.
Dims WithoutClasses(const Dims& dims) {
  Dims out = dims;
  out.erase(out.begin() + 1);
  return out;
}

// [N, d...] with an axis of 1 for the classes.
Dims WithOneClass(const Dims& dims) {
  Dims out = dims;
  out.insert(out.begin() + 1, 1);
  return out;
}

absl::Status CheckLabels(const InferContext& c, int logits, int labels, int weights) {
  const TensorType& x = c.input(logits);
  if (!IsFloating(x.dtype) || x.dims.size() < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat(c.op().id(), ": scores must be floating and [N, C, ...], are ", ToString(x)));
  }
  const TensorType& l = c.input(labels);
  if ((l.dtype != DataType::kInt32 && l.dtype != DataType::kInt64) ||
      l.dims != WithoutClasses(x.dims)) {
    return absl::InvalidArgumentError(
        absl::StrCat(c.op().id(), ": for scores ", ToString(x.dims), " labels must be integers ",
                     ToString(WithoutClasses(x.dims)), ", are ", ToString(l)));
  }
  if (c.has(weights) &&
      (c.input(weights).dtype != x.dtype || c.input(weights).dims != Dims{x.dims[1]})) {
    return absl::InvalidArgumentError(
        absl::StrCat(c.op().id(), ": for scores ", ToString(x), " class weights must be [",
                     x.dims[1], "] of the same type, are ", ToString(c.input(weights))));
  }
  return absl::OkStatus();
}

// Samples lie along the same axis of labels and losses, counted without the classes.
SampleAxis ClassesDropped(SampleAxis in) {
  if (in.kind != SampleAxis::Kind::kAxis || in.axis == 0) return in;
  if (in.axis == 1) return SampleAxis::Mixed();
  return SampleAxis::Axis(in.axis - 1, in.inner);
}

// What the lowerings of losses on integer labels have in common.
class Labelled {
 public:
  Labelled(Builder& b, Expr scores, Expr labels, Expr weights, const Attributes& a)
      : b_(b), scores_(scores), labels_(labels), weights_(weights) {
    if (!a.Has("ignore_index")) return;
    Tensor index(labels.dtype(), {});
    const int64_t ignored = a.Int("ignore_index", 0);
    if (labels.dtype() == DataType::kInt64) {
      index.mutable_values<int64_t>()[0] = ignored;
    } else {
      index.mutable_values<int32_t>()[0] = static_cast<int32_t>(ignored);
    }
    keep_ = b.Op("Not", {b.Op("Equal", {labels, b.Constant(std::move(index))})});
    labels_ = b.Where(keep_, labels, b.Scalar(labels.dtype(), 0));
  }

  int64_t classes() const { return scores_.dims()[1]; }
  // x where the label counts, else 0.
  Expr Kept(Expr x) { return keep_ ? b_.Where(keep_, x, b_.Like(x, 0)) : x; }
  // w of each label: [N, d...].
  Expr Weight() {
    if (weights_) return Kept(b_.Op("Gather", {weights_, labels_}));
    return Kept(b_.Expand(b_.Like(scores_, 1), labels_.dims()));
  }
  // The label's own entry of x [N, C, d...]: [N, d...].
  Expr Picked(Expr x) {
    const Expr index = b_.Reshape(labels_, WithOneClass(labels_.dims()));
    return b_.Reshape(b_.Op("GatherElements", {x, index}, {{"axis", int64_t{1}}}), labels_.dims());
  }
  // 1 at the label's class: [N, C, d...].
  Expr OneHot() {
    std::vector<int64_t> numbers(classes());
    for (int64_t i = 0; i < classes(); ++i) numbers[i] = i;
    const Expr index = b_.Reshape(b_.Cast(labels_, DataType::kInt64), WithOneClass(labels_.dims()));
    return b_.Cast(b_.Op("Equal", {index, PerClass(b_.Ints(numbers))}), scores_.dtype());
  }
  // [C] as [1, C, 1...].
  Expr PerClass(Expr x) {
    Dims dims(scores_.dims().size(), 1);
    dims[1] = classes();
    return b_.Reshape(x, dims);
  }
  // w as [1, C, 1...], or 1.
  Expr ClassWeights() { return weights_ ? PerClass(weights_) : b_.Like(scores_, 1); }
  // The sum of w, a scalar.
  Expr WeightSum() {
    return weights_ ? b_.ReduceSum(weights_, {0}, false)
                    : b_.Like(scores_, static_cast<double>(classes()));
  }

 private:
  Builder& b_;
  Expr scores_, labels_, weights_, keep_;
};

absl::Status InferLabelled(InferContext& c) {
  RETURN_IF_ERROR(CheckLabels(c, 0, 1, 2));
  c.SetOutput(0, c.input(0).dtype, c.input(1).dims);
  c.SetOutput(1, c.input(0).dtype, c.input(1).dims);
  return absl::OkStatus();
}

// Class weights are numbers of the user, not parameters.
absl::Status RefuseTrainedWeights(const GradientContext& g) {
  if (!g.wants(2)) return absl::OkStatus();
  return absl::UnimplementedError("class weights of a loss do not train");
}

// loss = -(1 - s) w_y log p_y - s / C sum_c w_c log p_c,  p = softmax(logits)
// weight = w_y;  dlogits: SoftmaxCrossEntropyGradient
absl::Status LowerSoftmaxCrossEntropy(LowerContext& c) {
  Builder& b = c.b();
  Labelled l(b, c.x(0), c.x(1), c.has_x(2) ? c.x(2) : Expr(), c.attributes());
  const double smoothing = c.attributes().Float("label_smoothing", 0);
  const Expr log_p = b.Op("LogSoftmax", {c.x(0)}, {{"axis", int64_t{1}}});
  const Expr weight = l.Weight();
  Expr loss = -(weight * l.Kept(l.Picked(log_p)) * (1 - smoothing));
  if (smoothing != 0) {
    const Expr all = b.ReduceSum(log_p * l.ClassWeights(), {1}, false);
    loss = loss - l.Kept(all) * (smoothing / static_cast<double>(l.classes()));
  }
  c.y(0, loss);
  if (c.wants(1)) c.y(1, weight);
  return absl::OkStatus();
}

// dlogits = dloss ((1 - s) w_y (p - e_y) + s / C (W p - w))   where the label counts
absl::Status LowerSoftmaxCrossEntropyGradient(LowerContext& c) {
  Builder& b = c.b();
  Labelled l(b, c.x(1), c.x(2), c.has_x(3) ? c.x(3) : Expr(), c.attributes());
  const double smoothing = c.attributes().Float("label_smoothing", 0);
  const Dims column = WithOneClass(c.x(2).dims());
  const Expr p = b.Op("Softmax", {c.x(1)}, {{"axis", int64_t{1}}});
  Expr d = b.Reshape(l.Weight() * (1 - smoothing), column) * (p - l.OneHot());
  if (smoothing != 0) {
    d = d + (p * l.WeightSum() - l.ClassWeights()) * (smoothing / static_cast<double>(l.classes()));
  }
  c.y(0, b.Reshape(l.Kept(c.x(0)), column) * d);
  return absl::OkStatus();
}

void AddSoftmaxCrossEntropy(OperatorFamily& list) {
  list.push_back(
      Operator(kOnward, "SoftmaxCrossEntropy")
          .Example("g (float[4, 3] x, int64[4] labels) => (float[4] loss, float[4] weight) "
                   "{ loss, weight = onward.SoftmaxCrossEntropy(x, labels) }")
          .Example("g (float[19, 10] large_x, int32[19] labels) => (float[19] loss) "
                   "{ loss = onward.SoftmaxCrossEntropy <ignore_index = 1, label_smoothing = 0.125>"
                   "(large_x, labels) }")
          .Example("g (float[2, 3, 5, 4] large_x, int64[2, 5, 4] labels) => "
                   "(float[2, 5, 4] loss, float[2, 5, 4] weight) "
                   "{ w = Constant <value = float[3] {0.5, 2.0, 1.25}>() loss, weight = "
                   "onward.SoftmaxCrossEntropy <ignore_index = 2, label_smoothing = 0.25>"
                   "(large_x, labels, w) }")
          .Example("g (float[5, 67] large_x, int64[5] labels) => (float[5] loss, float[5] weight) "
                   "{ loss, weight = onward.SoftmaxCrossEntropy <label_smoothing = 0.25>"
                   "(large_x, labels) }")
          .Example("g (float[0, 3] x, int64[0] labels) => (float[0] loss) "
                   "{ loss = onward.SoftmaxCrossEntropy(x, labels) }")
          .Infer(InferLabelled)
          .Operations(PerElement(14))
          .Samples([](const Node&, absl::Span<const SampleAxis> in, int) {
            return ClassesDropped(in[0]);
          })
          .Gradient([](GradientContext& g) -> absl::Status {
            RETURN_IF_ERROR(RefuseTrainedWeights(g));
            if (!g.dy(0)) return absl::OkStatus();
            std::vector<Expr> inputs = {g.dy(0), g.x(0), g.x(1)};
            if (g.has_x(2)) inputs.push_back(g.x(2));
            g.dx(0, g.b().Op("onward.SoftmaxCrossEntropyGradient", inputs, g.attributes()));
            return absl::OkStatus();
          })
          .Lower(LowerSoftmaxCrossEntropy));
  list.push_back(
      Operator(kOnward, "SoftmaxCrossEntropyGradient")
          .Operations(PerElement(16))
          .Example("g (float[4] d, float[4, 3] x, int64[4] labels) => (float[4, 3] dx) "
                   "{ dx = onward.SoftmaxCrossEntropyGradient(d, x, labels) }")
          .Example("g (float[19] d, float[19, 10] large_x, int32[19] labels) => "
                   "(float[19, 10] dx) { dx = onward.SoftmaxCrossEntropyGradient "
                   "<ignore_index = 1, label_smoothing = 0.125>(d, large_x, labels) }")
          .Example("g (float[2, 5, 4] d, float[2, 3, 5, 4] large_x, int64[2, 5, 4] labels) => "
                   "(float[2, 3, 5, 4] dx) { w = Constant <value = float[3] {0.5, 2.0, 1.25}>() "
                   "dx = onward.SoftmaxCrossEntropyGradient <ignore_index = 2, "
                   "label_smoothing = 0.25>(d, large_x, labels, w) }")
          .Example("g (float[5] d, float[5, 67] large_x, int64[5] labels) => (float[5, 67] dx) "
                   "{ dx = onward.SoftmaxCrossEntropyGradient <label_smoothing = 0.25>"
                   "(d, large_x, labels) }")
          .Infer([](InferContext& c) -> absl::Status {
            RETURN_IF_ERROR(CheckLabels(c, 1, 2, 3));
            c.SetOutput(0, c.input(1).dtype, c.input(1).dims);
            return absl::OkStatus();
          })
          .Samples([](const Node&, absl::Span<const SampleAxis> in, int) { return in[1]; })
          .Lower(LowerSoftmaxCrossEntropyGradient));
}

absl::Status InferDense(InferContext& c, int logits) {
  const TensorType& x = c.input(logits);
  if (!IsFloating(x.dtype) || x.dims.size() < 2 || c.input(logits + 1) != x) {
    return absl::InvalidArgumentError(
        absl::StrCat(c.op().id(),
                     ": scores and target probabilities must be [N, C, ...] of one "
                     "floating type, are ",
                     ToString(x), " and ", ToString(c.input(logits + 1))));
  }
  return absl::OkStatus();
}

void AddSoftmaxCrossEntropyDense(OperatorFamily& list) {
  // loss = -sum_c t_c log p_c,  p = softmax(logits);  dlogits = dloss (p sum(t) - t),
  // dt = -dloss log p
  list.push_back(
      Operator(kOnward, "SoftmaxCrossEntropyDense")
          .Operations(PerElement(16))
          .Example("g (float[4, 3] large_x, float[4, 3] unit_t) => (float[4] loss) "
                   "{ loss = onward.SoftmaxCrossEntropyDense(large_x, unit_t) }")
          .Example("g (float[2, 3, 5] x, float[2, 3, 5] unit_t) => (float[2, 5] loss) "
                   "{ loss = onward.SoftmaxCrossEntropyDense(x, unit_t) }")
          .Infer([](InferContext& c) -> absl::Status {
            RETURN_IF_ERROR(InferDense(c, 0));
            c.SetOutput(0, c.input(0).dtype, WithoutClasses(c.input(0).dims));
            return absl::OkStatus();
          })
          .Samples([](const Node&, absl::Span<const SampleAxis> in, int) {
            return ClassesDropped(in[0]);
          })
          .Gradient([](GradientContext& g) {
            Builder& b = g.b();
            if (g.wants(0)) {
              g.dx(0, b.Op("onward.SoftmaxCrossEntropyDenseGradient", {g.dy(), g.x(0), g.x(1)}));
            }
            if (g.wants(1)) {
              const Expr column = b.Reshape(g.dy(), WithOneClass(g.dy().dims()));
              g.dx(1, -(column * b.Op("LogSoftmax", {g.x(0)}, {{"axis", int64_t{1}}})));
            }
            return absl::OkStatus();
          })
          .Lower([](LowerContext& c) {
            const Expr log_p = c.b().Op("LogSoftmax", {c.x(0)}, {{"axis", int64_t{1}}});
            c.y(0, -c.b().ReduceSum(c.x(1) * log_p, {1}, false));
            return absl::OkStatus();
          }));
  list.push_back(
      Operator(kOnward, "SoftmaxCrossEntropyDenseGradient")
          .Operations(PerElement(16))
          .Example("g (float[4] d, float[4, 3] large_x, float[4, 3] unit_t) => (float[4, 3] dx) "
                   "{ dx = onward.SoftmaxCrossEntropyDenseGradient(d, large_x, unit_t) }")
          .Example("g (float[2, 5] d, float[2, 3, 5] x, float[2, 3, 5] unit_t) => "
                   "(float[2, 3, 5] dx) "
                   "{ dx = onward.SoftmaxCrossEntropyDenseGradient(d, x, unit_t) }")
          .Infer([](InferContext& c) -> absl::Status {
            RETURN_IF_ERROR(InferDense(c, 1));
            c.SetOutput(0, c.input(1).dtype, c.input(1).dims);
            return absl::OkStatus();
          })
          .Samples([](const Node&, absl::Span<const SampleAxis> in, int) { return in[1]; })
          .Lower([](LowerContext& c) {
            Builder& b = c.b();
            const Expr p = b.Op("Softmax", {c.x(1)}, {{"axis", int64_t{1}}});
            const Expr column = b.Reshape(c.x(0), WithOneClass(c.x(0).dims()));
            c.y(0, column * (p * b.ReduceSum(c.x(2), {1}, true) - c.x(2)));
            return absl::OkStatus();
          }));
}

void AddNegativeLogLikelihood(OperatorFamily& list) {
  // loss = -w_y x_y for log-probabilities x;  weight = w_y;  dx = -dloss w_y e_y
  list.push_back(
      Operator(kOnward, "NegativeLogLikelihood")
          .Example("g (float[4, 3] x, int64[4] labels) => (float[4] loss, float[4] weight) "
                   "{ loss, weight = onward.NegativeLogLikelihood(x, labels) }")
          .Example("g (float[2, 3, 5] x, int32[2, 5] labels) => "
                   "(float[2, 5] loss, float[2, 5] weight) "
                   "{ w = Constant <value = float[3] {0.5, 2.0, 1.25}>() loss, weight = "
                   "onward.NegativeLogLikelihood <ignore_index = 1>(x, labels, w) }")
          .Infer(InferLabelled)
          .Samples([](const Node&, absl::Span<const SampleAxis> in, int) {
            return ClassesDropped(in[0]);
          })
          .Gradient([](GradientContext& g) -> absl::Status {
            RETURN_IF_ERROR(RefuseTrainedWeights(g));
            if (!g.dy(0)) return absl::OkStatus();
            Labelled l(g.b(), g.x(0), g.x(1), g.has_x(2) ? g.x(2) : Expr(), g.attributes());
            const Expr d = -(g.dy(0) * l.Weight());
            g.dx(0, g.b().Reshape(d, WithOneClass(d.dims())) * l.OneHot());
            return absl::OkStatus();
          })
          .Lower([](LowerContext& c) {
            Labelled l(c.b(), c.x(0), c.x(1), c.has_x(2) ? c.x(2) : Expr(), c.attributes());
            const Expr weight = l.Weight();
            c.y(0, -(weight * l.Kept(l.Picked(c.x(0)))));
            if (c.wants(1)) c.y(1, weight);
            return absl::OkStatus();
          }));
}

absl::Status InferSigmoidCrossEntropy(InferContext& c) {
  const TensorType& x = c.input(0);
  if (!IsFloating(x.dtype) || c.input(1) != x) {
    return absl::InvalidArgumentError(absl::StrCat(c.op().id(),
                                                   ": scores and targets must be alike, are ",
                                                   ToString(x), " and ", ToString(c.input(1))));
  }
  // Positives' weights: the last axes of the scores, or one number.
  if (c.has(2)) {
    const Dims& k = c.input(2).dims;
    bool fits = c.input(2).dtype == x.dtype && k.size() <= x.dims.size();
    for (size_t i = 0; fits && i < k.size(); ++i) {
      fits = k[i] == x.dims[x.dims.size() - k.size() + i];
    }
    if (!fits && Elements(k) != 1) {
      return absl::InvalidArgumentError(absl::StrCat(c.op().id(), ": weights of positives ",
                                                     ToString(c.input(2)), " do not fit scores ",
                                                     ToString(x)));
    }
  }
  c.SetOutput(0, x.dtype, x.dims);
  return absl::OkStatus();
}

void AddSigmoidCrossEntropy(OperatorFamily& list) {
  // With p = sigmoid(x), softplus(-x) = log(1 + exp(-|x|)) + max(-x, 0) and the
  // weight k of positives (1 where absent), a = 1 + (k - 1) t:
  // loss = -k t log p - (1 - t) log(1 - p) = (1 - t) x + a softplus(-x)
  // dx = dy (a p - k t);  dt = dy ((k - 1) softplus(-x) - x)
  const auto softplus = [](Builder& b, Expr x) {
    const Expr below = b.Op("Max", {-x, b.Like(x, 0)});
    return b.Op("Log", {1 + b.Op("Exp", {-b.Op("Abs", {x})})}) + below;
  };
  list.push_back(
      Operator(kOnward, "SigmoidCrossEntropy")
          .Example("g (float[4, 3] large_x, float[4, 3] unit_t) => (float[4, 3] loss) "
                   "{ loss = onward.SigmoidCrossEntropy(large_x, unit_t) }")
          .Example("g (float[4, 3] large_x, float[4, 3] unit_t) => (float[4, 3] loss) "
                   "{ k = Constant <value = float[3] {0.5, 2.0, 1.25}>() "
                   "loss = onward.SigmoidCrossEntropy(large_x, unit_t, k) }")
          .Example("g (float[4] x, float[4] unit_t) => (float[4] loss) "
                   "{ k = Constant <value = float[1] {2.5}>() "
                   "loss = onward.SigmoidCrossEntropy(x, unit_t, k) }")
          .Infer(InferSigmoidCrossEntropy)
          .Operations(PerElement(24))
          .Samples([](const Node&, absl::Span<const SampleAxis> in, int) { return in[0]; })
          .Gradient([softplus](GradientContext& g) -> absl::Status {
            RETURN_IF_ERROR(RefuseTrainedWeights(g));
            Builder& b = g.b();
            const Expr x = g.x(0), t = g.x(1);
            const Expr p = b.Op("Sigmoid", {x});
            if (!g.has_x(2)) {
              g.dx(0, g.dy() * (p - t));
              if (g.wants(1)) g.dx(1, -(g.dy() * x));
              return absl::OkStatus();
            }
            const Expr k = g.x(2);
            g.dx(0, g.dy() * ((1 + (k - 1) * t) * p - k * t));
            if (g.wants(1)) g.dx(1, g.dy() * ((k - 1) * softplus(b, x) - x));
            return absl::OkStatus();
          })
          .Lower([softplus](LowerContext& c) {
            const Expr x = c.x(0), t = c.x(1);
            const Expr below = softplus(c.b(), x);
            c.y(0, (1 - t) * x + (c.has_x(2) ? (1 + (c.x(2) - 1) * t) * below : below));
            return absl::OkStatus();
          }));
}

// The reduction of ONNX's losses. The mean is over the sum of weights; where that
// is 0 (every label ignored) it is 0, as the sum is.
absl::StatusOr<Expr> Reduced(LowerContext& c, Expr loss, Expr weight) {
  Builder& b = c.b();
  const std::string reduction = c.attributes().String("reduction", "mean");
  if (reduction == "none") return loss;
  std::vector<int64_t> axes;
  for (int i = 0; i < loss.rank(); ++i) axes.push_back(i);
  const Expr sum = b.ReduceSum(loss, axes, false);
  if (reduction == "sum") return sum;
  if (reduction != "mean") {
    return absl::InvalidArgumentError(
        absl::StrCat("reduction is none, sum or mean, not ", reduction));
  }
  const Expr total = b.ReduceSum(weight, axes, false);
  const Expr none = b.Op("Equal", {total, b.Like(total, 0)});
  return sum / b.Where(none, b.Like(total, 1), total);
}

LowerRule LowerOnnxLoss(const char* op) {
  return [op](LowerContext& c) -> absl::Status {
    Builder& b = c.b();
    Attributes attributes;
    if (c.attributes().Has("ignore_index")) {
      attributes.Set("ignore_index", c.attributes().Int("ignore_index", 0));
    }
    std::vector<Expr> inputs = {c.x(0), c.x(1)};
    if (c.has_x(2)) inputs.push_back(c.x(2));
    const std::vector<Expr> parts = b.Ops(op, inputs, std::move(attributes), 2);
    RETURN_IF_ERROR(b.status());
    ASSIGN_OR_RETURN(const Expr y, Reduced(c, parts[0], parts[1]));
    c.y(0, y);
    if (c.wants(1)) c.y(1, b.Op("LogSoftmax", {c.x(0)}, {{"axis", int64_t{1}}}));
    return absl::OkStatus();
  };
}

// A loss for each label lies as the labels do; a mean or a sum mixes the samples.
SampleAxis OnnxLossSamples(const Node& node, absl::Span<const SampleAxis> in, int output) {
  if (output == 1) return in[0].axis == 1 ? SampleAxis::Mixed() : in[0];
  if (node.attributes.String("reduction", "mean") != "none") return SampleAxis::Mixed();
  const SampleAxis scores = ClassesDropped(in[0]);
  if (scores.kind == SampleAxis::Kind::kNone) return in[1];
  return in[1].kind == SampleAxis::Kind::kNone || in[1] == scores ? scores : SampleAxis::Mixed();
}

void AddOnnxLosses(OperatorFamily& list) {
  list.push_back(
      Operator("", "SoftmaxCrossEntropyLoss")
          .Example("g (float[4, 3] x, int64[4] labels) => (float y) "
                   "{ y = SoftmaxCrossEntropyLoss(x, labels) }")
          .Example("g (float[4, 3] x, int32[4] labels) => (float[4] y, float[4, 3] log_p) "
                   "{ y, log_p = SoftmaxCrossEntropyLoss <reduction = \"none\">(x, labels) }")
          .Example("g (float[2, 3, 5] x, int64[2, 5] labels) => (float y, float[2, 3, 5] log_p) "
                   "{ w = Constant <value = float[3] {0.5, 2.0, 1.25}>() y, log_p = "
                   "SoftmaxCrossEntropyLoss <ignore_index = 1>(x, labels, w) }")
          .Example("g (float[2, 3, 5, 2] x, int64[2, 5, 2] labels) => (float y) "
                   "{ y = SoftmaxCrossEntropyLoss <reduction = \"sum\", ignore_index = -100>"
                   "(x, labels) }")
          .AlwaysLower(LowerOnnxLoss("onward.SoftmaxCrossEntropy"))
          .Samples(OnnxLossSamples));
  list.push_back(
      Operator("", "NegativeLogLikelihoodLoss")
          .Example("g (float[4, 3] x, int64[4] labels) => (float y) "
                   "{ y = NegativeLogLikelihoodLoss(x, labels) }")
          .Example("g (float[4, 3] x, int32[4] labels) => (float[4] y) "
                   "{ y = NegativeLogLikelihoodLoss <reduction = \"none\">(x, labels) }")
          .Example("g (float[2, 3, 5] x, int64[2, 5] labels) => (float y) "
                   "{ w = Constant <value = float[3] {0.5, 2.0, 1.25}>() "
                   "y = NegativeLogLikelihoodLoss <ignore_index = 1>(x, labels, w) }")
          .Example("g (float[2, 3, 5, 2] x, int64[2, 5, 2] labels) => (float y) "
                   "{ y = NegativeLogLikelihoodLoss <reduction = \"sum\", ignore_index = -100>"
                   "(x, labels) }")
          .AlwaysLower(LowerOnnxLoss("onward.NegativeLogLikelihood"))
          .Samples(OnnxLossSamples));
}

}  // namespace

void AddLossOperators(OperatorFamily& list) {
  AddSoftmaxCrossEntropy(list);
  AddSoftmaxCrossEntropyDense(list);
  AddNegativeLogLikelihood(list);
  AddSigmoidCrossEntropy(list);
  AddOnnxLosses(list);
}

}  // namespace onward
