// The command line: from argv to a RunConfig.
#ifndef ONWARD_TOOLS_ONWARD_COMMAND_LINE_H_
#define ONWARD_TOOLS_ONWARD_COMMAND_LINE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "backend/training/config.h"

namespace onward {

struct CommandLine {
  // `onward operators`, which has no model and no configuration but `json`.
  bool operators = false;
  Command command = Command::kTrain;
  // Defaults, then the file of --config, then the flags; validated unless `text` is set.
  RunConfig config;
  // What is to be printed on standard output instead of a run: help, or the resolved
  // configuration (--print-config, also of a configuration that is not yet complete).
  std::string text;
};

// `arguments` without the program's name. InvalidArgument (kUsage), in one line, for
// what cannot be understood or fails Validate; a misspelt flag, command or value
// comes with the nearest right one.
absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<std::string>& arguments);

}  // namespace onward

#endif  // ONWARD_TOOLS_ONWARD_COMMAND_LINE_H_
