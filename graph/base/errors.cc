#include "graph/base/errors.h"

#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "graph/base/status_macros.h"

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

std::string Printable(absl::string_view text) {
  constexpr size_t kBegin = 600;
  constexpr size_t kEnd = 200;
  std::string out(text);
  if (out.size() > kBegin + kEnd + 5) {
    out = absl::StrCat(text.substr(0, kBegin), " ... ", text.substr(text.size() - kEnd));
  }
  for (char& c : out) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) c = '?';
  }
  return out;
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
