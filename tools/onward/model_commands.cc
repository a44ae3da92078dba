// inspect, export: what can be said and done without training.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "backend/training/checkpoint.h"
#include "backend/training/free_batch.h"
#include "backend/training/trainer.h"
#include "graph/base/errors.h"
#include "graph/base/status_macros.h"
#include "graph/onnx/import.h"
#include "tools/onward/commands.h"
#include "tools/onward/inspection.h"
#include "tools/onward/output_types.h"

namespace onward {
namespace {

std::string ShapeText(DataType dtype, const std::vector<Extent>& extents) {
  std::vector<std::string> parts;
  for (const Extent& e : extents) {
    parts.push_back(e.size != kDynamic ? absl::StrCat(e.size) : e.symbol.empty() ? "?" : e.symbol);
  }
  return absl::StrCat(Name(dtype), "[", absl::StrJoin(parts, ", "), "]");
}

void Print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

void AppendTypes(const char* title, const Inspection& found, const Inspection::NamedTypes& types,
                 std::string* text) {
  if (types.empty()) return;
  absl::StrAppend(text, title, " (", ElementsOf(types), " elements)\n");
  for (const auto& [name, type] : types) {
    const auto why = found.why_not.find(name);
    absl::StrAppend(text, "  ", ToString(type), "  ", name,
                    why == found.why_not.end() ? "" : absl::StrCat("  (", why->second, ")"), "\n");
  }
}

void PrintJson(const OnnxModel& model, const std::vector<ModelOutput>& outputs,
               const Inspection& found) {
  nlohmann::ordered_json out = {{"event", "inspected"},
                                {"model", model.path()},
                                {"opset", model.opset()},
                                {"producer", model.producer()},
                                {"trainable", found.obstacle.empty()},
                                {"obstacle", found.obstacle},
                                {"unknown_operators", found.unknown_operators},
                                {"remarks", found.remarks}};
  for (const ModelInput& input : model.inputs()) {
    out["inputs"][input.name] = ShapeText(input.dtype, input.extents);
  }
  for (const ModelOutput& output : outputs) {
    out["outputs"][output.name] = ShapeText(output.dtype, output.extents);
  }
  for (const auto& [id, count] : model.OperatorCounts()) out["operators"][id] = count;
  const std::pair<const char*, const Inspection::NamedTypes*> groups[] = {
      {"parameters", &found.parameters},
      {"frozen", &found.frozen},
      {"statistics", &found.statistics},
      {"other_initializers", &found.others}};
  for (const auto& [title, types] : groups) {
    out[title] = nlohmann::ordered_json::object();
    for (const auto& [name, type] : *types) out[title][name] = ToString(type);
  }
  for (const auto& [name, type] : found.others) {
    const auto why = found.why_not.find(name);
    if (why != found.why_not.end()) out["why_not_trained"][name] = why->second;
  }
  using nlohmann::detail::error_handler_t;
  Print(out.dump(-1, ' ', false, error_handler_t::replace) + "\n");
}

}  // namespace

absl::Status Inspect(const RunConfig& config) {
  ASSIGN_OR_RETURN(std::unique_ptr<OnnxModel> model, OnnxModel::Load(config.model));
  const std::string batch = FreeBatchOf(model.get());
  ASSIGN_OR_RETURN(Inspection found, Examine(*model,
                                             {config.freeze, config.train_only, config.untie,
                                              config.keep_tied, config.also_train},
                                             config.restore_biases));
  if (!batch.empty()) found.remarks.push_back(batch);
  const std::vector<ModelOutput> outputs = TypedOutputs(*model);
  if (config.json) {
    PrintJson(*model, outputs, found);
    return absl::OkStatus();
  }
  std::string text = absl::StrCat(config.model, ": opset ", model->opset(), ", written by ",
                                  model->producer(), "\n");
  for (const ModelInput& input : model->inputs()) {
    absl::StrAppend(&text, "  input   ", input.name, "  ", ShapeText(input.dtype, input.extents),
                    "\n");
  }
  for (const ModelOutput& output : outputs) {
    absl::StrAppend(&text, "  output  ", output.name, "  ", ShapeText(output.dtype, output.extents),
                    "\n");
  }
  absl::StrAppend(&text, "operators\n");
  for (const auto& [id, count] : model->OperatorCounts()) {
    absl::StrAppendFormat(&text, "  %5d  %s\n", count, id);
  }
  AppendTypes("parameters", found, found.parameters, &text);
  AppendTypes("frozen parameters", found, found.frozen, &text);
  AppendTypes("running statistics", found, found.statistics, &text);
  AppendTypes("other initializers", found, found.others, &text);
  for (const std::string& remark : found.remarks) absl::StrAppend(&text, "note: ", remark, "\n");
  absl::StrAppend(&text, found.obstacle.empty()
                             ? "it can be trained here\n"
                             : absl::StrCat("it cannot be trained here: ", found.obstacle, "\n"));
  Print(text);
  return absl::OkStatus();
}

absl::Status Export(const RunConfig& config) {
  ASSIGN_OR_RETURN(std::unique_ptr<OnnxModel> model, OnnxModel::Load(config.model));
  std::string checkpoint = config.checkpoint;
  if (checkpoint.empty()) {
    std::vector<std::string> warnings;
    ASSIGN_OR_RETURN(const CheckpointReader newest,
                     NewestCheckpoint(config.checkpoint_dir, &warnings));
    for (const std::string& warning : warnings) Print(warning + "\n");
    checkpoint = newest.path();
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> changes,
                   ExportCheckpoint(*model, checkpoint, config.output));
  for (const std::string& change : changes) Print(change + "\n");
  Print(absl::StrCat("trained model: ", config.output, "\n"));
  return absl::OkStatus();
}

}  // namespace onward
