// Extents of tensors.
#ifndef ONWARD_GRAPH_BASE_SHAPE_H_
#define ONWARD_GRAPH_BASE_SHAPE_H_

#include <cstdint>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace onward {

// Extents, outermost first. A scalar has none. kDynamic marks an extent that
// only data decides (NonZero, Compress).
using Dims = absl::InlinedVector<int64_t, 6>;
inline constexpr int64_t kDynamic = -1;

// Product of the extents (1 for a scalar). REQUIRES: no kDynamic, and the
// product fits (see CheckedElements for input from outside).
int64_t Elements(absl::Span<const int64_t> dims);

// The same for extents that come from a file: InvalidArgument for a negative
// extent or a product over 2^48.
absl::StatusOr<int64_t> CheckedElements(absl::Span<const int64_t> dims);

// "[2, 3]"; "[]" for a scalar; "?" for kDynamic.
std::string ToString(absl::Span<const int64_t> dims);

// Row-major strides, in elements.
Dims Strides(absl::Span<const int64_t> dims);

// The shape of an elementwise result by ONNX's multidirectional broadcasting.
// InvalidArgument where the shapes do not fit.
absl::StatusOr<Dims> Broadcast(absl::Span<const int64_t> a, absl::Span<const int64_t> b);

// axis in [-rank, rank) to [0, rank). InvalidArgument otherwise.
absl::StatusOr<int64_t> NormalizeAxis(int64_t axis, int64_t rank);

}  // namespace onward

#endif  // ONWARD_GRAPH_BASE_SHAPE_H_
