// Resize: each axis by itself is a fixed linear map, whose rows are the weights of the
// input's elements in one element of the output.
#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string>
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

constexpr int64_t kMostWeights = int64_t{1} << 26;

// One axis that changes.
struct Axis {
  int64_t axis = 0, in = 0, out = 0;
  double scale = 1;           // out / in, or as given; in * scale need not be whole
  double start = 0, end = 1;  // the region of tf_crop_and_resize
};

struct Modes {
  explicit Modes(const Attributes& attributes)
      : interpolation(attributes.String("mode", "nearest")),
        coordinates(attributes.String("coordinate_transformation_mode", "half_pixel")),
        nearest(attributes.String("nearest_mode", "round_prefer_floor")),
        cubic(attributes.Float("cubic_coeff_a", -0.75)),
        antialias(attributes.Int("antialias", 0) != 0),
        exclude_outside(attributes.Int("exclude_outside", 0) != 0) {}
  std::string interpolation, coordinates, nearest;
  double cubic;
  bool antialias, exclude_outside;
  bool crops() const { return coordinates == "tf_crop_and_resize"; }
};

absl::StatusOr<std::vector<Axis>> AxesOf(const Node& node) {
  const Dims &x = node.input(0)->dims(), &y = node.output()->dims();
  const int64_t rank = static_cast<int64_t>(x.size());
  ASSIGN_OR_RETURN(const std::vector<double> scales, ConstantReals(node, 2));
  std::vector<int64_t> axes = node.attributes.Ints("axes", Iota(rank));
  for (int64_t& axis : axes) axis = FromBack(axis, rank);
  std::vector<double> roi;
  if (Modes(node.attributes).crops()) {
    ASSIGN_OR_RETURN(roi, ConstantReals(node, 1));
  }
  // Where the aspect ratio is kept, sizes are only bounds, and one scale is for all.
  const std::string policy = node.attributes.String("keep_aspect_ratio_policy", "stretch");
  double common = 0;
  if (scales.empty() && policy != "stretch") {
    ASSIGN_OR_RETURN(const std::vector<int64_t> sizes, ConstantInts(node, 3));
    for (size_t i = 0; i < axes.size(); ++i) {
      const double scale = static_cast<double>(sizes[i]) / static_cast<double>(x[axes[i]]);
      const bool first = i == 0;
      if (policy == "not_larger") common = first ? scale : std::min(common, scale);
      if (policy == "not_smaller") common = first ? scale : std::max(common, scale);
    }
  }
  std::vector<Axis> out;
  for (size_t i = 0; i < axes.size(); ++i) {
    Axis a{axes[i], x[axes[i]], y[axes[i]]};
    a.scale = static_cast<double>(a.out) / static_cast<double>(a.in);
    if (common != 0) a.scale = common;
    if (!scales.empty()) a.scale = scales[i];
    if (!roi.empty()) {
      a.start = roi[i];
      a.end = roi[axes.size() + i];
    }
    if (a.in != a.out || a.scale != 1 || a.start != 0 || a.end != 1) out.push_back(a);
  }
  return out;
}

// Where in the input element x of the output lies.
double SourceOf(const Modes& modes, const Axis& a, double x) {
  const double in = static_cast<double>(a.in), length = a.scale * in;
  if (modes.coordinates == "asymmetric") return x / a.scale;
  if (modes.coordinates == "align_corners") {
    return length == 1 ? 0 : x * (in - 1) / (length - 1);
  }
  if (modes.crops()) {
    const double begin = a.start * (in - 1), width = (a.end - a.start) * (in - 1);
    return begin + (length == 1 ? width / 2 : x * width / (length - 1));
  }
  if (modes.coordinates == "pytorch_half_pixel" && length <= 1) return 0;
  // Opsets 11 and 12 had it.
  if (modes.coordinates == "tf_half_pixel_for_nn") return (x + 0.5) / a.scale;
  const double half_pixel = (x + 0.5) / a.scale - 0.5;
  if (modes.coordinates != "half_pixel_symmetric") return half_pixel;
  return half_pixel + in / 2 * (1 - static_cast<double>(a.out) / length);
}

bool IsOutside(const Modes& modes, const Axis& a, double source) {
  return modes.crops() && (source < 0 || source > static_cast<double>(a.in - 1));
}

int64_t Clamped(double index, int64_t extent) {
  return static_cast<int64_t>(std::min(std::max(index, 0.0), static_cast<double>(extent - 1)));
}

int64_t NearestOf(const Modes& modes, const Axis& a, int64_t x) {
  const double source = SourceOf(modes, a, static_cast<double>(x));
  double index = std::ceil(source - 0.5);  // round_prefer_floor
  if (modes.nearest == "round_prefer_ceil") index = std::floor(source + 0.5);
  if (modes.nearest == "floor") index = std::floor(source);
  if (modes.nearest == "ceil") index = std::ceil(source);
  return Clamped(index, a.in);
}

