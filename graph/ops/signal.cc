// Signals: discrete Fourier transforms as products with fixed matrices, and the windows
// and filters that go with them.
#include <algorithm>
#include <cmath>
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

constexpr int64_t kMostNumbers = int64_t{1} << 26;  // of a matrix or a window

// ---- DFT.

// A transform of `in` numbers (of `parts` 1, real, or 2) to `out` of `out_parts`.
struct Transform {
  int64_t length = 0;  // of the period
  int64_t in = 0, out = 0;
  int64_t parts = 1, out_parts = 2;
  bool inverse = false;
};

// forward: y_k = sum over t of x_t e^(-2 pi i k t / n); inverse: e^(+..) / n. One-sided
// spectra hold what is not the mirror image of something else: all but the first (and the
// middle one) count twice on the way back.
std::vector<double> MatrixOf(const Transform& f) {
  const int64_t columns = f.out * f.out_parts;
  const bool halves = f.inverse && f.out_parts == 1;
  const int64_t given = std::min(f.in, halves ? f.length / 2 + 1 : f.length);
  std::vector<double> matrix(f.in * f.parts * columns, 0.0);
  const double scale = f.inverse ? 1 / static_cast<double>(f.length) : 1;
  for (int64_t t = 0; t < given; ++t) {
    const bool once = !halves || t == 0 || 2 * t == f.length;
    const double weight = once ? scale : 2 * scale;
    for (int64_t k = 0; k < f.out; ++k) {
      const double angle = (f.inverse ? 2 : -2) * M_PI * static_cast<double>(k * t % f.length) /
                           static_cast<double>(f.length);
      const double cos = weight * std::cos(angle), sin = weight * std::sin(angle);
      double* real = matrix.data() + t * f.parts * columns + k * f.out_parts;
      double* imaginary = real + columns;
      real[0] = cos;
      if (f.out_parts == 2) real[1] = sin;
      if (f.parts == 2) imaginary[0] = -sin;
      if (f.parts == 2 && f.out_parts == 2) imaginary[1] = cos;
    }
  }
  return matrix;
}

// x with its last axis the parts of numbers, transformed along `axis`.
Expr Transformed(Builder& b, Expr x, int64_t axis, const Transform& f) {
  if (!x) return x;
  const int64_t rank = x.rank();
  std::vector<int64_t> order, back(rank);
  for (int64_t i = 0; i < rank; ++i) {
    if (i != axis && i != rank - 1) order.push_back(i);
  }
  order.push_back(axis);
  order.push_back(rank - 1);
  Dims dims;
  for (int64_t i = 0; i < rank; ++i) {
    back[order[i]] = i;
    dims.push_back(x.dims()[order[i]]);
  }
  const int64_t lines = Elements(absl::MakeConstSpan(dims).first(rank - 2));
  dims[rank - 2] = f.out;
  dims[rank - 1] = f.out_parts;
  Expr flat = b.Reshape(b.Transpose(x, order), {lines, f.in * f.parts});
  Expr matrix = Reals(b, x.dtype(), {f.in * f.parts, f.out * f.out_parts}, MatrixOf(f));
  return b.Transpose(b.Reshape(b.MatMul(flat, matrix), dims), back);
}

absl::Status CheckSize(const Transform& f) {
  const bool fits = f.length > 0 && f.in > 0 && f.out > 0 && f.in < kMostNumbers &&
                    f.out < kMostNumbers && f.in * f.parts <= kMostNumbers / (f.out * f.out_parts);
  if (fits) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("a transform of ", f.in, " numbers to ", f.out, " is empty or too long"));
}

absl::StatusOr<Transform> ReadDft(const Attributes& attributes, const Dims& x, int64_t axis,
                                  const Tensor* length) {
  const bool one_sided = attributes.Int("onesided", 0) != 0;
  Transform f;
  f.inverse = attributes.Int("inverse", 0) != 0;
  f.in = x[axis];
  f.parts = x.back();
  f.length = f.inverse && one_sided ? 2 * (f.in - 1) : f.in;
  if (length != nullptr) f.length = length->elements() == 1 ? length->IntAt(0) : 0;
  f.out = one_sided && !f.inverse ? f.length / 2 + 1 : f.length;
  f.out_parts = one_sided && f.inverse ? 1 : 2;
  if (f.parts != 1 && f.parts != 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("the last axis of ", ToString(x), " is neither 1 (real) nor 2 (complex)"));
  }
  RETURN_IF_ERROR(CheckSize(f));
  return f;
}

