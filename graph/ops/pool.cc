// Pooling: windows that slide over the spatial axes, one channel at a time.
#include <algorithm>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/base/status_macros.h"
#include "graph/base/window.h"
#include "graph/ir/builder.h"
#include "graph/ir/graph.h"
#include "graph/ops/checked.h"
#include "graph/ops/operators.h"
#include "graph/ops/rules.h"

namespace onward {
namespace {

std::vector<int64_t> Vector(absl::Span<const int64_t> v) { return {v.begin(), v.end()}; }

Window WindowOf(const Attributes& attributes, const Dims& x, const Dims& y) {
  return ReadWindow(attributes, Spatial(x), Spatial(y), attributes.Ints("kernel_shape"));
}

// A pooling's attributes with all defaults written and auto_pad resolved.
Attributes Explicit(const Attributes& attributes, const Dims& x, const Dims& y) {
  const Window window = WindowOf(attributes, x, y);
  Attributes out = {{"kernel_shape", Vector(window.kernel)},
                    {"strides", Vector(window.stride)},
                    {"dilations", Vector(window.dilation)},
                    {"pads", window.Pads()}};
  for (const char* flag : {"ceil_mode", "count_include_pad"}) {
    if (attributes.Int(flag, 0) != 0) out.Set(flag, int64_t{1});
  }
  return out;
}

std::vector<int64_t> SpatialAxes(int rank) {
  std::vector<int64_t> axes;
  for (int i = 2; i < rank; ++i) axes.push_back(i);
  return axes;
}

SampleAxis SamplesFirst(const Node&, absl::Span<const SampleAxis> in, int) {
  for (const SampleAxis& s : in) {
    if (s.kind != SampleAxis::Kind::kAxis || s.axis != 0) return SampleAxis::Mixed();
  }
  return in[0];
}

absl::Status CheckImage(InferContext& c) {
  if (c.input(0).dims.size() >= 3) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("expected [samples, channels, space...], got ", ToString(c.input(0).dims)));
}

// Gradients: dy and, of the largest, x; `shape` is x's extents.
absl::Status InferPoolGradient(InferContext& c) {
  const std::vector<int64_t> shape = c.attributes().Ints("shape");
  const Dims x(shape.begin(), shape.end());
  const Dims& dy = c.input(0).dims;
  // What the pooling makes of x.
  Attributes forward = c.attributes();
  forward.Remove("shape");
  const TensorType x_type = {c.input(0).dtype, x, {}};
  const TensorType* const inputs[] = {&x_type};
  InferContext pooling(c.op(), forward, inputs, {}, 1);
  RETURN_IF_ERROR(OnnxInference("", "MaxPool")(pooling));
  if (pooling.outputs()[0].dims != dy) {
    return absl::InvalidArgumentError(
        absl::StrCat("dy ", ToString(dy), " and shape ", ToString(x), " do not make a pooling"));
  }
  if (c.num_inputs() > 1 && (!c.has(1) || c.input(1).dims != x)) {
    return absl::InvalidArgumentError("x has not the shape that is stated");
  }
  c.SetOutput(0, c.input(0).dtype, x);
  return absl::OkStatus();
}

// ---- MaxPoolGradient: dy, x -> dx.
//   dx[q] = sum over windows p whose first largest element is x[q] of dy[p]
// x is read again rather than the positions of the largest stored: they would
// cost more memory than finding them anew costs time.
absl::Status LowerMaxPoolGradient(LowerContext& c) {
  Builder& b = c.b();
  Attributes attributes = c.attributes();
  attributes.Remove("shape");
  const Dims x = c.x(1).dims();
  const int64_t n = Elements(x), m = Elements(c.x(0).dims());
  Expr where = b.Ops("MaxPool", {c.x(1)}, attributes, 2)[1];
  Expr zeros = b.Zeros({c.x(0).dtype(), {n}, {}});
  Expr dx = b.Op("ScatterElements", {zeros, b.Reshape(where, {m}), b.Reshape(c.x(0), {m})},
                 {{"axis", int64_t{0}}, {"reduction", std::string("add")}});
  c.y(0, b.Reshape(dx, x));
  return absl::OkStatus();
}

// y[p] = max over the window;  dx: the operator above
absl::Status MaxPoolRule(GradientContext& g) {
  if (!g.dy(0)) return absl::OkStatus();
  Attributes attributes = Explicit(g.attributes(), g.x().dims(), g.y().dims());
  attributes.Set("shape", Vector(g.x().dims()));
  g.dx(0, g.b().Op("onward.MaxPoolGradient", {g.dy(), g.x()}, attributes));
  return absl::OkStatus();
}

// ---- AveragePoolGradient: dy -> dx.
//   dx[q] = sum over windows p that hold q of dy[p] / (elements of p that count)
//
// How many elements of each window count, [1, 1, spatial...].
Tensor Counts(const Window& w, bool with_padding, DataType dtype) {
  Dims dims = {1, 1};
  dims.insert(dims.end(), w.output.begin(), w.output.end());
  Tensor counts(dtype, dims);
  int64_t at = 0;
  Dims p(w.axes(), 0);
  if (counts.elements() == 0) return counts;
  do {
    double count = 1;
    for (int i = 0; i < w.axes(); ++i) {
      int64_t inside = 0;
      for (int64_t k = 0; k < w.kernel[i]; ++k) {
        const int64_t x = w.At(i, p[i], k);
        // What a window of ceil_mode reaches behind the padding never counts.
        inside += with_padding ? x < w.input[i] + w.end[i] : w.Inside(i, x);
      }
      count *= static_cast<double>(inside);
    }
    if (dtype == DataType::kFloat64) {
      counts.mutable_values<double>()[at++] = count;
    } else {
      counts.mutable_values<float>()[at++] = static_cast<float>(count);
    }
  } while (Next(p, w.output));
  return counts;
}

// As the data gradient of a convolution of each channel with ones.
absl::Status LowerAveragePoolGradient(LowerContext& c) {
  Builder& b = c.b();
  const std::vector<int64_t> shape = c.attributes().Ints("shape");
  const Dims x(shape.begin(), shape.end()), dy = c.x(0).dims();
  const Window window = WindowOf(c.attributes(), x, dy);
  const bool with_padding = c.attributes().Int("count_include_pad", 0) != 0;
  RETURN_IF_ERROR(CheckComputable(static_cast<double>(Elements(window.output)) *
                                  static_cast<double>(Elements(window.kernel))));
  Expr part = c.x(0) / b.Constant(Counts(window, with_padding, c.x(0).dtype()));
  Dims one = {1, 1}, image = {x[0] * x[1], 1}, out = {x[0] * x[1], 1};
  one.insert(one.end(), window.kernel.begin(), window.kernel.end());
  image.insert(image.end(), window.input.begin(), window.input.end());
  out.insert(out.end(), window.output.begin(), window.output.end());
  Expr ones = b.Constant(Tensor::Full(c.x(0).dtype(), one, 1));
  Expr dx = b.Op("onward.ConvDataGradient", {b.Reshape(part, out), ones},
                 {{"shape", Vector(image)},
                  {"strides", Vector(window.stride)},
                  {"dilations", Vector(window.dilation)},
                  {"pads", window.Pads()}});
  c.y(0, b.Reshape(dx, x));
  return absl::OkStatus();
}

// The gradient of the gradient of a linear operator is the operator.
absl::Status AveragePoolGradientRule(GradientContext& g) {
  Attributes attributes = g.attributes();
  attributes.Remove("shape");
  g.dx(0, g.b().Op("AveragePool", {g.dy()}, attributes));
  return absl::OkStatus();
}

// y[p] = mean over the window;  dx: the operator above
absl::Status AveragePoolRule(GradientContext& g) {
  Attributes attributes = Explicit(g.attributes(), g.x().dims(), g.y().dims());
  attributes.Set("shape", Vector(g.x().dims()));
  g.dx(0, g.b().Op("onward.AveragePoolGradient", {g.dy()}, attributes));
  return absl::OkStatus();
}

// y = sum(x) / n over space, n elements each;  dx = dy / n everywhere
absl::Status GlobalAverageRule(GradientContext& g) {
  const Dims x = g.x().dims();
  const auto n = static_cast<double>(Elements(Spatial(x)));
  g.dx(0, g.b().Expand(g.dy() / n, x));
  return absl::OkStatus();
}

// y = max over space;  dx = dy (x == y) / (how many are)
absl::Status GlobalMaxRule(GradientContext& g) {
  Builder& b = g.b();
  Expr largest = b.Cast(b.Op("Equal", {g.x(), g.y()}), g.x().dtype());
  Expr share = g.dy() / b.ReduceSum(largest, SpatialAxes(g.x().rank()), true);
  g.dx(0, largest * share);
  return absl::OkStatus();
}

// y = (sum over the window of |x|^p)^(1/p)
absl::Status LowerLpPool(LowerContext& c) {
  Builder& b = c.b();
  const double p = static_cast<double>(c.attributes().Int("p", 2));
  const Dims x = c.x().dims(), y = c.node().output()->dims();
  Window window = WindowOf(c.attributes(), x, y);
  for (int i = 0; i < window.axes(); ++i) {
    // As far as the last window of ceil_mode reaches.
    const int64_t reach = window.dilation[i] * (window.kernel[i] - 1) + 1;
    const int64_t last = (window.output[i] - 1) * window.stride[i] + reach;
    window.end[i] = std::max<int64_t>(0, last - window.begin[i] - window.input[i]);
  }
  Dims one = {1, 1}, image = {x[0] * x[1], 1};
  one.insert(one.end(), window.kernel.begin(), window.kernel.end());
  image.insert(image.end(), window.input.begin(), window.input.end());
  Expr powers = b.Op("Pow", {b.Op("Abs", {c.x()}), b.Like(c.x(), p)});
  Expr ones = b.Constant(Tensor::Full(c.x().dtype(), one, 1));
  Expr sums = b.Reshape(b.Op("Conv", {b.Reshape(powers, image), ones},
                             {{"strides", Vector(window.stride)},
                              {"dilations", Vector(window.dilation)},
                              {"pads", window.Pads()}}),
                        y);
  c.y(0, b.Op("Pow", {sums, b.Like(c.x(), 1 / p)}));
  return absl::OkStatus();
}

absl::Status LowerGlobalLpPool(LowerContext& c) {
  Builder& b = c.b();
  const double p = static_cast<double>(c.attributes().Int("p", 2));
  Expr powers = b.Op("Pow", {b.Op("Abs", {c.x()}), b.Like(c.x(), p)});
  c.y(0, b.Op("Pow", {b.ReduceSum(powers, SpatialAxes(c.x().rank()), true), b.Like(c.x(), 1 / p)}));
  return absl::OkStatus();
}

// ---- MaxUnpool: what MaxPool chose goes back to where it was; all else is zero.
// Places count in the whole tensor that the pooling had, of the extents that its
// attributes give; where output_shape asks for more, zeros follow on each axis.
absl::StatusOr<Dims> UnpooledDims(const Attributes& attributes, const Dims& x) {
  Dims dims = x;
  const std::vector<int64_t> kernel = attributes.Ints("kernel_shape");
  const std::vector<int64_t> strides =
      attributes.Ints("strides", std::vector<int64_t>(kernel.size(), 1));
  const std::vector<int64_t> pads =
      attributes.Ints("pads", std::vector<int64_t>(2 * kernel.size(), 0));
  if (x.size() < 3 || kernel.size() + 2 != x.size() || strides.size() != kernel.size() ||
      pads.size() != 2 * kernel.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "input ", ToString(x), ", kernel_shape, strides and pads do not fit one another"));
  }
  for (size_t i = 0; i < kernel.size(); ++i) {
    dims[i + 2] = (x[i + 2] - 1) * strides[i] + kernel[i] - pads[i] - pads[kernel.size() + i];
    if (dims[i + 2] < 1) return absl::InvalidArgumentError("nothing is left of an axis");
  }
  return dims;
}

