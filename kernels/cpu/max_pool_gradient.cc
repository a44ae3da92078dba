// The gradient of MaxPool, along channels that lie next to one another.
#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/base/window.h"
#include "kernels/cpu/pool.h"

namespace onward {
namespace {

// How [samples, channels, space...] lies in memory: slices, each an image of vectors
// of `lanes` numbers.
struct Slices {
  int64_t slices = 0;
  int64_t lanes = 1;
};

// Blocks of 8 or 16 channels; channels last; plain, which is vectors of one.
absl::StatusOr<Slices> SlicesOf(const Dims& dims, const Layout& layout) {
  if (layout.plain()) return Slices{dims[0] * dims[1], 1};
  if (layout == Layout::ChannelsLast(static_cast<int>(dims.size()))) {
    return Slices{dims[0], dims[1]};
  }
  const bool in_order = layout.order.empty();
  if (in_order && layout.blocks.size() == 1 && layout.blocks[0].axis == 1) {
    const int64_t block = layout.blocks[0].size;
    return Slices{dims[0] * ((dims[1] + block - 1) / block), block};
  }
  return absl::UnimplementedError(absl::StrCat("layout ", ToString(layout)));
}

// One window position: where its elements lie in an image, in order.
struct Taps {
  int count = 0;
  const int64_t* offset = nullptr;
};

// Everything but the slice and the memory.
struct Geometry {
  Slices slices;
  int64_t x_area = 0, y_area = 0;
  bool zero = true;  // some element may be in no window, or in several
  bool overlapping = true;
  std::vector<int> first;        // per window: its first entry in `offsets`; one more at the end
  std::vector<int64_t> offsets;  // of the elements inside the image, in vectors
};

constexpr int kLanes = 16;

// dx of `n` <= kLanes channels of one window.
template <bool kAdd>
inline __attribute__((always_inline)) void Spread(Taps taps, int64_t stride, int n, const float* x,
                                                  const float* dy, float* dx) {
  float best[kLanes];
  int where[kLanes];
  for (int i = 0; i < n; ++i) {
    best[i] = x[taps.offset[0] * stride + i];
    where[i] = 0;
  }
  for (int t = 1; t < taps.count; ++t) {
    const float* at = x + taps.offset[t] * stride;
    for (int i = 0; i < n; ++i) {
      const bool larger = at[i] > best[i];
      best[i] = larger ? at[i] : best[i];
      where[i] = larger ? t : where[i];
    }
  }
  for (int t = 0; t < taps.count; ++t) {
    float* at = dx + taps.offset[t] * stride;
    for (int i = 0; i < n; ++i) {
      const float part = where[i] == t ? dy[i] : 0.0f;
      at[i] = kAdd ? at[i] + part : part;
    }
  }
}

// One slice. Compiled for several instruction sets; the best is taken when the
// program is loaded.
template <bool kAdd>
inline __attribute__((always_inline)) void SliceLoop(const Geometry& g, const float* x,
                                                     const float* dy, float* dx) {
  const int64_t lanes = g.slices.lanes;
  for (int64_t p = 0; p < g.y_area; ++p) {
    const Taps taps = {g.first[p + 1] - g.first[p], g.offsets.data() + g.first[p]};
    if (taps.count == 0) continue;
    int64_t c = 0;
    for (; c + kLanes <= lanes; c += kLanes) {
      Spread<kAdd>(taps, lanes, kLanes, x + c, dy + p * lanes + c, dx + c);
    }
    if (c < lanes) {
      Spread<kAdd>(taps, lanes, static_cast<int>(lanes - c), x + c, dy + p * lanes + c, dx + c);
    }
  }
}

#define ONWARD_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
ONWARD_CLONES void AddSlice(const Geometry& g, const float* x, const float* dy, float* dx) {
  SliceLoop<true>(g, x, dy, dx);
}
ONWARD_CLONES void WriteSlice(const Geometry& g, const float* x, const float* dy, float* dx) {
  SliceLoop<false>(g, x, dy, dx);
}
#undef ONWARD_CLONES

Geometry Describe(const KernelCall& call, const Slices& slices) {
  const Dims &dy = call.inputs[0]->dims, &x = call.inputs[1]->dims;
  const Window w =
      ReadWindow(*call.attributes, Spatial(x), Spatial(dy), call.attributes->Ints("kernel_shape"));
  const Dims strides = Strides(w.input);
  Geometry g;
  g.slices = slices;
  g.x_area = Elements(w.input);
  g.y_area = Elements(w.output);
  g.first.push_back(0);
  Dims p(w.axes(), 0);
  do {
    Dims k(w.axes(), 0);
    do {
      int64_t offset = 0;
      bool inside = true;
      for (int i = 0; i < w.axes(); ++i) {
        const int64_t at = w.At(i, p[i], k[i]);
        inside &= w.Inside(i, at);
        offset += at * strides[i];
      }
      if (inside) g.offsets.push_back(offset);
    } while (Next(k, w.kernel));
    g.first.push_back(static_cast<int>(g.offsets.size()));
  } while (Next(p, w.output));
  std::vector<int64_t> sorted = g.offsets;
  std::sort(sorted.begin(), sorted.end());
  g.overlapping = std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
  g.zero = g.overlapping || static_cast<int64_t>(sorted.size()) < g.x_area;
  return g;
}

class MaxPoolGradientKernel : public BoundKernel {
 public:
  MaxPoolGradientKernel(Geometry geometry, const KernelMemory& memory, int threads)
      : g_(std::move(geometry)),
        dy_(memory.inputs[0].as<float>()),
        x_(memory.inputs[1].as<float>()),
        dx_(memory.outputs[0].as<float>()),
        threads_(threads) {}

