// Reading and writing at indices. Indices may be negative (from the end) and may
// repeat: gradients of what is read twice add.
#include "absl/strings/str_cat.h"
#include "graph/base/status_macros.h"
#include "graph/ir/builder.h"
#include "graph/ir/graph.h"
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

}  // namespace

void AddIndexOperators(OperatorFamily& list) { AddGather(list); }

}  // namespace onward