// The axis of input 2, -2 where it is absent.
absl::StatusOr<int64_t> DftAxis(int64_t rank, const Tensor* axis) {
  const int64_t given = axis == nullptr ? -2 : axis->elements() == 1 ? axis->IntAt(0) : rank;
  ASSIGN_OR_RETURN(const int64_t found, NormalizeAxis(given, rank));
  if (found < rank - 1) return found;
  return absl::InvalidArgumentError("the axis of numbers' parts is none to transform along");
}

absl::Status InferDft(InferContext& c) {
  for (int i : {1, 2}) {
    if (!c.has(i) || c.constant(i) != nullptr) continue;
    return absl::UnimplementedError("its axis or length depends on data");
  }
  Dims dims = c.input(0).dims;
  ASSIGN_OR_RETURN(const int64_t axis, DftAxis(dims.size(), c.constant(2)));
  ASSIGN_OR_RETURN(const Transform f, ReadDft(c.attributes(), dims, axis, c.constant(1)));
  dims[axis] = f.out;
  dims.back() = f.out_parts;
  c.SetOutput(0, c.input(0).dtype, dims);
  return absl::OkStatus();
}

const Tensor* ConstantOf(const Node& node, int i) {
  return node.input(i) == nullptr ? nullptr : node.input(i)->constant.get();
}

absl::Status LowerDft(LowerContext& l) {
  ASSIGN_OR_RETURN(const int64_t axis, DftAxis(l.x(0).rank(), ConstantOf(l.node(), 2)));
  ASSIGN_OR_RETURN(const Transform f,
                   ReadDft(l.attributes(), l.x(0).dims(), axis, ConstantOf(l.node(), 1)));
  l.y(0, Transformed(l.b(), l.x(0), axis, f));
  return absl::OkStatus();
}

Operator Dft() {
  Operator op("", "DFT");
  const auto example = [&](const char* x, const char* y, const char* attributes) {
    op.Example(
        absl::StrCat("g (float", x, " x) => (float", y, " y) { y = DFT", attributes, "(x) }"));
  };
  example("[2, 4, 1]", "[2, 4, 2]", "");
  example("[1, 5, 2]", "[1, 5, 2]", "<inverse = 1>");
  example("[2, 5, 1]", "[2, 3, 2]", "<onesided = 1>");
  example("[2, 3, 2]", "[2, 4, 1]", "<onesided = 1, inverse = 1>");
  example("[0, 3, 1]", "[0, 3, 2]", "");
  const auto with = [&](const char* x, const char* y, const char* length, const char* attributes) {
    op.Example(
        absl::StrCat("g (float", x, " x) => (float", y, " y) { n = Constant<value_int = ", length,
                     ">() a = Constant<value_int = 1>() y = DFT", attributes, "(x, n, a) }"));
  };
  with("[2, 3, 2, 1]", "[2, 5, 2, 2]", "5", "");
  with("[1, 4, 2]", "[1, 3, 2]", "3", "<inverse = 1>");
  with("[1, 3, 2]", "[1, 5, 1]", "5", "<onesided = 1, inverse = 1>");
  op.Infer(InferDft).AlwaysLower(LowerDft).Samples(
      [](const Node& node, absl::Span<const SampleAxis> inputs, int) {
        const auto axis = DftAxis(node.input(0)->rank(), ConstantOf(node, 2));
        const int last = node.input(0)->rank() - 1;
        return SamplesUnless(inputs[0],
                             !axis.ok() || inputs[0].axis == *axis || inputs[0].axis == last);
      });
  return op;
}

// ---- STFT: the transforms of overlapping frames of a signal [samples, places, parts],
// each times the window.

struct Frames {
  int64_t step = 0, length = 0, count = 0;
  Transform transform;
};

absl::StatusOr<Frames> ReadFrames(const Attributes& attributes, const Dims& x, const Tensor& step,
                                  const TensorType* window, const Tensor* length) {
  if (x.size() != 3 || (x[2] != 1 && x[2] != 2)) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a signal of [samples, places, 1 or 2], got ", ToString(x)));
  }
  Frames f;
  f.step = step.elements() == 1 ? step.IntAt(0) : 0;
  f.length = window == nullptr || window->dims.size() != 1 ? x[1] : window->dims[0];
  if (length != nullptr) f.length = length->elements() == 1 ? length->IntAt(0) : 0;
  const bool fits = f.step > 0 && f.length > 0 && f.length <= x[1] &&
                    (window == nullptr || window->dims == Dims{f.length});
  if (!fits) {
    return absl::InvalidArgumentError(
        absl::StrCat("frames of ", f.length, " every ", f.step, " do not fit a signal of ", x[1]));
  }
  f.count = (x[1] - f.length) / f.step + 1;
  const bool one_sided = attributes.Int("onesided", 1) != 0;
  f.transform.length = f.transform.in = f.length;
  f.transform.out = one_sided ? f.length / 2 + 1 : f.length;
  f.transform.parts = x[2];
  RETURN_IF_ERROR(CheckSize(f.transform));
  return f;
}

