// Operators that move elements by a pattern: Pad, Trilu, DepthToSpace, CenterCropPad,
// Col2Im; EyeLike.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "graph/base/status_macros.h"
#include "graph/base/window.h"
#include "graph/ir/builder.h"
#include "graph/ops/operators.h"
#include "graph/ops/rules.h"

namespace onward {
namespace {

// How many entries Pad adds to each axis (or, where negative, takes away).
struct Pads {
  std::vector<int64_t> before, after;
};

absl::StatusOr<Pads> PadsOf(const Node& node) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> pads, ConstantInts(node, 1));
  ASSIGN_OR_RETURN(const std::vector<int64_t> axes, ConstantInts(node, 3));
  const int64_t rank = node.input(0)->rank();
  Pads out{std::vector<int64_t>(rank, 0), std::vector<int64_t>(rank, 0)};
  const size_t count = pads.size() / 2;
  for (size_t k = 0; k < count; ++k) {
    const int64_t axis = FromBack(axes.empty() ? static_cast<int64_t>(k) : axes[k], rank);
    out.before[axis] = pads[k];
    out.after[axis] = pads[count + k];
  }
  return out;
}

// For the modes that repeat the input: which entry of an axis of `extent` stands
// at each entry of the result. Negative pads crop first, and the mode sees what is left.
std::vector<int64_t> Sources(int64_t extent, int64_t before, int64_t after,
                             const std::string& mode) {
  const int64_t first = std::max<int64_t>(-before, 0);
  const int64_t n = extent - first - std::max<int64_t>(-after, 0);
  std::vector<int64_t> out;
  for (int64_t k = -std::max<int64_t>(before, 0); k < n + std::max<int64_t>(after, 0); ++k) {
    int64_t source = std::min(std::max<int64_t>(k, 0), n - 1);  // edge
    if (mode == "wrap") source = (k % n + n) % n;
    if (mode == "reflect") {
      const int64_t period = std::max<int64_t>(2 * (n - 1), 1);
      const int64_t turn = (k % period + period) % period;
      source = std::min(turn, period - turn);
    }
    out.push_back(first + (n == 1 ? 0 : source));
  }
  return out;
}

// constant: dx = dy without what was added; dvalue = the sum of that.
// Else every axis is a Gather with constant indices, and dx its gradient.
absl::Status PadGradient(GradientContext& g) {
  ASSIGN_OR_RETURN(const Pads pads, PadsOf(g.node()));
  Builder& b = g.b();
  const Dims& dims = g.x(0).dims();
  const std::string mode = g.attributes().String("mode", "constant");
  if (mode == "constant") {
    std::vector<int64_t> undo;
    for (int64_t p : pads.before) undo.push_back(-p);
    for (int64_t p : pads.after) undo.push_back(-p);
    Expr dx = b.Op("Pad", {g.dy(), b.Ints(undo)});
    g.dx(0, dx);
    if (g.wants(2)) {
      const std::vector<int64_t> all = Iota(g.x(0).rank());
      Expr added = b.ReduceSum(g.dy(), all, false) - b.ReduceSum(dx, all, false);
      g.dx(2, b.Reshape(added, g.x(2).dims()));
    }
    return absl::OkStatus();
  }
  if (Elements(dims) == 0) {
    g.dx(0, b.Zeros(g.x(0).value()->type));
    return absl::OkStatus();
  }
  Expr dx = g.dy();
  for (int axis = 0; axis < g.x(0).rank() && dx; ++axis) {
    if (pads.before[axis] == 0 && pads.after[axis] == 0) continue;
    std::vector<int64_t> shape(dx.dims().begin(), dx.dims().end());
    shape[axis] = dims[axis];
    RETURN_IF_ERROR(CheckComputable(static_cast<double>(dx.dims()[axis])));
    Expr indices = b.Ints(Sources(dims[axis], pads.before[axis], pads.after[axis], mode));
    dx = b.Op("onward.GatherGradient", {dx, indices}, {{"axis", int64_t{axis}}, {"shape", shape}});
  }
  g.dx(0, dx);
  return absl::OkStatus();
}

