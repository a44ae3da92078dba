#include <algorithm>
#include <vector>

#include "graph/base/window.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/reference.h"

namespace onward {
namespace {

// The extents of a convolution of x [n, c, input...] with w [o, c / group, kernel...]
// to y [n, o, output...].
struct Geometry {
  int64_t samples, filters, group, channels;  // channels of a group
  Window window;
  Dims x_strides, w_strides, y_strides;
};

Geometry Describe(const KernelCall& call, const Dims& x, const Dims& w, const Dims& y) {
  return {x[0],
          w[0],
          call.attributes->Int("group", 1),
          w[1],
          ReadWindow(*call.attributes, Spatial(x), Spatial(y), Spatial(w)),
          Strides(x),
          Strides(w),
          Strides(y)};
}

// Products of one element of w along the last axis: element i of y meets element
// i * x_step of x.
struct Run {
  int64_t x, w, y;  // offsets of the first product
  int64_t x_step, length;
};

// Calls visit(run) for the runs of one tap of a filter, of which all axes but the last
// are walked here. `start` holds the offsets of the channel in x and of the filter in y.
template <typename Visit>
void ForEachRunOfTap(const Geometry& g, const Dims& tap, const Run& start, Visit visit) {
  const Window& window = g.window;
  const int last = window.axes() - 1;
  int64_t first = 0, end = window.output[last];
  while (first < end && !window.Inside(last, window.At(last, first, tap[last]))) ++first;
  while (first < end && !window.Inside(last, window.At(last, end - 1, tap[last]))) --end;
  if (first == end) return;
  Dims rows = window.output;
  rows[last] = 1;
  Dims p(window.axes(), 0);
  do {
    Run run = start;
    run.x += window.At(last, first, tap[last]);
    run.y += first;
    run.x_step = window.stride[last];
    run.length = end - first;
    bool inside = true;
    for (int i = 0; i < last && inside; ++i) {
      const int64_t at = window.At(i, p[i], tap[i]);
      inside = window.Inside(i, at);
      run.x += at * g.x_strides[i + 2];
      run.y += p[i] * g.y_strides[i + 2];
    }
    if (inside) visit(run);
  } while (Next(p, rows));
}

// The runs that make up the convolution.
template <typename Visit>
void ForEachRun(const Geometry& g, Visit visit) {
  const Window& window = g.window;
  const int64_t of_group = g.filters / g.group;
  if (Elements(window.output) == 0 || Elements(window.kernel) == 0) return;
  for (int64_t n = 0; n < g.samples; ++n) {
    for (int64_t o = 0; o < g.filters; ++o) {
      for (int64_t c = 0; c < g.channels; ++c) {
        Run start = {};
        start.x = n * g.x_strides[0] + (o / of_group * g.channels + c) * g.x_strides[1];
        start.w = o * g.w_strides[0] + c * g.w_strides[1];
        start.y = n * g.y_strides[0] + o * g.y_strides[1];
        Dims tap(window.axes(), 0);
        do {
          ForEachRunOfTap(g, tap, start, visit);
          ++start.w;  // taps of a channel lie side by side
        } while (Next(tap, window.kernel));
      }
    }
  }
}

// Sums are kept in double: the reference is the oracle.
template <typename T>
void Store(const std::vector<double>& sums, T* y) {
  for (size_t i = 0; i < sums.size(); ++i) y[i] = static_cast<T>(sums[i]);
}

absl::Status Forward(const KernelCall& call, const KernelMemory& memory, const Execution&) {
  const Dims& dims = call.outputs[0]->dims;
  const Geometry geometry = Describe(call, call.inputs[0]->dims, call.inputs[1]->dims, dims);
  return ForType(FloatTypes(), call.inputs[0]->dtype, [&](auto t) {
    using T = decltype(t);
    const T *x = memory.inputs[0].as<T>(), *w = memory.inputs[1].as<T>();
    std::vector<double> y(Elements(dims), 0.0);
    const int64_t area = Elements(Spatial(dims));
    if (call.has_input(2)) {
      const T* bias = memory.inputs[2].as<T>();
      for (size_t i = 0; i < y.size(); ++i) y[i] = bias[static_cast<int64_t>(i) / area % dims[1]];
    }
    ForEachRun(geometry, [&](const Run& run) {
      const double weight = w[run.w];
      const T* from = x + run.x;
      double* to = y.data() + run.y;
      for (int64_t i = 0; i < run.length; ++i) to[i] += weight * from[i * run.x_step];
    });
    if (call.attributes->String("activation", "") == "Relu") {
      for (double& v : y) v = std::max(v, 0.0);
    }
    Store(y, memory.outputs[0].as<T>());
    return absl::OkStatus();
  });
}

absl::Status DataGradient(const KernelCall& call, const KernelMemory& memory, const Execution&) {
  const Dims& dims = call.outputs[0]->dims;
  const Geometry geometry = Describe(call, dims, call.inputs[1]->dims, call.inputs[0]->dims);
  return ForType(FloatTypes(), call.inputs[0]->dtype, [&](auto t) {
    using T = decltype(t);
    const T *dy = memory.inputs[0].as<T>(), *w = memory.inputs[1].as<T>();
    std::vector<double> dx(Elements(dims), 0.0);
    ForEachRun(geometry, [&](const Run& run) {
      const double weight = w[run.w];
      const T* from = dy + run.y;
      double* to = dx.data() + run.x;
      for (int64_t i = 0; i < run.length; ++i) to[i * run.x_step] += weight * from[i];
    });
    Store(dx, memory.outputs[0].as<T>());
    return absl::OkStatus();
  });
}

absl::Status FilterGradient(const KernelCall& call, const KernelMemory& memory, const Execution&) {
  const Dims &dims = call.outputs[0]->dims, &dy_dims = call.inputs[0]->dims;
  const Geometry geometry = Describe(call, call.inputs[1]->dims, dims, dy_dims);
  return ForType(FloatTypes(), call.inputs[0]->dtype, [&](auto t) {
    using T = decltype(t);
    const T *dy = memory.inputs[0].as<T>(), *x = memory.inputs[1].as<T>();
    std::vector<double> dw(Elements(dims), 0.0);
    ForEachRun(geometry, [&](const Run& run) {
      const T *a = dy + run.y, *b = x + run.x;
      double sum = 0;
      for (int64_t i = 0; i < run.length; ++i) sum += static_cast<double>(a[i]) * b[i * run.x_step];
      dw[run.w] += sum;
    });
    Store(dw, memory.outputs[0].as<T>());
    if (call.has_output(1)) {
      std::vector<double> db(dims[0], 0.0);
      const int64_t area = Elements(Spatial(dy_dims));
      for (int64_t i = 0; i < Elements(dy_dims); ++i) db[i / area % dims[0]] += dy[i];
      Store(db, memory.outputs[1].as<T>());
    }
    return absl::OkStatus();
  });
}

}  // namespace

void AddConvReference(KernelTable& table) {
  table.push_back(TypedReference<Forward, FloatTypes>("Conv"));
  table.push_back(TypedReference<Forward, FloatTypes>("onward.FusedConv"));
  table.push_back(TypedReference<DataGradient, FloatTypes>("onward.ConvDataGradient"));
  table.push_back(TypedReference<FilterGradient, FloatTypes>("onward.ConvFilterGradient"));
}

}  // namespace onward
