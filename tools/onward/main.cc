// onward train | evaluate | predict | inspect | plan | export | operators

#include <signal.h>

#include <cerrno>
#include <cstdio>
#include <exception>
#include <new>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "graph/base/errors.h"
#include "graph/base/status_macros.h"
#include "tools/onward/command_line.h"
#include "tools/onward/commands.h"

namespace onward {
namespace {

absl::Status Run(const CommandLine& line) {
  if (line.operators) return Operators(line.config.json);
  switch (line.command) {
    case Command::kTrain:
      return Train(line.config);
    case Command::kEvaluate:
      return Evaluate(line.config);
    case Command::kPredict:
      return Predict(line.config);
    case Command::kInspect:
      return Inspect(line.config);
    case Command::kPlan:
      return PlanCommand(line.config);
    case Command::kExport:
      return Export(line.config);
  }
  return absl::InternalError("no such command");
}

// One line on standard error for people; with --json also an object on standard
// output, where a program reads.
int Report(const absl::Status& status, bool json) {
  const int code = static_cast<int>(ExitCodeOf(status));
  if (status.ok()) return code;
  const std::string message = Printable(status.message());
  std::fprintf(stderr, "onward: %s\n", message.c_str());
  if (json) {
    const nlohmann::ordered_json object = {{"event", "error"}, {"error", message}, {"code", code}};
    using nlohmann::detail::error_handler_t;
    std::printf("%s\n", object.dump(-1, ' ', false, error_handler_t::replace).c_str());
  }
  return code;
}

// `line` keeps what was understood, for --json in the report of an error.
absl::Status Main(const std::vector<std::string>& arguments, CommandLine* line) {
  for (const std::string& argument : arguments) line->config.json |= argument == "--json";
  absl::StatusOr<CommandLine> parsed = ParseCommandLine(arguments);
  if (!parsed.ok()) return parsed.status();
  *line = *std::move(parsed);
  if (line->text.empty()) return Run(*line);
  const bool written = std::fputs(line->text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
  if (written || errno == EPIPE) return absl::OkStatus();
  return WithExitCode(absl::DataLossError("standard output cannot be written"), ExitCode::kOutput);
}

}  // namespace
}  // namespace onward

int main(int argc, char** argv) {
  // A reader that goes away (`onward train ... | head -1`) has read enough. What is
  // printed after that is lost; the work is not: it goes on, and writes its files.
  ::signal(SIGPIPE, SIG_IGN);
  // A file that may grow no more is an error like a full disk, not the end.
  ::signal(SIGXFSZ, SIG_IGN);
  onward::CommandLine line;
  absl::Status status;
  try {
    status = onward::Main({argv + 1, argv + argc}, &line);
  } catch (const std::bad_alloc&) {
    status = onward::WithExitCode(absl::ResourceExhaustedError("out of memory"),
                                  onward::ExitCode::kUntrainable);
  } catch (const std::exception& e) {
    status = absl::InternalError(e.what());
  }
  return onward::Report(status, line.config.json);
}
