// Images read at places that other values give: GridSample, AffineGrid, DeformConv,
// RoiAlign.
#include <algorithm>
#include <limits>
#include <string>
#include <utility>
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

// ---- GridSample.

enum class Padding { kZeros, kBorder, kReflection };

// One spatial axis of the image.
struct Side {
  Builder& b;
  Padding padding;
  int64_t extent;
  double low, high;  // where the image begins and ends

  Expr Min(Expr v, double bound) const { return b.Op("Min", {v, b.Like(v, bound)}); }
  Expr Max(Expr v, double bound) const { return b.Op("Max", {v, b.Like(v, bound)}); }
  Expr Clamp(Expr v) const { return Min(Max(v, 0), static_cast<double>(extent - 1)); }
  // Thrown back at both ends as often as needed.
  Expr Reflect(Expr v) const {
    const double width = high - low;
    if (width <= 0) return v * 0 + low;
    Expr turn = b.Op("Mod", {v - low, b.Like(v, 2 * width)}, {{"fmod", int64_t{0}}});
    return low + width - b.Op("Abs", {turn - width});
  }
  // What the padding makes of a coordinate, whole or not.
  Expr Bring(Expr v) const {
    if (padding == Padding::kBorder) {
      // Only from half an element outside on, where it matters to cubic interpolation.
      Expr out =
          b.Op("Or", {b.Op("Less", {v, b.Like(v, low)}), b.Op("Greater", {v, b.Like(v, high)})});
      return b.Where(out, Clamp(v), v);
    }
    return padding == Padding::kReflection ? Reflect(v) : v;
  }
};

// An element that a sample reads along one axis, with its weight.
struct Tap {
  Expr place;   // int64, in range
  Expr weight;  // 0 where the element is outside of an image padded with zeros
};

Tap TapAt(const Side& side, Expr place, Expr weight) {
  Builder& b = side.b;
  if (side.padding == Padding::kZeros) {
    Expr inside = b.Op("Equal", {place, side.Clamp(place)});
    weight = KeepWhere(inside, weight);
  } else if (side.padding == Padding::kReflection) {
    place = side.Reflect(place);
  }
  return {b.Cast(side.Clamp(place), DataType::kInt64), weight};
}