absl::Status InferMaxUnpool(InferContext& c) {
  if (c.num_inputs() < 2 || !c.has(0) || !c.has(1) || c.input(0).dims != c.input(1).dims ||
      c.input(1).dtype != DataType::kInt64) {
    return absl::InvalidArgumentError("expected values and int64 indices of the same extents");
  }
  ASSIGN_OR_RETURN(Dims dims, UnpooledDims(c.attributes(), c.input(0).dims));
  if (c.has(2)) {
    const Tensor* shape = c.constant(2);
    if (shape == nullptr) {
      return absl::UnimplementedError("the extents of its result depend on data");
    }
    Dims asked;
    for (int64_t i = 0; i < shape->elements(); ++i) asked.push_back(shape->IntAt(i));
    bool fits = asked.size() == dims.size();
    for (size_t i = 0; fits && i < dims.size(); ++i) {
      fits = i < 2 ? asked[i] == dims[i] : asked[i] >= dims[i];
    }
    if (!fits) {
      return absl::InvalidArgumentError(absl::StrCat("output_shape is ", ToString(asked),
                                                     ", expected at least ", ToString(dims)));
    }
    dims = asked;
  }
  c.SetOutput(0, c.input(0).dtype, dims);
  return absl::OkStatus();
}

absl::Status LowerMaxUnpool(LowerContext& c) {
  Builder& b = c.b();
  ASSIGN_OR_RETURN(const Dims dims, UnpooledDims(c.attributes(), c.x(0).dims()));
  const Dims y = c.node().output()->dims();
  const int64_t n = Elements(c.x(0).dims());
  Expr zeros = b.Zeros({c.x(0).dtype(), {Elements(dims)}, {}});
  Expr spread = b.Op("ScatterElements", {zeros, b.Reshape(c.x(1), {n}), b.Reshape(c.x(0), {n})});
  spread = b.Reshape(spread, dims);
  if (y != dims) {
    std::vector<int64_t> pads(2 * y.size(), 0);
    for (size_t i = 0; i < y.size(); ++i) pads[y.size() + i] = y[i] - dims[i];
    spread = b.Op("Pad", {spread, b.Ints(pads)});
  }
  c.y(0, spread);
  return absl::OkStatus();
}

