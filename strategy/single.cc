// One device, one shard: sums over replicas are what is summed.
#include "graph/base/status_macros.h"
#include "graph/ir/operator.h"
#include "strategy/strategy.h"

namespace onward {

absl::StatusOr<ReplicatedStep> PlaceOnSingleDevice(const ReplicaStep& step, int64_t samples,
                                                   const Placement& placement) {
  ONWARD_CHECK(placement.devices.size() == 1 && placement.shards == 1);
  ReplicatedStep out;
  out.devices = {{placement.devices[0], 1, placement.fixed_shards ? 1 : placement.threads}};
  out.shard_sizes = {samples};
  out.device_of_shard = {0};
  ASSIGN_OR_RETURN(out.graph, step(samples));
  for (Node* node = out.graph->first(); node != nullptr;) {
    Node* next = node->next();
    if (node->op().collective) {
      for (int i = 0; i < node->num_outputs(); ++i) {
        out.graph->ReplaceUses(node->output(i), node->input(i));
      }
      out.graph->Remove(node);
    }
    node = next;
  }
  for (const auto& v : out.graph->inputs()) v->device = placement.devices[0];
  for (const auto& s : out.graph->states()) s->current->device = placement.devices[0];
  for (Node* node : out.graph->nodes()) node->device = placement.devices[0];
  return out;
}

}  // namespace onward
