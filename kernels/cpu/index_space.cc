#include "kernels/cpu/index_space.h"

#include <algorithm>

namespace onward {

Loops Collapse(const Loops& loops) {
  Loops out;
  for (const Loop& loop : loops) {
    if (loop.extent == 0) {
      Loop none = loop;
      return {none};
    }
    if (loop.extent == 1) continue;
    bool merges = !out.empty();
    for (size_t k = 0; merges && k < loop.strides.size(); ++k) {
      merges = out.back().strides[k] == loop.strides[k] * loop.extent;
    }
    if (merges) {
      out.back().extent *= loop.extent;
      out.back().strides = loop.strides;
    } else {
      out.push_back(loop);
    }
  }
  return out;
}

absl::InlinedVector<MemoryAxis, 6> MemoryAxes(absl::Span<const int64_t> dims,
                                              const Layout& layout) {
  const int rank = static_cast<int>(dims.size());
  Dims covered(rank, 1);  // by the blocks of each axis
  for (const Layout::Block& b : layout.blocks) covered[b.axis] *= b.size;
  absl::InlinedVector<MemoryAxis, 6> out;
  for (int i = 0; i < rank; ++i) {
    const int axis = layout.order.empty() ? i : layout.order[i];
    out.push_back({axis, (dims[axis] + covered[axis] - 1) / covered[axis], covered[axis]});
  }
  for (const Layout::Block& b : layout.blocks) {
    covered[b.axis] /= b.size;
    out.push_back({b.axis, b.size, covered[b.axis]});
  }
  return out;
}

Dims BroadcastStrides(absl::Span<const int64_t> dims, absl::Span<const int64_t> to) {
  Dims out(to.size(), 0);
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    if (dims[i] != 1) out[to.size() - dims.size() + i] = stride;
    stride *= dims[i];
  }
  return out;
}

int UsefulThreads(int threads, double bytes) {
  // Starting a team costs a few microseconds, in which a core moves about this much.
  constexpr double kWorthAThread = 64 * 1024;
  return std::max(1, static_cast<int>(std::min<double>(threads, bytes / kWorthAThread)));
}

}  // namespace onward
