#include "graph/base/errors.h"

#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"

namespace onward {
namespace {
constexpr char kPayload[] = "onward/exit_code";
}

absl::Status WithExitCode(absl::Status status, ExitCode code) {
  if (!status.ok() && !status.GetPayload(kPayload).has_value()) {
    status.SetPayload(kPayload, absl::Cord(std::to_string(static_cast<int>(code))));
  }
  return status;
}

ExitCode ExitCodeOf(const absl::Status& status) {
  if (status.ok()) return ExitCode::kDone;
  const absl::optional<absl::Cord> payload = status.GetPayload(kPayload);
  int code = static_cast<int>(ExitCode::kInternal);
  if (payload.has_value() && !absl::SimpleAtoi(std::string(*payload), &code)) {
    code = static_cast<int>(ExitCode::kInternal);
  }
  return static_cast<ExitCode>(code);
}

}  // namespace onward
