// Runs a plan.
#ifndef ONWARD_BACKEND_RUNTIME_EXECUTOR_H_
#define ONWARD_BACKEND_RUNTIME_EXECUTOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backend/runtime/state_store.h"
#include "backend/runtime/trace_event.h"
#include "graph/plan/plan.h"
#include "kernels/kernel.h"

namespace onward {

// Shall sums between devices be made by threads of their own, beside compute?
enum class CollectiveThreads { kWhereCoresAreFree, kAlways, kNever };

struct ExecutorOptions {
  // How many times every feed exists: one set may be filled while another is in use.
  int feed_sets = 2;
  // Memory of the caller's for the feed of a shard in a set, which must outlive the
  // executor; null: the executor takes its own.
  std::function<void*(const std::string& feed, int shard, int set)> feed_memory;
  CollectiveThreads collective_threads = CollectiveThreads::kWhereCoresAreFree;
};

// A scalar feed (the learning rate) with all its places, found once.
class ScalarFeed {
 public:
  // Writes `number` to the feed's places in `set`, in its type.
  void Set(double number, int set) const;

 private:
  friend class Executor;
  struct Place {
    DataType dtype;
    int set;
    void* data;
  };
  std::vector<Place> places_;
};

// Everything bound: memory, kernels, threads. A device has one host thread per lane
// and, where it takes part in collectives and cores are free, one for those; the first lane of all
// runs on the thread that calls Run. A step allocates nothing, takes no lock between kernels and
// looks nothing up.
class Executor {
 public:
  // The store must hold the plan's states (StateStore::Add) and, like the table,
  // outlive the executor; the plan is taken over.
  static absl::StatusOr<std::unique_ptr<Executor>> Create(Plan plan, const KernelTable& kernels,
                                                          StateStore* states,
                                                          ExecutorOptions options = {});
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  const Plan& plan() const;

  // Memory that it holds, each piece rounded up to 64 bytes: arenas, partial sums,
  // constants, outputs, and feeds that are not the caller's. States are the store's.
  int64_t bytes() const;

  // Where feed `name` of a shard is to be written, plain layout. Null data where the
  // plan does not read it. A feed that does not belong to a shard (the learning rate)
  // has a place on every device: see Scalar.
  TensorView Feed(const std::string& name, int shard, int set) const;

  // A scalar feed on every device, or that of one shard; with no place where the plan
  // does not read it. Outlived by the executor.
  ScalarFeed Scalar(const std::string& name) const;
  ScalarFeed ShardScalar(const std::string& name, int shard) const;

  // One step over all shards. An error is one of data; the states are then those of
  // no step and must not be saved.
  absl::Status Run(int set);

  // Where the last step's output lies, plain layout: the same place for every step. Null
  // data where the plan has none of that name on the device.
  TensorView Output(const std::string& name, int device = 0) const;

  // Starts and stops recording; returns what was recorded. Memory is taken beforehand.
  void StartTrace(int64_t most_events);
  std::vector<TraceEvent> StopTrace();

 private:
  class Machine;
  explicit Executor(std::unique_ptr<Machine> machine);
  std::unique_ptr<Machine> machine_;
};

}  // namespace onward

#endif  // ONWARD_BACKEND_RUNTIME_EXECUTOR_H_
