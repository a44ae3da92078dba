// Images read at places that other values give: GridSample, AffineGrid.
#include <algorithm>
#include <string>
#include <utility>
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

// y[n, c, p] = sum over the taps of each axis of x[n, c, places] * (product of weights),
// where the places and weights follow from grid[n, p]. The image lies with its channels
// innermost meanwhile, so that a place is a row.
absl::Status LowerGridSample(LowerContext& l) {
  Builder& b = l.b();
  const Dims x = l.x(0).dims(), grid = l.x(1).dims(), y = l.node().output()->dims();
  if (Elements(y) == 0) {
    l.y(0, b.Zeros(l.node().output()->type));
    return absl::OkStatus();
  }
  const int axes = static_cast<int>(x.size()) - 2;
  const bool corners = l.attributes().Int("align_corners", 0) != 0;
  const std::string mode = l.attributes().String("mode", "linear");
  const std::string pads = l.attributes().String("padding_mode", "zeros");
  const Padding padding = pads == "border"       ? Padding::kBorder
                          : pads == "reflection" ? Padding::kReflection
                                                 : Padding::kZeros;
  const int64_t points = Elements(y) / (y[0] * y[1]), area = Elements(x) / (x[0] * x[1]);
  const DataType real = IsFloating(l.x(0).dtype()) ? l.x(0).dtype() : l.x(1).dtype();
  // Row numbers begin anew with each sample of the batch.
  std::vector<int64_t> starts;
  for (int64_t n = 0; n < x[0]; ++n) starts.push_back(n * area);
  std::vector<Tap> corners_of = {{b.Reshape(b.Ints(starts), {x[0], 1}), Expr()}};
  const Dims strides = Strides(absl::MakeConstSpan(x).subspan(2));
  for (int i = 0; i < axes; ++i) {
    // Coordinates stand innermost axis first.
    Expr c = b.Op("Gather", {l.x(1), b.Constant(Tensor::Scalar<int64_t>(axes - 1 - i))},
                  {{"axis", int64_t{-1}}});
    c = b.Reshape(c, {x[0], points});
    const auto n = static_cast<double>(x[i + 2]);
    const Side side{b, padding, x[i + 2], corners ? 0 : -0.5, corners ? n - 1 : n - 0.5};
    Expr coordinate = corners ? (c + 1) * ((n - 1) / 2) : ((c + 1) * n - 1) / 2;
    const std::vector<Tap> taps = TapsOf(side, coordinate, mode);
    std::vector<Tap> all;
    for (const Tap& at : corners_of) {
      for (const Tap& tap : taps) {
        all.push_back({at.place + tap.place * static_cast<double>(strides[i]),
                       at.weight ? at.weight * tap.weight : tap.weight});
      }
    }
    corners_of = std::move(all);
    if (!b.status().ok()) return b.status();
  }
  Expr lines = b.Transpose(b.Reshape(b.Cast(l.x(0), real), {x[0], x[1], area}), {0, 2, 1});
  Expr rows = b.Reshape(lines, {x[0] * area, x[1]});
  Expr sum;
  for (const Tap& at : corners_of) {
    Expr weight = b.Reshape(b.Cast(at.weight, real), {x[0], points, 1});
    Expr part = b.Op("Gather", {rows, at.place}) * weight;
    sum = sum ? sum + part : part;
  }
  l.y(0, b.Cast(b.Reshape(b.Transpose(sum, {0, 2, 1}), y), l.x(0).dtype()));
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

}  // namespace

void AddSamplingOperators(OperatorFamily& list) {
  list.push_back(GridSample());
  list.push_back(AffineGrid());
}

}  // namespace onward