absl::Status InferStft(InferContext& c) {
  if (!c.has(1) || c.constant(1) == nullptr || (c.has(3) && c.constant(3) == nullptr)) {
    return absl::UnimplementedError("its steps or lengths depend on data");
  }
  const Dims& x = c.input(0).dims;
  ASSIGN_OR_RETURN(const Frames f, ReadFrames(c.attributes(), x, *c.constant(1),
                                              c.has(2) ? &c.input(2) : nullptr, c.constant(3)));
  c.SetOutput(0, c.input(0).dtype, {x[0], f.count, f.transform.out, 2});
  return absl::OkStatus();
}

absl::Status LowerStft(LowerContext& l) {
  Builder& b = l.b();
  const Dims x = l.x(0).dims();
  RETURN_IF_ERROR(ConstantInts(l.node(), 1).status());
  ASSIGN_OR_RETURN(const Frames f, ReadFrames(l.attributes(), x, *ConstantOf(l.node(), 1),
                                              l.has_x(2) ? &l.x(2).value()->type : nullptr,
                                              ConstantOf(l.node(), 3)));
  std::vector<int64_t> places;
  for (int64_t i = 0; i < f.count; ++i) {
    for (int64_t k = 0; k < f.length; ++k) places.push_back(i * f.step + k);
  }
  Expr frames = b.Op("Gather", {l.x(0), b.Reshape(b.Ints(places), {f.count, f.length})},
                     {{"axis", int64_t{1}}});
  if (l.has_x(2)) frames = frames * b.Reshape(l.x(2), {f.length, 1});
  l.y(0, Transformed(b, frames, 2, f.transform));
  return absl::OkStatus();
}

Operator Stft() {
  Operator op("", "STFT");
  const auto example = [&](const char* inputs, const char* names, const char* y,
                           const char* attributes) {
    op.Example(absl::StrCat("g (", inputs, ") => (float", y,
                            " y) { s = Constant<value_int = 2>() n = Constant<value_int = 4>() "
                            "y = STFT",
                            attributes, "(x, s", names, ") }"));
  };
  example("float[2, 9, 1] x, float[4] w", ", w", "[2, 3, 3, 2]", "");
  example("float[1, 9, 1] x, float[4] w", ", w, n", "[1, 3, 3, 2]", "<onesided = 1>");
  example("float[1, 8, 2] x", ", , n", "[1, 3, 4, 2]", "<onesided = 0>");
  example("float[1, 3, 1] x", "", "[1, 1, 2, 2]", "");
  op.Infer(InferStft).AlwaysLower(LowerStft).Samples(
      [](const Node&, absl::Span<const SampleAxis> inputs, int) {
        for (size_t i = 1; i < inputs.size(); ++i) {
          if (inputs[i].kind != SampleAxis::Kind::kNone) return SampleAxis::Mixed();
        }
        return SamplesUnless(inputs[0], inputs[0].axis != 0);
      });
  return op;
}

// ---- Windows and filters: constants of given sizes.

// A constant in the type that output_datatype names.
absl::Status GiveNumbers(LowerContext& l, const std::vector<double>& numbers) {
  Builder& b = l.b();
  const TensorType& type = l.node().output()->type;
  Expr y = IsFloating(type.dtype)
               ? Reals(b, type.dtype, type.dims, numbers)
               : b.Cast(Reals(b, DataType::kFloat64, type.dims, numbers), type.dtype);
  l.y(0, b.Op("Identity", {y}));
  return absl::OkStatus();
}

absl::Status CheckFixedSize(InferContext& c) {
  double count = 1;
  for (int64_t extent : c.outputs()[0].dims) {
    if (extent < 0) return absl::UnimplementedError("its size depends on data");
    count *= static_cast<double>(extent);
  }
  if (c.outputs()[0].dims.empty() || count > static_cast<double>(kMostNumbers)) {
    return absl::UnimplementedError("its size depends on data, or is too large");
  }
  return absl::OkStatus();
}

