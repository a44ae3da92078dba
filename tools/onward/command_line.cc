#include "tools/onward/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/base/errors.h"
#include "graph/base/status_macros.h"
#include "tools/onward/config_file.h"
#include "tools/onward/flag_table.h"
#include "tools/onward/help.h"

namespace onward {
namespace {

template <typename... Parts>
absl::Status UsageError(const Parts&... parts) {
  return WithExitCode(absl::InvalidArgumentError(absl::StrCat(parts...)), ExitCode::kUsage);
}

constexpr char kOperators[] = "operators";

std::optional<Command> FindCommand(absl::string_view name) {
  for (Command command : AllCommands()) {
    if (Name(command) == name) return command;
  }
  return std::nullopt;
}

bool AsksForHelp(const std::vector<std::string>& arguments) {
  return std::any_of(arguments.begin(), arguments.end(),
                     [](const std::string& a) { return a == "--help" || a == "-h"; });
}

absl::StatusOr<Command> ParseCommand(const std::string& word) {
  if (std::optional<Command> command = FindCommand(word)) return *command;
  std::vector<std::string> names;
  for (Command command : AllCommands()) names.emplace_back(Name(command));
  names.emplace_back(kOperators);
  if (absl::StartsWith(word, "-")) {
    return UsageError("the command comes first: onward ", absl::StrJoin(names, "|"),
                      " MODEL.onnx [FLAGS]");
  }
  const std::string nearest = NearestName(word, names);
  return UsageError("unknown command '", word, "'; ",
                    nearest.empty() ? "there are " + absl::StrJoin(names, ", ")
                                    : absl::StrCat("did you mean ", nearest, "?"));
}

// What CLI11 found, as text.
struct Words {
  std::vector<std::string> models;
  std::string config_file;
  bool print_config = false;
  std::map<std::string, std::vector<std::string>> flags;  // by name; those given
  std::vector<std::string> unknown;
};

// The first line of what CLI11 says, in our words where they are better:
// "--epochs: 1 required TEXT missing".
absl::Status FromParseError(const CLI::ParseError& error) {
  const std::string text = error.what();
  const std::string line = text.substr(0, text.find('\n'));
  const size_t colon = line.find(':');
  if (colon != std::string::npos && absl::StartsWith(line, "-") &&
      absl::StrContains(line, "required")) {
    return UsageError(line.substr(0, colon), " needs a value");
  }
  return UsageError(line);
}

absl::StatusOr<Words> Split(Command command, std::vector<std::string> arguments) {
  try {
    CLI::App app;
    app.set_help_flag("");
    app.allow_extras();
    Words words;
    app.add_option("MODEL", words.models);
    app.add_option("--config", words.config_file);
    app.add_flag("--print-config", words.print_config);
    std::map<std::string, CLI::Option*> options;
    std::map<std::string, std::vector<std::string>> values;
    for (const Flag& flag : Flags()) {
      if (!flag.OfCommand(command)) continue;
      const std::string dashed = "--" + flag.name;
      if (flag.placeholder.empty()) {
        options[flag.name] = app.add_flag(absl::StrCat(dashed, ",!--no-", flag.name));
        options[flag.name]->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
      } else {
        options[flag.name] =
            app.add_option(flag.name == "output" ? "-o," + dashed : dashed, values[flag.name]);
        options[flag.name]->allow_extra_args(false);
      }
    }
    std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
    app.parse(std::move(arguments));
    for (const auto& [name, option] : options) {
      if (option->count() > 0) words.flags[name] = option->results();
    }
    words.unknown = app.remaining();
    return words;
  } catch (const CLI::ParseError& error) {
    return FromParseError(error);
  }
}

// "--x" without what follows a '='.
absl::Status UnknownFlag(Command command, const std::string& argument) {
  const std::string dashed = argument.substr(0, argument.find('='));
  std::string name = dashed.substr(dashed.find_first_not_of('-'));
  if (const Flag* flag = FindFlag(name)) {
    if (flag->OfCommand(command)) return UsageError("write ", dashed, " as --", flag->name);
    std::vector<std::string> of;
    for (Command other : AllCommands()) {
      if (flag->OfCommand(other)) of.emplace_back(Name(other));
    }
    return UsageError("--", flag->name, " is a flag of ", absl::StrJoin(of, ", "), ", not of ",
                      Name(command));
  }
  const std::string suggestion = SuggestFlag(name, "--", &command);
  return UsageError(
      "unknown flag ", dashed,
      suggestion.empty() ? absl::StrCat("; see onward ", Name(command), " --help") : suggestion);
}

absl::Status CheckWords(Command command, const Words& words) {
  // CLI11 takes whatever follows a flag for its value.
  for (const auto& [name, values] : words.flags) {
    for (const std::string& value : values) {
      if (absl::StartsWith(value, "--")) return UsageError("--", name, " needs a value");
    }
  }
  for (const std::string& argument : words.unknown) {
    if (argument.size() > 1 && argument[0] == '-' &&
        argument.find_first_not_of('-') != std::string::npos) {
      return UnknownFlag(command, argument);
    }
  }
  std::vector<std::string> loose = words.models;
  loose.insert(loose.end(), words.unknown.begin(), words.unknown.end());
  if (loose.size() > 1) {
    return UsageError("unexpected argument '", loose[1], "': one model is expected, and lists are ",
                      "written with commas, as A,B");
  }
  return absl::OkStatus();
}

absl::StatusOr<CommandLine> ParseOperators(const std::vector<std::string>& arguments, bool help) {
  CommandLine line;
  line.operators = true;
  if (help) {
    line.text = OperatorsHelp();
    return line;
  }
  for (size_t i = 1; i < arguments.size(); ++i) {
    if (arguments[i] != "--json" && arguments[i] != "--no-json") {
      return UsageError("unexpected argument '", arguments[i],
                        "': onward operators has only --json");
    }
    line.config.json = arguments[i] == "--json";
  }
  return line;
}

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<std::string>& arguments) {
  CommandLine line;
  if (arguments.empty()) {
    return UsageError("which command? train, evaluate, predict, inspect, plan, export or ",
                      "operators; ", "onward --help says more");
  }
  const bool help = AsksForHelp(arguments) || arguments[0] == "help";
  if (arguments[0] == kOperators || (help && arguments.size() > 1 && arguments[1] == kOperators)) {
    return ParseOperators(arguments, help);
  }
  if (help) {
    const std::optional<Command> command =
        FindCommand(arguments[0] == "help" && arguments.size() > 1 ? arguments[1] : arguments[0]);
    line.text = command.has_value() ? Help(*command) : Overview();
    return line;
  }
  ASSIGN_OR_RETURN(line.command, ParseCommand(arguments[0]));
  ASSIGN_OR_RETURN(const Words words,
                   Split(line.command, {arguments.begin() + 1, arguments.end()}));
  RETURN_IF_ERROR(CheckWords(line.command, words));
  if (!words.config_file.empty()) {
    RETURN_IF_ERROR(ApplyYamlFile(words.config_file, &line.config));
  }
  if (!words.models.empty()) line.config.model = words.models[0];
  for (const Flag& flag : Flags()) {
    const auto given = words.flags.find(flag.name);
    if (given == words.flags.end()) continue;
    RETURN_IF_ERROR(WithExitCode(Annotate(flag.set(given->second, &line.config), "--" + flag.name),
                                 ExitCode::kUsage));
  }
  if (words.print_config) {
    line.text = ToYaml(line.config, line.command);
    return line;
  }
  RETURN_IF_ERROR(Validate(line.config, line.command));
  return line;
}

}  // namespace onward
