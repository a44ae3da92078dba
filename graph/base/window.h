// Windows that slide over the spatial axes of a tensor: the geometry of
// convolutions and pooling, as ONNX's attributes state it.
#ifndef ONWARD_GRAPH_BASE_WINDOW_H_
#define ONWARD_GRAPH_BASE_WINDOW_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "graph/base/attribute.h"
#include "graph/base/shape.h"

namespace onward {

// One number per spatial axis in each member. Position o of the output and tap k
// of the window meet at o * stride + k * dilation - begin of the input, which lies
// outside of it, in the padding, where that is negative or not below `input`.
struct Window {
  Dims input, output, kernel;
  Dims stride, dilation;
  Dims begin, end;  // padding before and behind

  int axes() const { return static_cast<int>(kernel.size()); }
  int64_t At(int axis, int64_t o, int64_t k) const {
    return o * stride[axis] + k * dilation[axis] - begin[axis];
  }
  bool Inside(int axis, int64_t at) const { return at >= 0 && at < input[axis]; }

  // begin then end, as ONNX's `pads` has them.
  std::vector<int64_t> Pads() const;
};

// Reads strides, dilations, pads and auto_pad. `input`, `output` and `kernel` are the
// spatial extents, which inference has made and checked; of them follows the
// padding of SAME_UPPER and SAME_LOWER.
Window ReadWindow(const Attributes& attributes, absl::Span<const int64_t> input,
                  absl::Span<const int64_t> output, absl::Span<const int64_t> kernel);

// The extents of axes 2 and on: what windows slide over.
inline absl::Span<const int64_t> Spatial(absl::Span<const int64_t> dims) { return dims.subspan(2); }

// Moves `index` to the next one in row-major order below `dims`; false, and all
// zeros, behind the last. For loops over any number of axes:
//   Dims i(n, 0); do { ... } while (Next(i, dims));   REQUIRES: no extent is 0
bool Next(Dims& index, absl::Span<const int64_t> dims);

}  // namespace onward

#endif  // ONWARD_GRAPH_BASE_WINDOW_H_