// Weights of the elements at -1, 0, 1, 2 from the one before, t behind it: cubic
// convolution (Keys, 1981) with a = -0.75.
std::vector<Expr> CubicWeights(Expr t) {
  constexpr double a = -0.75;
  const auto near = [](Expr d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
  const auto far = [](Expr d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };
  return {far(t + 1), near(t), near(1 - t), far(2 - t)};
}

std::vector<Tap> TapsOf(const Side& side, Expr coordinate, const std::string& mode) {
  Builder& b = side.b;
  if (mode == "nearest") {
    Expr v = side.Bring(b.Op("Round", {coordinate}));
    return {TapAt(side, v, b.Expand(b.Like(v, 1), v ? v.dims() : Dims()))};
  }
  Expr v = side.Bring(coordinate);
  Expr before = b.Op("Floor", {v});
  Expr t = v - before;
  if (mode == "cubic") {
    std::vector<Tap> taps;
    const std::vector<Expr> weights = CubicWeights(t);
    for (int k = 0; k < 4; ++k) taps.push_back(TapAt(side, before + (k - 1), weights[k]));
    return taps;
  }
  return {TapAt(side, before, 1 - t), TapAt(side, before + 1, t)};
}

// What `images` [samples, channels, extents of `sides`] hold at the points that
// `coordinates` give, one [samples, points] per axis: [samples, points, channels], the sum
// over the taps of all axes of the elements there times the product of the taps' weights.
// The channels lie innermost meanwhile, so that a place is a row.
Expr Sampled(Builder& b, Expr images, const std::vector<Side>& sides,
             const std::vector<Expr>& coordinates, const std::string& mode) {
  if (!images || !coordinates[0]) return Expr();
  const int64_t samples = images.dims()[0], channels = images.dims()[1];
  const int64_t points = coordinates[0].dims()[1];
  Dims extents;
  for (const Side& side : sides) extents.push_back(side.extent);
  const int64_t area = Elements(extents);
  const Dims strides = Strides(extents);
  // Row numbers begin anew with each sample.
  std::vector<int64_t> starts;
  for (int64_t n = 0; n < samples; ++n) starts.push_back(n * area);
  std::vector<Tap> read = {{b.Reshape(b.Ints(starts), {samples, 1}), Expr()}};
  for (size_t i = 0; i < sides.size(); ++i) {
    const std::vector<Tap> taps = TapsOf(sides[i], coordinates[i], mode);
    std::vector<Tap> all;
    for (const Tap& at : read) {
      for (const Tap& tap : taps) {
        all.push_back({at.place + tap.place * static_cast<double>(strides[i]),
                       at.weight ? at.weight * tap.weight : tap.weight});
      }
    }
    read = std::move(all);
  }
  Expr lines = b.Transpose(b.Reshape(images, {samples, channels, area}), {0, 2, 1});
  Expr rows = b.Reshape(lines, {samples * area, channels});
  Expr sum;
  for (const Tap& at : read) {
    if (!at.weight) return Expr();
    Expr weight = b.Reshape(b.Cast(at.weight, images.dtype()), {samples, points, 1});
    Expr part = b.Op("Gather", {rows, at.place}) * weight;
    sum = sum ? sum + part : part;
  }
  return sum;
}

// The places and weights follow from grid[n, p].
absl::Status LowerGridSample(LowerContext& l) {
  Builder& b = l.b();
  const Dims x = l.x(0).dims(), y = l.node().output()->dims();
  if (Elements(y) == 0) {
    l.y(0, b.Zeros(l.node().output()->type));
    return absl::OkStatus();
  }
  const int axes = static_cast<int>(x.size()) - 2;
  const bool corners = l.attributes().Int("align_corners", 0) != 0;
  const std::string pads = l.attributes().String("padding_mode", "zeros");
  const Padding padding = pads == "border"       ? Padding::kBorder
                          : pads == "reflection" ? Padding::kReflection
                                                 : Padding::kZeros;
  const DataType real = IsFloating(l.x(0).dtype()) ? l.x(0).dtype() : l.x(1).dtype();
  std::vector<Side> sides;
  std::vector<Expr> coordinates;
  for (int i = 0; i < axes; ++i) {
    // Coordinates stand innermost axis first.
    Expr c = b.Op("Gather", {l.x(1), b.Constant(Tensor::Scalar<int64_t>(axes - 1 - i))},
                  {{"axis", int64_t{-1}}});
    c = b.Reshape(c, {x[0], Elements(y) / (y[0] * y[1])});
    const auto n = static_cast<double>(x[i + 2]);
    sides.push_back({b, padding, x[i + 2], corners ? 0 : -0.5, corners ? n - 1 : n - 0.5});
    coordinates.push_back(corners ? (c + 1) * ((n - 1) / 2) : ((c + 1) * n - 1) / 2);
  }
  Expr values =
      Sampled(b, b.Cast(l.x(0), real), sides, coordinates, l.attributes().String("mode", "linear"));
  l.y(0, b.Cast(b.Reshape(b.Transpose(values, {0, 2, 1}), y), l.x(0).dtype()));
  return absl::OkStatus();
}

absl::Status CheckGridSample(InferContext& c) {
  const std::string mode = c.attributes().String("mode", "linear");
  const std::string pads = c.attributes().String("padding_mode", "zeros");
  const bool known = (mode == "linear" || mode == "nearest" || mode == "cubic") &&
                     (pads == "zeros" || pads == "border" || pads == "reflection");
  if (!known) {
    return absl::InvalidArgumentError(
        absl::StrCat("no mode '", mode, "' with padding_mode '", pads, "'"));
  }
  const Dims& x = c.input(0).dims;
  const Dims& grid = c.input(1).dims;
  if (grid.size() != x.size() || grid[0] != x[0] ||
      grid.back() != static_cast<int64_t>(x.size()) - 2) {
    return absl::InvalidArgumentError(absl::StrCat("the grid ", ToString(grid),
                                                   " has no place in the image ", ToString(x),
                                                   " for each of its samples"));
  }
  if (Elements(absl::MakeConstSpan(x).subspan(2)) == 0) {
    return absl::InvalidArgumentError(absl::StrCat("the image ", ToString(x), " is empty"));
  }
  return absl::OkStatus();
}

SampleAxis SamplesFirst(const Node&, absl::Span<const SampleAxis> inputs, int) {
  for (const SampleAxis& s : inputs) {
    if (s.kind != SampleAxis::Kind::kAxis || s.axis != 0) return SampleAxis::Mixed();
  }
  return inputs[0];
}

Operator GridSample() {
  Operator op("", "GridSample");
  const auto example = [&](const char* x, const char* grid, const char* y,
                           const std::string& attributes) {
    op.Example(absl::StrCat("g (", x, " x, ", grid, ") => (", y,
                            " y) { two = Constant<value = float {1.5}>() wide = Mul(grid, two) "
                            "y = GridSample<",
                            attributes, ">(x, wide) }"));
  };
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    for (const char* padding : {"zeros", "border", "reflection"}) {
      for (const char* corners : {"0", "1"}) {
        const std::string attributes = absl::StrCat("mode = \"", mode, "\", padding_mode = \"",
                                                    padding, "\", align_corners = ", corners);
        example("float[1, 2, 3, 4]", "float[1, 2, 3, 2] grid", "float[1, 2, 2, 3]", attributes);
      }
    }
  }
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    const std::string attributes = absl::StrCat("mode = \"", mode, "\"");
    example("float[2, 2, 5]", "float[2, 3, 1] grid", "float[2, 2, 3]", attributes);
  }
  example("float[2, 1, 2, 3, 2]", "float[2, 1, 2, 1, 3] grid", "float[2, 1, 1, 2, 1]",
          "mode = \"linear\"");
  example("float[1, 1, 1, 1]", "float[1, 1, 2, 2] grid", "float[1, 1, 1, 2]",
          "padding_mode = \"reflection\", align_corners = 1");
  example("float[0, 1, 2, 2]", "float[0, 1, 2, 2] grid", "float[0, 1, 1, 2]", "mode = \"linear\"");
  op.Infer(OnnxInferenceAnd("GridSample", CheckGridSample))
      .AlwaysLower(LowerGridSample)
      .Samples(SamplesFirst);
  return op;
}

