// Operators that only move elements, and those that make tensors from shapes.
#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "graph/base/status_macros.h"
#include "graph/ir/builder.h"
#include "graph/onnx/schema.h"
#include "graph/ops/operators.h"
#include "graph/ops/rules.h"

namespace onward {
namespace {

// ---- Other extents for the same elements.  dx = dy with the extents of x

// ONNX leaves -1 open where a tensor is empty. An empty shard of a batch is reshaped as
// a full one would be: what the extents of 0 in x become is given, the rest is counted
// without them. Empty where that does not tell.
std::optional<Dims> ReshapedEmpty(const Dims& x, absl::Span<const int64_t> target,
                                  bool zero_is_zero) {
  Dims y;
  int64_t known = 1, empty = 0, open = -1;
  for (size_t i = 0; i < target.size(); ++i) {
    const bool copied = target[i] == 0 && !zero_is_zero;
    if (copied && i >= x.size()) return std::nullopt;
    y.push_back(copied ? x[i] : target[i]);
    if (y.back() < 0) {
      if (open >= 0) return std::nullopt;
      open = static_cast<int64_t>(i);
    } else if (y.back() == 0) {
      ++empty;
    } else {
      known *= y.back();
    }
  }
  int64_t filled = 1, zeros = 0;
  for (int64_t d : x) {
    if (d < 0) return std::nullopt;
    zeros += d == 0 ? 1 : 0;
    filled *= d == 0 ? 1 : d;
  }
  if (open < 0 || zeros == 0 || empty != zeros || filled % known != 0) return std::nullopt;
  y[open] = filled / known;
  return y;
}

absl::Status InferReshape(InferContext& c) {
  static const InferRule* const by_schema = new InferRule(OnnxInference("", "Reshape"));
  if (c.has(0) && c.constant(1) != nullptr && c.constant(1)->dtype() == DataType::kInt64) {
    const Tensor& target = *c.constant(1);
    const std::optional<Dims> dims = ReshapedEmpty(c.input(0).dims, target.values<int64_t>(),
                                                   c.attributes().Int("allowzero", 0) != 0);
    if (dims.has_value()) {
      c.SetOutput(0, c.input(0).dtype, *dims);
      return absl::OkStatus();
    }
  }
  RETURN_IF_ERROR((*by_schema)(c));
  // The schema's rule does not count where no extent is left open.
  const Dims &x = c.input(0).dims, &y = c.outputs()[0].dims;
  const auto open = [](const Dims& dims) {
    return std::find(dims.begin(), dims.end(), kDynamic) != dims.end();
  };
  if (open(x) || open(y)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int64_t elements, CheckedElements(y));
  if (elements == Elements(x)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the ", Elements(x), " elements of ", ToString(x), " do not fit ", ToString(y)));
}

absl::Status ReshapeGradient(GradientContext& g) {
  g.dx(0, g.b().Reshape(g.dy(), g.x().dims()));
  return absl::OkStatus();
}

// Squeeze and Unsqueeze: axes that go or come, each of extent 1.
absl::StatusOr<std::vector<int64_t>> UnitAxes(const Node& node, const Value& longer) {
  ASSIGN_OR_RETURN(std::vector<int64_t> axes, ConstantInts(node, 1));
  for (int64_t& axis : axes) axis = FromBack(axis, longer.rank());
  if (node.input(1) == nullptr) {
    for (int i = 0; i < longer.rank(); ++i) {
      if (longer.dims()[i] == 1) axes.push_back(i);
    }
  }
  std::sort(axes.begin(), axes.end());
  return axes;
}

SampleAxis SamplesSqueezed(const Node& node, absl::Span<const SampleAxis> inputs, int) {
  SampleAxis x = inputs[0];
  if (x.kind != SampleAxis::Kind::kAxis) return x;
  const auto axes = UnitAxes(node, *node.input(0));
  if (!axes.ok()) return SampleAxis::Mixed();
  int below = 0;
  for (int64_t axis : *axes) {
    if (axis == x.axis) return SampleAxis::Mixed();
    below += axis < x.axis ? 1 : 0;
  }
  return SampleAxis::Axis(x.axis - below, x.inner);
}

SampleAxis SamplesUnsqueezed(const Node& node, absl::Span<const SampleAxis> inputs, int) {
  SampleAxis x = inputs[0];
  if (x.kind != SampleAxis::Kind::kAxis) return x;
  const auto axes = UnitAxes(node, *node.output(0));
  if (!axes.ok()) return SampleAxis::Mixed();
  for (int64_t axis : *axes) x.axis += axis <= x.axis ? 1 : 0;
  return x;
}

void AddReshapes(OperatorFamily& list) {
  list.push_back(
      Operator("", "Reshape")
          .Example("g (float[2, 3, 4] x) => (float[6, 4] y) "
                   "{ s = Constant<value_ints = [-1, 4]>() y = Reshape(x, s) }")
          .Example("g (float[2, 3, 4] x) => (float[2, 12] y) "
                   "{ s = Constant<value_ints = [0, -1]>() y = Reshape(x, s) }")
          .Example("g (float[2, 0, 4] x) => (float[0, 3] y) "
                   "{ s = Constant<value_ints = [0, 3]>() y = Reshape<allowzero = 1>(x, s) }")
          .Example("g (float[1, 1] x) => (float y) "
                   "{ s = Constant<value = int64[0] {}>() y = Reshape(x, s) }")
          .Example("g (bool[2, 2] x) => (bool[4] y) "
                   "{ s = Constant<value_ints = [4]>() y = Reshape(x, s) }")
          .Example("g (float[0, 3, 4] x) => (float[0, 12] y) "
                   "{ s = Constant<value_ints = [0, -1]>() y = Reshape(x, s) }")
          .Example("g (float[2, 0, 4] x) => (float[8, 0] y) "
                   "{ s = Constant<value_ints = [-1, 0]>() y = Reshape<allowzero = 0>(x, s) }")
          .Infer(InferReshape)
          .Gradient(ReshapeGradient)
          .Samples(SamplesReshaped));

  list.push_back(
      Operator("", "Flatten")
          .Example("g (float[2, 3, 4] x) => (float[2, 12] y) { y = Flatten(x) }")
          .Example("g (float[2, 3, 4] x) => (float[1, 24] y) { y = Flatten<axis = 0>(x) }")
          .Example("g (float[2, 3, 4] x) => (float[6, 4] y) { y = Flatten<axis = -1>(x) }")
          .Example("g (float[2, 3, 4] x) => (float[24, 1] y) { y = Flatten<axis = 3>(x) }")
          .Gradient(ReshapeGradient)
          .Samples(SamplesReshaped));

  list.push_back(Operator("", "Squeeze")
                     .Example("g (float[2, 1, 3, 1] x) => (float[2, 3, 1] y) "
                              "{ axes = Constant<value_ints = [1]>() y = Squeeze(x, axes) }")
                     .Example("g (float[2, 1, 3, 1] x) => (float[2, 3] y) "
                              "{ axes = Constant<value_ints = [-1, -3]>() y = Squeeze(x, axes) }")
                     .Example("g (float[2, 1, 3, 1] x) => (float[2, 3] y) { y = Squeeze(x) }")
                     .Gradient(ReshapeGradient)
                     .Samples(SamplesSqueezed));

  list.push_back(Operator("", "Unsqueeze")
                     .Example("g (float[2, 3] x) => (float[2, 1, 3] y) "
                              "{ axes = Constant<value_ints = [1]>() y = Unsqueeze(x, axes) }")
                     .Example("g (float[2, 3] x) => (float[1, 2, 3, 1] y) "
                              "{ axes = Constant<value_ints = [-1, 0]>() y = Unsqueeze(x, axes) }")
                     .Example("g (float x) => (float[1] y) "
                              "{ axes = Constant<value_ints = [0]>() y = Unsqueeze(x, axes) }")
                     .Gradient(ReshapeGradient)
                     .Samples(SamplesUnsqueezed));
}

// ---- Other order, other extents by repetition.

std::vector<int64_t> Permutation(const Node& node) {
  std::vector<int64_t> perm = node.attributes.Ints("perm");
  if (perm.empty()) {
    perm = Iota(node.input(0)->rank());
    std::reverse(perm.begin(), perm.end());
  }
  return perm;
}

void AddTransposeAndExpand(OperatorFamily& list) {
  // y = x with its axes in the order perm;  dx = dy with them put back
  list.push_back(
      Operator("", "Transpose")
          .Example("g (float[2, 3, 4] x) => (float[4, 3, 2] y) { y = Transpose(x) }")
          .Example(
              "g (float[2, 3, 4] x) => (float[4, 2, 3] y) { y = Transpose<perm = [2, 0, 1]>(x) }")
          .Example(
              "g (float[2, 3, 0] x) => (float[2, 0, 3] y) { y = Transpose<perm = [0, 2, 1]>(x) }")
          .Example("g (float x) => (float y) { y = Transpose(x) }")
          .Example("g (uint8[2, 3] labels_x) => (uint8[3, 2] y) { y = Transpose(labels_x) }")
          .Gradient([](GradientContext& g) {
            const std::vector<int64_t> perm = Permutation(g.node());
            std::vector<int64_t> inverse(perm.size());
            for (size_t i = 0; i < perm.size(); ++i) inverse[perm[i]] = static_cast<int64_t>(i);
            g.dx(0, g.b().Transpose(g.dy(), inverse));
            return absl::OkStatus();
          })
          .Samples([](const Node& node, absl::Span<const SampleAxis> inputs, int) {
            SampleAxis x = inputs[0];
            if (x.kind != SampleAxis::Kind::kAxis) return x;
            const std::vector<int64_t> perm = Permutation(node);
            x.axis = static_cast<int>(std::find(perm.begin(), perm.end(), x.axis) - perm.begin());
            return x;
          }));

  // y = x broadcast;  dx = dy (the driver sums it to x's extents)
  list.push_back(Operator("", "Expand")
                     .Example("g (float[3, 1] x) => (float[2, 3, 4] y) "
                              "{ s = Constant<value_ints = [2, 1, 4]>() y = Expand(x, s) }")
                     .Example("g (float[3, 4] x) => (float[3, 4] y) "
                              "{ s = Constant<value_ints = [1]>() y = Expand(x, s) }")
                     .Example("g (float x) => (float[2, 2] y) "
                              "{ s = Constant<value_ints = [2, 2]>() y = Expand(x, s) }")
                     .Example("g (float[1, 3] x) => (float[0, 3] y) "
                              "{ s = Constant<value_ints = [0, 3]>() y = Expand(x, s) }")
                     .Gradient([](GradientContext& g) {
                       g.dx(0, g.dy());
                       return absl::OkStatus();
                     })
                     .Samples([](const Node& node, absl::Span<const SampleAxis> inputs, int) {
                       SampleAxis x = inputs[0];
                       if (x.kind != SampleAxis::Kind::kAxis) return x;
                       const int moved = x.axis + node.output(0)->rank() - node.input(0)->rank();
                       if (node.output(0)->dims()[moved] != node.input(0)->dims()[x.axis]) {
                         return SampleAxis::Mixed();
                       }
                       return SampleAxis::Axis(moved, x.inner);
                     }));
}

void AddTile(OperatorFamily& list) {
  // y = x repeated;  dx = the sum over the repeats, which dy has as axes of their own
  list.push_back(Operator("", "Tile")
                     .Example("g (float[2, 3] x) => (float[4, 9] y) "
                              "{ r = Constant<value_ints = [2, 3]>() y = Tile(x, r) }")
                     .Example("g (float[2, 3] x) => (float[2, 6] y) "
                              "{ r = Constant<value_ints = [1, 2]>() y = Tile(x, r) }")
                     .Example("g (float[2, 3] x) => (float[2, 0] y) "
                              "{ r = Constant<value_ints = [1, 0]>() y = Tile(x, r) }")
                     .Gradient([](GradientContext& g) -> absl::Status {
                       ASSIGN_OR_RETURN(const std::vector<int64_t> repeats,
                                        ConstantInts(g.node(), 1));
                       Dims pairs;
                       std::vector<int64_t> axes;
                       for (size_t i = 0; i < repeats.size(); ++i) {
                         axes.push_back(static_cast<int64_t>(pairs.size()));
                         pairs.push_back(repeats[i]);
                         pairs.push_back(g.x().dims()[i]);
                       }
                       g.dx(0, g.b().ReduceSum(g.b().Reshape(g.dy(), pairs), axes, false));
                       return absl::OkStatus();
                     })
                     .Samples([](const Node& node, absl::Span<const SampleAxis> inputs, int) {
                       std::vector<int64_t> repeats;
                       if (!ConstantInts(node, 1, &repeats)) return SampleAxis::Mixed();
                       return SamplesUnless(inputs[0], repeats[inputs[0].axis] != 1);
                     }));
}

// ---- Parts and wholes.

SampleAxis SamplesConcatenated(const Node& node, absl::Span<const SampleAxis> inputs, int) {
  SampleAxis common;
  for (const SampleAxis& x : inputs) {
    if (x.kind == SampleAxis::Kind::kNone) continue;
    if (common.kind != SampleAxis::Kind::kNone && !(x == common)) return SampleAxis::Mixed();
    common = x;
  }
  const int64_t axis = FromBack(node.attributes.Int("axis", 0), node.output(0)->rank());
  return SamplesUnless(common, axis == common.axis);
}

// The part [start, start + size) of an axis.
Expr Part(Builder& b, Expr x, int64_t axis, int64_t start, int64_t size) {
  return b.Op("Slice", {x, OneInt(b, start), OneInt(b, start + size), OneInt(b, axis)});
}

void AddConcatAndSplit(OperatorFamily& list) {
  // y = the inputs one behind the other;  dx_i = its part of dy
  list.push_back(
      Operator("", "Concat")
          .Example("g (float[2, 3] a, float[2, 1] b, float[2, 2] c) => (float[2, 6] y) "
                   "{ y = Concat<axis = 1>(a, b, c) }")
          .Example("g (float[2, 3] a, float[0, 3] b, float[1, 3] c) => (float[3, 3] y) "
                   "{ y = Concat<axis = -2>(a, b, c) }")
          .Example("g (float[2, 3] x) => (float[2, 6] y) { y = Concat<axis = 1>(x, x) }")
          .Example("g (float[2, 3] x) => (float[2, 3] y) { y = Concat<axis = 0>(x) }")
          .Example("g (bool[2] a, bool[3] b) => (bool[5] y) { y = Concat<axis = 0>(a, b) }")
          .Gradient([](GradientContext& g) {
            const int64_t axis = FromBack(g.attributes().Int("axis", 0), g.y().rank());
            int64_t start = 0;
            for (int i = 0; i < g.num_inputs(); ++i) {
              const int64_t size = g.x(i).dims()[axis];
              if (g.wants(i)) g.dx(i, Part(g.b(), g.dy(), axis, start, size));
              start += size;
            }
            return absl::OkStatus();
          })
          .Samples(SamplesConcatenated));

  // y_i = a part of x;  dx = the dy_i one behind the other
  list.push_back(
      Operator("", "Split")
          .Example("g (float[2, 6] x) => (float[2, 1] a, float[2, 2] b, float[2, 3] c) "
                   "{ s = Constant<value_ints = [1, 2, 3]>() a, b, c = Split<axis = 1>(x, s) }")
          .Example("g (float[4, 3] x) => (float[2, 3] a, float[2, 3] b) "
                   "{ a, b = Split<num_outputs = 2>(x) }")
          .Example("g (float[2, 7] x) => (float[2, 3] a, float[2, 3] b, float[2, 1] c) "
                   "{ a, b, c = Split<axis = -1, num_outputs = 3>(x) }")
          .Example("g (float[2, 6] x) => (float[2, 2] b) "
                   "{ a, b, c = Split<axis = 1, num_outputs = 3>(x) }")
          .Example("g (float[4] x) => (float[0] a, float[4] b) "
                   "{ s = Constant<value_ints = [0, 4]>() a, b = Split(x, s) }")
          .Gradient([](GradientContext& g) {
            std::vector<Expr> parts;
            for (int i = 0; i < g.node().num_outputs(); ++i) {
              parts.push_back(g.dy(i) ? g.dy(i) : g.b().Zeros(g.node().output(i)->type));
            }
            g.dx(0, g.b().Op("Concat", parts, {{"axis", g.attributes().Int("axis", 0)}}));
            return absl::OkStatus();
          })
          .Samples([](const Node& node, absl::Span<const SampleAxis> inputs, int) {
            const int64_t axis = FromBack(node.attributes.Int("axis", 0), node.input(0)->rank());
            return SamplesUnless(inputs[0], axis == inputs[0].axis);
          }));
}

// One axis of Slice: entry k of the result is entry start + k * step of the input.
struct SlicedAxis {
  int64_t start = 0;
  int64_t step = 1;
};

// One per axis of the input.
absl::StatusOr<std::vector<SlicedAxis>> SlicedAxes(const Node& node) {
  const Dims& dims = node.input(0)->dims();
  ASSIGN_OR_RETURN(const std::vector<int64_t> starts, ConstantInts(node, 1));
  ASSIGN_OR_RETURN(const std::vector<int64_t> axes, ConstantInts(node, 3));
  ASSIGN_OR_RETURN(const std::vector<int64_t> steps, ConstantInts(node, 4));
  std::vector<SlicedAxis> out(dims.size());
  for (size_t k = 0; k < starts.size(); ++k) {
    const int64_t axis =
        FromBack(axes.empty() ? static_cast<int64_t>(k) : axes[k], node.input(0)->rank());
    const int64_t step = steps.empty() ? 1 : steps[k];
    const int64_t last = step > 0 ? dims[axis] : dims[axis] - 1;
    const int64_t start = starts[k] < 0 ? starts[k] + dims[axis] : starts[k];
    out[axis] = {std::min(std::max<int64_t>(start, 0), last), step};
  }
  return out;
}

// dx is zero but for the entries that were read. A step of more than one is undone
// by zeros between the entries of dy, a negative one by turning dy round first.
absl::Status SliceGradient(GradientContext& g) {
  ASSIGN_OR_RETURN(const std::vector<SlicedAxis> axes, SlicedAxes(g.node()));
  Builder& b = g.b();
  const Dims& dims = g.x().dims();
  const int64_t rank = static_cast<int64_t>(dims.size());
  Expr dx = g.dy();
  std::vector<int64_t> before(rank, 0), after(rank, 0);
  for (int64_t axis = 0; axis < rank && dx; ++axis) {
    const int64_t count = dx.dims()[axis];
    int64_t start = axes[axis].start, step = axes[axis].step;
    if (count == 0) {
      after[axis] = dims[axis];
      continue;
    }
    if (step < 0) {
      start += (count - 1) * step;
      step = -step;
      dx = b.Op("Slice", {dx, OneInt(b, -1), OneInt(b, INT64_MIN), OneInt(b, axis), OneInt(b, -1)});
    }
    if (step > 1 && count > 1) {
      Dims apart = dx.dims(), spread = dx.dims();
      apart.insert(apart.begin() + axis + 1, 1);
      spread[axis] = count * step;
      std::vector<int64_t> zeros(2 * apart.size(), 0);
      zeros[apart.size() + axis + 1] = step - 1;
      dx = b.Reshape(b.Op("Pad", {b.Reshape(dx, apart), b.Ints(zeros)}), spread);
    }
    // Zeros behind the last entry may reach beyond the end: a negative pad cuts.
    before[axis] = start;
    after[axis] = dims[axis] - start - (dx ? dx.dims()[axis] : 0);
  }
  std::vector<int64_t> pads = before;
  pads.insert(pads.end(), after.begin(), after.end());
  const bool nothing = std::all_of(pads.begin(), pads.end(), [](int64_t p) { return p == 0; });
  g.dx(0, nothing ? dx : b.Op("Pad", {dx, b.Ints(pads)}));
  return absl::OkStatus();
}

void AddSlice(OperatorFamily& list) {
  Operator op("", "Slice");
  const auto example = [&](const char* x, const char* out, const char* starts, const char* ends,
                           const char* axes, const char* steps) {
    std::string text = absl::StrCat("g (", x, " x) => (", out, " y) { s = Constant<value_ints = [",
                                    starts, "]>() e = Constant<value_ints = [", ends, "]>() ");
    std::string call = "Slice(x, s, e";
    if (*axes != 0) absl::StrAppend(&text, "a = Constant<value_ints = [", axes, "]>() ");
    if (*axes != 0 || *steps != 0) absl::StrAppend(&call, ", ", *axes == 0 ? "" : "a");
    if (*steps != 0) {
      absl::StrAppend(&text, "t = Constant<value_ints = [", steps, "]>() ");
      absl::StrAppend(&call, ", t");
    }
    op.Example(absl::StrCat(text, "y = ", call, ") }"));
  };
  example("float[4, 5]", "float[2, 3]", "1, 2", "3, 5", "", "");
  example("float[4, 5]", "float[4, 3]", "-4", "-1", "1", "");
  example("float[4, 5]", "float[4, 5]", "0", "9223372036854775807", "0", "");
  example("float[4, 7]", "float[4, 3]", "1", "7", "-1", "2");
  example("float[4, 7]", "float[4, 2]", "1", "6", "-1", "3");
  example("float[4, 7]", "float[4, 7]", "-1", "-9223372036854775807", "1", "-1");
  example("float[4, 7]", "float[2, 3]", "-1, 5", "-4, -7", "0, 1", "-2, -2");
  example("float[4, 7]", "float[2, 7]", "0, 0", "4, 7", "", "2, 1");
  example("float[4, 7]", "float[4, 0]", "3", "3", "1", "");
  example("float[4, 7]", "float[4, 1]", "20", "-3", "1", "-5");
  example("int64[7]", "int64[3]", "1", "6", "0", "2");
  op.Gradient(SliceGradient)
      .Samples([](const Node& node, absl::Span<const SampleAxis> inputs, int) {
        const SampleAxis& x = inputs[0];
        if (x.kind != SampleAxis::Kind::kAxis) return x;
        const auto axes = SlicedAxes(node);
        if (!axes.ok()) return SampleAxis::Mixed();
        const bool whole = (*axes)[x.axis].step == 1 &&
                           node.input(0)->dims()[x.axis] == node.output(0)->dims()[x.axis];
        return SamplesUnless(x, !whole);
      });
  list.push_back(op);
}

// ---- Tensors from shapes and numbers.

// The schema's own rule takes scalars alone, though ONNX's functions give it tensors of one
// element: n = max(ceil((limit - start) / delta), 0).
absl::Status InferRange(InferContext& c) {
  constexpr double kMost = 9e15;  // a double counts them
  if (c.num_inputs() != 3 || c.num_outputs() != 1) {
    return absl::InvalidArgumentError("Range has three inputs and one output");
  }
  bool known = true;
  for (int i = 0; i < 3; ++i) {
    if (!c.has(i) || c.input(i).elements() != 1 || c.input(i).dtype != c.input(0).dtype) {
      return absl::InvalidArgumentError(
          absl::StrCat("input ", i, " is no scalar of the type of the others"));
    }
    known &= c.constant(i) != nullptr;
  }
  if (!known) {
    c.SetOutput(0, c.input(0).dtype, {kDynamic});
    return absl::OkStatus();
  }
  const Tensor &start = *c.constant(0), &limit = *c.constant(1), &delta = *c.constant(2);
  if (delta.At(0) == 0) return absl::InvalidArgumentError("delta is 0");
  double n;
  if (IsInteger(start.dtype())) {
    const auto distance = static_cast<double>(limit.IntAt(0)) - static_cast<double>(start.IntAt(0));
    n = std::ceil(distance / static_cast<double>(delta.IntAt(0)));
  } else {
    n = std::ceil((limit.At(0) - start.At(0)) / delta.At(0));
  }
  if (!(n < kMost)) return absl::InvalidArgumentError("it is without end");
  c.SetOutput(0, start.dtype(), {static_cast<int64_t>(std::max(n, 0.0))});
  return absl::OkStatus();
}

void AddMakers(OperatorFamily& list) {
  list.push_back(
      Operator("", "Constant")
          .Example("g (float[2] x) => (float[2] y) { c = Constant<value = float[2] {1.0, 2.0}>() "
                   "y = Add(x, c) }")
          .Example("g (float x) => (float y) { c = Constant<value_float = 2.5>() "
                   "d = CastLike(c, x) y = Add(x, d) }")
          .Example("g (int64 x) => (int64 y) { c = Constant<value_int = 3>() y = Add(x, c) }")
          .Example("g (double[2] x) => (double[2] y) { c = Constant<value_floats = [1.0, 2.0]>() "
                   "d = Cast<to = 11>(c) y = Add(x, d) }")
          .Example("g (int64[2] x) => (int64[2] y) { c = Constant<value_ints = [3, 4]>() y = "
                   "Add(x, c) }")
          .NotDifferentiable("it has no inputs"));

  list.push_back(
      Operator("", "ConstantOfShape")
          .Example("g (double[2, 3] x) => (double[2, 3] y) { s = Constant<value_ints = [2, 3]>() "
                   "c = ConstantOfShape(s) d = Cast<to = 11>(c) y = Add(x, d) }")
          .Example("g (float[2, 3] x) => (float[2, 3] y) { s = Shape(x) "
                   "c = ConstantOfShape<value = float[1] {1.5}>(s) y = Mul(x, c) }")
          .Example("g (int64 x) => (int64 y) { s = Constant<value = int64[0] {}>() "
                   "c = ConstantOfShape<value = int64[1] {7}>(s) y = Add(x, c) }")
          .NotDifferentiable("its result depends on a shape only")
          .Samples(SamplesNone));

  list.push_back(
      Operator("", "Shape")
          .Example(
              "g (float[2, 3, 4] x, int64[3] t) => (int64[3] y) { s = Shape(x) y = Add(s, t) }")
          .Example("g (float[2, 3, 4] x, int64[1] t) => (int64[1] y) "
                   "{ s = Shape<start = 1, end = -1>(x) y = Add(s, t) }")
          .Example("g (float[2, 3, 4] x, int64[2] t) => (int64[2] y) "
                   "{ s = Shape<start = -2>(x) y = Add(s, t) }")
          .NotDifferentiable("its result depends on a shape only")
          .Samples(SamplesNone));

  list.push_back(
      Operator("", "Size")
          .Example("g (float[2, 3, 4] x, int64 t) => (int64 y) { s = Size(x) y = Add(s, t) }")
          .NotDifferentiable("its result depends on a shape only")
          .Samples(SamplesNone));

  list.push_back(
      Operator("", "Range")
          .Infer(InferRange)
          .Example("g (int64[3] x) => (int64[3] y) { a = Constant<value_int = 1>() "
                   "b = Constant<value_int = 10>() d = Constant<value_int = 4>() "
                   "r = Range(a, b, d) y = Add(x, r) }")
          .Example("g (float[4] x) => (float[4] y) { a = Constant<value = float {1.0}>() "
                   "b = Constant<value = float {-1.0}>() d = Constant<value = float {-0.5}>() "
                   "r = Range(a, b, d) y = Add(x, r) }")
          .NotDifferentiable("its size depends on its inputs, which must be constants"));
}

}  // namespace

void AddShapeOperators(OperatorFamily& list) {
  AddReshapes(list);
  AddTransposeAndExpand(list);
  AddTile(list);
  AddConcatAndSplit(list);
  AddSlice(list);
  AddMakers(list);
}

}  // namespace onward
