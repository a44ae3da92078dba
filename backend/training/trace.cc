#include "backend/training/trace.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace onward {
namespace {

constexpr int kCollectiveThread = 1000;

nlohmann::ordered_json NameOf(const char* what, int process, int thread, const std::string& name) {
  return {
      {"name", what}, {"ph", "M"}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}};
}

// The program that a device's collective stream belongs to: its last.
const PlanProgram* ProgramOf(const Plan& plan, const TraceEvent& event) {
  if (event.program >= 0) return &plan.programs[event.program];
  const PlanProgram* last = nullptr;
  for (const PlanProgram& program : plan.programs) {
    if (program.device == event.device) last = &program;
  }
  return last;
}

}  // namespace

std::string ChromeTrace(const Plan& plan, const std::vector<TraceEvent>& events) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (size_t d = 0; d < plan.devices.size(); ++d) {
    const int process = static_cast<int>(d);
    list.push_back(NameOf("process_name", process, 0, ToString(plan.devices[d].device)));
    for (int lane = 0; lane < plan.devices[d].lanes; ++lane) {
      list.push_back(NameOf("thread_name", process, lane, absl::StrCat("lane ", lane)));
    }
    list.push_back(NameOf("thread_name", process, kCollectiveThread, "collectives"));
  }
  int64_t first = 0;
  for (const TraceEvent& e : events) {
    first = first == 0 ? e.begin_ns : std::min(first, e.begin_ns);
  }
  for (const TraceEvent& e : events) {
    const PlanStep& step = ProgramOf(plan, e)->steps[e.step];
    list.push_back(
        {{"name", step.op},
         {"cat", Name(step.phase)},
         {"ph", "X"},
         {"pid", e.device},
         {"tid", e.lane < 0 ? kCollectiveThread : e.lane},
         {"ts", static_cast<double>(e.begin_ns - first) / 1000},
         {"dur", static_cast<double>(e.end_ns - e.begin_ns) / 1000},
         {"args", {{"kernel", step.kernel}, {"source", step.source}, {"shard", e.shard}}}});
  }
  return nlohmann::ordered_json{{"traceEvents", std::move(list)}}.dump();
}

}  // namespace onward
