// The flags of the onward command: one table, read by the parser, by the reader of
// YAML files, by --print-config and by --help.
#ifndef ONWARD_TOOLS_ONWARD_FLAG_TABLE_H_
#define ONWARD_TOOLS_ONWARD_FLAG_TABLE_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "backend/training/config.h"

namespace onward {

// One flag; its name is its key in a YAML file too. Values are text everywhere, so
// that a flag and a file mean the same.
struct Flag {
  std::string name;         // "learning-rate", without dashes
  std::string placeholder;  // "RATE"; empty for a switch: --name and --no-name, values true/false
  bool repeatable;          // may be given several times, or as a list with commas
  std::string group;        // the heading in help
  unsigned commands;        // bits: 1 << Command
  std::string help;
  // Sets the field from the values of one source, replacing what it held. The error
  // says what is wrong with the value; the caller puts the flag's name in front.
  // REQUIRES: values is not empty.
  std::function<absl::Status(const std::vector<std::string>& values, RunConfig* config)> set;
  // The values that `set` would make the field from; empty where it is not given.
  std::function<std::vector<std::string>(const RunConfig& config)> get;

  bool OfCommand(Command command) const { return commands >> static_cast<int>(command) & 1; }
};

// All flags, in the order of help. A flag's setter may rely on those before it.
const std::vector<Flag>& Flags();

// Null where there is none. '_' counts as '-'.
const Flag* FindFlag(absl::string_view name);

// "; did you mean PREFIXnearest?", or empty where no name is near. Knows what other
// tools call our flags (lr, wd, ...). Without `command`, all flags are looked at.
std::string SuggestFlag(absl::string_view name, absl::string_view prefix,
                        const Command* command = nullptr);

}  // namespace onward

#endif  // ONWARD_TOOLS_ONWARD_FLAG_TABLE_H_
