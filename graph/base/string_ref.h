// Strings as elements of tensors.
#ifndef ONWARD_GRAPH_BASE_STRING_REF_H_
#define ONWARD_GRAPH_BASE_STRING_REF_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace onward {

// One string of the pool that the process keeps of all distinct ones: as large as an
// int64, so that whatever only moves elements moves strings too, and equal exactly where
// the strings are. Zeroed memory holds empty strings. A handle means nothing outside its
// process: files get the text.
struct StringRef {
  uint64_t handle = 0;

  // The string's handle; it stays for the life of the process. Thread-safe.
  static StringRef Of(absl::string_view text);
  // REQUIRES: made by Of, or zero.
  const std::string& text() const;

  bool operator==(const StringRef& o) const { return handle == o.handle; }
  bool operator!=(const StringRef& o) const { return handle != o.handle; }
};
static_assert(sizeof(StringRef) == 8, "moved as items of eight bytes");

}  // namespace onward

#endif  // ONWARD_GRAPH_BASE_STRING_REF_H_