Operator Pad() {
  Operator op("", "Pad");
  const auto example = [&](const char* x, const char* y, const char* pads, const char* attributes,
                           const char* more) {
    op.Example(absl::StrCat("g (", x, ") => (", y, " y) { p = Constant<value_ints = [", pads,
                            "]>() ax = Constant<value_ints = [-1]>() y = Pad", attributes, "(x, p",
                            more, ") }"));
  };
  example("float[2, 3] x", "float[5, 5]", "1, 2, 2, 0", "", "");
  example("float[2, 3] x, float x_c", "float[5, 5]", "1, 2, 2, 0", "<mode = \"constant\">",
          ", x_c");
  example("float[2, 3] x, float x_c", "float[2, 6]", "1, 2", "", ", x_c, ax");
  example("float[4, 5] x, float x_c", "float[3, 5]", "-2, 1, 1, -1", "", ", x_c");
  example("float[0, 3] x, float x_c", "float[2, 3]", "1, 0, 1, 0", "", ", x_c");
  example("int64[3] x", "int64[5]", "1, 1", "", "");
  for (const char* mode : {"edge", "reflect", "wrap"}) {
    const std::string attributes = absl::StrCat("<mode = \"", mode, "\">");
    example("float[3, 4] x", "float[6, 8]", "2, 1, 1, 3", attributes.c_str(), "");
    example("float[3, 4] x", "float[3, 7]", "2, 1", attributes.c_str(), ", , ax");
    example("float[3, 4] x", "float[3, 5]", "-1, 2, 1, -1", attributes.c_str(), "");
    example("float[2, 3] x", "float[2, 11]", "0, 4, 0, 4", attributes.c_str(), "");
    example("float[2, 1] x", "float[2, 3]", "0, 1, 0, 1", attributes.c_str(), "");
  }
  op.Gradient(PadGradient).Samples([](const Node& node, absl::Span<const SampleAxis> inputs, int) {
    const SampleAxis& x = inputs[0];
    if (x.kind != SampleAxis::Kind::kAxis) return x;
    const auto pads = PadsOf(node);
    if (!pads.ok()) return SampleAxis::Mixed();
    return SamplesUnless(x, pads->before[x.axis] != 0 || pads->after[x.axis] != 0);
  });
  return op;
}

// y = x where column - row >= k (upper) or <= k (lower), 0 elsewhere;  dx = the same of dy
Operator Trilu() {
  return Operator("", "Trilu")
      .Example("g (float[3, 4] x) => (float[3, 4] y) { y = Trilu(x) }")
      .Example("g (float[2, 3, 3] x) => (float[2, 3, 3] y) { y = Trilu<upper = 0>(x) }")
      .Example(
          "g (float[4, 4] x) => (float[4, 4] y) "
          "{ k = Constant<value_int = 1>() y = Trilu<upper = 1>(x, k) }")
      .Example(
          "g (float[4, 4] x) => (float[4, 4] y) "
          "{ k = Constant<value_int = -1>() y = Trilu<upper = 0>(x, k) }")
      .Example("g (int64[3, 3] signed_x) => (int64[3, 3] y) { y = Trilu(signed_x) }")
      .Gradient([](GradientContext& g) {
        std::vector<Expr> inputs{g.dy()};
        if (g.has_x(1)) inputs.push_back(g.x(1));
        g.dx(0, g.b().Op("Trilu", inputs, {{"upper", g.attributes().Int("upper", 1)}}));
        return absl::OkStatus();
      })
      .Samples([](const Node& node, absl::Span<const SampleAxis> inputs, int) {
        return SamplesUnless(inputs[0], inputs[0].axis >= node.input(0)->rank() - 2);
      });
}