Operator MaxUnpool() {
  const char* const pooled =
      "p, i = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(x) q = Mul(p, a) ";
  return Operator("", "MaxUnpool")
      .Infer(InferMaxUnpool)
      .Example(
          absl::StrCat("g (float[2, 2, 4, 4] x, float[2, 1, 1, 2] a) => (float[2, 2, 4, 4] y) { ",
                       pooled, "y = MaxUnpool<kernel_shape = [2, 2], strides = [2, 2]>(q, i) }"))
      .Example(absl::StrCat(
          "g (float[1, 2, 4, 4] x, float[1, 1, 1, 2] a) => (float[1, 2, 5, 6] y) { ", pooled,
          "s = Constant<value_ints = [1, 2, 5, 6]>() "
          "y = MaxUnpool<kernel_shape = [2, 2], strides = [2, 2], pads = [0, 0, 0, 0]>(q, i, s) }"))
      .Example(
          "g (float[1, 1, 5] x) => (float[1, 1, 4] y) "
          "{ p, i = MaxPool<kernel_shape = [3], strides = [1], pads = [1, 1]>(x) "
          "b = Constant<value_ints = [1]>() e = Constant<value_ints = [5]>() "
          "a = Constant<value_ints = [2]>() q = Slice(p, b, e, a) "
          "j = Constant<value = int64[1, 1, 4] {0, 3, 1, 2}>() "
          "y = MaxUnpool<kernel_shape = [3], pads = [1, 1]>(q, j) }")
      .AlwaysLower(LowerMaxUnpool)
      .Samples([](const Node&, absl::Span<const SampleAxis>, int) { return SampleAxis::Mixed(); });
}

