// How the elements of a tensor lie in memory.
#ifndef ONWARD_GRAPH_BASE_LAYOUT_H_
#define ONWARD_GRAPH_BASE_LAYOUT_H_

#include <cstdint>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "graph/base/shape.h"

namespace onward {

// A permutation of axes followed by inner blocks, as oneDNN and others describe
// dense memory: nChw16c is order {0,1,2,3} with block {axis 1, 16}; channels-last
// is order {0,2,3,1} without blocks. An axis that is blocked is padded with
// zeros to a multiple of its blocks. The empty layout is plain row-major.
// Equality is structural, so layouts can be compared and kept in plans.
struct Layout {
  struct Block {
    int axis;
    int64_t size;
    bool operator==(const Block& o) const { return axis == o.axis && size == o.size; }
  };
  absl::InlinedVector<int, 6> order;     // outermost first; empty = 0, 1, 2, ...
  absl::InlinedVector<Block, 3> blocks;  // outermost first

  bool plain() const { return order.empty() && blocks.empty(); }
  bool operator==(const Layout& o) const { return order == o.order && blocks == o.blocks; }
  bool operator!=(const Layout& o) const { return !(*this == o); }

  // Axes 1 and on moved so that channels come last. REQUIRES: rank >= 3.
  static Layout ChannelsLast(int rank);
};

// Elements of memory, padding included.
int64_t PaddedElements(absl::Span<const int64_t> dims, const Layout& layout);

// "plain", "acdb" (order as letters), "abcd16b" (a block of 16 of axis 1).
std::string ToString(const Layout& layout);

// Offset, in elements, of the element at `index` (one number per axis).
// Reference code and conversions use it; fast kernels know their layout.
int64_t OffsetOf(absl::Span<const int64_t> dims, const Layout& layout,
                 absl::Span<const int64_t> index);

}  // namespace onward

#endif  // ONWARD_GRAPH_BASE_LAYOUT_H_
