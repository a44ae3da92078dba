// Strategies: passes that place a replica's step on devices and let replicas talk.
//
// A strategy sees graphs only. It is one file, and one line in Place().
#ifndef ONWARD_STRATEGY_STRATEGY_H_
#define ONWARD_STRATEGY_STRATEGY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "graph/base/device.h"
#include "graph/base/shards.h"
#include "graph/ir/graph.h"
#include "graph/plan/planner.h"

namespace onward {

// How a global batch is laid out.
struct Placement {
  std::vector<Device> devices;
  int threads = 1;            // of all devices together
  int shards = 1;             // V >= devices: logical shards of the step's batch
  bool fixed_shards = false;  // --shards: each runs on one thread, so that bits do not
                              // depend on devices or threads
  int64_t bucket_bytes = 25 << 20;
};

// Gives the step of one replica for a shard of so many samples: forward, backward
// and update, with AllReduce nodes where values cross shards.
using ReplicaStep = std::function<absl::StatusOr<std::unique_ptr<Graph>>(int64_t samples)>;

// The step of one device without communication. REQUIRES: one device, one shard.
absl::StatusOr<ReplicatedStep> PlaceOnSingleDevice(const ReplicaStep& step, int64_t samples,
                                                   const Placement& placement);

// A clone of the step on every device, one all-reduce node per bucket over all of
// them, and as many shards per device as the placement says.
absl::StatusOr<ReplicatedStep> Mirror(const ReplicaStep& step, int64_t samples,
                                      const Placement& placement);

// The one that fits the placement.
absl::StatusOr<ReplicatedStep> Place(const ReplicaStep& step, int64_t samples,
                                     const Placement& placement);

// Collectives of a replica's step whose sums another collective is made from
// (synchronised statistics): the batch's shards meet there in the middle of the step.
absl::flat_hash_set<const Node*> MidStepCollectives(const Graph& graph);

// Joins neighbouring AllReduce nodes of a replica's step, in the order in which
// their inputs are made, into buckets of at least `bytes` (the first one a megabyte
// at most, so that transfer starts early), and numbers them. Those in the middle of
// the step travel apart from those at its end, and with one another only where
// nothing waits for the earlier one in between.
absl::Status FormBuckets(Graph* graph, int64_t bytes);

}  // namespace onward

#endif  // ONWARD_STRATEGY_STRATEGY_H_
