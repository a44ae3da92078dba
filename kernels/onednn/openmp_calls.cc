// oneDNN's parallel regions, on our team. The library is built for GNU's OpenMP runtime
// (libgomp's manual, "The libgomp ABI"); third_party/dependencies.bzl renames the
// functions that it calls, GOMP_... to ONWD_... and omp_... to onw_..., so that OpenMP
// itself stays as it is for everybody else in the process. These are all that it calls.
#include <algorithm>

#include "kernels/threads/team.h"

namespace {

// The chunks of `schedule(static)` that this thread still has to do of its loop.
struct StaticLoop {
  long start = 0;
  long step = 1;
  long iterations = 0;
  long chunk = 0;  // iterations; 0: one even share a thread
  long next = 0;   // which chunk of this thread comes next
};
thread_local StaticLoop loop;

bool NextChunk(long* begin, long* end) {
  const long threads = onward::ThreadsInTeam(), index = onward::IndexInTeam();
  long first, last;
  if (loop.chunk == 0) {
    if (loop.next > 0) return false;
    const long share = loop.iterations / threads, more = loop.iterations % threads;
    first = index * share + std::min(index, more);
    last = first + share + (index < more ? 1 : 0);
  } else {
    first = (loop.next * threads + index) * loop.chunk;
    last = std::min(first + loop.chunk, loop.iterations);
  }
  ++loop.next;
  if (first >= last) return false;
  *begin = loop.start + first * loop.step;
  *end = loop.start + last * loop.step;
  return true;
}

}  // namespace

extern "C" {

int onw_get_max_threads() { return onward::InRegion() ? 1 : onward::TeamSize(); }
int onw_get_num_threads() { return onward::ThreadsInTeam(); }
int onw_get_thread_num() { return onward::IndexInTeam(); }
int onw_in_parallel() { return onward::InRegion() ? 1 : 0; }

void ONWD_parallel_start(void (*body)(void*), void* data, unsigned threads) {
  onward::BeginRegion(threads == 0 ? onw_get_max_threads() : static_cast<int>(threads), body, data);
}
void ONWD_parallel_end() { onward::EndRegion(); }
void ONWD_barrier() { onward::TeamBarrier(); }

bool ONWD_loop_static_start(long start, long end, long step, long chunk, long* begin_here,
                            long* end_here) {
  const long span = step > 0 ? end - start + step - 1 : end - start + step + 1;
  loop = {start, step, std::max(0L, span / step), chunk, 0};
  return NextChunk(begin_here, end_here);
}
bool ONWD_loop_static_next(long* begin, long* end) { return NextChunk(begin, end); }
void ONWD_loop_end_nowait() {}

}  // extern "C"
