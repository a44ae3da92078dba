// Reading and writing at indices. Indices may be negative (from the end) and may
// repeat: gradients of what is read twice add.
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/base/status_macros.h"
#include "graph/ir/builder.h"
#include "graph/ir/graph.h"
#include "graph/ops/checked.h"
#include "graph/ops/operators.h"
#include "graph/ops/rules.h"

namespace onward {
namespace {

// The extents of data with those of indices in place of axis.
Dims GatheredDims(const Dims& data, const Dims& indices, int64_t axis) {
  Dims dims(data.begin(), data.begin() + axis);
  dims.insert(dims.end(), indices.begin(), indices.end());
  dims.insert(dims.end(), data.begin() + axis + 1, data.end());
  return dims;
}

SampleAxis SamplesGathered(const Node& node, absl::Span<const SampleAxis> inputs, int) {
  const SampleAxis &data = inputs[0], &indices = inputs[1];
  const int64_t axis = FromBack(node.attributes.Int("axis", 0), node.input(0)->rank());
  using Kind = SampleAxis::Kind;
  if (data.kind == Kind::kNone && indices.kind == Kind::kAxis) {
    return SampleAxis::Axis(static_cast<int>(axis) + indices.axis, indices.inner);
  }
  if (data.kind != Kind::kAxis || indices.kind != Kind::kNone || data.axis == axis) {
    return SampleAxis::Mixed();
  }
  const int moved = data.axis < axis ? 0 : node.input(1)->rank() - 1;
  return SampleAxis::Axis(data.axis + moved, data.inner);
}

// onward.GatherGradient: the gradient of Gather's data. dx = 0, then for every
// index k: dx[.., indices[k], ..] += dy[.., k, ..].
//   inputs: dy, indices; attributes: axis, shape (the extents of the data).
// As ScatterElements with the indices repeated along all other axes.
absl::Status LowerGatherGradient(LowerContext& l) {
  Builder& b = l.b();
  const std::vector<int64_t> shape = l.attributes().Ints("shape");
  const int64_t rank = static_cast<int64_t>(shape.size());
  const int64_t axis = FromBack(l.attributes().Int("axis", 0), rank);
  Dims rows(shape.begin(), shape.end()), line(rank, 1);
  rows[axis] = line[axis] = Elements(l.x(1).dims());
  Expr zeros = b.Zeros({l.x(0).dtype(), Dims(shape.begin(), shape.end()), {}});
  Expr indices = b.Expand(b.Reshape(l.x(1), line), rows);
  l.y(0, b.Op("ScatterElements", {zeros, indices, b.Reshape(l.x(0), rows)},
              {{"axis", axis}, {"reduction", std::string("add")}}));
  return absl::OkStatus();
}

absl::Status InferGatherGradient(InferContext& call) {
  const std::vector<int64_t> shape = call.attributes().Ints("shape");
  const int64_t rank = static_cast<int64_t>(shape.size());
  ASSIGN_OR_RETURN(const int64_t axis, NormalizeAxis(call.attributes().Int("axis", 0), rank));
  const Dims dims(shape.begin(), shape.end());
  const Dims expected = GatheredDims(dims, call.input(1).dims, axis);
  if (call.input(0).dims != expected) {
    return absl::InvalidArgumentError(
        absl::StrCat("dy is ", ToString(call.input(0).dims), ", expected ", ToString(expected)));
  }
  call.SetOutput(0, call.input(0).dtype, dims);
  return absl::OkStatus();
}

void AddGather(OperatorFamily& list) {
  // y[.., k, ..] = data[.., indices[k], ..] along an axis
  list.push_back(
      Operator("", "Gather")
          .Example("g (float[3, 4] data) => (float[2, 2, 4] y) "
                   "{ i = Constant<value = int64[2, 2] {0, 2, -1, 2}>() y = Gather(data, i) }")
          .Example("g (float[2, 3, 4] data, int64[5] i) => (float[2, 5, 4] y) "
                   "{ y = Gather<axis = 1>(data, i) }")
          .Example(
              "g (float[2, 3] data, int32 i) => (float[2] y) { y = Gather<axis = -1>(data, i) }")
          .Example("g (float[2, 3] data, int64[0] i) => (float[0, 3] y) { y = Gather(data, i) }")
          .Example("g (int64[3] signed_data, int64[4] labels_i) => (int64[4] y) "
                   "{ y = Gather(signed_data, labels_i) }")
          .Gradient([](GradientContext& g) {
            const Dims& dims = g.x(0).dims();
            g.dx(0, g.b().Op("onward.GatherGradient", {g.dy(), g.x(1)},
                             {{"axis", g.attributes().Int("axis", 0)},
                              {"shape", std::vector<int64_t>(dims.begin(), dims.end())}}));
            return absl::OkStatus();
          })
          .Operations(
              [](const Node& node) { return static_cast<double>(node.output(0)->type.elements()); })
          .Samples(SamplesGathered));

  list.push_back(
      Operator(kOnward, "GatherGradient")
          .Example("g (float[5, 4] dy, int64[5] labels_i) => (float[3, 4] dx) "
                   "{ dx = onward.GatherGradient<axis = 0, shape = [3, 4]>(dy, labels_i) }")
          .Example("g (float[2, 5, 2, 4] dy, int32[5, 2] labels_i) => (float[2, 3, 4] dx) "
                   "{ dx = onward.GatherGradient<axis = -2, shape = [2, 3, 4]>(dy, labels_i) }")
          .Example("g (float[2] dy, int64 i) => (float[2, 3] dx) "
                   "{ dx = onward.GatherGradient<axis = 1, shape = [2, 3]>(dy, i) }")
          .Example("g (float[0, 3] dy, int64[0] i) => (float[2, 3] dx) "
                   "{ dx = onward.GatherGradient<axis = 0, shape = [2, 3]>(dy, i) }")
          .Infer(InferGatherGradient)
          .Lower(LowerGatherGradient)
          .Gradient([](GradientContext& g) {
            g.dx(0,
                 g.b().Op("Gather", {g.dy(), g.x(1)}, {{"axis", g.attributes().Int("axis", 0)}}));
            return absl::OkStatus();
          })
          .Samples(SamplesMixed));
}

// The first len entries of each sequence in reverse order, the rest as they are:
//   y[b, t] = x[b, t < len[b] ? len[b] - 1 - t : t]
absl::Status LowerReverseSequence(LowerContext& l) {
  Builder& b = l.b();
  const Dims dims = l.x(0).dims();
  const int64_t time = l.attributes().Int("time_axis", 0);
  const int64_t samples = dims[1 - time], steps = dims[time];
  // Sequences first.
  std::vector<int64_t> order = Iota(l.x(0).rank());
  if (time == 0) std::swap(order[0], order[1]);
  Expr t = b.Reshape(b.Ints(Iota(steps)), {1, steps});
  Expr len = b.Reshape(l.x(1), {samples, 1});
  Expr places = b.Where(b.Op("Less", {t, len}), len - 1 - t, t);
  Expr y = b.Op("GatherND", {b.Transpose(l.x(0), order), b.Reshape(places, {samples, steps, 1})},
                {{"batch_dims", int64_t{1}}});
  l.y(0, b.Transpose(y, order));
  return absl::OkStatus();
}

absl::Status CheckReverseSequence(InferContext& c) {
  const int64_t time = c.attributes().Int("time_axis", 0);
  const int64_t batch = c.attributes().Int("batch_axis", 1);
  if (time < 0 || time > 1 || batch != 1 - time) {
    return absl::InvalidArgumentError(absl::StrCat("time_axis is ", time, ", batch_axis ", batch,
                                                   "; expected 0 and 1, or 1 and 0"));
  }
  const Dims &x = c.input(0).dims, &len = c.input(1).dims;
  if (len == Dims{x[batch]}) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("sequence_lens is ", ToString(len), ", expected [", x[batch], "]"));
}

Operator ReverseSequence() {
  return Operator("", "ReverseSequence")
      .Example(
          "g (float[4, 3, 2] x) => (float[4, 3, 2] y) "
          "{ n = Constant<value_ints = [4, 1, 0]>() y = ReverseSequence(x, n) }")
      .Example(
          "g (float[3, 4] x, int64[3] labels_n) => (float[3, 4] y) "
          "{ y = ReverseSequence<time_axis = 1, batch_axis = 0>(x, labels_n) }")
      .Example(
          "g (int64[2, 1] signed_x, int64[1] labels_n) => (int64[2, 1] y) "
          "{ y = ReverseSequence<time_axis = 0, batch_axis = 1>(signed_x, labels_n) }")
      .Infer(OnnxInferenceAnd("ReverseSequence", CheckReverseSequence))
      .AlwaysLower(LowerReverseSequence)
      .Samples([](const Node& node, absl::Span<const SampleAxis> inputs, int) {
        const int64_t time = node.attributes.Int("time_axis", 0);
        if (inputs[1].kind == SampleAxis::Kind::kNone) {
          return SamplesUnless(inputs[0], inputs[0].axis == time);
        }
        const bool together =
            inputs[1] == SampleAxis::Axis(0, inputs[0].inner) &&
            inputs[0] == SampleAxis::Axis(static_cast<int>(1 - time), inputs[0].inner);
        return together ? inputs[0] : SampleAxis::Mixed();
      });
}

}  // namespace

void AddIndexOperators(OperatorFamily& list) {
  AddGather(list);
  list.push_back(ReverseSequence());
}

}  // namespace onward
