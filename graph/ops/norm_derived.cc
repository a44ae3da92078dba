// Normalisations that are stated in other operators.
#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/base/status_macros.h"
#include "graph/ir/builder.h"
#include "graph/ir/graph.h"
#include "graph/ops/checked.h"
#include "graph/ops/operators.h"

namespace onward {
namespace {

// For operators whose schema infers nothing: the output is like the first of
// `inputs` inputs.
InferRule LikeFirst(int inputs, std::function<absl::Status(InferContext&)> check) {
  return [inputs, check = std::move(check)](InferContext& c) -> absl::Status {
    bool all = c.num_inputs() == inputs && c.num_outputs() == 1;
    for (int i = 0; all && i < inputs; ++i) {
      all = c.has(i) && c.input(i).dtype == c.input(0).dtype && IsFloating(c.input(i).dtype);
    }
    if (!all) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected ", inputs, " inputs of one floating type and 1 output"));
    }
    c.SetOutput(0, c.input(0).dtype, c.input(0).dims);
    return check(c);
  };
}

// [1, channels, 1, ...] for [samples, channels, space...].
Dims PerChannel(const Dims& x) {
  Dims dims(x.size(), 1);
  dims[1] = x[1];
  return dims;
}

absl::Status CheckScaleAndBias(InferContext& c) {
  const Dims& x = c.input(0).dims;
  if (x.size() < 3) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected [samples, channels, space...], got ", ToString(x)));
  }
  for (int i : {1, 2}) {
    if (c.input(i).dims != Dims{x[1]}) {
      return absl::InvalidArgumentError(
          absl::StrCat("input ", i, " is ", ToString(c.input(i).dims), ", expected [", x[1], "]"));
    }
  }
  return absl::OkStatus();
}

SampleAxis SamplesFirst(const Node&, absl::Span<const SampleAxis> in, int) {
  for (size_t i = 1; i < in.size(); ++i) {
    if (in[i].kind != SampleAxis::Kind::kNone) return SampleAxis::Mixed();
  }
  return in[0].kind != SampleAxis::Kind::kAxis || in[0].axis == 0 ? in[0] : SampleAxis::Mixed();
}

// Each sample's channels in `groups` lines, each line normalised; then scale and
// bias per channel.
absl::Status LowerGroups(LowerContext& c, int64_t groups) {
  Builder& b = c.b();
  const Dims x = c.x(0).dims();
  const int64_t lines = x[0] * groups;
  const int64_t line =
      groups == 0 ? 0 : x[1] / groups * Elements(absl::MakeConstSpan(x).subspan(2));
  const std::vector<Expr> normal =
      b.Ops("onward.LayerNormalizationTraining", {b.Reshape(c.x(0), {lines, line})},
            {{"axis", int64_t{1}}, {"epsilon", c.attributes().Float("epsilon", 1e-5f)}}, 3);
  c.y(0, b.Reshape(normal[0], x) * b.Reshape(c.x(1), PerChannel(x)) +
             b.Reshape(c.x(2), PerChannel(x)));
  return absl::OkStatus();
}

absl::Status CheckGroups(InferContext& c) {
  RETURN_IF_ERROR(CheckScaleAndBias(c));
  const int64_t groups = c.attributes().Int("num_groups", 0), channels = c.input(0).dims[1];
  if (groups > 0 && channels % groups == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(channels, " channels do not make ", groups, " groups"));
}

// y = x / sqrt(mean(x^2) + epsilon) scale, over the axes from `axis` on
absl::Status LowerRms(LowerContext& c) {
  Builder& b = c.b();
  const Dims x = c.x(0).dims();
  int64_t axis = c.attributes().Int("axis", -1), n = 1;
  if (axis < 0) axis += static_cast<int64_t>(x.size());
  std::vector<int64_t> axes;
  for (int64_t i = axis; i < static_cast<int64_t>(x.size()); ++i) {
    axes.push_back(i);
    n *= x[i];
  }
  const double count = static_cast<double>(std::max<int64_t>(n, 1));
  Expr mean = b.ReduceSum(c.x(0) * c.x(0), axes, true) / count;
  Expr normal = c.x(0) / b.Op("Sqrt", {mean + c.attributes().Float("epsilon", 1e-5f)});
  c.y(0, b.Cast(normal, c.x(1).dtype()) * c.x(1));
  return absl::OkStatus();
}

SampleAxis RmsSamples(const Node& node, absl::Span<const SampleAxis> in, int) {
  int64_t axis = node.attributes.Int("axis", -1);
  if (axis < 0) axis += node.input(0)->rank();
  if (in[0].kind != SampleAxis::Kind::kAxis) return in[0];
  return in[0].axis < axis ? in[0] : SampleAxis::Mixed();
}

