#include "graph/plan/shared_states.h"

#include <algorithm>

#include "graph/ir/operator.h"

namespace onward {
namespace {

// Forward and backward nodes never follow a sum of gradients.
bool PrecedesSums(const Node& node) {
  return node.phase == Phase::kForward || node.phase == Phase::kLoss ||
         node.phase == Phase::kBackward;
}

// The state whose copies the devices may share, of which `node` makes the next value from
// input `i`; null where it is none.
const State* SharedAt(const Node& node, int i) {
  const Value* current = node.input(i);
  if (current == nullptr || current->state == nullptr) return nullptr;
  const State* state = current->state;
  const Value* next = state->next;
  if (next == nullptr || next->producer != &node || next->uses().size() != 1) return nullptr;
  for (const Use& use : current->uses()) {
    if (use.kind != Use::Kind::kNode) return nullptr;
    if (use.node != &node && !PrecedesSums(*use.node)) return nullptr;
  }
  return state;
}

// Does the node work by ranges, on states that may be shared and on sums?
bool UpdatesFromSum(const Node& node) {
  bool sum = false;
  for (int i = 0; i < node.op().range_inputs; ++i) {
    const Value* v = node.input(i);
    if (v == nullptr || SharedAt(node, i) != nullptr) continue;
    if (v->producer == nullptr || !v->producer->op().collective) return false;
    sum = true;
  }
  return sum;
}

}  // namespace

SharedStates FindSharedStates(const Graph& graph, const std::vector<Device>& devices) {
  SharedStates shared;
  const bool one_memory = std::all_of(devices.begin(), devices.end(),
                                      [](const Device& d) { return d.kind == Device::Kind::kCpu; });
  if (devices.size() < 2 || !one_memory) return shared;
  for (Node* node : graph.nodes()) {
    if (!UpdatesFromSum(*node)) continue;
    shared.updates.insert(node);
    for (int i = 0; i < node->op().range_inputs; ++i) {
      const State* state = SharedAt(*node, i);
      if (state == nullptr) continue;
      shared.names.insert(state->name);
      for (const Use& use : state->current->uses()) {
        if (use.node != node) shared.readers.insert(use.node);
      }
    }
  }
  return shared;
}

}  // namespace onward
