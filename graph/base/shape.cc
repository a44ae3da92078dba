#include "graph/base/shape.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace onward {

int64_t Elements(absl::Span<const int64_t> dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

absl::StatusOr<int64_t> CheckedElements(absl::Span<const int64_t> dims) {
  constexpr int64_t kMost = int64_t{1} << 48;
  bool empty = false;
  int64_t n = 1;
  for (int64_t d : dims) {
    if (d < 0)
      return absl::InvalidArgumentError(absl::StrCat("negative extent in ", ToString(dims)));
    if (d == 0) {
      empty = true;
    } else if (n > kMost / d) {
      return absl::InvalidArgumentError(
          absl::StrCat("shape ", ToString(dims), " has more than 2^48 elements"));
    } else {
      n *= d;
    }
  }
  return empty ? 0 : n;
}

std::string ToString(absl::Span<const int64_t> dims) {
  std::string out = "[";
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i) out += ", ";
    if (dims[i] == kDynamic) {
      out += "?";
    } else {
      absl::StrAppend(&out, dims[i]);
    }
  }
  return out + "]";
}

Dims Strides(absl::Span<const int64_t> dims) {
  Dims strides(dims.size());
  int64_t n = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = n;
    n *= dims[i];
  }
  return strides;
}

absl::StatusOr<Dims> Broadcast(absl::Span<const int64_t> a, absl::Span<const int64_t> b) {
  const size_t rank = std::max(a.size(), b.size());
  Dims out(rank);
  for (size_t i = 0; i < rank; ++i) {
    const int64_t da = i < rank - a.size() ? 1 : a[i - (rank - a.size())];
    const int64_t db = i < rank - b.size() ? 1 : b[i - (rank - b.size())];
    if (da != db && da != 1 && db != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("shapes ", ToString(a), " and ", ToString(b), " do not broadcast"));
    }
    out[i] = da == 1 ? db : da;
  }
  return out;
}

absl::StatusOr<int64_t> NormalizeAxis(int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank) {
    return absl::InvalidArgumentError(
        absl::StrCat("axis ", axis, " is outside a tensor of rank ", rank));
  }
  return axis < 0 ? axis + rank : axis;
}

}  // namespace onward
