// The order in which a device runs its nodes.
#ifndef ONWARD_GRAPH_PLAN_SCHEDULE_H_
#define ONWARD_GRAPH_PLAN_SCHEDULE_H_

#include <vector>

#include "graph/base/device.h"
#include "graph/ir/graph.h"
#include "graph/plan/shared_states.h"

namespace onward {

// Nodes of `device` (and collectives that reach it) in an order that keeps the
// graph's, but brings forward what frees memory or starts a transfer: a parameter
// is updated as soon as its gradient is there and nothing else reads its current
// value; a collective is issued as soon as its inputs are there; metrics follow
// what they read. Collectives keep the graph's order among themselves, and the last one
// follows the readers of shared states.
// O(n log n) in nodes.
std::vector<Node*> Schedule(const Graph& graph, const Device& device, const SharedStates& shared);

// Where a value lies. The results of a collective lie on several devices.
const Device& DeviceOf(const Value& value);

// Does the node run on the device? A collective runs on every device of its values.
bool RunsOn(const Node& node, const Device& device);

}  // namespace onward

#endif  // ONWARD_GRAPH_PLAN_SCHEDULE_H_
