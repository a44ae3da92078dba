// inspect, export: what can be said and done without training.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "backend/training/checkpoint.h"
#include "backend/training/trainer.h"
#include "graph/base/errors.h"
#include "graph/base/status_macros.h"
#include "graph/onnx/import.h"
#include "graph/ops/operators.h"
#include "tools/onward/commands.h"
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

// What inspect finds.
struct Findings {
  std::vector<std::string> unknown_operators;
  std::vector<std::string> remarks;
  int64_t floating_elements = 0;
};

Findings Look(const OnnxModel& model) {
  Findings found;
  int norms = 0;
  int dropouts = 0;
  int convolutions = 0;
  for (const auto& [id, count] : model.OperatorCounts()) {
    const size_t dot = id.rfind('.');
    const bool plain = dot == std::string::npos;
    const Operator* op =
        StandardOperators().Find(plain ? "" : id.substr(0, dot), plain ? id : id.substr(dot + 1));
    if (op == nullptr) found.unknown_operators.push_back(id);
    if (id == "BatchNormalization") norms = count;
    if (id == "Dropout") dropouts = count;
    if (id == "Conv") convolutions = count;
  }
  for (const auto& [name, tensor] : model.initializers()) {
    if (IsFloating(tensor->dtype())) found.floating_elements += tensor->elements();
  }
  if (convolutions > 0 && norms == 0) {
    found.remarks.push_back(
        "convolutions without BatchNormalization: if the model had it, the exporter folded it "
        "(export from PyTorch with optimize=False, from Keras with tools/keras_export.py)");
  }
  if (dropouts == 0) {
    found.remarks.push_back(
        "no Dropout: if the model had it, the exporter dropped it (export in training mode)");
  }
  return found;
}

}  // namespace

absl::Status Inspect(const RunConfig& config) {
  ASSIGN_OR_RETURN(std::unique_ptr<OnnxModel> model, OnnxModel::Load(config.model));
  const Findings found = Look(*model);
  const std::vector<ModelOutput> outputs = TypedOutputs(*model);
  if (config.json) {
    nlohmann::ordered_json out = {{"event", "inspected"},
                                  {"model", config.model},
                                  {"opset", model->opset()},
                                  {"producer", model->producer()},
                                  {"trainable", found.unknown_operators.empty()},
                                  {"unknown_operators", found.unknown_operators},
                                  {"remarks", found.remarks}};
    for (const ModelInput& input : model->inputs()) {
      out["inputs"][input.name] = ShapeText(input.dtype, input.extents);
    }
    for (const ModelOutput& output : outputs)
      out["outputs"][output.name] = ShapeText(output.dtype, output.extents);
    for (const auto& [id, count] : model->OperatorCounts()) out["operators"][id] = count;
    Print(out.dump() + "\n");
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
  absl::StrAppend(&text, "initializers (", found.floating_elements, " floating-point elements)\n");
  for (const auto& [name, tensor] : model->initializers()) {
    absl::StrAppend(&text, "  ", ToString(tensor->type()), "  ", name, "\n");
  }
  for (const std::string& remark : found.remarks) absl::StrAppend(&text, "note: ", remark, "\n");
  if (found.unknown_operators.empty()) {
    absl::StrAppend(&text, "every operator is known here: it can be trained\n");
  } else {
    absl::StrAppend(&text, "cannot be trained here: no operator ",
                    absl::StrJoin(found.unknown_operators, ", "), "\n");
  }
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
