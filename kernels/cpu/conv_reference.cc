#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/base/window.h"
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

// Calls visit(offset in x, in w, in y, filter) for every product of the convolution.
template <typename Visit>
void ForEachProduct(const Geometry& g, Visit visit) {
  const Window& window = g.window;
  const int64_t of_group = g.filters / g.group;
  if (Elements(window.output) == 0 || Elements(window.kernel) == 0) return;
  for (int64_t n = 0; n < g.samples; ++n) {
    for (int64_t o = 0; o < g.filters; ++o) {
      Dims p(window.axes(), 0);
      do {
        int64_t at_y = n * g.y_strides[0] + o * g.y_strides[1];
        for (int i = 0; i < window.axes(); ++i) at_y += p[i] * g.y_strides[i + 2];
        for (int64_t c = 0; c < g.channels; ++c) {
          Dims k(window.axes(), 0);
          do {
            int64_t at_x = n * g.x_strides[0] + (o / of_group * g.channels + c) * g.x_strides[1];
            int64_t at_w = o * g.w_strides[0] + c * g.w_strides[1];
            bool inside = true;
            for (int i = 0; i < window.axes() && inside; ++i) {
              const int64_t at = window.At(i, p[i], k[i]);
              inside = window.Inside(i, at);
              at_x += at * g.x_strides[i + 2];
              at_w += k[i] * g.w_strides[i + 2];
            }
            if (inside) visit(at_x, at_w, at_y);
          } while (Next(k, window.kernel));
        }
      } while (Next(p, window.output));
    }
  }
}

// Sums are kept in double: the reference is the oracle.
template <typename T>
void Store(const std::vector<double>& sums, T* y) {
  for (size_t i = 0; i < sums.size(); ++i) y[i] = static_cast<T>(sums[i]);
}

template <typename T>
absl::Status Forward(const KernelCall& call, const KernelMemory& memory) {
  const Dims& dims = call.outputs[0]->dims;
  const T *x = memory.inputs[0].as<T>(), *w = memory.inputs[1].as<T>();
  std::vector<double> y(Elements(dims), 0.0);
  const int64_t area = Elements(Spatial(dims));
  if (call.has_input(2)) {
    const T* bias = memory.inputs[2].as<T>();
    for (size_t i = 0; i < y.size(); ++i) y[i] = bias[static_cast<int64_t>(i) / area % dims[1]];
  }
  ForEachProduct(Describe(call, call.inputs[0]->dims, call.inputs[1]->dims, dims),
                 [&](int64_t at_x, int64_t at_w, int64_t at_y) {
                   y[at_y] += static_cast<double>(x[at_x]) * w[at_w];
                 });
  if (call.attributes->String("activation", "") == "Relu") {
    for (double& v : y) v = std::max(v, 0.0);
  }
  Store(y, memory.outputs[0].as<T>());
  return absl::OkStatus();
}

template <typename T>
absl::Status DataGradient(const KernelCall& call, const KernelMemory& memory) {
  const Dims& dims = call.outputs[0]->dims;
  const T *dy = memory.inputs[0].as<T>(), *w = memory.inputs[1].as<T>();
  std::vector<double> dx(Elements(dims), 0.0);
  ForEachProduct(Describe(call, dims, call.inputs[1]->dims, call.inputs[0]->dims),
                 [&](int64_t at_x, int64_t at_w, int64_t at_y) {
                   dx[at_x] += static_cast<double>(dy[at_y]) * w[at_w];
                 });
  Store(dx, memory.outputs[0].as<T>());
  return absl::OkStatus();
}

template <typename T>
absl::Status FilterGradient(const KernelCall& call, const KernelMemory& memory) {
  const Dims &dims = call.outputs[0]->dims, &dy_dims = call.inputs[0]->dims;
  const T *dy = memory.inputs[0].as<T>(), *x = memory.inputs[1].as<T>();
  std::vector<double> dw(Elements(dims), 0.0);
  ForEachProduct(Describe(call, call.inputs[1]->dims, dims, dy_dims),
                 [&](int64_t at_x, int64_t at_w, int64_t at_y) {
                   dw[at_w] += static_cast<double>(dy[at_y]) * x[at_x];
                 });
  Store(dw, memory.outputs[0].as<T>());
  if (call.has_output(1)) {
    std::vector<double> db(dims[0], 0.0);
    const int64_t area = Elements(Spatial(dy_dims));
    for (int64_t i = 0; i < Elements(dy_dims); ++i) db[i / area % dims[0]] += dy[i];
    Store(db, memory.outputs[1].as<T>());
  }
  return absl::OkStatus();
}

using Function = absl::Status (*)(const KernelCall&, const KernelMemory&);

template <Function kFloat, Function kDouble>
absl::Status Typed(const KernelCall& call, const KernelMemory& memory, const Execution&) {
  switch (call.inputs[0]->dtype) {
    case DataType::kFloat32:
      return kFloat(call, memory);
    case DataType::kFloat64:
      return kDouble(call, memory);
    default:
      return absl::UnimplementedError(
          absl::StrCat("no convolution of ", std::string(Name(call.inputs[0]->dtype))));
  }
}

}  // namespace

void AddConvReference(KernelTable& table) {
  constexpr auto kForward = Typed<Forward<float>, Forward<double>>;
  table.push_back(ReferenceKernel<kForward>("Conv"));
  table.push_back(ReferenceKernel<kForward>("onward.FusedConv"));
  table.push_back(
      ReferenceKernel<Typed<DataGradient<float>, DataGradient<double>>>("onward.ConvDataGradient"));
  table.push_back(ReferenceKernel<Typed<FilterGradient<float>, FilterGradient<double>>>(
      "onward.ConvFilterGradient"));
}

}  // namespace onward