Operator EyeLike() {
  return Operator("", "EyeLike")
      .Example("g (float[3, 4] x) => (float[3, 4] y) { y = EyeLike(x) }")
      .Example("g (float[3, 3] x) => (int64[3, 3] y) { y = EyeLike<dtype = 7, k = 1>(x) }")
      .Example("g (int32[3, 3] x) => (float[3, 3] y) { y = EyeLike<dtype = 1, k = -1>(x) }")
      .NotDifferentiable("its result depends on a shape only")
      .Samples(SamplesNone);
}

// Blocks of [size, size] entries of depth become neighbours in space, and back. In
// DCR order the block's axes stand before the rest of the depth, in CRD behind it.
absl::Status LowerDepthToSpace(LowerContext& l) {
  Builder& b = l.b();
  const Dims& d = l.x().dims();
  const int64_t size = l.attributes().Int("blocksize", 1);
  const int64_t depth = d[1] / (size * size);
  const bool crd = l.attributes().String("mode", "DCR") == "CRD";
  Expr blocks = crd ? b.Reshape(l.x(), {d[0], depth, size, size, d[2], d[3]})
                    : b.Reshape(l.x(), {d[0], size, size, depth, d[2], d[3]});
  blocks = crd ? b.Transpose(blocks, {0, 1, 4, 2, 5, 3}) : b.Transpose(blocks, {0, 3, 4, 1, 5, 2});
  l.y(0, b.Reshape(blocks, {d[0], depth, d[2] * size, d[3] * size}));
  return absl::OkStatus();
}

absl::Status LowerSpaceToDepth(LowerContext& l) {
  Builder& b = l.b();
  const Dims& d = l.x().dims();
  const int64_t size = l.attributes().Int("blocksize", 1);
  const bool crd = l.attributes().String("mode", "DCR") == "CRD";
  Expr blocks = b.Reshape(l.x(), {d[0], d[1], d[2] / size, size, d[3] / size, size});
  blocks = crd ? b.Transpose(blocks, {0, 1, 3, 5, 2, 4}) : b.Transpose(blocks, {0, 3, 5, 1, 2, 4});
  l.y(0, b.Reshape(blocks, {d[0], d[1] * size * size, d[2] / size, d[3] / size}));
  return absl::OkStatus();
}

// Every axis named gets another extent around its middle: cut, or filled with zeros, at
// both ends alike (one more at the end where it does not come out even).
absl::Status LowerCenterCropPad(LowerContext& l) {
  const Dims& from = l.x(0).dims();
  const Dims& to = l.node().output()->dims();
  std::vector<int64_t> pads(2 * from.size());
  for (size_t i = 0; i < from.size(); ++i) {
    const int64_t more = to[i] - from[i];
    pads[i] = more < 0 ? -(-more / 2) : more / 2;
    pads[from.size() + i] = more - pads[i];
  }
  l.y(0, l.b().Op("Pad", {l.x(0), l.b().Ints(pads)}));
  return absl::OkStatus();
}

absl::Status InferCenterCropPad(InferContext& c) {
  const Tensor* shape = c.constant(1);
  if (shape == nullptr) {
    return absl::UnimplementedError("the extents of its result depend on data");
  }
  Dims dims = c.input(0).dims;
  const std::vector<int64_t> axes =
      c.attributes().Ints("axes", Iota(static_cast<int64_t>(dims.size())));
  if (static_cast<int64_t>(axes.size()) != shape->elements()) {
    return absl::InvalidArgumentError(
        absl::StrCat("shape has ", shape->elements(), " numbers for ", axes.size(), " axes"));
  }
  for (size_t i = 0; i < axes.size(); ++i) {
    ASSIGN_OR_RETURN(const int64_t axis, NormalizeAxis(axes[i], dims.size()));
    dims[axis] = shape->IntAt(static_cast<int64_t>(i));
    if (dims[axis] < 0) return absl::InvalidArgumentError("an extent is negative");
  }
  c.SetOutput(0, c.input(0).dtype, dims);
  return absl::OkStatus();
}

