// States that the devices of one process keep once, instead of once each.
//
// Replicas make the same update from the same sums. Devices that share memory need not do
// it all each: of a parameter and its moments they keep one copy, and every device updates
// its part of the elements. The graph stays as it is, one state per replica: it is the plan
// that lets the copies share memory, because they are equal by construction.
#ifndef ONWARD_GRAPH_PLAN_SHARED_STATES_H_
#define ONWARD_GRAPH_PLAN_SHARED_STATES_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "graph/base/device.h"
#include "graph/ir/graph.h"

namespace onward {

struct SharedStates {
  absl::flat_hash_set<std::string> names;
  // Updates of which every device does its part.
  absl::flat_hash_set<const Node*> updates;
  // Who else reads what the updates overwrite for all devices. The last collective of the
  // step follows them, and the updates follow it: by then every device has read.
  absl::flat_hash_set<const Node*> readers;
};

// Of a graph with the clones of all `devices`. A state is shared where its next value comes
// from an operator that works by ranges of elements on a sum over the replicas, is read by
// nobody else, and the state itself is read by nodes before that sum alone.
SharedStates FindSharedStates(const Graph& graph, const std::vector<Device>& devices);

}  // namespace onward

#endif  // ONWARD_GRAPH_PLAN_SHARED_STATES_H_