// ---- AffineGrid: grid[n, p] = theta[n] (p, 1), p the places of an image of the given size
// between -1 and 1, innermost axis first.
absl::StatusOr<Dims> GridDims(const Tensor& size) {
  Dims dims;
  for (int64_t i = 0; i < size.elements(); ++i) dims.push_back(size.IntAt(i));
  if (dims.size() != 4 && dims.size() != 5) {
    return absl::InvalidArgumentError(
        absl::StrCat("size has ", dims.size(), " numbers, expected 4 or 5"));
  }
  RETURN_IF_ERROR(CheckedElements(dims).status());
  dims.erase(dims.begin() + 1);
  return dims;
}

absl::Status InferAffineGrid(InferContext& c) {
  const Tensor* size = c.constant(1);
  if (size == nullptr) {
    return absl::UnimplementedError("the extents of its result depend on data");
  }
  ASSIGN_OR_RETURN(Dims dims, GridDims(*size));
  const int64_t axes = static_cast<int64_t>(dims.size()) - 1;
  if (c.input(0).dims != Dims{dims[0], axes, axes + 1}) {
    return absl::InvalidArgumentError(absl::StrCat("theta is ", ToString(c.input(0).dims),
                                                   ", expected ",
                                                   ToString(Dims{dims[0], axes, axes + 1})));
  }
  dims.push_back(axes);
  c.SetOutput(0, c.input(0).dtype, dims);
  return absl::OkStatus();
}

absl::Status LowerAffineGrid(LowerContext& l) {
  Builder& b = l.b();
  const Dims y = l.node().output()->dims();
  const int64_t axes = y.back();
  const bool corners = l.attributes().Int("align_corners", 0) != 0;
  const absl::Span<const int64_t> image = absl::MakeConstSpan(y).subspan(1, axes);
  const Dims strides = Strides(image);
  const int64_t points = Elements(image);
  std::vector<double> places;
  for (int64_t p = 0; p < points; ++p) {
    for (int64_t i = axes - 1; i >= 0; --i) {
      const auto n = static_cast<double>(image[i]);
      const auto k = static_cast<double>(p / strides[i] % image[i]);
      places.push_back(!corners ? (2 * k + 1) / n - 1 : n > 1 ? 2 * k / (n - 1) - 1 : 0);
    }
    places.push_back(1);
  }
  Expr grid = b.MatMul(Reals(b, l.x(0).dtype(), {points, axes + 1}, places),
                       b.Transpose(l.x(0), {0, 2, 1}));
  l.y(0, b.Reshape(grid, y));
  return absl::OkStatus();
}

