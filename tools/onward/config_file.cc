#include "tools/onward/config_file.h"

#include <yaml-cpp/yaml.h>

#include <fstream>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/base/errors.h"
#include "graph/base/status_macros.h"
#include "tools/onward/flag_table.h"

namespace onward {
namespace {

template <typename... Parts>
absl::Status UsageError(const Parts&... parts) {
  return WithExitCode(absl::InvalidArgumentError(absl::StrCat(parts...)), ExitCode::kUsage);
}

// The text of a value's parts. False where a part is no scalar. May throw
// YAML::Exception.
bool Scalars(const YAML::Node& value, std::vector<std::string>* out) {
  if (value.IsScalar()) {
    out->push_back(value.Scalar());
    return true;
  }
  if (value.IsSequence()) {
    for (const YAML::Node& part : value) {
      if (!part.IsScalar()) return false;
      out->push_back(part.Scalar());
    }
    return true;
  }
  if (!value.IsMap()) return false;
  for (const auto& entry : value) {
    // NAME: [FILE, FILE] is several files under one name.
    std::vector<std::string> parts;
    if (!entry.first.IsScalar() || entry.second.IsMap() || !Scalars(entry.second, &parts)) {
      return false;
    }
    for (const std::string& part : parts) {
      out->push_back(absl::StrCat(entry.first.Scalar(), "=", part));
    }
  }
  return true;
}

// May throw YAML::Exception.
absl::Status ApplyEntry(const std::string& where, const std::string& key, const YAML::Node& value,
                        RunConfig* config) {
  if (value.IsNull()) return absl::OkStatus();
  std::vector<std::string> values;
  if (!Scalars(value, &values)) {
    return UsageError(where, key, ": expected one value, a list, or NAME: VALUE pairs");
  }
  if (key == "model") {
    if (values.size() != 1) return UsageError(where, "model: expected one file");
    config->model = values[0];
    return absl::OkStatus();
  }
  const Flag* flag = FindFlag(key);
  if (flag == nullptr) {
    return UsageError(where, "unknown key '", key, "'", SuggestFlag(key, ""));
  }
  if (!flag->repeatable && values.size() != 1) {
    return UsageError(where, key, ": expected one value, got ", values.size());
  }
  if (values.empty()) values.push_back("");
  return WithExitCode(Annotate(flag->set(values, config), absl::StrCat(where, key)),
                      ExitCode::kUsage);
}

struct Entry {
  std::string key;
  YAML::Node value;
  std::string where;
};

// In the flags' order, whatever the file's: a setter may rely on earlier ones.
std::vector<Entry> InFlagOrder(const std::vector<Entry>& entries) {
  std::vector<Entry> out;
  for (const Entry& entry : entries) {
    if (FindFlag(entry.key) == nullptr) out.push_back(entry);
  }
  for (const Flag& flag : Flags()) {
    for (const Entry& entry : entries) {
      if (FindFlag(entry.key) == &flag) out.push_back(entry);
    }
  }
  return out;
}

// May throw YAML::Exception.
absl::Status ApplyRoot(absl::string_view path, const YAML::Node& root, RunConfig* config) {
  if (root.IsNull()) return absl::OkStatus();
  if (!root.IsMap()) return UsageError(path, ": expected lines of KEY: VALUE, as epochs: 5");
  std::set<const Flag*> seen;
  std::vector<Entry> entries;
  for (const auto& entry : root) {
    const std::string where = absl::StrCat(path, ":", entry.first.Mark().line + 1, ": ");
    if (!entry.first.IsScalar()) return UsageError(where, "a key must be one word");
    const std::string& key = entry.first.Scalar();
    if (const Flag* flag = FindFlag(key); flag != nullptr && !seen.insert(flag).second) {
      return UsageError(where, "key '", key, "' is there twice");
    }
    entries.push_back({key, entry.second, where});
  }
  for (const Entry& entry : InFlagOrder(entries)) {
    RETURN_IF_ERROR(ApplyEntry(entry.where, entry.key, entry.value, config));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ApplyYaml(absl::string_view path, const std::string& text, RunConfig* config) {
  try {
    return ApplyRoot(path, YAML::Load(text), config);
  } catch (const YAML::Exception& e) {
    if (e.mark.is_null()) return UsageError(path, ": ", e.msg);
    return UsageError(path, ":", e.mark.line + 1, ": not YAML: ", e.msg);
  }
}

absl::Status ApplyYamlFile(const std::string& path, RunConfig* config) {
  constexpr size_t kMost = size_t{1} << 20;
  std::ifstream file(path, std::ios::binary);
  std::string text(kMost + 1, '\0');
  if (file) file.read(&text[0], static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad() || (file.fail() && !file.eof())) {
    return UsageError("--config ", path, ": the file cannot be read");
  }
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kMost) return UsageError("--config ", path, ": larger than 1 MiB");
  return ApplyYaml(path, text, config);
}

std::string ToYaml(const RunConfig& config, Command command) {
  YAML::Emitter out;
  out << YAML::BeginMap;
  if (!config.model.empty()) out << YAML::Key << "model" << YAML::Value << config.model;
  for (const Flag& flag : Flags()) {
    if (!flag.OfCommand(command)) continue;
    const std::vector<std::string> values = flag.get(config);
    if (values.empty()) continue;
    out << YAML::Key << flag.name << YAML::Value;
    if (flag.repeatable && values.size() != 1) {
      out << YAML::Flow << values;
    } else {
      out << values[0];
    }
  }
  out << YAML::EndMap;
  return absl::StrCat("# onward ", Name(command), " --config FILE\n", out.c_str(), "\n");
}

}  // namespace onward
