// plan: what a training step will do, and what memory it takes, before it runs.
#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "backend/training/forecast.h"
#include "backend/training/free_batch.h"
#include "backend/training/trainer.h"
#include "graph/base/errors.h"
#include "graph/base/status_macros.h"
#include "graph/onnx/import.h"
#include "graph/onnx/text.h"
#include "graph/plan/plan.h"
#include "tools/onward/commands.h"
#include "tools/onward/dump.h"

namespace onward {
namespace {

void Print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

std::string Bytes(int64_t bytes) {
  if (bytes < 10240) return absl::StrCat(bytes, " B");
  if (bytes < (int64_t{10} << 20)) return absl::StrFormat("%.1f KiB", bytes / 1024.0);
  return absl::StrFormat("%.1f MiB", bytes / 1048576.0);
}

struct StageSize {
  std::string name;
  int nodes = 0;
};

// Steps of a device by kernel, and how much of the work reference loops do.
struct Work {
  std::map<std::string, int> kernels;
  int steps = 0;
  double operations = 0;
  double reference = 0;  // of those
};

Work WorkOf(const Plan& plan, int device) {
  Work work;
  for (const PlanProgram& program : plan.programs) {
    if (program.device != device) continue;
    for (const PlanStep& step : program.steps) {
      ++work.steps;
      work.operations += step.operations;
      if (step.reference) work.reference += step.operations;
      ++work.kernels[step.kernel.empty() ? step.op : step.kernel];
    }
  }
  return work;
}

nlohmann::ordered_json MemoryJson(const Plan& plan, int device) {
  return {{"device", ToString(plan.devices[device].device)},
          {"arena_bytes", plan.ArenaBytes(device)},
          {"state_bytes", plan.StateBytes(device)},
          {"partial_bytes", plan.PartialBytes(device)},
          {"feed_bytes", plan.FeedBytes(device)},
          {"output_bytes", plan.OutputBytes(device)},
          {"constant_bytes", plan.ConstantBytes()}};
}

nlohmann::ordered_json RunJson(const MemoryForecast& f) {
  return {{"arena_bytes", f.arenas},       {"state_bytes", f.states},
          {"partial_bytes", f.partials},   {"output_bytes", f.outputs},
          {"constant_bytes", f.constants}, {"scalar_bytes", f.scalars},
          {"batch_bytes", f.batches},      {"data_bytes", f.data},
          {"model_bytes", f.model},        {"total_bytes", f.total()}};
}

void PrintJson(const std::vector<StageSize>& stages, const Plan& plan,
               const MemoryForecast& forecast) {
  nlohmann::ordered_json out = {{"event", "planned"}};
  for (const StageSize& s : stages) out["stages"][s.name] = s.nodes;
  for (size_t d = 0; d < plan.devices.size(); ++d) {
    nlohmann::ordered_json device = MemoryJson(plan, static_cast<int>(d));
    const Work work = WorkOf(plan, static_cast<int>(d));
    device["steps"] = work.steps;
    device["operations"] = work.operations;
    device["reference_operations"] = work.reference;
    for (const auto& [name, count] : work.kernels) device["kernels"][name] = count;
    out["devices"].push_back(std::move(device));
  }
  out["run"] = RunJson(forecast);
  out["collectives"] = nlohmann::ordered_json::array();
  for (const PlanCollective& c : plan.collectives) {
    out["collectives"].push_back({{"name", c.name}, {"tensors", c.tensors}, {"bytes", c.bytes}});
  }
  out["fingerprint"] = absl::StrFormat("%016x", Fingerprint(plan));
  Print(out.dump(-1, ' ', false, nlohmann::detail::error_handler_t::replace) + "\n");
}

void PrintText(const std::vector<StageSize>& stages, const Plan& plan,
               const MemoryForecast& forecast) {
  std::string text = "stages\n";
  for (const StageSize& s : stages)
    absl::StrAppendFormat(&text, "  %-12s %5d nodes\n", s.name, s.nodes);
  for (int d = 0; d < static_cast<int>(plan.devices.size()); ++d) {
    const PlanDevice& device = plan.devices[d];
    const Work work = WorkOf(plan, d);
    absl::StrAppendFormat(&text,
                          "%s: %d lanes of %d threads, %d steps, %.3g operations, %.2g %% of them "
                          "by reference loops\n",
                          ToString(device.device), device.lanes, device.threads_per_lane,
                          work.steps, work.operations,
                          100 * work.reference / std::max(1.0, work.operations));
    for (const auto& [name, count] : work.kernels) {
      absl::StrAppendFormat(&text, "  %5d  %s\n", count, name);
    }
    absl::StrAppend(&text, "  memory: arena ", Bytes(plan.ArenaBytes(d)), ", states ",
                    Bytes(plan.StateBytes(d)), ", feeds ", Bytes(plan.FeedBytes(d)),
                    " a set, outputs ", Bytes(plan.OutputBytes(d)));
    if (plan.PartialBytes(d) > 0) {
      absl::StrAppend(&text, ", partial sums ", Bytes(plan.PartialBytes(d)));
    }
    absl::StrAppend(&text, "\n");
  }
  absl::StrAppend(&text, "constants: ", Bytes(plan.ConstantBytes()), "\n");
  absl::StrAppend(&text, "the run: ", Bytes(forecast.total()), " and the program's own memory (",
                  Bytes(forecast.arenas), " arenas of all sizes of batches, ",
                  Bytes(forecast.states), " states, ", Bytes(forecast.batches), " batches, ",
                  Bytes(forecast.data), " data, ", Bytes(forecast.model), " model)\n");
  for (const PlanCollective& c : plan.collectives) {
    absl::StrAppend(&text, c.name, ": ", c.tensors, " tensors, ", Bytes(c.bytes), "\n");
  }
  absl::StrAppendFormat(&text, "fingerprint %016x\n", Fingerprint(plan));
  Print(text);
}

}  // namespace

absl::Status PlanCommand(const RunConfig& config) {
  ASSIGN_OR_RETURN(std::unique_ptr<OnnxModel> model, OnnxModel::Load(config.model));
  FreeBatchOf(model.get());
  std::unique_ptr<RunData> data;
  if (config.data.empty()) {
    ASSIGN_OR_RETURN(data, AssumeRunData(config, *model));
  } else {
    ASSIGN_OR_RETURN(data, ReadRunData(config, Command::kPlan, *model));
  }
  std::vector<StageSize> stages;
  const StageObserver dump = DumpStages(config);
  const auto observe = [&](const Stage& stage) -> absl::Status {
    bool known = stage.graph == nullptr;
    for (const StageSize& s : stages) known |= s.name == stage.name;
    if (!known) stages.push_back({stage.name, stage.graph->num_nodes()});
    if (stage.name == "replicated" && !config.output.empty()) {
      RETURN_IF_ERROR(WriteOnnx(*stage.graph, config.output));
    }
    return dump ? dump(stage) : absl::OkStatus();
  };
  ASSIGN_OR_RETURN(std::unique_ptr<Walk> walk,
                   Walk::Create(model.get(), WalkOptionsOf(config, *data), observe));
  ASSIGN_OR_RETURN(const Plan plan, walk->TrainingPlan(config.batch_size * config.accumulate));
  ASSIGN_OR_RETURN(const MemoryForecast forecast, ForecastMemory(config, *model, *data));
  if (config.json) {
    PrintJson(stages, plan, forecast);
  } else {
    if (config.devices.empty()) Print(DevicesNote(PlacementOf(config)) + "\n");
    for (const auto* notes : {&walk->notes(), &walk->training_notes()}) {
      for (const std::string& note : *notes) Print(note + "\n");
    }
    PrintText(stages, plan, forecast);
  }
  return absl::OkStatus();
}

}  // namespace onward
