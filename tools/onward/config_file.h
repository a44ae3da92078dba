// Runs described in YAML: keys are the flags' names, and `model`.
#ifndef ONWARD_TOOLS_ONWARD_CONFIG_FILE_H_
#define ONWARD_TOOLS_ONWARD_CONFIG_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "backend/training/config.h"

namespace onward {

// Sets what the YAML `text` gives, and leaves the rest of `config`. A value is a
// scalar, a sequence of scalars, or, for NAME=VALUE flags, a mapping. Keys may be
// written with '_'; keys that a command does not use are allowed, so that one file
// serves all commands. Paths are taken as they stand, from the working directory.
// `path` stands in messages: "run.yaml:3: unknown key 'lr'; did you mean ...?"
// InvalidArgument, kUsage.
absl::Status ApplyYaml(absl::string_view path, const std::string& text, RunConfig* config);

// Reads the file (at most 1 MiB) and applies it.
absl::Status ApplyYamlFile(const std::string& path, RunConfig* config);

// The configuration that `command` would run, defaults included, as YAML that
// ApplyYaml reads back to the same configuration. Ends in a newline.
std::string ToYaml(const RunConfig& config, Command command);

}  // namespace onward

#endif  // ONWARD_TOOLS_ONWARD_CONFIG_FILE_H_