// ---- MaxRoiPool: the largest element of each bin of each region, 0 for an empty bin.
// Region r is (image, x1, y1, x2, y2) in pixels after scaling, its last row and column
// included; bin i of n over h rows has rows floor(i h / n) to ceil((i + 1) h / n).

absl::Status InferMaxRoiPositions(InferContext& c) {
  const std::vector<int64_t> bins = c.attributes().Ints("pooled_shape");
  const bool fits = c.num_inputs() == 2 && c.has(0) && c.has(1) && c.input(0).dims.size() == 4 &&
                    c.input(1).dims.size() == 2 && c.input(1).dims[1] == 5 &&
                    c.input(0).dtype == c.input(1).dtype && bins.size() == 2 && bins[0] > 0 &&
                    bins[1] > 0 && Elements(Spatial(c.input(0).dims)) > 0;
  if (!fits) {
    return absl::InvalidArgumentError(
        "expected an image [samples, channels, height, width], regions [n, 5] of the same type, "
        "and pooled_shape of two numbers over 0");
  }
  c.SetOutput(0, DataType::kInt64, {c.input(1).dims[0], c.input(0).dims[1], bins[0], bins[1]});
  return absl::OkStatus();
}

absl::Status InferMaxRoiPool(InferContext& c) {
  RETURN_IF_ERROR(InferMaxRoiPositions(c));
  c.SetOutput(0, c.input(0).dtype, c.outputs()[0].dims);
  return absl::OkStatus();
}