Operator AffineGrid() {
  Operator op("", "AffineGrid");
  const auto example = [&](const char* theta, const char* size, const char* y,
                           const char* attributes) {
    op.Example(absl::StrCat("g (", theta, " theta) => (", y, " y) { s = Constant<value_ints = [",
                            size, "]>() y = AffineGrid", attributes, "(theta, s) }"));
  };
  for (const char* attributes : {"", "<align_corners = 1>"}) {
    example("float[2, 2, 3]", "2, 3, 2, 3", "float[2, 2, 3, 2]", attributes);
    example("float[1, 3, 4]", "1, 1, 2, 1, 3", "float[1, 2, 1, 3, 3]", attributes);
  }
  example("float[0, 2, 3]", "0, 3, 2, 3", "float[0, 2, 3, 2]", "");
  op.Infer(InferAffineGrid)
      .AlwaysLower(LowerAffineGrid)
      .Samples([](const Node&, absl::Span<const SampleAxis> inputs, int) {
        return SamplesUnless(inputs[0], inputs[0].axis != 0);
      });
  return op;
}

// ---- DeformConv: a convolution whose every tap is read somewhat aside, by `offset`, and
// weighed by `mask`. Inputs x, w, offset, bias (optional), mask (optional).

struct Deformed {
  Window window;
  int64_t group = 1, offset_group = 1, taps = 0, points = 0;
};

absl::StatusOr<Deformed> ReadDeformed(const Attributes& attributes, const Dims& x, const Dims& w,
                                      const Dims& offset) {
  Deformed d;
  d.group = attributes.Int("group", 1);
  d.offset_group = attributes.Int("offset_group", 1);
  bool fits = x.size() >= 3 && w.size() == x.size() && offset.size() == x.size() && d.group > 0 &&
              d.offset_group > 0 && x[1] == w[1] * d.group && w[0] % d.group == 0 &&
              x[1] % d.offset_group == 0 && offset[0] == x[0] && Elements(Spatial(x)) > 0;
  if (fits) {
    d.window = ReadWindow(attributes, Spatial(x), Spatial(offset), Spatial(w));
    d.taps = Elements(Spatial(w));
    d.points = Elements(Spatial(offset));
    fits = offset[1] == d.offset_group * d.taps * d.window.axes();
  }
  for (int i = 0; fits && i < d.window.axes(); ++i) {
    const Window& v = d.window;
    const int64_t reach = v.dilation[i] * (v.kernel[i] - 1) + 1;
    const int64_t room = v.input[i] + v.begin[i] + v.end[i] - reach;
    fits = v.stride[i] > 0 && room >= 0 && v.output[i] == room / v.stride[i] + 1;
  }
  if (fits) return d;
  return absl::InvalidArgumentError(absl::StrCat("input ", ToString(x), ", filters ", ToString(w),
                                                 " and offset ", ToString(offset), " do not fit"));
}

absl::Status InferDeformConv(InferContext& c) {
  if (!c.has(0) || !c.has(1) || !c.has(2)) {
    return absl::InvalidArgumentError("expected X, W and offset");
  }
  const Dims &x = c.input(0).dims, &w = c.input(1).dims;
  for (const char* name : {"strides", "dilations", "pads"}) {
    const size_t given = c.attributes().Ints(name).size(), axes = x.size() < 2 ? 0 : x.size() - 2;
    if (given != 0 && given != (std::string(name) == "pads" ? 2 * axes : axes)) {
      return absl::InvalidArgumentError(absl::StrCat(name, " has ", given, " numbers"));
    }
  }
  ASSIGN_OR_RETURN(const Deformed d, ReadDeformed(c.attributes(), x, w, c.input(2).dims));
  Dims y = c.input(2).dims, mask = y;
  y[1] = w[0];
  mask[1] = d.offset_group * d.taps;
  if ((c.has(3) && c.input(3).dims != Dims{w[0]}) || (c.has(4) && c.input(4).dims != mask)) {
    return absl::InvalidArgumentError("the bias or the mask does not fit");
  }
  c.SetOutput(0, c.input(0).dtype, y);
  return absl::OkStatus();
}