  absl::Status Run() override {
    const int64_t of_x = g_.x_area * g_.slices.lanes, of_y = g_.y_area * g_.slices.lanes;
#pragma omp parallel for num_threads(threads_) if (threads_ > 1)
    for (int64_t s = 0; s < g_.slices.slices; ++s) {
      float* dx = dx_ + s * of_x;
      if (g_.zero) std::memset(dx, 0, of_x * sizeof(float));
      if (g_.overlapping) {
        AddSlice(g_, x_ + s * of_x, dy_ + s * of_y, dx);
      } else {
        WriteSlice(g_, x_ + s * of_x, dy_ + s * of_y, dx);
      }
    }
    return absl::OkStatus();
  }

 private:
  Geometry g_;
  const float* dy_;
  const float* x_;
  float* dx_;
  int threads_;
};

// All three tensors lie as x does.
absl::Status Accepts(const KernelCall& call) {
  if (call.inputs[0]->dtype != DataType::kFloat32) {
    return absl::UnimplementedError(
        absl::StrCat(std::string(Name(call.inputs[0]->dtype)), " tensors"));
  }
  if (call.inputs[0]->elements() == 0) return absl::UnimplementedError("empty tensors");
  const absl::Status slices = SlicesOf(call.inputs[1]->dims, call.inputs[1]->layout).status();
  if (!slices.ok() && (call.open_inputs >> 1 & 1) == 0) return slices;
  const Layout layout = slices.ok() ? call.inputs[1]->layout : Layout{};
  const bool dy_fits = (call.open_inputs & 1) != 0 || call.inputs[0]->layout == layout;
  const bool dx_fits = (call.open_outputs & 1) != 0 || call.outputs[0]->layout == layout;
  if (dy_fits && dx_fits) return absl::OkStatus();
  return absl::UnimplementedError("dy, x and dx lie differently");
}

KernelNeeds Needs(const KernelCall& call) {
  const bool fits = SlicesOf(call.inputs[1]->dims, call.inputs[1]->layout).ok();
  const Layout layout = fits ? call.inputs[1]->layout : Layout{};
  KernelNeeds needs;
  needs.input_layouts = {layout, layout};
  needs.output_layouts = {layout};
  needs.operations = static_cast<double>(call.inputs[1]->elements());
  return needs;
}

absl::StatusOr<std::unique_ptr<BoundKernel>> Prepare(const KernelCall& call,
                                                     const KernelMemory& memory,
                                                     const Execution& execution) {
  const absl::StatusOr<Slices> slices = SlicesOf(call.inputs[1]->dims, call.inputs[1]->layout);
  if (!slices.ok()) return slices.status();
  return std::unique_ptr<BoundKernel>(
      new MaxPoolGradientKernel(Describe(call, *slices), memory, execution.threads));
}

}  // namespace

void AddPoolKernels(KernelTable& table) {
  table.push_back(
      {"cpu.max_pool_gradient", "onward.MaxPoolGradient", false, Accepts, Needs, Prepare});
}

}  // namespace onward