// The kernel of cubic convolution (Keys, 1981) at distance t.
double Cubic(double a, double t) {
  t = std::abs(t);
  if (t <= 1) return ((a + 2) * t - (a + 3)) * t * t + 1;
  return t < 2 ? ((a * t - 5 * a) * t + 8 * a) * t - 4 * a : 0;
}

// The weights of all elements of the input in each of the output, row by row. With
// antialias the kernel is as much wider as the output is smaller.
std::vector<double> WeightsOf(const Modes& modes, const Axis& a) {
  const bool cubic = modes.interpolation == "cubic";
  const double shrink = modes.antialias ? std::min(a.scale, 1.0) : 1;
  // Taps first .. 1 - first around the element before the source.
  const int64_t first = static_cast<int64_t>(std::floor((cubic ? -2 : -1) / shrink)) + 1;
  std::vector<double> weights(a.out * a.in, 0.0);
  for (int64_t x = 0; x < a.out; ++x) {
    const double source = SourceOf(modes, a, static_cast<double>(x));
    const double before = std::ceil(source) - 1;
    double* row = weights.data() + x * a.in;
    double sum = 0;
    const auto weight_at = [&](int64_t k) {
      const double t = (static_cast<double>(k) - (source - before)) * shrink;
      return cubic ? Cubic(modes.cubic, t) : std::max(0.0, 1 - std::abs(t));
    };
    double whole = 0;
    for (int64_t k = first; k <= 1 - first; ++k) whole += weight_at(k);
    for (int64_t k = first; k <= 1 - first; ++k) {
      const double at = before + static_cast<double>(k);
      const bool inside = at >= 0 && at < static_cast<double>(a.in);
      if (modes.exclude_outside && !inside) continue;
      row[Clamped(at, a.in)] += weight_at(k) / whole;
      sum += weight_at(k) / whole;
    }
    if (!modes.exclude_outside || sum == 0) continue;
    for (int64_t i = 0; i < a.in; ++i) row[i] /= sum;
  }
  return weights;
}

// The tensor as [before the axis, the axis, behind it].
Dims Around(const Dims& dims, int64_t axis) {
  const absl::Span<const int64_t> all(dims);
  return {Elements(all.first(axis)), dims[axis], Elements(all.subspan(axis + 1))};
}

Expr ResizeNearest(Builder& b, Expr x, const Modes& modes, const Axis& a) {
  std::vector<int64_t> places;
  for (int64_t i = 0; i < a.out; ++i) places.push_back(NearestOf(modes, a, i));
  // Most often each element is repeated: its gradient is a sum, not a scatter.
  const int64_t times = a.out / a.in;
  bool repeats = a.out == times * a.in;
  for (int64_t i = 0; repeats && i < a.out; ++i) repeats = places[i] == i / times;
  if (!repeats) return b.Op("Gather", {x, b.Ints(places)}, {{"axis", a.axis}});
  Dims y = x.dims();
  y[a.axis] = a.out;
  const Dims view = Around(x.dims(), a.axis);
  Expr each = b.Reshape(x, {view[0] * view[1], 1, view[2]});
  return b.Reshape(b.Expand(each, {view[0] * view[1], times, view[2]}), y);
}

Expr ResizeByWeights(Builder& b, Expr x, const Modes& modes, const Axis& a) {
  Dims y = x.dims();
  y[a.axis] = a.out;
  const Dims view = Around(x.dims(), a.axis);
  Expr weights = Reals(b, x.dtype(), {a.out, a.in}, WeightsOf(modes, a));
  if (view[2] == 1) {
    Expr lines = b.Reshape(x, {view[0], a.in});
    return b.Reshape(b.MatMul(lines, b.Transpose(weights, {1, 0})), y);
  }
  return b.Reshape(b.MatMul(weights, b.Reshape(x, view)), y);
}

// What of the output lies outside of the input is a fixed number.
Expr FillOutside(Builder& b, Expr y, const Modes& modes, const Axis& a, double number) {
  Dims dims(y.rank() - a.axis, 1);
  dims[0] = a.out;
  Tensor outside(DataType::kBool, dims);
  bool any = false;
  for (int64_t i = 0; i < a.out; ++i) {
    const bool is = IsOutside(modes, a, SourceOf(modes, a, static_cast<double>(i)));
    outside.mutable_values<bool>()[i] = is;
    any = any || is;
  }
  return any ? b.Where(b.Constant(std::move(outside)), b.Like(y, number), y) : y;
}

