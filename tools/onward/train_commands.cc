// train, evaluate, predict: runs over data.
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "backend/data/npy.h"
#include "backend/training/progress_line.h"
#include "backend/training/trainer.h"
#include "graph/base/atomic_file.h"
#include "graph/base/errors.h"
#include "graph/base/status_macros.h"
#include "tools/onward/commands.h"
#include "tools/onward/dump.h"
#include "tools/onward/signals.h"

namespace onward {
namespace {

void Print(absl::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

RunListener ListenerFor(const RunConfig& config, ProgressLine* progress) {
  RunListener listener;
  listener.progress = progress;
  listener.note = [progress, json = config.json](const std::string& line) {
    if (progress != nullptr) {
      progress->Note(line);
    } else if (json) {
      const nlohmann::json object = {{"event", "note"}, {"text", line}};
      using nlohmann::detail::error_handler_t;  // names in files need not be UTF-8
      Print(absl::StrCat(object.dump(-1, ' ', false, error_handler_t::replace), "\n"));
    } else {
      Print(absl::StrCat(line, "\n"));
    }
  };
  listener.stage = DumpStages(config);
  return listener;
}

std::unique_ptr<ProgressLine> MakeProgress(const RunConfig& config) {
  return std::make_unique<ProgressLine>(ProgressLine::StyleFor(stdout, config.json), config.epochs,
                                        ProgressLine::ColumnsOf(stdout), Print);
}

void PrintMeasured(const RunConfig& config, const Measured& measured, absl::string_view what) {
  if (config.json) {
    nlohmann::ordered_json object = {{"event", std::string(what)}};
    for (const auto& [name, value] : measured) object["metrics"][name] = value;
    Print(absl::StrCat(object.dump(), "\n"));
    return;
  }
  std::string line;
  for (const auto& [name, value] : measured) {
    absl::StrAppend(&line, line.empty() ? "" : "  ", name, " ", FormatNumber(value));
  }
  Print(absl::StrCat(line, "\n"));
}

}  // namespace

absl::Status Train(const RunConfig& config) {
  std::unique_ptr<ProgressLine> progress = MakeProgress(config);
  RunListener listener = ListenerFor(config, progress.get());
  listener.signal = CatchSignals();
  ASSIGN_OR_RETURN(std::unique_ptr<Trainer> trainer,
                   Trainer::Create(config, Command::kTrain, std::move(listener)));
  RETURN_IF_ERROR(trainer->Fit());
  if (config.output.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<std::string> changes, trainer->Export(config.output));
  for (const std::string& change : changes) progress->Note(change);
  progress->Note(absl::StrCat("trained model: ", config.output));
  return absl::OkStatus();
}

absl::Status Evaluate(const RunConfig& config) {
  ASSIGN_OR_RETURN(std::unique_ptr<Trainer> trainer,
                   Trainer::Create(config, Command::kEvaluate, ListenerFor(config, nullptr)));
  if (!config.checkpoint.empty()) RETURN_IF_ERROR(trainer->LoadStates(config.checkpoint));
  ASSIGN_OR_RETURN(const Measured measured, trainer->Evaluate());
  PrintMeasured(config, measured, "evaluated");
  return absl::OkStatus();
}

namespace {

// Rows of numbers; every output of a sample side by side.
absl::Status WriteCsv(const std::string& path,
                      const std::vector<std::pair<std::string, Tensor>>& outputs) {
  std::string text;
  std::vector<int64_t> widths;
  int64_t rows = 0;
  for (const auto& [name, tensor] : outputs) {
    const int64_t own = tensor.dims().empty() ? 0 : tensor.dims()[0];
    if (name != outputs[0].first && own != rows) {
      return WithExitCode(absl::InvalidArgumentError(absl::StrCat(
                              path, ": output '", name, "' has ", own, " rows, '", outputs[0].first,
                              "' ", rows, ": write .npz, which holds both")),
                          ExitCode::kUsage);
    }
    rows = own;
    widths.push_back(rows == 0 ? 0 : tensor.elements() / rows);
    for (int64_t k = 0; k < widths.back(); ++k) {
      absl::StrAppend(&text, text.empty() ? "" : ",", name);
      if (widths.back() > 1) absl::StrAppend(&text, "_", k);
    }
  }
  absl::StrAppend(&text, "\n");
  for (int64_t r = 0; r < rows; ++r) {
    bool first = true;
    for (size_t o = 0; o < outputs.size(); ++o) {
      for (int64_t k = 0; k < widths[o]; ++k) {
        absl::StrAppendFormat(&text, "%s%.9g", first ? "" : ",",
                              outputs[o].second.At(r * widths[o] + k));
        first = false;
      }
    }
    text += '\n';
  }
  return WriteFileAtomically(path, text);
}

std::vector<std::pair<std::string, TensorView>> Views(
    const std::vector<std::pair<std::string, Tensor>>& outputs) {
  std::vector<std::pair<std::string, TensorView>> views;
  for (const auto& [name, tensor] : outputs) views.emplace_back(name, tensor.view());
  return views;
}

absl::Status WritePredictions(const std::string& path,
                              const std::vector<std::pair<std::string, Tensor>>& outputs) {
  if (absl::EndsWith(path, ".csv")) return WriteCsv(path, outputs);
  if (absl::EndsWith(path, ".npz")) return WriteNpz(path, Views(outputs));
  if (outputs.size() != 1) {
    return WithExitCode(
        absl::InvalidArgumentError(
            absl::StrCat("the model has ", outputs.size(), " outputs: --output must be an .npz")),
        ExitCode::kUsage);
  }
  return WriteNpy(path, outputs[0].second.view());
}

}  // namespace

absl::Status Predict(const RunConfig& config) {
  ASSIGN_OR_RETURN(std::unique_ptr<Trainer> trainer,
                   Trainer::Create(config, Command::kPredict, ListenerFor(config, nullptr)));
  if (!config.checkpoint.empty()) RETURN_IF_ERROR(trainer->LoadStates(config.checkpoint));
  ASSIGN_OR_RETURN(const auto outputs, trainer->Predict());
  RETURN_IF_ERROR(WritePredictions(config.output, outputs));
  if (!config.json) Print(absl::StrCat("predictions: ", config.output, "\n"));
  return absl::OkStatus();
}

}  // namespace onward