// Where the taps are without their offsets, along one axis: [taps * points].
std::vector<double> Undisturbed(const Window& window, int axis) {
  std::vector<double> places;
  Dims k(window.axes(), 0);
  do {
    Dims p(window.axes(), 0);
    do {
      places.push_back(static_cast<double>(window.At(axis, p[axis], k[axis])));
    } while (Next(p, window.output));
  } while (Next(k, window.kernel));
  return places;
}

// The samples of all taps as columns, multiplied by the filters.
absl::Status LowerDeformConv(LowerContext& l) {
  Builder& b = l.b();
  const Dims x = l.x(0).dims(), w = l.x(1).dims(), y = l.node().output()->dims();
  if (Elements(y) == 0) {
    l.y(0, b.Zeros(l.node().output()->type));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const Deformed d, ReadDeformed(l.attributes(), x, w, l.x(2).dims()));
  const int64_t axes = d.window.axes(), own = x[1] / d.offset_group;
  const int64_t images = x[0] * d.offset_group, reads = d.taps * d.points;
  Expr offset = b.Reshape(l.x(2), {images, d.taps, axes, d.points});
  std::vector<Side> sides;
  std::vector<Expr> coordinates;
  for (int i = 0; i < axes; ++i) {
    Expr aside =
        b.Op("Gather", {offset, b.Constant(Tensor::Scalar<int64_t>(i))}, {{"axis", int64_t{2}}});
    const auto n = static_cast<double>(x[i + 2]);
    sides.push_back({b, Padding::kZeros, x[i + 2], 0, n - 1});
    coordinates.push_back(
        b.Reshape(aside, {images, reads}) +
        Reals(b, offset ? offset.dtype() : DataType::kFloat32, {reads}, Undisturbed(d.window, i)));
  }
  Dims grouped{images, own};
  grouped.insert(grouped.end(), x.begin() + 2, x.end());
  Expr values = Sampled(b, b.Reshape(l.x(0), grouped), sides, coordinates, "linear");
  if (l.has_x(4)) values = values * b.Reshape(l.x(4), {images, reads, 1});
  Expr columns = b.Transpose(b.Reshape(values, {images, d.taps, d.points, own}), {0, 3, 1, 2});
  columns = b.Reshape(columns, {x[0], d.group, w[1] * d.taps, d.points});
  Expr out = b.MatMul(b.Reshape(l.x(1), {d.group, w[0] / d.group, w[1] * d.taps}), columns);
  out = b.Reshape(out, y);
  if (l.has_x(3)) {
    Dims channel(y.size(), 1);
    channel[1] = y[1];
    out = out + b.Reshape(l.x(3), channel);
  }
  l.y(0, out);
  return absl::OkStatus();
}

Operator DeformConv() {
  Operator op("", "DeformConv");
  op.Example(
        "g (float[2, 2, 4, 3] x, float[3, 2, 2, 2] w, float[2, 8, 3, 2] large_o) => "
        "(float[2, 3, 3, 2] y) { y = DeformConv(x, w, large_o) }")
      .Example(
          "g (float[1, 4, 4, 4] x, float[2, 2, 2, 2] w, float[1, 16, 2, 2] o, float[2] b, "
          "float[1, 8, 2, 2] m) => (float[1, 2, 2, 2] y) "
          "{ y = DeformConv<group = 2, offset_group = 2, strides = [2, 2]>(x, w, o, b, m) }")
      .Example(
          "g (float[1, 1, 4, 4] x, float[1, 1, 2, 2] w, float[1, 8, 4, 3] o, float[1] b) => "
          "(float[1, 1, 4, 3] y) { y = DeformConv<kernel_shape = [2, 2], dilations = [2, 1], "
          "pads = [1, 0, 1, 0]>(x, w, o, b) }")
      .Example(
          "g (float[0, 1, 3, 3] x, float[1, 1, 2, 2] w, float[0, 8, 2, 2] o) => "
          "(float[0, 1, 2, 2] y) { y = DeformConv(x, w, o) }")
      .Infer(InferDeformConv)
      .AlwaysLower(LowerDeformConv)
      .Samples([](const Node& node, absl::Span<const SampleAxis> inputs, int output) {
        for (size_t i = 0; i < inputs.size(); ++i) {
          const bool none = inputs[i].kind == SampleAxis::Kind::kNone;
          const bool of_batch = i == 0 || i == 2 || i == 4;
          const bool absent = node.input(static_cast<int>(i)) == nullptr;
          const bool good = of_batch ? absent || inputs[i] == SampleAxis::Axis(0) : none;
          if (!good) return SampleAxis::Mixed();
        }
        return output == 0 ? inputs[0] : SampleAxis::Mixed();
      });
  return op;
}

