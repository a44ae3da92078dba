// Errors that data files cause: one line, exit code kData.
#ifndef ONWARD_BACKEND_DATA_DATA_ERROR_H_
#define ONWARD_BACKEND_DATA_DATA_ERROR_H_

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "graph/base/errors.h"

namespace onward {

// InvalidArgument with the parts joined. By habit: "FILE: what was found, what
// was expected".
template <typename... Parts>
absl::Status DataError(const Parts&... parts) {
  return WithExitCode(absl::InvalidArgumentError(absl::StrCat(parts...)), ExitCode::kData);
}

// ResourceExhausted: a file that is sound but wants more memory than there is.
template <typename... Parts>
absl::Status DataTooLarge(const Parts&... parts) {
  return WithExitCode(absl::ResourceExhaustedError(absl::StrCat(parts...)), ExitCode::kData);
}

}  // namespace onward

#endif  // ONWARD_BACKEND_DATA_DATA_ERROR_H_
