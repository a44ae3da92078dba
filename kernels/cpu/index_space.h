// Iteration over tensors as few loops with strides.
#ifndef ONWARD_KERNELS_CPU_INDEX_SPACE_H_
#define ONWARD_KERNELS_CPU_INDEX_SPACE_H_

#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "graph/base/tensor.h"

namespace onward {

// One loop, outermost first in lists; strides in elements, one per operand.
struct Loop {
  int64_t extent = 1;
  absl::InlinedVector<int64_t, 4> strides;
};
using Loops = absl::InlinedVector<Loop, 6>;

// The same iteration with extents of 1 dropped and neighbours merged where every
// operand steps through them as through one. The order of elements stays. No loop at
// all where there is one element; one loop of extent 0 where there is none.
Loops Collapse(const Loops& loops);

// The axes of a tensor as they lie in memory, outermost first: which axis, how often,
// and how far one step goes along the axis (1 unless an inner block covers the rest).
// Extents of padded axes are the padded ones.
struct MemoryAxis {
  int axis;
  int64_t extent;
  int64_t step;
};
absl::InlinedVector<MemoryAxis, 6> MemoryAxes(absl::Span<const int64_t> dims, const Layout& layout);

// Strides of a plain tensor of extents `dims` seen as broadcast to `to`, one per axis
// of `to`: 0 where it is repeated. REQUIRES: broadcastable.
Dims BroadcastStrides(absl::Span<const int64_t> dims, absl::Span<const int64_t> to);

// How many of at most `threads` threads are worth it for `bytes` of memory traffic or
// as much time in arithmetic.
int UsefulThreads(int threads, double bytes);

}  // namespace onward

#endif  // ONWARD_KERNELS_CPU_INDEX_SPACE_H_