// Is element h of a side in bin i? [regions, bins, extent], from the ends [regions, 1, 1].
Expr InBins(Builder& b, Expr first, Expr last, int64_t bins, int64_t extent) {
  const auto n = static_cast<double>(bins);
  Expr size = last - first + 1;
  size = b.Op("Max", {size, b.Like(size, 1)});
  Expr bin = b.Reshape(b.Ints(Iota(bins)), {bins, 1});
  Expr begin = first + bin * size / n;
  Expr end = first + ((bin + 1) * size + (n - 1)) / n;
  Expr element = b.Ints(Iota(extent));
  return b.Op("And", {b.Op("GreaterOrEqual", {element, begin}), b.Op("Less", {element, end})});
}

absl::Status LowerMaxRoiPositions(LowerContext& l) {
  Builder& b = l.b();
  const Dims x = l.x(0).dims(), y = l.node().output()->dims();
  const int64_t regions = y[0], channels = x[1], area = x[2] * x[3];
  const auto column = [&](int64_t i) {
    return b.Op("Gather", {l.x(1), OneInt(b, i)}, {{"axis", int64_t{1}}});
  };
  const auto corner = [&](int64_t i) {
    // Halves are rounded away from zero.
    Expr v = column(i) * l.attributes().Float("spatial_scale", 1);
    v = b.Op("Sign", {v}) * b.Op("Floor", {b.Op("Abs", {v}) + 0.5});
    return b.Reshape(b.Cast(v, DataType::kInt64), {regions, 1, 1});
  };
  Expr rows = InBins(b, corner(2), corner(4), y[2], x[2]);
  Expr columns = InBins(b, corner(1), corner(3), y[3], x[3]);
  Expr inside = b.Op("And", {b.Reshape(rows, {regions, y[2], 1, x[2], 1}),
                             b.Reshape(columns, {regions, 1, y[3], 1, x[3]})});
  inside = b.Reshape(inside, {regions, 1, y[2], y[3], area});
  Expr image = b.Reshape(b.Cast(column(0), DataType::kInt64), {regions});
  Expr pixels = b.Reshape(b.Op("Gather", {l.x(0), image}), {regions, channels, 1, 1, area});
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  const Attributes last = {{"axis", int64_t{-1}}, {"keepdims", int64_t{0}}};
  Expr at = b.Op("ArgMax", {b.Where(inside, pixels, b.Like(pixels, kNone))}, last);
  Expr plane = b.Reshape(image, {regions, 1, 1, 1}) * static_cast<double>(channels) +
               b.Reshape(b.Ints(Iota(channels)), {channels, 1, 1});
  Expr any = b.Op("ReduceMax", {b.Cast(inside, DataType::kInt32), OneInt(b, -1)},
                  {{"keepdims", int64_t{0}}});
  Expr position = plane * static_cast<double>(area) + at;
  l.y(0, b.Where(b.Cast(any, DataType::kBool), position,
                 b.Like(position, static_cast<double>(Elements(x)))));
  return absl::OkStatus();
}