// ---- RoiAlign: the mean of bilinear samples in each bin of each region. Rows and columns
// of a bin are sampled alike, so a region is  rows x columns'  with the mean weight of each
// row of the image in each row of bins, and of each column.

struct Bins {
  Builder& b;
  int64_t count, extent;  // bins of a region, elements of the image
  int64_t samples;        // in each bin; 0: one for each element that it covers
  bool half_pixel;
  // With samples = 0: of the largest bin that is allowed, twice what the image makes.
  int64_t most() const { return samples > 0 ? samples : 2 * (extent / count + 1) + 1; }
};

// Where the samples of a side lie, each [regions, bins, samples, 1] or a part of that.
struct BinSamples {
  Expr at;      // within the image
  Expr inside;  // not outside of the image, where a sample is zero
  Expr taken;   // with samples = 0 a bin has fewer than there is room for
  Expr of_bin;  // how many a bin has, one at least
  Expr check;   // zero; an index out of range where there is no room
};

// From `start` and `end` of [regions, 1, 1, 1].
BinSamples SampleBins(const Bins& bins, Expr start, Expr end) {
  Builder& b = bins.b;
  if (!start || !end) return {};
  const DataType type = start.dtype();
  const int64_t n = bins.most();
  Expr size = end - start;
  if (!bins.half_pixel) size = b.Op("Max", {size, b.Like(size, 1)});
  Expr bin = size / static_cast<double>(bins.count);
  const auto places = [&](int64_t count, const Dims& dims) {
    const std::vector<int64_t> ints = Iota(count);
    return Reals(b, type, dims, std::vector<double>(ints.begin(), ints.end()));
  };
  BinSamples s;
  Expr sample = places(n, {1, 1, n, 1});
  Expr count =
      bins.samples > 0 ? b.Like(start, static_cast<double>(bins.samples)) : b.Op("Ceil", {bin});
  s.of_bin = b.Op("Max", {count, b.Like(count, 1)});
  Expr at =
      start + places(bins.count, {1, bins.count, 1, 1}) * bin + (sample + 0.5) * (bin / s.of_bin);
  const auto last = static_cast<double>(bins.extent - 1);
  s.inside = b.Op("And", {b.Op("GreaterOrEqual", {at, b.Like(at, -1)}),
                          b.Op("LessOrEqual", {at, b.Like(at, last + 1)})});
  s.taken = b.Op("Less", {sample, count});
  s.at = b.Op("Min", {b.Op("Max", {at, b.Like(at, 0)}), b.Like(at, last)});
  if (bins.samples == 0) {
    s.check = b.Op("Gather", {b.Zeros({type, {n + 1}, {}}), b.Cast(s.of_bin, DataType::kInt64)});
  }
  return s;
}

// The mean weight of each element in each bin: [regions, bins, extent].
Expr MeanWeights(const Bins& bins, Expr start, Expr end) {
  Builder& b = bins.b;
  const BinSamples s = SampleBins(bins, start, end);
  if (!s.at) return Expr();
  const std::vector<int64_t> ints = Iota(bins.extent);
  Expr elements = Reals(b, start.dtype(), {1, 1, 1, bins.extent},
                        std::vector<double>(ints.begin(), ints.end()));
  Expr aside = b.Op("Abs", {elements - s.at});
  Expr weight = KeepWhere(b.Op("And", {s.inside, s.taken}), b.Op("Relu", {1 - aside}));
  if (s.check) weight = weight + s.check;
  return b.ReduceSum(weight / s.of_bin, {2}, false);
}