Operator CenterCropPad() {
  return Operator("", "CenterCropPad")
      .Example(
          "g (float[3, 4] x) => (float[5, 1] y) "
          "{ s = Constant<value_ints = [5, 1]>() y = CenterCropPad(x, s) }")
      .Example(
          "g (float[3, 4] x) => (float[6, 4] y) "
          "{ s = Constant<value = int32[1] {6}>() y = CenterCropPad<axes = [-2]>(x, s) }")
      .Example(
          "g (int64[4, 1, 3] signed_x) => (int64[1, 1, 0] y) "
          "{ s = Constant<value_ints = [0, 1]>() y = CenterCropPad<axes = [2, 0]>(signed_x, s) }")
      .Infer(InferCenterCropPad)
      .AlwaysLower(LowerCenterCropPad)
      .Samples([](const Node& node, absl::Span<const SampleAxis> inputs, int) {
        const int axis = inputs[0].axis;
        return SamplesUnless(inputs[0], node.input(0)->dims()[axis] != node.output()->dims()[axis]);
      });
}

// y[n, c, position] = sum of x[n, (c, tap), block] over all blocks and taps that meet there:
// the transpose of cutting an image into blocks. As the gradient of a Gather of each
// channel's plane, with one more place for what lies in the padding.
absl::Status LowerCol2Im(LowerContext& l) {
  Builder& b = l.b();
  ASSIGN_OR_RETURN(const std::vector<int64_t> kernel, ConstantInts(l.node(), 2));
  const Dims y = l.node().output()->dims();
  const Dims image(y.begin() + 2, y.end());
  if (y[0] * y[1] == 0) {
    l.y(0, b.Zeros(l.node().output()->type));
    return absl::OkStatus();
  }
  Window window = ReadWindow(l.attributes(), image, image, kernel);
  for (int i = 0; i < window.axes(); ++i) {
    const int64_t reach = window.dilation[i] * (kernel[i] - 1) + 1;
    window.output[i] = (image[i] + window.begin[i] + window.end[i] - reach) / window.stride[i] + 1;
  }
  const int64_t area = Elements(image);
  const Dims strides = Strides(image);
  std::vector<int64_t> places;
  Dims k(window.axes(), 0);
  do {
    Dims p(window.axes(), 0);
    do {
      int64_t place = 0;
      for (int i = 0; i < window.axes() && place != area; ++i) {
        const int64_t at = window.At(i, p[i], k[i]);
        place = window.Inside(i, at) ? place + at * strides[i] : area;
      }
      places.push_back(place);
    } while (Next(p, window.output));
  } while (Next(k, window.kernel));
  const int64_t planes = y[0] * y[1], taps = static_cast<int64_t>(places.size());
  Expr sums = b.Op("onward.GatherGradient", {b.Reshape(l.x(0), {planes, taps}), b.Ints(places)},
                   {{"axis", int64_t{1}}, {"shape", std::vector<int64_t>{planes, area + 1}}});
  Expr inside = b.Op("Slice", {sums, OneInt(b, 0), OneInt(b, area), OneInt(b, 1)});
  l.y(0, b.Reshape(inside, y));
  return absl::OkStatus();
}