// y = x at the positions, and a zero behind x for the empty bins: dx by those of Gather.
absl::Status LowerMaxRoiPool(LowerContext& l) {
  Builder& b = l.b();
  Expr all = b.Op(
      "Concat", {b.Reshape(l.x(0), {Elements(l.x(0).dims())}), b.Zeros({l.x(0).dtype(), {1}, {}})},
      {{"axis", int64_t{0}}});
  Expr where = b.Op("onward.MaxRoiPositions", {l.x(0), l.x(1)}, l.attributes());
  l.y(0, b.Op("Gather", {all, where}));
  return absl::OkStatus();
}

void AddMaxRoiPool(OperatorFamily& list) {
  const auto with = [](const char* op, const char* attributes, const char* type, const char* y,
                       const char* regions) {
    return absl::StrCat("g (float[2, 2, 6, 5] x) => (", type, "[", y,
                        "] y) { r = Constant<value = "
                        "float",
                        regions, ">() s = CastLike(r, x) y = ", op, "<", attributes, ">(x, s) }");
  };
  constexpr char kThree[] =
      "[3, 5] {0.0, 1.0, 0.0, 4.0, 5.0, 1.0, 0.5, 2.5, 3.0, 4.0, 1.0, 3.0, 3.0, 9.0, 9.0}";
  Operator pool("", "MaxRoiPool"), positions(kOnward, "MaxRoiPositions");
  for (const char* attributes :
       {"pooled_shape = [2, 3]", "pooled_shape = [2, 3], spatial_scale = 0.6"}) {
    pool.Example(with("MaxRoiPool", attributes, "float", "3, 2, 2, 3", kThree));
    positions.Example(with("onward.MaxRoiPositions", attributes, "int64", "3, 2, 2, 3", kThree));
  }
  pool.Example(with("MaxRoiPool", "pooled_shape = [1, 1]", "float", "0, 2, 1, 1", "[0, 5] {}"));
  list.push_back(pool.Infer(InferMaxRoiPool).AlwaysLower(LowerMaxRoiPool).Samples(SamplesMixed));
  // Where the largest element of each bin lies in x, counted in row-major order; behind the
  // last one for an empty bin.
  list.push_back(positions.Infer(InferMaxRoiPositions)
                     .Lower(LowerMaxRoiPositions)
                     .NotDifferentiable("its result is indices")
                     .Samples(SamplesMixed));
}

// Examples that every pooling with windows shares; `extra` is its own attribute.
// One for each element of every window; `windows` has an element for each window.
double WindowOperations(const Node& node, const Value& windows) {
  return static_cast<double>(windows.type.elements()) *
         static_cast<double>(Elements(node.attributes.Ints("kernel_shape")));
}

Operator Pooling(const std::string& name, const std::string& input, const std::string& extra) {
  Operator op("", name);
  const auto add = [&](const std::string& x, const std::string& y, const std::string& attributes) {
    op.Example(absl::StrCat("g (float[", x, "] ", input, ") => (float[", y, "] y) { y = ", name,
                            "<", attributes, extra, ">(", input, ") }"));
  };
  add("2, 3, 6, 6", "2, 3, 3, 3", "kernel_shape = [2, 2], strides = [2, 2]");
  add("1, 2, 5, 5", "1, 2, 3, 4", "kernel_shape = [3, 2]");
  add("1, 2, 6, 5", "1, 2, 3, 3", "kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 0, 1]");
  add("1, 2, 6, 6", "1, 2, 4, 2",
      "kernel_shape = [3, 3], strides = [2, 3], pads = [1, 0, 1, 2], ceil_mode = 1");
  add("1, 1, 7, 7", "1, 1, 3, 5", "kernel_shape = [3, 2], dilations = [2, 2]");
  add("1, 2, 5, 6", "1, 2, 3, 3",
      "kernel_shape = [3, 2], strides = [2, 2], auto_pad = \"SAME_UPPER\"");
  add("1, 2, 5, 6", "1, 2, 3, 3",
      "kernel_shape = [2, 3], strides = [2, 2], auto_pad = \"SAME_LOWER\"");
  add("1, 2, 5, 6", "1, 2, 2, 2", "kernel_shape = [3, 3], strides = [2, 2], auto_pad = \"VALID\"");
  add("2, 2, 7", "2, 2, 3", "kernel_shape = [3], strides = [2]");
  add("1, 2, 3, 4, 3", "1, 2, 2, 3, 2", "kernel_shape = [2, 2, 2]");
  add("0, 2, 4, 4", "0, 2, 3, 3", "kernel_shape = [2, 2]");
  add("2, 17, 6, 6", "2, 17, 3, 3", "kernel_shape = [2, 2], strides = [2, 2]");
  op.Infer(OnnxInferenceAnd(name, CheckImage)).Samples(SamplesFirst);
  op.Operations([](const Node& node) { return WindowOperations(node, *node.output(0)); });
  return op;
}

