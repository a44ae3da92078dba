#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/base/window.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/reference.h"

namespace onward {
namespace {

// A pooling of x [samples, channels, input...] to y [samples, channels, output...].
struct Geometry {
  int64_t planes;  // samples times channels
  int64_t x_area, y_area;
  Window window;
  Dims x_strides;  // of the spatial axes
};

Geometry Describe(const KernelCall& call, const Dims& x, const Dims& y) {
  std::vector<int64_t> kernel = call.attributes->Ints("kernel_shape");
  // The global poolings have one window.
  if (kernel.empty()) kernel.assign(x.begin() + 2, x.end());
  return {x[0] * x[1], Elements(Spatial(x)), Elements(Spatial(y)),
          ReadWindow(*call.attributes, Spatial(x), Spatial(y), kernel), Strides(Spatial(x))};
}

// Calls visit(window, offset of the element or -1 in the padding) for every element
// of every window of a plane; what a window reaches behind the padding is left out.
template <typename Visit>
void ForEachElement(const Geometry& g, Visit visit) {
  const Window& w = g.window;
  if (g.y_area == 0 || Elements(w.kernel) == 0) return;
  int64_t position = 0;
  Dims p(w.axes(), 0);
  do {
    Dims k(w.axes(), 0);
    do {
      int64_t offset = 0;
      bool inside = true, padding = true;
      for (int i = 0; i < w.axes(); ++i) {
        const int64_t at = w.At(i, p[i], k[i]);
        inside &= w.Inside(i, at);
        padding &= at < w.input[i] + w.end[i];
        offset += at * g.x_strides[i];
      }
      if (inside || padding) visit(position, inside ? offset : -1);
    } while (Next(k, w.kernel));
    ++position;
  } while (Next(p, w.output));
}

// The offset of the first largest element of every window of plane `x`; -1 where a
// window lies in the padding.
template <typename T>
std::vector<int64_t> FirstLargest(const Geometry& g, const T* x) {
  std::vector<int64_t> first(g.y_area, -1);
  ForEachElement(g, [&](int64_t p, int64_t at) {
    if (at >= 0 && (first[p] < 0 || x[at] > x[first[p]])) first[p] = at;
  });
  return first;
}

// `offset` counted with the first spatial axis fastest.
int64_t ColumnMajor(const Geometry& g, int64_t offset) {
  int64_t out = 0, step = 1;
  for (int i = 0; i < g.window.axes(); ++i) {
    out += offset / g.x_strides[i] % g.window.input[i] * step;
    step *= g.window.input[i];
  }
  return out;
}

template <typename T>
absl::Status MaxPool(const KernelCall& call, const KernelMemory& memory) {
  const Geometry g = Describe(call, call.inputs[0]->dims, call.outputs[0]->dims);
  const bool column_major = call.attributes->Int("storage_order", 0) != 0;
  for (int64_t plane = 0; plane < g.planes; ++plane) {
    const T* x = memory.inputs[0].as<T>() + plane * g.x_area;
    const std::vector<int64_t> first = FirstLargest(g, x);
    for (int64_t p = 0; p < g.y_area; ++p) {
      memory.outputs[0].as<T>()[plane * g.y_area + p] =
          first[p] < 0 ? std::numeric_limits<T>::lowest() : x[first[p]];
      if (!call.has_output(1)) continue;
      const int64_t at = column_major && first[p] >= 0 ? ColumnMajor(g, first[p]) : first[p];
      memory.outputs[1].as<int64_t>()[plane * g.y_area + p] = plane * g.x_area + at;
    }
  }
  return absl::OkStatus();
}

template <typename T>
absl::Status MaxPoolGradient(const KernelCall& call, const KernelMemory& memory) {
  const Geometry g = Describe(call, call.outputs[0]->dims, call.inputs[0]->dims);
  for (int64_t plane = 0; plane < g.planes; ++plane) {
    const T* dy = memory.inputs[0].as<T>() + plane * g.y_area;
    T* dx = memory.outputs[0].as<T>() + plane * g.x_area;
    const std::vector<int64_t> first = FirstLargest(g, memory.inputs[1].as<T>() + plane * g.x_area);
    std::fill(dx, dx + g.x_area, T{0});
    for (int64_t p = 0; p < g.y_area; ++p) {
      if (first[p] >= 0) dx[first[p]] += dy[p];
    }
  }
  return absl::OkStatus();
}

// How many elements of each window count.
std::vector<double> Counts(const KernelCall& call, const Geometry& g) {
  const bool with_padding = call.attributes->Int("count_include_pad", 0) != 0;
  std::vector<double> counts(g.y_area, 0.0);
  ForEachElement(g, [&](int64_t p, int64_t at) { counts[p] += with_padding || at >= 0; });
  return counts;
}

template <typename T>
absl::Status AveragePool(const KernelCall& call, const KernelMemory& memory) {
  const Geometry g = Describe(call, call.inputs[0]->dims, call.outputs[0]->dims);
  const std::vector<double> counts = Counts(call, g);
  for (int64_t plane = 0; plane < g.planes; ++plane) {
    const T* x = memory.inputs[0].as<T>() + plane * g.x_area;
    std::vector<double> sums(g.y_area, 0.0);
    ForEachElement(g, [&](int64_t p, int64_t at) {
      if (at >= 0) sums[p] += x[at];
    });
    for (int64_t p = 0; p < g.y_area; ++p) {
      memory.outputs[0].as<T>()[plane * g.y_area + p] = static_cast<T>(sums[p] / counts[p]);
    }
  }
  return absl::OkStatus();
}

template <typename T>
absl::Status AveragePoolGradient(const KernelCall& call, const KernelMemory& memory) {
  const Geometry g = Describe(call, call.outputs[0]->dims, call.inputs[0]->dims);
  const std::vector<double> counts = Counts(call, g);
  for (int64_t plane = 0; plane < g.planes; ++plane) {
    const T* dy = memory.inputs[0].as<T>() + plane * g.y_area;
    std::vector<double> sums(g.x_area, 0.0);
    ForEachElement(g, [&](int64_t p, int64_t at) {
      if (at >= 0) sums[at] += dy[p] / counts[p];
    });
    for (int64_t q = 0; q < g.x_area; ++q) {
      memory.outputs[0].as<T>()[plane * g.x_area + q] = static_cast<T>(sums[q]);
    }
  }
  return absl::OkStatus();
}

// One side of a region cut into bins: the elements of bin i of n, within the image.
struct RegionSide {
  int64_t first, size, bins, extent;
  RegionSide(double from, double to, double scale, int64_t n, int64_t of)
      : first(Whole(from * scale)),
        size(std::max<int64_t>(Whole(to * scale) - first + 1, 1)),
        bins(n),
        extent(of) {}
  int64_t Begin(int64_t i) const { return Clamp(first + i * size / bins); }
  int64_t End(int64_t i) const { return Clamp(first + ((i + 1) * size + bins - 1) / bins); }
  int64_t Clamp(int64_t v) const { return std::min(std::max<int64_t>(v, 0), extent); }
  // What is far outside, or not a number, is outside.
  static int64_t Whole(double v) {
    constexpr double kFar = 1e9;
    return std::isnan(v) ? int64_t{-1000000000}
                         : static_cast<int64_t>(std::round(std::min(std::max(v, -kFar), kFar)));
  }
};

template <typename T>
absl::Status MaxRoiPositions(const KernelCall& call, const KernelMemory& memory) {
  const Dims &x = memory.inputs[0].type.dims, &y = memory.outputs[0].type.dims;
  const double scale = call.attributes->Float("spatial_scale", 1);
  int64_t* out = memory.outputs[0].as<int64_t>();
  for (int64_t r = 0; r < y[0]; ++r) {
    const T* region = memory.inputs[1].as<T>() + 5 * r;
    if (!(region[0] > -1 && region[0] < static_cast<T>(x[0]))) {
      return IndexError(RegionSide::Whole(region[0]), x[0]);
    }
    const auto image = static_cast<int64_t>(region[0]);
    const RegionSide high(region[2], region[4], scale, y[2], x[2]);
    const RegionSide wide(region[1], region[3], scale, y[3], x[3]);
    for (int64_t p = 0; p < y[1] * y[2] * y[3]; ++p) {
      const int64_t column = p % y[3], row = p / y[3] % y[2], channel = p / y[3] / y[2];
      int64_t best = Elements(x);
      for (int64_t h = high.Begin(row); h < high.End(row); ++h) {
        for (int64_t w = wide.Begin(column); w < wide.End(column); ++w) {
          const int64_t at = ((image * x[1] + channel) * x[2] + h) * x[3] + w;
          const T* values = memory.inputs[0].as<T>();
          if (best == Elements(x) || values[at] > values[best]) best = at;
        }
      }
      *out++ = best;
    }
  }
  return absl::OkStatus();
}

using Function = absl::Status (*)(const KernelCall&, const KernelMemory&);

absl::Status NoSuchType(const KernelCall& call) {
  return absl::UnimplementedError(
      absl::StrCat("no pooling of ", std::string(Name(call.inputs[0]->dtype))));
}

template <Function kFloat, Function kDouble>
absl::Status Floating(const KernelCall& call, const KernelMemory& memory, const Execution&) {
  if (call.inputs[0]->dtype == DataType::kFloat32) return kFloat(call, memory);
  if (call.inputs[0]->dtype == DataType::kFloat64) return kDouble(call, memory);
  return NoSuchType(call);
}

absl::Status AnyMaxPool(const KernelCall& call, const KernelMemory& memory, const Execution&) {
  switch (call.inputs[0]->dtype) {
    case DataType::kFloat32:
      return MaxPool<float>(call, memory);
    case DataType::kFloat64:
      return MaxPool<double>(call, memory);
    case DataType::kInt8:
      return MaxPool<int8_t>(call, memory);
    case DataType::kUint8:
      return MaxPool<uint8_t>(call, memory);
    default:
      return NoSuchType(call);
  }
}

}  // namespace

void AddPoolReference(KernelTable& table) {
  table.push_back(ReferenceKernel<Floating<MaxRoiPositions<float>, MaxRoiPositions<double>>>(
      "onward.MaxRoiPositions"));
  constexpr auto kAverage = Floating<AveragePool<float>, AveragePool<double>>;
  table.push_back(ReferenceKernel<AnyMaxPool>("MaxPool"));
  table.push_back(ReferenceKernel<AnyMaxPool>("GlobalMaxPool"));
  table.push_back(ReferenceKernel<kAverage>("AveragePool"));
  table.push_back(ReferenceKernel<kAverage>("GlobalAveragePool"));
  table.push_back(ReferenceKernel<Floating<MaxPoolGradient<float>, MaxPoolGradient<double>>>(
      "onward.MaxPoolGradient"));
  table.push_back(
      ReferenceKernel<Floating<AveragePoolGradient<float>, AveragePoolGradient<double>>>(
          "onward.AveragePoolGradient"));
}

}  // namespace onward