absl::Status LowerResize(LowerContext& l) {
  Builder& b = l.b();
  const Modes modes(l.attributes());
  ASSIGN_OR_RETURN(const std::vector<Axis> axes, AxesOf(l.node()));
  const bool nearest = modes.interpolation == "nearest";
  const DataType type = l.x(0).dtype();
  Expr y = b.Op("Identity", {l.x(0)});
  if (!nearest && !IsFloating(type)) y = b.Cast(y, DataType::kFloat64);
  if (Elements(l.node().output()->dims()) == 0) {
    l.y(0, b.Zeros(l.node().output()->type));
    return absl::OkStatus();
  }
  for (const Axis& a : axes) {
    if (!nearest && a.in * a.out > kMostWeights) {
      return absl::UnimplementedError(
          absl::StrCat("axis ", a.axis, " of ", a.in, " to ", a.out, " is too large to resize"));
    }
    y = nearest ? ResizeNearest(b, y, modes, a) : ResizeByWeights(b, y, modes, a);
    if (!y) return b.status();
  }
  const double number = l.attributes().Float("extrapolation_value", 0);
  for (const Axis& a : axes) y = FillOutside(b, y, modes, a, number);
  if (y && y.dtype() != type) y = b.Cast(b.Op("Round", {y}), type);
  l.y(0, y);
  return absl::OkStatus();
}

bool IsOneOf(const std::string& word, std::initializer_list<const char*> words) {
  return std::any_of(words.begin(), words.end(), [&](const char* w) { return word == w; });
}

absl::Status CheckResize(InferContext& c) {
  const Modes modes(c.attributes());
  if (!IsOneOf(modes.interpolation, {"nearest", "linear", "cubic"}) ||
      !IsOneOf(modes.nearest, {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}) ||
      !IsOneOf(modes.coordinates,
               {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
                "asymmetric", "tf_crop_and_resize", "tf_half_pixel_for_nn"})) {
    return absl::InvalidArgumentError(absl::StrCat("no resizing by '", modes.interpolation, "', '",
                                                   modes.nearest, "', '", modes.coordinates, "'"));
  }
  const Dims& x = c.input(0).dims;
  const size_t axes = c.attributes().Has("axes") ? c.attributes().Ints("axes").size() : x.size();
  for (int i = 1; i < 4; ++i) {
    const bool read = i == 1 ? modes.crops() : c.has(i);
    if (!read) continue;
    const Tensor* numbers = c.constant(i);
    if (!c.has(i) || numbers == nullptr) {
      return absl::UnimplementedError(
          absl::StrCat("input ", i, " must be known when the graph is built"));
    }
    if (numbers->elements() == 0 && i != 1) continue;
    bool good = numbers->elements() == static_cast<int64_t>(i == 1 ? 2 * axes : axes);
    for (int64_t k = 0; good && i == 2 && k < numbers->elements(); ++k) {
      good = numbers->At(k) > 0 && numbers->At(k) < 1e9;
    }
    if (!good) {
      return absl::InvalidArgumentError(absl::StrCat("input ", i, " does not fit ", ToString(x)));
    }
  }
  Dims& y = c.outputs()[0].dims;
  // ONNX's inference leaves an extent of none open.
  const Tensor* sizes = c.constant(3);
  const std::vector<int64_t> of_sizes =
      c.attributes().Ints("axes", Iota(static_cast<int64_t>(x.size())));
  const bool sized = sizes != nullptr && sizes->elements() > 0 && y.size() == x.size();
  for (size_t i = 0; sized && i < of_sizes.size(); ++i) {
    int64_t& extent = y[FromBack(of_sizes[i], static_cast<int64_t>(x.size()))];
    if (extent == kDynamic && sizes->IntAt(static_cast<int64_t>(i)) == 0) extent = 0;
  }
  for (size_t i = 0; i < x.size(); ++i) {
    if (y.size() == x.size() && y[i] >= 0 && (x[i] > 0 || y[i] == x[i])) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("no resizing of ", ToString(x), " to ", ToString(y)));
  }
  return absl::OkStatus();
}

SampleAxis ResizeSamples(const Node& node, absl::Span<const SampleAxis> inputs, int) {
  if (inputs[0].kind != SampleAxis::Kind::kAxis) return inputs[0];
  const auto axes = AxesOf(node);
  bool touched = !axes.ok();
  for (size_t i = 0; !touched && i < axes->size(); ++i) {
    touched = (*axes)[i].axis == inputs[0].axis;
  }
  return SamplesUnless(inputs[0], touched);
}

}  // namespace

