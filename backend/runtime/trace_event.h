// What a trace of the executor records.
#ifndef ONWARD_BACKEND_RUNTIME_TRACE_EVENT_H_
#define ONWARD_BACKEND_RUNTIME_TRACE_EVENT_H_

#include <chrono>
#include <cstdint>

namespace onward {

// When a step ran, for Chrome's trace viewer.
struct TraceEvent {
  int device = 0;
  int lane = 0;  // -1: the collective stream
  int program = 0;
  int step = 0;
  int shard = -1;
  int64_t begin_ns = 0;  // TraceClock
  int64_t end_ns = 0;
};

// Nanoseconds of the steady clock.
inline int64_t TraceClock() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace onward

#endif  // ONWARD_BACKEND_RUNTIME_TRACE_EVENT_H_