// The two elements beside each sample and their weights, each [regions, bins * samples].
struct Neighbours {
  Expr place[2], weight[2];
  Expr taken;
};

Neighbours FindNeighbours(const Bins& bins, Expr start, Expr end) {
  Builder& b = bins.b;
  const BinSamples s = SampleBins(bins, start, end);
  if (!s.at) return {};
  const Dims all = {start.dims()[0], bins.count * bins.most()};
  const auto flat = [&](Expr x) {
    return b.Reshape(b.Expand(x, {all[0], bins.count, bins.most(), 1}), all);
  };
  const auto last = static_cast<double>(bins.extent - 1);
  Expr low = b.Op("Floor", {s.at});
  Expr high = b.Op("Min", {low + 1, b.Like(low, last)});
  Expr of_high = s.at - low;
  Neighbours out;
  out.taken = flat(s.taken);
  out.place[0] = flat(b.Cast(low, DataType::kInt64));
  out.place[1] = flat(b.Cast(high, DataType::kInt64));
  out.weight[0] = flat(KeepWhere(s.inside, 1 - of_high));
  out.weight[1] = flat(KeepWhere(s.inside, of_high));
  if (s.check) out.weight[0] = out.weight[0] + flat(s.check);
  return out;
}

// The largest weighed neighbour of all samples of a bin (not the largest sample: so ONNX
// has it); 0 for a bin without samples. `images` are those of the regions.
Expr LargestNeighbour(Expr images, const Neighbours& rows, const Neighbours& columns,
                      const Bins& high, const Bins& wide) {
  Builder& b = high.b;
  if (!images || !rows.taken || !columns.taken) return Expr();
  const int64_t regions = images.dims()[0], channels = images.dims()[1];
  const int64_t n = high.count * high.most(), m = wide.count * wide.most();
  const auto pairs = [&](const char* op, Expr row, Expr column) {
    return b.Reshape(
        b.Op(op, {b.Reshape(row, {regions, n, 1}), b.Reshape(column, {regions, 1, m})}),
        {regions, n * m, 1});
  };
  Expr pixels =
      b.Transpose(b.Reshape(images, {regions, channels, high.extent * wide.extent}), {0, 2, 1});
  std::vector<Expr> corners;
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) {
      Expr place = pairs("Add", rows.place[i] * static_cast<double>(wide.extent), columns.place[j]);
      Expr pixel = b.Op("GatherND", {pixels, place}, {{"batch_dims", int64_t{1}}});
      corners.push_back(pixel * pairs("Mul", rows.weight[i], columns.weight[j]));
    }
  }
  Expr taken = pairs("And", rows.taken, columns.taken);
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  Expr value = b.Op("Max", corners);
  value = b.Where(taken, value, b.Like(value, kNone));
  const Dims cut = {regions, high.count, high.most(), wide.count, wide.most()};
  Dims with_channels = cut;
  with_channels.push_back(channels);
  const Attributes keep = {{"keepdims", int64_t{0}}};
  Expr y = b.Op("ReduceMax", {b.Reshape(value, with_channels), b.Ints(std::vector<int64_t>{2, 4})},
                keep);
  Expr any = b.Op(
      "ReduceMax",
      {b.Cast(b.Reshape(taken, cut), DataType::kInt32), b.Ints(std::vector<int64_t>{2, 4})}, keep);
  any = b.Op("Unsqueeze", {b.Cast(any, DataType::kBool), OneInt(b, 3)});
  return b.Transpose(b.Where(any, y, b.Like(y, 0)), {0, 3, 1, 2});
}

