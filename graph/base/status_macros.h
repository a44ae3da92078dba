// RETURN_IF_ERROR, ASSIGN_OR_RETURN, and context for messages.
#ifndef ONWARD_GRAPH_BASE_STATUS_MACROS_H_
#define ONWARD_GRAPH_BASE_STATUS_MACROS_H_

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace onward {

// `text` as one line of a bounded length: control characters, which names in files may
// hold, are '?', and of a very long text the middle is left out.
std::string Printable(absl::string_view text);

// `status` with "where: " in front of its message, which becomes printable; ok stays
// ok. Payloads (the exit code, see graph/base/errors.h) are kept.
inline absl::Status Annotate(const absl::Status& status, absl::string_view where) {
  if (status.ok()) return status;
  absl::Status out(status.code(), Printable(absl::StrCat(where, ": ", status.message())));
  status.ForEachPayload(
      [&](absl::string_view url, const absl::Cord& payload) { out.SetPayload(url, payload); });
  return out;
}

}  // namespace onward

#define ONWARD_CONCAT_INNER(a, b) a##b
#define ONWARD_CONCAT(a, b) ONWARD_CONCAT_INNER(a, b)

#define RETURN_IF_ERROR(expression)                \
  do {                                             \
    absl::Status onward_status = (expression);     \
    if (!onward_status.ok()) return onward_status; \
  } while (false)

#define ASSIGN_OR_RETURN(target, expression) \
  ONWARD_ASSIGN_OR_RETURN(ONWARD_CONCAT(onward_or_, __LINE__), target, expression)
#define ONWARD_ASSIGN_OR_RETURN(holder, target, expression) \
  auto holder = (expression);                               \
  if (!holder.ok()) return holder.status();                 \
  target = std::move(holder).value()

// For invariants of our own code only; what input, files, devices or peers can
// cause is a Status.
#define ONWARD_CHECK(condition)                                                                   \
  do {                                                                                            \
    if (!(condition)) {                                                                           \
      std::fprintf(stderr, "%s:%d: internal check failed: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                               \
    }                                                                                             \
  } while (false)

#endif  // ONWARD_GRAPH_BASE_STATUS_MACROS_H_
