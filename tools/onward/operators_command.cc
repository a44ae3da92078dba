// operators: the table of operators, for people and programs.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "tools/onward/commands.h"
#include "tools/onward/operator_table.h"

namespace onward {
namespace {

void Print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

nlohmann::ordered_json ToJson(const OperatorRow& row) {
  nlohmann::ordered_json out = {{"event", "operator"},
                                {"domain", row.domain},
                                {"operator", row.name},
                                {"versions", row.versions},
                                {"runs", row.runs}};
  out["kernels"] = nlohmann::ordered_json::object();
  for (const auto& [device, names] : row.kernels) out["kernels"][device] = names;
  out["lowering"] = row.lowering;
  out["gradient"] = Name(row.gradient);
  out["reason"] = row.reason;
  out["differentiable"] = row.differentiable;
  out["notes"] = nlohmann::ordered_json::object();
  for (const auto& [input, note] : row.notes) out["notes"][input] = note;
  return out;
}

// One line: what runs it first, and where its gradient comes from.
std::string ToLine(const OperatorRow& row) {
  std::string kernel = row.runs ? "import" : "-";
  for (const auto& [device, names] : row.kernels) {
    kernel = absl::StrCat(device, ":", names.empty() ? "lowering" : names[0]);
  }
  const std::string id = row.domain.empty() ? row.name : absl::StrCat(row.domain, ".", row.name);
  std::string line = absl::StrFormat("%-38s %-24s %-34s %-9s", id, absl::StrJoin(row.versions, ","),
                                     kernel, Name(row.gradient));
  absl::StrAppend(&line, row.reason.empty() ? absl::StrJoin(row.differentiable, " ") : row.reason);
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

}  // namespace

absl::Status Operators(bool json) {
  const std::vector<OperatorRow> table = MakeOperatorTable();
  const OperatorCounts counts = CountOperators(table);
  std::string text;
  if (json) {
    for (const OperatorRow& row : table) absl::StrAppend(&text, ToJson(row).dump(), "\n");
    const nlohmann::ordered_json sums = {{"event", "operators"},
                                         {"onnx", counts.onnx},
                                         {"running", counts.running},
                                         {"differentiable", counts.differentiable},
                                         {"with_gradient", counts.with_gradient}};
    absl::StrAppend(&text, sums.dump(), "\n");
  } else {
    text = absl::StrFormat("%-38s %-24s %-34s %-9s%s\n", "operator", "versions", "kernel",
                           "gradient", "of its inputs, or why not");
    for (const OperatorRow& row : table) absl::StrAppend(&text, ToLine(row));
    absl::StrAppend(&text, counts.running, " of ONNX's ", counts.onnx, " operators run; of ",
                    counts.differentiable, " with a differentiable input ", counts.with_gradient,
                    " have gradients\n");
  }
  Print(text);
  return absl::OkStatus();
}

}  // namespace onward