absl::Status InferCol2Im(InferContext& c) {
  const Tensor *image = c.constant(1), *block = c.constant(2);
  if (image == nullptr || block == nullptr) {
    return absl::UnimplementedError("the extents of its result depend on data");
  }
  const Dims& x = c.input(0).dims;
  const int64_t axes = image->elements();
  if (x.size() != 3 || axes < 1 || block->elements() != axes) {
    return absl::InvalidArgumentError(absl::StrCat("input ", ToString(x), ", an image of ", axes,
                                                   " axes and a block of ", block->elements(),
                                                   " do not make a Col2Im"));
  }
  Dims dims = {x[0], 0}, kernel, extents;
  for (int64_t i = 0; i < axes; ++i) {
    extents.push_back(image->IntAt(i));
    kernel.push_back(block->IntAt(i));
    if (kernel[i] < 1 || extents[i] < 1) {
      return absl::InvalidArgumentError("an extent is less than 1");
    }
  }
  const size_t of_axes = extents.size();
  for (const char* name : {"strides", "dilations", "pads"}) {
    const std::vector<int64_t> list = c.attributes().Ints(name);
    const size_t wanted = std::string(name) == "pads" ? 2 * of_axes : of_axes;
    const int64_t least = wanted == of_axes ? 1 : 0;
    const bool low = std::any_of(list.begin(), list.end(), [&](int64_t v) { return v < least; });
    if (low || (!list.empty() && list.size() != wanted)) {
      return absl::InvalidArgumentError(absl::StrCat(name, " ", ToString(list), " does not fit"));
    }
  }
  const Window window = ReadWindow(c.attributes(), extents, extents, kernel);
  int64_t blocks = 1;
  for (int i = 0; i < window.axes(); ++i) {
    const int64_t room =
        extents[i] + window.begin[i] + window.end[i] - window.dilation[i] * (kernel[i] - 1) - 1;
    blocks *= room < 0 ? 0 : room / window.stride[i] + 1;
  }
  if (x[1] % Elements(kernel) != 0 || x[2] != blocks || blocks == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "input ", ToString(x), ", expected [samples, n * ", Elements(kernel), ", ", blocks, "]"));
  }
  dims[1] = x[1] / Elements(kernel);
  dims.insert(dims.end(), extents.begin(), extents.end());
  c.SetOutput(0, c.input(0).dtype, dims);
  return absl::OkStatus();
}

Operator Col2Im() {
  Operator op("", "Col2Im");
  const auto example = [&](const char* x, const char* y, const char* image, const char* block,
                           const char* attributes) {
    op.Example(absl::StrCat("g (", x, ") => (", y, " y) { i = Constant<value_ints = [", image,
                            "]>() k = Constant<value_ints = [", block, "]>() y = Col2Im",
                            attributes, "(x, i, k) }"));
  };
  example("float[1, 8, 6] x", "float[1, 2, 3, 4]", "3, 4", "2, 2", "");
  example("float[2, 4, 6] x", "float[2, 1, 4, 5]", "4, 5", "2, 2",
          "<strides = [2, 2], pads = [0, 1, 0, 0]>");
  example("float[1, 6, 4] x", "float[1, 1, 5, 4]", "5, 4", "2, 3",
          "<dilations = [2, 1], strides = [2, 1]>");
  example("float[2, 3, 5] x", "float[2, 1, 5]", "5", "3", "<pads = [1, 1]>");
  example("float[1, 8, 2] x", "float[1, 1, 2, 2, 3]", "2, 2, 3", "2, 2, 2", "");
  example("float[0, 4, 1] x", "float[0, 1, 2, 2]", "2, 2", "2, 2", "");
  op.Infer(InferCol2Im)
      .AlwaysLower(LowerCol2Im)
      .Samples([](const Node&, absl::Span<const SampleAxis> inputs, int) {
        return SamplesUnless(inputs[0], inputs[0].axis != 0);
      });
  return op;
}

}  // namespace

void AddPadOperators(OperatorFamily& list) {
  list.push_back(Pad());
  list.push_back(Trilu());
  list.push_back(EyeLike());
  list.push_back(CenterCropPad());
  list.push_back(Col2Im());
  Operator depth("", "DepthToSpace"), space("", "SpaceToDepth");
  for (const char* mode : {"", ", mode = \"DCR\"", ", mode = \"CRD\""}) {
    depth.Example(
        absl::StrCat("g (float[2, 8, 2, 3] x) => (float[2, 2, 4, 6] y) "
                     "{ y = DepthToSpace<blocksize = 2",
                     mode, ">(x) }"));
    space.Example(
        absl::StrCat("g (float[2, 2, 4, 6] x) => (float[2, 8, 2, 3] y) "
                     "{ y = SpaceToDepth<blocksize = 2",
                     mode, ">(x) }"));
  }
  list.push_back(depth.AlwaysLower(LowerDepthToSpace));
  list.push_back(space.AlwaysLower(LowerSpaceToDepth));
}

}  // namespace onward