Operator Global(const std::string& name) {
  Operator op("", name);
  op.Example(absl::StrCat("g (float[2, 3, 4, 5] x) => (float[2, 3, 1, 1] y) { y = ", name, "(x) }"))
      .Example(absl::StrCat("g (float[2, 3, 4] x) => (float[2, 3, 1] y) { y = ", name, "(x) }"))
      .Example(absl::StrCat("g (float[1, 2, 2, 3, 2] x) => (float[1, 2, 1, 1, 1] y) { y = ", name,
                            "(x) }"))
      .Example(
          absl::StrCat("g (float[2, 18, 3, 3] x) => (float[2, 18, 1, 1] y) { y = ", name, "(x) }"))
      .Infer(OnnxInferenceAnd(name, CheckImage))
      .Samples(SamplesFirst);
  return op;
}

Operator MaxPool() {
  Operator op = Pooling("MaxPool", "x", "");
  op.Example(
        "g (float[1, 2, 5, 4] x) => (float[1, 2, 4, 3] y, int64[1, 2, 4, 3] i)"
        " { y, i = MaxPool<kernel_shape = [2, 2]>(x) }")
      .Example(
          "g (float[1, 2, 5, 4] x) => (float[1, 2, 4, 3] y, int64[1, 2, 4, 3] i)"
          " { y, i = MaxPool<kernel_shape = [2, 2], storage_order = 1>(x) }")
      .Example(
          "g (int8[1, 1, 4, 4] signed_x) => (int8[1, 1, 3, 3] y)"
          " { y = MaxPool<kernel_shape = [2, 2]>(signed_x) }")
      .Example(
          "g (uint8[1, 1, 4, 4] labels) => (uint8[1, 1, 2, 2] y)"
          " { y = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(labels) }")
      .Example(
          "g (float[2, 3, 6, 6] x) => (float[2, 3, 3, 3] y)"
          " { r = Relu(x) y = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(r) }")
      .Gradient(MaxPoolRule);
  return op;
}

Operator MaxPoolGradient() {
  return Operator(kOnward, "MaxPoolGradient")
      .Infer(InferPoolGradient)
      .Example(
          "g (float[2, 3, 3, 3] dy, float[2, 3, 6, 6] x) => (float[2, 3, 6, 6] dx)"
          " { dx = onward.MaxPoolGradient<shape = [2, 3, 6, 6], kernel_shape = [2, 2],"
          " strides = [2, 2]>(dy, x) }")
      .Example(
          "g (float[2, 17, 3, 3] dy, float[2, 17, 6, 5] x) => (float[2, 17, 6, 5] dx)"
          " { dx = onward.MaxPoolGradient<shape = [2, 17, 6, 5], kernel_shape = [3, 3],"
          " strides = [2, 2], pads = [1, 1, 0, 1]>(dy, x) }")
      .Example(
          "g (float[1, 2, 4, 2] dy, float[1, 2, 6, 6] x) => (float[1, 2, 6, 6] dx)"
          " { dx = onward.MaxPoolGradient<shape = [1, 2, 6, 6], kernel_shape = [3, 3],"
          " strides = [2, 3], pads = [1, 0, 1, 2], ceil_mode = 1>(dy, x) }")
      .Example(
          "g (float[1, 1, 3, 5] dy, float[1, 1, 7, 7] x) => (float[1, 1, 7, 7] dx)"
          " { dx = onward.MaxPoolGradient<shape = [1, 1, 7, 7], kernel_shape = [3, 2],"
          " dilations = [2, 2]>(dy, x) }")
      .Example(
          "g (float[2, 2, 3] dy, float[2, 2, 7] x) => (float[2, 2, 7] dx)"
          " { dx = onward.MaxPoolGradient<shape = [2, 2, 7], kernel_shape = [3],"
          " strides = [2]>(dy, x) }")
      .Example(
          "g (float[1, 2, 2, 3, 2] dy, float[1, 2, 3, 4, 3] x) => (float[1, 2, 3, 4, 3] dx)"
          " { dx = onward.MaxPoolGradient<shape = [1, 2, 3, 4, 3],"
          " kernel_shape = [2, 2, 2]>(dy, x) }")
      .Example(
          "g (float[2, 3, 2, 2] dy, float[2, 3, 6, 5] x) => (float[2, 3, 6, 5] dx)"
          " { r = Relu(x) dx = onward.MaxPoolGradient<shape = [2, 3, 6, 5],"
          " kernel_shape = [2, 2], strides = [3, 3]>(dy, r) }")
      .Lower(LowerMaxPoolGradient)
      .Samples(SamplesFirst);
}