absl::Status CheckRms(InferContext& c) {
  const Dims& x = c.input(0).dims;
  ASSIGN_OR_RETURN(const int64_t axis, NormalizeAxis(c.attributes().Int("axis", -1), x.size()));
  const Dims normalized(x.begin() + axis, x.end());
  const absl::StatusOr<Dims> fit = Broadcast(normalized, c.input(1).dims);
  if (fit.ok() && *fit == normalized) {
    // (By the schema's variables; its inference takes the type of x.)
    c.SetOutput(0, c.input(1).dtype, x);
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("scale is ", ToString(c.input(1).dims), ", expected ", ToString(normalized)));
}

// y = x / (bias + alpha mean(x^2 over `size` channels around))^beta
absl::Status LowerLrn(LowerContext& c) {
  Builder& b = c.b();
  const Dims x = c.x(0).dims();
  const int64_t size = c.attributes().Int("size", 1);
  const Dims plane = {x[0], 1, x[1], Elements(absl::MakeConstSpan(x).subspan(2))};
  const std::vector<int64_t> pads = {(size - 1) / 2, 0, size / 2, 0};
  Expr mean = b.Op("AveragePool", {b.Reshape(c.x(0) * c.x(0), plane)},
                   {{"kernel_shape", std::vector<int64_t>{size, 1}},
                    {"pads", pads},
                    {"count_include_pad", int64_t{1}}});
  Expr base =
      b.Reshape(mean, x) * c.attributes().Float("alpha", 1e-4f) + c.attributes().Float("bias", 1.0);
  c.y(0, c.x(0) / b.Op("Pow", {base, b.Like(c.x(0), c.attributes().Float("beta", 0.75))}));
  return absl::OkStatus();
}

absl::Status CheckLrn(InferContext& c) {
  const int64_t size = c.attributes().Int("size", 0);
  if (c.input(0).dims.size() < 2 || size < 1) {
    return absl::InvalidArgumentError(absl::StrCat("input ", ToString(c.input(0).dims),
                                                   " and size ", size, " do not make an LRN"));
  }
  return absl::OkStatus();
}

// y = x / (sum(|x|^p))^(1/p) along one axis
absl::Status LowerLpNormalization(LowerContext& c) {
  Builder& b = c.b();
  int64_t axis = c.attributes().Int("axis", -1);
  if (axis < 0) axis += c.x(0).rank();
  Expr norm;
  if (c.attributes().Int("p", 2) == 1) {
    norm = b.ReduceSum(b.Op("Abs", {c.x(0)}), {axis}, true);
  } else {
    norm = b.Op("Sqrt", {b.ReduceSum(c.x(0) * c.x(0), {axis}, true)});
  }
  // Zeros stay zeros.
  const Expr zero = b.Op("Equal", {norm, b.Like(norm, 0)});
  c.y(0, c.x(0) / b.Where(zero, b.Like(norm, 1), norm));
  return absl::OkStatus();
}

absl::Status CheckLpNormalization(InferContext& c) {
  const int64_t p = c.attributes().Int("p", 2);
  if (p != 1 && p != 2) {
    return absl::InvalidArgumentError(absl::StrCat("p is ", p, ", expected 1 or 2"));
  }
  return NormalizeAxis(c.attributes().Int("axis", -1), c.input(0).dims.size()).status();
}

SampleAxis OffAxis(const Node& node, absl::Span<const SampleAxis> in, int) {
  int64_t axis = node.attributes.Int("axis", -1);
  if (axis < 0) axis += node.input(0)->rank();
  return in[0].kind == SampleAxis::Kind::kAxis && in[0].axis == axis ? SampleAxis::Mixed() : in[0];
}

std::vector<int64_t> MvnAxes(const Attributes& attributes, int rank) {
  std::vector<int64_t> axes = attributes.Ints("axes", {0, 2, 3});
  for (int64_t& a : axes) a = a < 0 ? a + rank : a;
  return axes;
}

// y = (x - mean) / (sqrt(mean of (x - mean)^2) + 1e-9)
absl::Status LowerMeanVariance(LowerContext& c) {
  Builder& b = c.b();
  const std::vector<int64_t> axes = MvnAxes(c.attributes(), c.x(0).rank());
  double n = 1;
  for (int64_t a : axes) n *= static_cast<double>(c.x(0).dims()[a]);
  n = std::max(n, 1.0);
  Expr from_mean = c.x(0) - b.ReduceSum(c.x(0), axes, true) / n;
  Expr variance = b.ReduceSum(from_mean * from_mean, axes, true) / n;
  c.y(0, from_mean / (b.Op("Sqrt", {variance}) + 1e-9));
  return absl::OkStatus();
}

