// Softmax and its relatives, along one axis.
#include "graph/base/status_macros.h"
#include "graph/ir/builder.h"
#include "graph/ir/graph.h"
#include "graph/ops/checked.h"
#include "graph/ops/operators.h"
#include "graph/ops/rules.h"

namespace onward {
namespace {

int64_t AxisOf(const Node& node) {
  const int64_t rank = node.input(0)->rank(), axis = node.attributes.Int("axis", -1);
  return axis < 0 ? axis + rank : axis;
}

// Samples along the axis are mixed; elsewhere they stay.
SampleAxis SamplesOffAxis(const Node& node, absl::Span<const SampleAxis> in, int) {
  if (in[0].kind != SampleAxis::Kind::kAxis || in[0].axis != AxisOf(node)) return in[0];
  return SampleAxis::Mixed();
}

absl::Status CheckAxis(InferContext& c) {
  return NormalizeAxis(c.attributes().Int("axis", -1), c.input(0).dims.size()).status();
}

// y = exp(x) / sum(exp(x));  dx = y (dy - sum(dy y))
absl::Status SoftmaxGradient(GradientContext& g) {
  Expr y = g.y(), dy = g.dy();
  g.dx(0, y * (dy - g.b().ReduceSum(dy * y, {AxisOf(g.node())}, true)));
  return absl::OkStatus();
}

// y = x - log(sum(exp(x)));  dx = dy - exp(y) sum(dy)
absl::Status LogSoftmaxGradient(GradientContext& g) {
  Builder& b = g.b();
  Expr y = g.y(), dy = g.dy();
  g.dx(0, dy - b.Op("Exp", {y}) * b.ReduceSum(dy, {AxisOf(g.node())}, true));
  return absl::OkStatus();
}

// The operator `name` with examples over every axis, sizes of one and none.
Operator OnAxis(const std::string& name) {
  const std::string call = " { y = " + name;
  Operator op("", name);
  op.Infer(OnnxInferenceAnd(name, CheckAxis)).Samples(SamplesOffAxis).Operations(PerElement(14));
  op.Example("g (float[3, 5] large_x) => (float[3, 5] y)" + call + "(large_x) }")
      .Example("g (float[3, 5] x) => (float[3, 5] y)" + call + "<axis = 0>(x) }")
      .Example("g (float[2, 3, 4] x) => (float[2, 3, 4] y)" + call + "<axis = 1>(x) }")
      .Example("g (float[2, 3, 2, 2] x) => (float[2, 3, 2, 2] y)" + call + "<axis = -3>(x) }")
      .Example("g (float[4] x) => (float[4] y)" + call + "(x) }")
      .Example("g (float[3, 1] x) => (float[3, 1] y)" + call + "<axis = 1>(x) }")
      .Example("g (float[0, 3] x) => (float[0, 3] y)" + call + "(x) }")
      .Example("g (float[17, 33] x) => (float[17, 33] y)" + call + "(x) }");
  return op;
}

}  // namespace

void AddSoftmaxOperators(OperatorFamily& list) {
  list.push_back(OnAxis("Softmax").Gradient(SoftmaxGradient));
  list.push_back(OnAxis("LogSoftmax").Gradient(LogSoftmaxGradient));
  // y = 1 at the first largest element, 0 elsewhere
  list.push_back(OnAxis("Hardmax").NotDifferentiable("its output is piecewise constant"));
}

}  // namespace onward