absl::Status InferRoiAlign(InferContext& c) {
  const std::string place = c.attributes().String("coordinate_transformation_mode", "half_pixel");
  const std::string mode = c.attributes().String("mode", "avg");
  const int64_t height = c.attributes().Int("output_height", 1);
  const int64_t width = c.attributes().Int("output_width", 1);
  const bool fits =
      c.has(0) && c.has(1) && c.has(2) && c.input(0).dims.size() == 4 &&
      c.input(1).dims.size() == 2 && c.input(1).dims[1] == 4 &&
      c.input(2).dims == Dims{c.input(1).dims[0]} && height > 0 && width > 0 &&
      Elements(Spatial(c.input(0).dims)) > 0 && c.attributes().Int("sampling_ratio", 0) >= 0 &&
      (place == "half_pixel" || place == "output_half_pixel") && (mode == "avg" || mode == "max");
  if (!fits) {
    return absl::InvalidArgumentError(
        "expected an image [samples, channels, height, width], regions [n, 4], their samples [n] "
        "and bins of a size");
  }
  const Dims& x = c.input(0).dims;
  c.SetOutput(0, c.input(0).dtype, {c.input(1).dims[0], x[1], height, width});
  return absl::OkStatus();
}

absl::Status LowerRoiAlign(LowerContext& l) {
  Builder& b = l.b();
  const Dims x = l.x(0).dims(), y = l.node().output()->dims();
  const bool half_pixel =
      l.attributes().String("coordinate_transformation_mode", "half_pixel") == "half_pixel";
  Expr regions = b.Cast(l.x(1), l.x(0).dtype()) * l.attributes().Float("spatial_scale", 1);
  if (half_pixel) regions = regions - 0.5;
  const auto corner = [&](int64_t i) {
    Expr column =
        b.Op("Gather", {regions, b.Constant(Tensor::Scalar<int64_t>(i))}, {{"axis", int64_t{1}}});
    return b.Reshape(column, {y[0], 1, 1, 1});
  };
  const int64_t samples = l.attributes().Int("sampling_ratio", 0);
  const Bins high = {b, y[2], x[2], samples, half_pixel};
  const Bins wide = {b, y[3], x[3], samples, half_pixel};
  Expr images = b.Op("Gather", {l.x(0), l.x(2)});
  if (l.attributes().String("mode", "avg") == "max") {
    l.y(0, LargestNeighbour(images, FindNeighbours(high, corner(1), corner(3)),
                            FindNeighbours(wide, corner(0), corner(2)), high, wide));
    return absl::OkStatus();
  }
  Expr rows = MeanWeights(high, corner(1), corner(3));
  Expr columns = MeanWeights(wide, corner(0), corner(2));
  Expr by_rows = b.MatMul(b.Reshape(rows, {y[0], 1, y[2], x[2]}), images);
  l.y(0, b.MatMul(by_rows, b.Reshape(b.Transpose(columns, {0, 2, 1}), {y[0], 1, x[3], y[3]})));
  return absl::OkStatus();
}

Operator RoiAlign() {
  Operator op("", "RoiAlign");
  for (const char* attributes :
       {"", "sampling_ratio = 2, ", "spatial_scale = 0.6, ",
        "coordinate_transformation_mode = \"output_half_pixel\", ", "mode = \"avg\", ",
        "mode = \"max\", ", "mode = \"max\", sampling_ratio = 2, ",
        "mode = \"max\", coordinate_transformation_mode = \"output_half_pixel\", "}) {
    op.Example(absl::StrCat(
        "g (float[2, 2, 5, 6] x, float[3, 4] unit_r, int64[3] i) => (float[3, 2, 2, 3] y) "
        "{ wide = Constant<value = float {3.0}>() far = Constant<value = float[4] "
        "{0.0, -0.6, 3.0, 2.0}>() s = Mul(unit_r, wide) r = Add(s, far) y = RoiAlign<",
        attributes, "output_height = 2, output_width = 3>(x, r, i) }"));
  }
  op.Example(
        "g (float[1, 1, 3, 3] x, float[0, 4] r, int64[0] i) => (float[0, 1, 1, 1] y) "
        "{ y = RoiAlign(x, r, i) }")
      .Infer(InferRoiAlign)
      .AlwaysLower(LowerRoiAlign)
      .Samples(SamplesMixed);
  return op;
}

}  // namespace

void AddSamplingOperators(OperatorFamily& list) {
  list.push_back(RoiAlign());
  list.push_back(DeformConv());
  list.push_back(GridSample());
  list.push_back(AffineGrid());
}

}  // namespace onward