absl::Status CheckMeanVariance(InferContext& c) {
  for (int64_t a : c.attributes().Ints("axes", {0, 2, 3})) {
    RETURN_IF_ERROR(NormalizeAxis(a, c.input(0).dims.size()).status());
  }
  return absl::OkStatus();
}

SampleAxis MvnSamples(const Node& node, absl::Span<const SampleAxis> in, int) {
  if (in[0].kind != SampleAxis::Kind::kAxis) return in[0];
  for (int64_t a : MvnAxes(node.attributes, node.input(0)->rank())) {
    if (a == in[0].axis) return SampleAxis::Mixed();
  }
  return in[0];
}

}  // namespace

void AddDerivedNormOperators(OperatorFamily& list) {
  list.push_back(
      Operator("", "InstanceNormalization")
          .Infer(OnnxInferenceAnd("InstanceNormalization", CheckScaleAndBias))
          .Example("g (float[2, 3, 2, 3] x, float[3] s, float[3] b) => (float[2, 3, 2, 3] y)"
                   " { y = InstanceNormalization(x, s, b) }")
          .Example("g (float[2, 2, 5] x, float[2] s, float[2] b) => (float[2, 2, 5] y)"
                   " { y = InstanceNormalization<epsilon = 0.01>(x, s, b) }")
          .AlwaysLower([](LowerContext& c) { return LowerGroups(c, c.x(0).dims()[1]); })
          .Samples(SamplesFirst));
  list.push_back(
      Operator("", "GroupNormalization")
          .Infer(LikeFirst(3, CheckGroups))
          .Example("g (float[2, 4, 2, 3] x, float[4] s, float[4] b) => (float[2, 4, 2, 3] y)"
                   " { y = GroupNormalization<num_groups = 2>(x, s, b) }")
          .Example("g (float[2, 4, 5] x, float[4] s, float[4] b) => (float[2, 4, 5] y)"
                   " { y = GroupNormalization<num_groups = 1, epsilon = 0.01>(x, s, b) }")
          .AlwaysLower(
              [](LowerContext& c) { return LowerGroups(c, c.attributes().Int("num_groups", 1)); })
          .Samples(SamplesFirst));
  list.push_back(Operator("", "RMSNormalization")
                     .Infer(OnnxInferenceAnd("RMSNormalization", CheckRms))
                     .Example("g (float[2, 3, 4] x, float[4] s) => (float[2, 3, 4] y)"
                              " { y = RMSNormalization(x, s) }")
                     .Example("g (float[2, 3, 4] x, float[3, 4] s) => (float[2, 3, 4] y)"
                              " { y = RMSNormalization<axis = 1, epsilon = 0.01>(x, s) }")
                     .AlwaysLower(LowerRms)
                     .Samples(RmsSamples));
  list.push_back(Operator("", "LRN")
                     .Infer(OnnxInferenceAnd("LRN", CheckLrn))
                     .Example("g (float[2, 5, 2, 3] x) => (float[2, 5, 2, 3] y)"
                              " { y = LRN<size = 3, alpha = 0.5, beta = 0.6, bias = 2.0>(x) }")
                     .Example("g (float[1, 4, 3] x) => (float[1, 4, 3] y)"
                              " { y = LRN<size = 2, alpha = 0.5>(x) }")
                     .AlwaysLower(LowerLrn)
                     .Samples(SamplesFirst));
  list.push_back(Operator("", "LpNormalization")
                     .Infer(OnnxInferenceAnd("LpNormalization", CheckLpNormalization))
                     .Example("g (float[2, 3, 4] x) => (float[2, 3, 4] y)"
                              " { y = LpNormalization(x) }")
                     .Example("g (float[2, 3] x) => (float[2, 3] y)"
                              " { y = LpNormalization<axis = 0, p = 1>(x) }")
                     .AlwaysLower(LowerLpNormalization)
                     .Samples(OffAxis));
  list.push_back(Operator("", "MeanVarianceNormalization")
                     .Infer(LikeFirst(1, CheckMeanVariance))
                     .Example("g (float[2, 3, 2, 3] x) => (float[2, 3, 2, 3] y)"
                              " { y = MeanVarianceNormalization(x) }")
                     .Example("g (float[2, 3, 4] x) => (float[2, 3, 4] y)"
                              " { y = MeanVarianceNormalization<axes = [1, -1]>(x) }")
                     .AlwaysLower(LowerMeanVariance)
                     .Samples(MvnSamples));
}

}  // namespace onward