// y_k = a0 - a1 cos(2 pi k / n) + a2 cos(4 pi k / n), n one less where not periodic
Operator Window(const char* name, double a0, double a1, double a2) {
  Operator op("", name);
  for (const char* attributes : {"", "<periodic = 1>", "<periodic = 0>"}) {
    op.Example(absl::StrCat("g (float[5] x) => (float[5] y) { n = Constant<value_int = 5>() w = ",
                            name, attributes, "(n) c = CastLike(w, x) y = Mul(x, c) }"));
  }
  op.Example(absl::StrCat("g (int32[4] x) => (int32[4] y) { n = Constant<value = int32 {4}>() w = ",
                          name, "<output_datatype = 6>(n) y = Add(x, w) }"))
      .Infer(OnnxInferenceAnd(name, CheckFixedSize))
      .AlwaysLower([a0, a1, a2](LowerContext& l) {
        const int64_t size = l.node().output()->dims()[0];
        const bool periodic = l.attributes().Int("periodic", 1) != 0;
        const auto n = static_cast<double>(std::max<int64_t>(periodic ? size : size - 1, 1));
        std::vector<double> numbers;
        for (int64_t k = 0; k < size; ++k) {
          const double angle = 2 * M_PI * static_cast<double>(k) / n;
          numbers.push_back(a0 - a1 * std::cos(angle) + a2 * std::cos(2 * angle));
        }
        return GiveNumbers(l, numbers);
      })
      .NotDifferentiable("its result is constant")
      .Samples(SamplesNone);
  return op;
}

double MelOf(double hertz) { return 2595 * std::log10(1 + hertz / 700); }
double HertzOf(double mel) { return 700 * (std::pow(10, mel / 2595) - 1); }

// Triangles of height 1 over the bins of a one-sided spectrum, whose corners are equally
// far from one another in mel.
absl::Status LowerMelWeights(LowerContext& l) {
  std::vector<double> given;
  for (int i = 0; i < 5; ++i) {
    ASSIGN_OR_RETURN(const std::vector<double> number, ConstantReals(l.node(), i));
    if (number.size() != 1) return absl::InvalidArgumentError("expected five scalars");
    given.push_back(number[0]);
  }
  const Dims y = l.node().output()->dims();
  const int64_t bins = y[0], bands = y[1];
  const double low = MelOf(given[3]), step = (MelOf(given[4]) - low) / (given[0] + 2);
  std::vector<int64_t> corners;
  for (int64_t i = 0; i < bands + 2; ++i) {
    const double hertz = HertzOf(low + static_cast<double>(i) * step);
    const double bin = std::floor((given[1] + 1) * hertz / given[2]);
    corners.push_back(bin > 0 ? static_cast<int64_t>(std::min(bin, static_cast<double>(bins))) : 0);
  }
  std::vector<double> numbers(bins * bands, 0.0);
  for (int64_t band = 0; band < bands; ++band) {
    const int64_t left = corners[band], top = corners[band + 1], right = corners[band + 2];
    for (int64_t bin = left; bin < std::min(right, bins); ++bin) {
      const int64_t from = bin < top ? bin - left : right - bin;
      const int64_t width = bin < top ? top - left : right - top;
      numbers[bin * bands + band] = static_cast<double>(from) / static_cast<double>(width);
    }
    if (top < bins) numbers[top * bands + band] = 1;
  }
  return GiveNumbers(l, numbers);
}

Operator MelWeightMatrix() {
  return Operator("", "MelWeightMatrix")
      .Example(
          "g (float[9, 4] x) => (float[9, 4] y) { b = Constant<value_int = 4>() "
          "n = Constant<value_int = 16>() r = Constant<value_int = 8192>() "
          "lo = Constant<value_float = 0.0>() hi = Constant<value_float = 4096.0>() "
          "w = MelWeightMatrix(b, n, r, lo, hi) c = CastLike(w, x) y = Mul(x, c) }")
      .Example(
          "g (float[9, 3] x) => (double[9, 3] y) { b = Constant<value = int32 {3}>() "
          "n = Constant<value = int32 {17}>() r = Constant<value = int32 {8000}>() "
          "lo = Constant<value_float = 100.0>() hi = Constant<value_float = 3000.0>() "
          "w = MelWeightMatrix<output_datatype = 11>(b, n, r, lo, hi) c = Cast<to = 11>(x) "
          "y = Mul(c, w) }")
      .Infer(OnnxInferenceAnd("MelWeightMatrix", CheckFixedSize))
      .AlwaysLower(LowerMelWeights)
      .NotDifferentiable("its result is constant")
      .Samples(SamplesNone);
}

}  // namespace

void AddSignalOperators(OperatorFamily& list) {
  list.push_back(Dft());
  list.push_back(Stft());
  list.push_back(Window("HannWindow", 0.5, 0.5, 0));
  list.push_back(Window("HammingWindow", 25.0 / 46, 21.0 / 46, 0));
  list.push_back(Window("BlackmanWindow", 0.42, 0.5, 0.08));
  list.push_back(MelWeightMatrix());
}

}  // namespace onward
