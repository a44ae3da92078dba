// Recorded steps in Chrome's trace format.
#ifndef ONWARD_BACKEND_TRAINING_TRACE_H_
#define ONWARD_BACKEND_TRAINING_TRACE_H_

#include <string>
#include <vector>

#include "backend/runtime/executor.h"
#include "graph/plan/plan.h"

namespace onward {

// A JSON object for chrome://tracing or Perfetto: a process per device, thread 0 and on
// for its lanes, thread 1000 for its collectives; times in microseconds from the first.
std::string ChromeTrace(const Plan& plan, const std::vector<TraceEvent>& events);

}  // namespace onward

#endif  // ONWARD_BACKEND_TRAINING_TRACE_H_
