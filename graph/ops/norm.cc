// Normalisations with statistics over samples or over the axes of one sample. (The
// ones that are made of these are in norm_derived.cc.)
#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/base/status_macros.h"
#include "graph/ir/builder.h"
#include "graph/ir/graph.h"
#include "graph/ops/checked.h"
#include "graph/ops/operators.h"
#include "graph/ops/rules.h"

namespace onward {
namespace {

// ---- Batch normalisation: [samples, channels, space...], statistics per channel.

int64_t Channels(const Dims& x) { return x.size() < 2 ? 1 : x[1]; }

// A vector of one number per channel, to be broadcast over x.
Dims PerChannel(const Dims& x) {
  Dims dims(x.size(), 1);
  if (x.size() >= 2) dims[1] = x[1];
  return dims;
}

std::vector<int64_t> AllButChannels(const Dims& x) {
  std::vector<int64_t> axes;
  for (size_t i = 0; i < x.size(); ++i) {
    if (i != 1) axes.push_back(static_cast<int64_t>(i));
  }
  return axes;
}

// Elements behind each statistic. An empty shard has none: its sums are 0, and so
// are its statistics.
double Count(const Dims& x) {
  const int64_t channels = std::max<int64_t>(Channels(x), 1);
  return static_cast<double>(std::max<int64_t>(Elements(x) / channels, 1));
}

Expr InverseRoot(Builder& b, Expr variance, double epsilon) {
  return 1.0 / b.Op("Sqrt", {variance + epsilon});
}

// Inference: y = (x - mean) / sqrt(var + epsilon) scale + bias.
// Training: y and the statistics of this batch by BatchNormalizationTraining;
//   running' = momentum running + (1 - momentum) batch
absl::Status LowerBatchNormalization(LowerContext& c) {
  Builder& b = c.b();
  const DataType dtype = c.x(0).dtype();
  const Dims channel = PerChannel(c.x(0).dims());
  const double epsilon = c.attributes().Float("epsilon", 1e-5f);
  Expr scale = b.Cast(c.x(1), dtype), bias = b.Cast(c.x(2), dtype);
  if (c.attributes().Int("training_mode", 0) == 0) {
    // From the mean first: a gradient through the factor then has no large terms that
    // cancel.
    Expr factor = scale * InverseRoot(b, b.Cast(c.x(4), dtype), epsilon);
    Expr from_mean = c.x(0) - b.Reshape(b.Cast(c.x(3), dtype), channel);
    c.y(0, from_mean * b.Reshape(factor, channel) + b.Reshape(bias, channel));
    return absl::OkStatus();
  }
  const double momentum = c.attributes().Float("momentum", 0.9f);
  const std::vector<Expr> now =
      b.Ops("onward.BatchNormalizationTraining", {c.x(0), scale, bias}, {{"epsilon", epsilon}}, 3);
  c.y(0, now[0]);
  for (int i : {1, 2}) {
    Expr running = c.x(i + 2);
    c.y(i, running * momentum + b.Cast(now[i], running.dtype()) * (1 - momentum));
  }
  return absl::OkStatus();
}

// The samples of y stay where they are, though each depends on all of its shard;
// statistics over an axis of samples are mixed, those of other channels are not.
SampleAxis BatchSamples(const Node&, absl::Span<const SampleAxis> in, int output) {
  for (size_t i = 1; i < in.size(); ++i) {
    if (in[i].kind != SampleAxis::Kind::kNone) return SampleAxis::Mixed();
  }
  if (in[0].kind != SampleAxis::Kind::kAxis || output == 0) return in[0];
  return in[0].axis == 1 ? SampleAxis::Axis(0, in[0].inner) : SampleAxis::Mixed();
}

// The same for a gradient, whose inputs dy and x both hold samples.
SampleAxis BatchGradientSamples(const Node&, absl::Span<const SampleAxis> in, int output) {
  const SampleAxis x = in[0].kind == SampleAxis::Kind::kNone ? in[1] : in[0];
  if (x.kind != SampleAxis::Kind::kAxis || output == 0) return x;
  return x.axis == 1 ? SampleAxis::Axis(0, x.inner) : SampleAxis::Mixed();
}

absl::Status InferBatchTraining(InferContext& c) {
  if (c.num_inputs() != 3 || !c.has(0) || !c.has(1) || !c.has(2)) {
    return absl::InvalidArgumentError("BatchNormalizationTraining takes x, scale and bias");
  }
  const Dims channels = {Channels(c.input(0).dims)};
  if (c.input(1).dims != channels || c.input(2).dims != channels) {
    return absl::InvalidArgumentError(
        absl::StrCat("scale and bias must be ", ToString(channels), ", one for each channel"));
  }
  const DataType dtype = c.input(0).dtype;
  c.SetOutput(0, dtype, c.input(0).dims);
  c.SetOutput(1, dtype, channels);
  c.SetOutput(2, dtype, channels);
  return absl::OkStatus();
}

// mean = sum(x) / n,  variance = sum((x - mean)^2) / n,
// y = (x - mean) / sqrt(variance + epsilon) scale + bias
absl::Status LowerBatchTraining(LowerContext& c) {
  Builder& b = c.b();
  const Dims x = c.x(0).dims(), channel = PerChannel(x);
  const std::vector<int64_t> axes = AllButChannels(x);
  const double n = Count(x);
  Expr mean = b.ReduceSum(c.x(0), axes, true) / n;
  Expr from_mean = c.x(0) - mean;
  Expr variance = b.ReduceSum(from_mean * from_mean, axes, true) / n;
  Expr factor = InverseRoot(b, variance, c.attributes().Float("epsilon", 1e-5f));
  c.y(0, from_mean * (factor * b.Reshape(c.x(1), channel)) + b.Reshape(c.x(2), channel));
  c.y(1, b.Reshape(mean, {Channels(x)}));
  c.y(2, b.Reshape(variance, {Channels(x)}));
  return absl::OkStatus();
}

// dx, dscale, dbias by BatchNormalizationGradient; through the statistics that are
// given out:  dx += (dmean + 2 (x - mean) dvariance) / n
absl::Status BatchTrainingGradient(GradientContext& g) {
  Builder& b = g.b();
  const Dims x = g.x(0).dims(), channel = PerChannel(x);
  Expr dx;
  if (g.dy(0)) {
    const std::vector<Expr> d =
        b.Ops("onward.BatchNormalizationGradient", {g.dy(0), g.x(0), g.x(1), g.y(1), g.y(2)},
              {{"epsilon", g.attributes().Float("epsilon", 1e-5f)}}, 3);
    dx = d[0];
    g.dx(1, d[1]);
    g.dx(2, d[2]);
  }
  const auto add = [&](Expr more) { dx = dx ? dx + more : more; };
  if (g.dy(1)) add(b.Expand(b.Reshape(g.dy(1) / Count(x), channel), x));
  if (g.dy(2)) {
    Expr from_mean = g.x(0) - b.Reshape(g.y(1), channel);
    add(from_mean * b.Reshape(g.dy(2) * (2 / Count(x)), channel));
  }
  g.dx(0, dx);
  return absl::OkStatus();
}

absl::Status InferBatchGradient(InferContext& c) {
  if (c.num_inputs() != 5) {
    return absl::InvalidArgumentError("BatchNormalizationGradient takes 5 inputs");
  }
  const Dims& x = c.input(1).dims;
  const Dims channels = {Channels(x)};
  for (int i : {2, 3, 4}) {
    if (c.input(i).dims != channels) {
      return absl::InvalidArgumentError(absl::StrCat("input ", i, " must be ", ToString(channels)));
    }
  }
  if (c.input(0).dims != x) return absl::InvalidArgumentError("dy and x differ in shape");
  c.SetOutput(0, c.input(1).dtype, x);
  c.SetOutput(1, c.input(1).dtype, channels);
  c.SetOutput(2, c.input(1).dtype, channels);
  return absl::OkStatus();
}

// h = (x - mean) r,  r = 1 / sqrt(variance + epsilon);
// dbias = sum(dy),  dscale = sum(dy h),  dx = scale r (dy - dbias / n - h dscale / n)
absl::Status LowerBatchGradient(LowerContext& c) {
  Builder& b = c.b();
  const Dims x = c.x(1).dims(), channel = PerChannel(x);
  const std::vector<int64_t> axes = AllButChannels(x);
  const double n = Count(x);
  Expr dy = c.x(0), scale = b.Reshape(c.x(2), channel), mean = b.Reshape(c.x(3), channel);
  Expr r = InverseRoot(b, b.Reshape(c.x(4), channel), c.attributes().Float("epsilon", 1e-5f));
  Expr h = (c.x(1) - mean) * r;
  Expr dbias = b.ReduceSum(dy, axes, true), dscale = b.ReduceSum(dy * h, axes, true);
  c.y(0, (scale * r) * (dy - dbias / n - h * (dscale / n)));
  c.y(1, b.Reshape(dscale, {Channels(x)}));
  c.y(2, b.Reshape(dbias, {Channels(x)}));
  return absl::OkStatus();
}

Operator BatchNormalization() {
  return Operator("", "BatchNormalization")
      .Example(
          "g (float[3, 2, 2, 3] x, float[2] s, float[2] b, float[2] m, float[2] positive_v)"
          " => (float[3, 2, 2, 3] y) { y = BatchNormalization(x, s, b, m, positive_v) }")
      .Example(
          "g (float[4, 3] x, float[3] s, float[3] b, float[3] m, float[3] positive_v)"
          " => (float[4, 3] y)"
          " { y = BatchNormalization<epsilon = 0.01>(x, s, b, m, positive_v) }")
      .Example(
          "g (float[3, 2, 4] x, float[2] s, float[2] b, float[2] m, float[2] positive_v)"
          " => (float[3, 2, 4] y, float[2] rm, float[2] rv) { y, rm, rv ="
          " BatchNormalization<training_mode = 1, momentum = 0.8>(x, s, b, m, positive_v) }")
      .Example(
          "g (float[2, 17, 3, 3] x, float[17] s, float[17] b, float[17] m,"
          " float[17] positive_v) => (float[2, 17, 3, 3] y, float[17] rm, float[17] rv)"
          " { y, rm, rv = BatchNormalization<training_mode = 1, epsilon = 0.001>"
          "(x, s, b, m, positive_v) }")
      .Example(
          "g (float[0, 2, 3] x, float[2] s, float[2] b, float[2] m, float[2] positive_v)"
          " => (float[0, 2, 3] y) { y = BatchNormalization(x, s, b, m, positive_v) }")
      .Lower(LowerBatchNormalization)
      .Operations(PerElement(2))
      .Samples(BatchSamples);
}

// Inputs x, scale, bias; attribute epsilon (default 1e-5). Outputs y, and mean and
// biased variance of the samples of this call, per channel: who runs several shards
// combines them.
Operator BatchNormalizationTraining() {
  return Operator(kOnward, "BatchNormalizationTraining")
      .Infer(InferBatchTraining)
      .Example(
          "g (float[3, 2, 2, 3] x, float[2] s, float[2] b)"
          " => (float[3, 2, 2, 3] y, float[2] m, float[2] v)"
          " { y, m, v = onward.BatchNormalizationTraining(x, s, b) }")
      .Example(
          "g (float[4, 3] x, float[3] s, float[3] b)"
          " => (float[4, 3] y, float[3] m, float[3] v)"
          " { y, m, v = onward.BatchNormalizationTraining<epsilon = 0.01>(x, s, b) }")
      .Example(
          "g (float[2, 17, 3, 3] x, float[17] s, float[17] b)"
          " => (float[2, 17, 3, 3] y, float[17] m, float[17] v)"
          " { y, m, v = onward.BatchNormalizationTraining(x, s, b) }")
      .Example(
          "g (float[2, 3, 2, 2, 2] x, float[3] s, float[3] b)"
          " => (float[2, 3, 2, 2, 2] y, float[3] m, float[3] v)"
          " { y, m, v = onward.BatchNormalizationTraining(x, s, b) }")
      .Example(
          "g (float[0, 3, 2, 2] x, float[3] s, float[3] b)"
          " => (float[0, 3, 2, 2] y, float[3] m, float[3] v)"
          " { y, m, v = onward.BatchNormalizationTraining(x, s, b) }")
      .Lower(LowerBatchTraining)
      .Operations(PerElement(7))
      .Gradient(BatchTrainingGradient)
      .Samples(BatchSamples);
}

// Inputs dy, x, scale and the mean and variance that the forward operator gave, which
// are differentiated through; attribute epsilon. Outputs dx, dscale, dbias.
Operator BatchNormalizationGradient() {
  return Operator(kOnward, "BatchNormalizationGradient")
      .Infer(InferBatchGradient)
      .Example(
          "g (float[3, 2, 2, 3] dy, float[3, 2, 2, 3] x, float[2] s, float[2] m,"
          " float[2] positive_v) => (float[3, 2, 2, 3] dx, float[2] ds, float[2] db)"
          " { dx, ds, db = onward.BatchNormalizationGradient(dy, x, s, m, positive_v) }")
      .Example(
          "g (float[4, 3] dy, float[4, 3] x, float[3] s, float[3] m, float[3] positive_v)"
          " => (float[4, 3] dx, float[3] ds, float[3] db) { dx, ds, db ="
          " onward.BatchNormalizationGradient<epsilon = 0.01>(dy, x, s, m, positive_v) }")
      .Example(
          "g (float[2, 17, 3, 3] dy, float[2, 17, 3, 3] x, float[17] s, float[17] m,"
          " float[17] positive_v) => (float[2, 17, 3, 3] dx, float[17] ds, float[17] db)"
          " { dx, ds, db = onward.BatchNormalizationGradient(dy, x, s, m, positive_v) }")
      .Example(
          "g (float[0, 2, 3] dy, float[0, 2, 3] x, float[2] s, float[2] m,"
          " float[2] positive_v) => (float[0, 2, 3] dx, float[2] ds, float[2] db)"
          " { dx, ds, db = onward.BatchNormalizationGradient(dy, x, s, m, positive_v) }")
      .Lower(LowerBatchGradient)
      .Operations(PerElement(10))
      .Samples(BatchGradientSamples);
}

// ---- Layer normalisation: statistics over the axes from `axis` on.

int64_t AxisOf(const Attributes& attributes, size_t rank) {
  const int64_t axis = attributes.Int("axis", -1);
  return axis < 0 ? axis + static_cast<int64_t>(rank) : axis;
}

std::vector<int64_t> AxesFrom(int64_t axis, size_t rank) {
  std::vector<int64_t> axes;
  for (int64_t i = axis; i < static_cast<int64_t>(rank); ++i) axes.push_back(i);
  return axes;
}

std::vector<int64_t> AxesBefore(int64_t axis) {
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < axis; ++i) axes.push_back(i);
  return axes;
}

// x's extents with 1 from `axis` on: those of the statistics.
Dims StatisticDims(const Dims& x, int64_t axis) {
  Dims dims(x);
  std::fill(dims.begin() + axis, dims.end(), 1);
  return dims;
}

Dims NormalizedDims(const Dims& x, int64_t axis) { return Dims(x.begin() + axis, x.end()); }

double LineCount(const Dims& x, int64_t axis) {
  return static_cast<double>(std::max<int64_t>(Elements(NormalizedDims(x, axis)), 1));
}

// Samples before the axis stay; those that are summed are mixed, as are all in
// sums over what lies before the axis (`sums`).
SampleAxis LayerSamples(const Node& node, const SampleAxis& x, bool sums) {
  if (x.kind != SampleAxis::Kind::kAxis) return x;
  const size_t rank = node.output(0)->dims().size();
  return sums || x.axis >= AxisOf(node.attributes, rank) ? SampleAxis::Mixed() : x;
}
SampleAxis LayerForwardSamples(const Node& node, absl::Span<const SampleAxis> in, int) {
  return LayerSamples(node, in[0], false);
}
SampleAxis LayerGradientSamples(const Node& node, absl::Span<const SampleAxis> in, int output) {
  return LayerSamples(node, in[0].kind == SampleAxis::Kind::kNone ? in[1] : in[0], output > 0);
}

absl::Status CheckLayer(InferContext& c) {
  const Dims& x = c.input(0).dims;
  ASSIGN_OR_RETURN(const int64_t axis, NormalizeAxis(c.attributes().Int("axis", -1), x.size()));
  const Dims normalized = NormalizedDims(x, axis);
  for (int i : {1, 2}) {
    if (!c.has(i)) continue;
    const absl::StatusOr<Dims> fit = Broadcast(normalized, c.input(i).dims);
    if (!fit.ok() || *fit != normalized) {
      return absl::InvalidArgumentError(absl::StrCat("input ", i, " is ", ToString(c.input(i).dims),
                                                     ", expected ", ToString(normalized)));
    }
  }
  return absl::OkStatus();
}

// As LayerNormalizationTraining, whatever stash_type says: the computation is in x's
// own type where that is wider.
absl::Status LowerLayerNormalization(LowerContext& c) {
  Builder& b = c.b();
  const Dims x = c.x(0).dims();
  const Dims normalized = NormalizedDims(x, AxisOf(c.attributes(), x.size()));
  std::vector<Expr> inputs = {c.x(0), b.Expand(c.x(1), normalized)};
  if (c.has_x(2)) inputs.push_back(b.Expand(c.x(2), normalized));
  const double epsilon = c.attributes().Float("epsilon", 1e-5f);
  const std::vector<Expr> all =
      b.Ops("onward.LayerNormalizationTraining", inputs,
            {{"axis", AxisOf(c.attributes(), x.size())}, {"epsilon", epsilon}}, 3);
  c.y(0, all[0]);
  if (c.wants(1)) c.y(1, b.Cast(all[1], c.node().output(1)->dtype()));
  if (c.wants(2)) {
    c.y(2, b.Cast(InverseRoot(b, all[2], epsilon), c.node().output(2)->dtype()));
  }
  return absl::OkStatus();
}

absl::Status InferLayerTraining(InferContext& c) {
  if (c.num_inputs() < 1 || c.num_inputs() > 3 || !c.has(0)) {
    return absl::InvalidArgumentError("LayerNormalizationTraining takes x, scale and bias");
  }
  const Dims& x = c.input(0).dims;
  ASSIGN_OR_RETURN(const int64_t axis, NormalizeAxis(c.attributes().Int("axis", -1), x.size()));
  for (int i : {1, 2}) {
    if (c.has(i) && c.input(i).dims != NormalizedDims(x, axis)) {
      return absl::InvalidArgumentError(
          absl::StrCat("input ", i, " must be ", ToString(NormalizedDims(x, axis))));
    }
  }
  c.SetOutput(0, c.input(0).dtype, x);
  c.SetOutput(1, c.input(0).dtype, StatisticDims(x, axis));
  c.SetOutput(2, c.input(0).dtype, StatisticDims(x, axis));
  return absl::OkStatus();
}

// mean and variance over the axes;  y = (x - mean) / sqrt(variance + epsilon) scale + bias
absl::Status LowerLayerTraining(LowerContext& c) {
  Builder& b = c.b();
  const Dims x = c.x(0).dims();
  const int64_t axis = AxisOf(c.attributes(), x.size());
  const std::vector<int64_t> axes = AxesFrom(axis, x.size());
  const double n = LineCount(x, axis);
  Expr mean = b.ReduceSum(c.x(0), axes, true) / n;
  Expr from_mean = c.x(0) - mean;
  Expr variance = b.ReduceSum(from_mean * from_mean, axes, true) / n;
  Expr y = from_mean * InverseRoot(b, variance, c.attributes().Float("epsilon", 1e-5f));
  if (c.has_x(1)) y = y * c.x(1);
  if (c.has_x(2)) y = y + c.x(2);
  c.y(0, y);
  c.y(1, mean);
  c.y(2, variance);
  return absl::OkStatus();
}

// dx, dscale, dbias by LayerNormalizationGradient; through the statistics that are
// given out:  dx += (dmean + 2 (x - mean) dvariance) / n
absl::Status LayerTrainingGradient(GradientContext& g) {
  Builder& b = g.b();
  const Dims x = g.x(0).dims();
  const int64_t axis = AxisOf(g.attributes(), x.size());
  Expr dx;
  if (g.dy(0)) {
    const std::vector<Expr> d =
        b.Ops("onward.LayerNormalizationGradient", {g.dy(0), g.x(0), g.x(1), g.y(1), g.y(2)},
              {{"axis", axis}, {"epsilon", g.attributes().Float("epsilon", 1e-5f)}},
              g.has_x(2)   ? 3
              : g.has_x(1) ? 2
                           : 1);
    dx = d[0];
    if (g.has_x(1)) g.dx(1, d[1]);
    if (g.has_x(2)) g.dx(2, d[2]);
  }
  const auto add = [&](Expr more) { dx = dx ? dx + more : more; };
  const double n = LineCount(x, axis);
  if (g.dy(1)) add(b.Expand(g.dy(1) / n, x));
  if (g.dy(2)) add((g.x(0) - g.y(1)) * (g.dy(2) * (2 / n)));
  g.dx(0, dx);
  return absl::OkStatus();
}

absl::Status InferLayerGradient(InferContext& c) {
  if (c.num_inputs() != 5) {
    return absl::InvalidArgumentError("LayerNormalizationGradient takes 5 inputs");
  }
  const Dims& x = c.input(1).dims;
  ASSIGN_OR_RETURN(const int64_t axis, NormalizeAxis(c.attributes().Int("axis", -1), x.size()));
  if (c.input(0).dims != x || c.input(3).dims != StatisticDims(x, axis) ||
      c.input(4).dims != StatisticDims(x, axis) ||
      (c.has(2) && c.input(2).dims != NormalizedDims(x, axis))) {
    return absl::InvalidArgumentError("the inputs do not fit one another");
  }
  c.SetOutput(0, c.input(1).dtype, x);
  c.SetOutput(1, c.input(1).dtype, NormalizedDims(x, axis));
  c.SetOutput(2, c.input(1).dtype, NormalizedDims(x, axis));
  return absl::OkStatus();
}

// h = (x - mean) r,  r = 1 / sqrt(variance + epsilon),  s = dy scale;
// dx = r (s - mean(s) - h mean(s h)),  dscale = sum(dy h),  dbias = sum(dy)
absl::Status LowerLayerGradient(LowerContext& c) {
  Builder& b = c.b();
  const Dims x = c.x(1).dims();
  const int64_t axis = AxisOf(c.attributes(), x.size());
  const std::vector<int64_t> axes = AxesFrom(axis, x.size()), before = AxesBefore(axis);
  const double n = LineCount(x, axis);
  Expr dy = c.x(0), r = InverseRoot(b, c.x(4), c.attributes().Float("epsilon", 1e-5f));
  Expr h = (c.x(1) - c.x(3)) * r;
  Expr s = c.has_x(2) ? dy * c.x(2) : dy;
  c.y(0, r * (s - b.ReduceSum(s, axes, true) / n - h * (b.ReduceSum(s * h, axes, true) / n)));
  if (c.wants(1)) c.y(1, b.ReduceSum(dy * h, before, false));
  if (c.wants(2)) c.y(2, b.ReduceSum(dy, before, false));
  return absl::OkStatus();
}

Operator LayerNormalization() {
  return Operator("", "LayerNormalization")
      .Infer(OnnxInferenceAnd("LayerNormalization", CheckLayer))
      .Example(
          "g (float[2, 3, 4] x, float[4] s, float[4] b) => (float[2, 3, 4] y)"
          " { y = LayerNormalization(x, s, b) }")
      .Example(
          "g (float[2, 3, 4] x, float[3, 4] s) => (float[2, 3, 4] y)"
          " { y = LayerNormalization<axis = 1, epsilon = 0.01>(x, s) }")
      .Example(
          "g (float[2, 3, 4] x, float[4] s, float[3, 1] b) => (float[2, 3, 4] y)"
          " { y = LayerNormalization<axis = -2>(x, s, b) }")
      .Example(
          "g (float[3, 5] x, float[3, 5] s) => (float[3, 5] y)"
          " { y = LayerNormalization<axis = 0>(x, s) }")
      .Example(
          "g (float[3, 5] x, float[5] s, float[5] b)"
          " => (float[3, 5] y, float[3, 1] m, float[3, 1] i)"
          " { y, m, i = LayerNormalization<stash_type = 1>(x, s, b) }")
      .Example(
          "g (float[6, 33] x, float[33] s, float[33] b) => (float[6, 33] y)"
          " { y = LayerNormalization(x, s, b) }")
      .Example(
          "g (float[0, 4] x, float[4] s) => (float[0, 4] y)"
          " { y = LayerNormalization(x, s) }")
      .Lower(LowerLayerNormalization)
      .Operations(PerElement(7))
      .Samples(LayerForwardSamples);
}

// Inputs x, scale (optional), bias (optional) of the normalised extents; attributes
// axis (default -1), epsilon (default 1e-5). Outputs y, mean and biased variance
// with 1 for each normalised extent, all in x's type.
Operator LayerNormalizationTraining() {
  return Operator(kOnward, "LayerNormalizationTraining")
      .Infer(InferLayerTraining)
      .Example(
          "g (float[2, 3, 4] x, float[4] s, float[4] b)"
          " => (float[2, 3, 4] y, float[2, 3, 1] m, float[2, 3, 1] v)"
          " { y, m, v = onward.LayerNormalizationTraining(x, s, b) }")
      .Example(
          "g (float[2, 3, 4] x, float[3, 4] s)"
          " => (float[2, 3, 4] y, float[2, 1, 1] m, float[2, 1, 1] v)"
          " { y, m, v = onward.LayerNormalizationTraining<axis = 1, epsilon = 0.01>(x, s) }")
      .Example(
          "g (float[3, 5] x) => (float[3, 5] y, float[3, 1] m, float[3, 1] v)"
          " { y, m, v = onward.LayerNormalizationTraining(x) }")
      .Example(
          "g (float[6, 33] x, float[33] s, float[33] b)"
          " => (float[6, 33] y, float[6, 1] m, float[6, 1] v)"
          " { y, m, v = onward.LayerNormalizationTraining(x, s, b) }")
      .Lower(LowerLayerTraining)
      .Operations(PerElement(7))
      .Gradient(LayerTrainingGradient)
      .Samples(LayerForwardSamples);
}

// Inputs dy, x, scale (optional), and the mean and variance that the forward operator
// gave, which are differentiated through; attributes as there. Outputs dx, dscale,
// dbias.
Operator LayerNormalizationGradient() {
  return Operator(kOnward, "LayerNormalizationGradient")
      .Infer(InferLayerGradient)
      .Example(
          "g (float[2, 3, 4] dy, float[2, 3, 4] x, float[4] s, float[2, 3, 1] m,"
          " float[2, 3, 1] positive_v) => (float[2, 3, 4] dx, float[4] ds, float[4] db)"
          " { dx, ds, db = onward.LayerNormalizationGradient(dy, x, s, m, positive_v) }")
      .Example(
          "g (float[2, 3, 4] dy, float[2, 3, 4] x, float[3, 4] s, float[2, 1, 1] m,"
          " float[2, 1, 1] positive_v) => (float[2, 3, 4] dx, float[3, 4] ds) { dx, ds ="
          " onward.LayerNormalizationGradient<axis = 1, epsilon = 0.01>"
          "(dy, x, s, m, positive_v) }")
      .Example(
          "g (float[3, 5] dy, float[3, 5] x, float[3, 1] m, float[3, 1] positive_v)"
          " => (float[3, 5] dx)"
          " { dx = onward.LayerNormalizationGradient(dy, x, , m, positive_v) }")
      .Example(
          "g (float[6, 33] dy, float[6, 33] x, float[33] s, float[6, 1] m,"
          " float[6, 1] positive_v) => (float[6, 33] dx, float[33] ds, float[33] db)"
          " { dx, ds, db = onward.LayerNormalizationGradient(dy, x, s, m, positive_v) }")
      .Lower(LowerLayerGradient)
      .Operations(PerElement(10))
      .Samples(LayerGradientSamples);
}

}  // namespace

void AddNormOperators(OperatorFamily& list) {
  list.push_back(BatchNormalization());
  list.push_back(BatchNormalizationTraining());
  list.push_back(BatchNormalizationGradient());
  list.push_back(LayerNormalization());
  list.push_back(LayerNormalizationTraining());
  list.push_back(LayerNormalizationGradient());
}

}  // namespace onward