void AddResizeOperators(OperatorFamily& list) {
  Operator op("", "Resize");
  const auto scaled = [&](const char* x, const char* y, const char* scales, const char* roi,
                          const std::string& attributes) {
    const std::string region =
        *roi == 0 ? "value = float[0] {}" : absl::StrCat("value_floats = [", roi, "]");
    op.Example(absl::StrCat("g (", x, " x) => (", y, " y) { s = Constant<value_floats = [", scales,
                            "]>() r = Constant<", region, ">() y = Resize<", attributes,
                            ">(x, r, s) }"));
  };
  const auto sized = [&](const char* x, const char* y, const char* sizes,
                         const std::string& attributes) {
    op.Example(absl::StrCat("g (", x, " x) => (", y, " y) { s = Constant<value_ints = [", sizes,
                            "]>() y = Resize<", attributes, ">(x, , , s) }"));
  };
  scaled("float[1, 2, 2, 3]", "float[1, 2, 4, 9]", "1.0, 1.0, 2.0, 3.0", "",
         "mode = \"nearest\", coordinate_transformation_mode = \"asymmetric\", "
         "nearest_mode = \"floor\"");
  scaled("float[2, 7]", "float[2, 4]", "1.0, 0.6", "", "mode = \"linear\"");
  scaled("float[2, 7]", "float[2, 4]", "1.0, 0.6", "",
         "mode = \"linear\", coordinate_transformation_mode = \"half_pixel_symmetric\"");
  scaled("float[2, 4]", "float[2, 4]", "1.0, 1.0", "0.0, 0.4, 1.0, 0.7",
         "mode = \"linear\", coordinate_transformation_mode = \"tf_crop_and_resize\"");
  scaled("float[2, 4]", "float[2, 1]", "0.25", "0.4, 0.7",
         "mode = \"linear\", coordinate_transformation_mode = \"tf_crop_and_resize\", "
         "axes = [1]");
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    scaled("float[3, 4]", "float[6, 6]", "2.0, 1.5", "0.2, -0.3, 0.9, 1.2",
           absl::StrCat("mode = \"", mode,
                        "\", coordinate_transformation_mode = "
                        "\"tf_crop_and_resize\", extrapolation_value = 10.0"));
  }
  sized("float[1, 2, 2, 3]", "float[1, 2, 4, 6]", "1, 2, 4, 6", "mode = \"nearest\"");
  sized("float[1, 2, 4]", "float[1, 2, 6]", "1, 2, 6",
        "mode = \"nearest\", coordinate_transformation_mode = \"tf_half_pixel_for_nn\"");
  for (const char* nearest : {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}) {
    sized("float[1, 2, 4, 3]", "float[1, 2, 3, 5]", "1, 2, 3, 5",
          absl::StrCat("mode = \"nearest\", nearest_mode = \"", nearest, "\""));
  }
  for (const char* coordinates : {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",
                                  "align_corners", "asymmetric"}) {
    for (const char* mode : {"nearest", "linear", "cubic"}) {
      sized("float[1, 2, 4, 3]", "float[1, 2, 3, 5]", "1, 2, 3, 5",
            absl::StrCat("mode = \"", mode, "\", coordinate_transformation_mode = \"", coordinates,
                         "\""));
    }
    sized(
        "float[2, 4]", "float[2, 1]", "2, 1",
        absl::StrCat("mode = \"linear\", coordinate_transformation_mode = \"", coordinates, "\""));
  }
  for (const char* mode : {"linear", "cubic"}) {
    sized("float[1, 7, 6]", "float[1, 3, 4]", "1, 3, 4",
          absl::StrCat("mode = \"", mode, "\", antialias = 1"));
    sized("float[1, 7, 6]", "float[1, 3, 9]", "1, 3, 9",
          absl::StrCat("mode = \"", mode, "\", antialias = 1, exclude_outside = 1"));
  }
  sized("float[1, 5]", "float[1, 8]", "1, 8",
        "mode = \"cubic\", cubic_coeff_a = -0.5, exclude_outside = 1");
  sized("float[2, 4, 6]", "float[2, 2, 3]", "3, 3",
        "mode = \"linear\", axes = [-2, 2], keep_aspect_ratio_policy = \"not_larger\"");
  sized("float[2, 4, 6]", "float[2, 4, 6]", "4, 3",
        "mode = \"linear\", axes = [1, 2], keep_aspect_ratio_policy = \"not_smaller\"");
  sized("float[2, 3, 2, 3, 2]", "float[2, 3, 3, 2, 4]", "2, 3, 3, 2, 4", "mode = \"linear\"");
  sized("int32[1, 4]", "int32[1, 7]", "1, 7", "mode = \"linear\"");
  sized("uint8[1, 4]", "uint8[1, 8]", "1, 8", "mode = \"nearest\"");
  sized("float[0, 4]", "float[0, 8]", "0, 8", "mode = \"linear\"");
  scaled("float[0, 4]", "float[0, 8]", "1.0, 2.0", "", "mode = \"nearest\"");
  op.Infer(OnnxInferenceAnd("Resize", CheckResize)).AlwaysLower(LowerResize).Samples(ResizeSamples);
  list.push_back(op);
}

}  // namespace onward
