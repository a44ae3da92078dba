// The gradient of MaxPool in float32, along channels that lie next to one another, with
// the vectors of the processor.
#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/base/window.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/pool.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/max_pool_gradient.cc"
// foreach_target.h must come first.
// clang-format off
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#ifndef ONWARD_KERNELS_CPU_MAX_POOL_GRADIENT_ONCE
#define ONWARD_KERNELS_CPU_MAX_POOL_GRADIENT_ONCE

namespace onward {

// How windows lie over an image of vectors of `lanes` channels.
struct MaxPoolWindows {
  int64_t lanes = 1;
  int64_t count = 0;
  bool overlapping = true;
  std::vector<int> first;        // per window: its first entry in `offsets`; one more at the end
  std::vector<int64_t> offsets;  // of the elements inside the image, in vectors
};

}  // namespace onward

#endif  // ONWARD_KERNELS_CPU_MAX_POOL_GRADIENT_ONCE

HWY_BEFORE_NAMESPACE();
namespace onward {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// dx of one window from channel `c` on, as many full vectors as there are. Returns the
// channel that it came to.
template <bool kAdd, class D>
HWY_INLINE int64_t Spread(D d, const int64_t* taps, int count, int64_t lanes, int64_t c,
                          const float* x, const float* dy, float* dx) {
  const auto n = static_cast<int64_t>(hn::Lanes(d));
  for (; c + n <= lanes; c += n) {
    auto best = hn::LoadU(d, x + taps[0] * lanes + c);
    auto where = hn::Zero(d);
    for (int t = 1; t < count; ++t) {
      const auto at = hn::LoadU(d, x + taps[t] * lanes + c);
      const auto larger = hn::Gt(at, best);
      best = hn::IfThenElse(larger, at, best);
      where = hn::IfThenElse(larger, hn::Set(d, static_cast<float>(t)), where);
    }
    const auto gradient = hn::LoadU(d, dy + c);
    for (int t = 0; t < count; ++t) {
      float* to = dx + taps[t] * lanes + c;
      const auto part =
          hn::IfThenElseZero(hn::Eq(where, hn::Set(d, static_cast<float>(t))), gradient);
      hn::StoreU(kAdd ? hn::Add(hn::LoadU(d, to), part) : part, d, to);
    }
  }
  return c;
}

template <bool kAdd>
void Windows(const MaxPoolWindows& w, const float* x, const float* dy, float* dx) {
  for (int64_t p = 0; p < w.count; ++p) {
    const int count = w.first[p + 1] - w.first[p];
    if (count == 0) continue;
    const int64_t* taps = w.offsets.data() + w.first[p];
    const float* gradient = dy + p * w.lanes;
    int64_t c = Spread<kAdd>(hn::ScalableTag<float>(), taps, count, w.lanes, 0, x, gradient, dx);
    c = Spread<kAdd>(hn::CappedTag<float, 8>(), taps, count, w.lanes, c, x, gradient, dx);
    Spread<kAdd>(hn::CappedTag<float, 1>(), taps, count, w.lanes, c, x, gradient, dx);
  }
}

// One image. dx holds zeros where windows overlap or leave elements out.
void MaxPoolGradientOfImage(const MaxPoolWindows& w, const float* x, const float* dy, float* dx) {
  if (w.overlapping) {
    Windows<true>(w, x, dy, dx);
  } else {
    Windows<false>(w, x, dy, dx);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace onward
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace onward {
namespace {

HWY_EXPORT(MaxPoolGradientOfImage);

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

struct Geometry {
  int64_t slices = 0;
  int64_t x_area = 0;
  bool zero = true;  // some element may be in no window, or in several
  MaxPoolWindows windows;
};

Geometry Describe(const KernelCall& call, const Slices& slices) {
  const Dims &dy = call.inputs[0]->dims, &x = call.inputs[1]->dims;
  const Window w =
      ReadWindow(*call.attributes, Spatial(x), Spatial(dy), call.attributes->Ints("kernel_shape"));
  const Dims strides = Strides(w.input);
  Geometry g;
  MaxPoolWindows& windows = g.windows;
  g.slices = slices.slices;
  g.x_area = Elements(w.input);
  windows.lanes = slices.lanes;
  windows.count = Elements(w.output);
  windows.first.push_back(0);
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
      if (inside) windows.offsets.push_back(offset);
    } while (Next(k, w.kernel));
    windows.first.push_back(static_cast<int>(windows.offsets.size()));
  } while (Next(p, w.output));
  std::vector<int64_t> sorted = windows.offsets;
  std::sort(sorted.begin(), sorted.end());
  windows.overlapping = std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
  g.zero = windows.overlapping || static_cast<int64_t>(sorted.size()) < g.x_area;
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
    const int64_t of_x = g_.x_area * g_.windows.lanes, of_y = g_.windows.count * g_.windows.lanes;
    ParallelRows(g_.slices, 1, threads_, [&](int64_t begin, int64_t end) {
      for (int64_t s = begin; s < end; ++s) {
        float* dx = dx_ + s * of_x;
        if (g_.zero) std::memset(dx, 0, of_x * sizeof(float));
        HWY_DYNAMIC_DISPATCH(MaxPoolGradientOfImage)(g_.windows, x_ + s * of_x, dy_ + s * of_y, dx);
      }
    });
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

#endif  // HWY_ONCE
