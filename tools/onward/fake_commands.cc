// Commands that say which they are and what they were given, for main_test.
#include <cstdio>
#include <new>
#include <stdexcept>

#include "absl/strings/str_cat.h"
#include "graph/base/errors.h"
#include "tools/onward/commands.h"

namespace onward {
namespace {

// The seed chooses the exit code, 0 being ok; steps an exception.
absl::Status End(const char* name, const RunConfig& config) {
  std::printf("%s %s\n", name, config.model.c_str());
  if (config.steps == 1) throw std::runtime_error("thrown");
  if (config.steps == 2) throw std::bad_alloc();
  if (config.seed == 0) return absl::OkStatus();
  return WithExitCode(absl::UnknownError(absl::StrCat("ended \"", config.seed, "\"\xff")),
                      static_cast<ExitCode>(config.seed));
}

}  // namespace

absl::Status Train(const RunConfig& config) { return End("train", config); }
absl::Status Evaluate(const RunConfig& config) { return End("evaluate", config); }
absl::Status Predict(const RunConfig& config) { return End("predict", config); }
absl::Status Inspect(const RunConfig& config) { return End("inspect", config); }
absl::Status PlanCommand(const RunConfig& config) { return End("plan", config); }
absl::Status Export(const RunConfig& config) { return End("export", config); }
absl::Status Operators(bool json) {
  std::printf("operators %d\n", json ? 1 : 0);
  return absl::OkStatus();
}

}  // namespace onward
