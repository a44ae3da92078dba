// What the executor's threads hold: everything bound that a lane of a device runs.
#ifndef ONWARD_BACKEND_RUNTIME_LANES_H_
#define ONWARD_BACKEND_RUNTIME_LANES_H_

#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "graph/plan/plan.h"
#include "kernels/kernel.h"
#include "kernels/threads/progress.h"

namespace onward {

struct BoundStep {
  // One per feed set where the step reads a feed, else one.
  std::vector<std::unique_ptr<BoundKernel>> kernels;
  bool collective = false;
  bool awaited = false;  // by a collective
  int wait = -1;         // step on the other stream
};

struct BoundProgram {
  std::vector<BoundStep> steps;
  bool has_collectives = false;  // which run beside it: not those between segments
};

// One entry of a lane, with what it needs at hand.
struct Task {
  const PlanEntry* entry;
  const PlanProgram* program;
  BoundProgram* bound;
  int begin;  // steps
  int end;
  int feed_slot;                                // of the shard, among those of its size
  std::vector<std::pair<void*, void*>> stores;  // crossing value -> partial memory
  std::vector<int64_t> store_bytes;
  struct Add {
    DataType dtype;
    void* to;
    const void* from;
    int64_t elements;
  };
  std::vector<Add> folds;
};

struct Lane {
  size_t index;  // among all
  int device;
  int lane;
  int threads;
  std::vector<Task> tasks;
  Progress arrived;      // segments whose part of the sums is ready
  Progress reduced;      // segments after which this lane has done its part of the sums
  Progress shards_done;  // 1 when all but the tail is done
  Progress finished;     // the generation that is finished
  absl::Status status;
  std::thread thread;
};

}  // namespace onward

#endif  // ONWARD_BACKEND_RUNTIME_LANES_H_
