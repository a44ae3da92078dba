// From a replicated graph to a plan.
#ifndef ONWARD_GRAPH_PLAN_PLANNER_H_
#define ONWARD_GRAPH_PLAN_PLANNER_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "graph/base/kernel_call.h"
#include "graph/ir/graph.h"
#include "graph/ir/operator.h"
#include "graph/plan/plan.h"

namespace onward {

// What a plan asks of the layer below. Handed in by the backend.
struct KernelChoice {
  std::string kernel;
  bool reference = false;
  KernelNeeds needs;
};
class KernelOracle {
 public:
  virtual ~KernelOracle() = default;
  // The first row that accepts; Unimplemented with every refusal's reason.
  virtual absl::StatusOr<KernelChoice> Choose(const Device& device,
                                              const KernelCall& call) const = 0;
};

// A device, and how its threads are shared out.
struct DeviceShare {
  Device device;
  int lanes = 1;
  int threads_per_lane = 1;
};

// What a strategy hands to the planner: graphs of one process, and which shards
// each device runs.
struct ReplicatedStep {
  std::vector<DeviceShare> devices;
  std::vector<int64_t> shard_sizes;  // of all shards of the global batch, in order
  std::vector<int> device_of_shard;  // contiguous and ascending
  // One shard per device: one graph with the clones of all devices, collectives
  // between them.
  std::unique_ptr<Graph> graph;
  // Several shards on a device: per distinct shard size the part of the step up to
  // the values that cross shards (outputs with a crossing number), for one replica;
  // and in `graph` the tails of all devices, which read them as inputs of that number.
  std::vector<std::pair<int64_t, std::unique_ptr<Graph>>> shard_graphs;
};

// Layouts in which states are kept already, by logical name: the first training
// plan fixes them, and later plans take them as given.
using StateLayouts = absl::flat_hash_map<std::string, Layout>;

// Schedules each device's nodes, chooses kernels and layouts, lets buffers share
// memory, and lays them out in arenas. Unimplemented, naming the node, where a
// device has no kernel for it. `layouts` is read and extended.
absl::StatusOr<Plan> MakePlan(const ReplicatedStep& step, const KernelOracle& kernels,
                              StateLayouts* layouts);

}  // namespace onward

#endif  // ONWARD_GRAPH_PLAN_PLANNER_H_