Operator AveragePool() {
  Operator op = Pooling("AveragePool", "x", "");
  const Operator with_padding = Pooling("AveragePool", "x", ", count_include_pad = 1");
  for (const std::string& example : with_padding.examples) op.Example(example);
  op.Gradient(AveragePoolRule);
  return op;
}

Operator AveragePoolGradient() {
  return Operator(kOnward, "AveragePoolGradient")
      .Infer(InferPoolGradient)
      .Example(
          "g (float[2, 3, 3, 3] dy) => (float[2, 3, 6, 6] dx)"
          " { dx = onward.AveragePoolGradient<shape = [2, 3, 6, 6], kernel_shape = [2, 2],"
          " strides = [2, 2]>(dy) }")
      .Example(
          "g (float[1, 17, 3, 3] dy) => (float[1, 17, 6, 5] dx)"
          " { dx = onward.AveragePoolGradient<shape = [1, 17, 6, 5], kernel_shape = [3, 3],"
          " strides = [2, 2], pads = [1, 1, 0, 1]>(dy) }")
      .Example(
          "g (float[1, 2, 4, 2] dy) => (float[1, 2, 6, 6] dx)"
          " { dx = onward.AveragePoolGradient<shape = [1, 2, 6, 6], kernel_shape = [3, 3],"
          " strides = [2, 3], pads = [1, 0, 1, 2], ceil_mode = 1, count_include_pad = 1>(dy)"
          " }")
      .Example(
          "g (float[1, 1, 3, 5] dy) => (float[1, 1, 7, 7] dx)"
          " { dx = onward.AveragePoolGradient<shape = [1, 1, 7, 7], kernel_shape = [3, 2],"
          " dilations = [2, 2]>(dy) }")
      .Example(
          "g (float[2, 2, 3] dy) => (float[2, 2, 7] dx)"
          " { dx = onward.AveragePoolGradient<shape = [2, 2, 7], kernel_shape = [3],"
          " strides = [2]>(dy) }")
      .Example(
          "g (float[2, 3, 1, 1] dy) => (float[2, 3, 4, 5] dx)"
          " { dx = onward.AveragePoolGradient<shape = [2, 3, 4, 5],"
          " kernel_shape = [4, 5]>(dy) }")
      .Lower(LowerAveragePoolGradient)
      .Operations([](const Node& node) { return WindowOperations(node, *node.input(0)); })
      .Gradient(AveragePoolGradientRule)
      .Samples(SamplesFirst);
}

}  // namespace

void AddPoolOperators(OperatorFamily& list) {
  list.push_back(MaxPool());
  list.push_back(MaxPoolGradient());
  list.push_back(AveragePool());
  list.push_back(AveragePoolGradient());
  list.push_back(Global("GlobalAveragePool").Gradient(GlobalAverageRule));
  list.push_back(Global("GlobalMaxPool").Gradient(GlobalMaxRule));
  list.push_back(MaxUnpool());
  AddMaxRoiPool(list);
  list.push_back(Pooling("LpPool", "positive_x", ", p = 3").AlwaysLower(LowerLpPool));
  list.push_back(Global("GlobalLpPool").AlwaysLower(LowerGlobalLpPool));
}

}  // namespace onward
