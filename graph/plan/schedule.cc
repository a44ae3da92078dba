#include "graph/plan/schedule.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "graph/ir/operator.h"

namespace onward {
namespace {

bool BroughtForward(const Node& node) {
  return node.phase == Phase::kUpdate || node.phase == Phase::kReduce ||
         node.phase == Phase::kMetric || node.op().collective;
}

}  // namespace

const Device& DeviceOf(const Value& value) {
  return value.producer == nullptr || value.producer->op().collective ? value.device
                                                                      : value.producer->device;
}

bool RunsOn(const Node& node, const Device& device) {
  if (!node.op().collective) return node.device == device;
  for (int i = 0; i < node.num_inputs(); ++i) {
    if (node.input(i) != nullptr && DeviceOf(*node.input(i)) == device) return true;
  }
  return false;
}

std::vector<Node*> Schedule(const Graph& graph, const Device& device, const SharedStates& shared) {
  // Position of a node in the graph, and the earliest place at which it may run.
  absl::flat_hash_map<const Node*, int> position;
  absl::flat_hash_map<const Node*, int> place;
  int count = 0;
  const Node* last = nullptr;  // collective
  for (Node* node : graph.nodes()) {
    position[node] = count++;
    if (node->op().collective) last = node;
  }
  int last_read = 0;
  for (const Node* reader : shared.readers) {
    const auto it = position.find(reader);
    if (it != position.end()) last_read = std::max(last_read, it->second);
  }

  // Which state a node's output is the next of: it must follow all who read the
  // current one, for it may overwrite it.
  absl::flat_hash_map<const Node*, std::vector<const State*>> writes;
  for (const auto& state : graph.states()) {
    if (state->next != nullptr && state->next->producer != nullptr) {
      writes[state->next->producer].push_back(state.get());
    }
  }

  struct Entry {
    int place;
    int position;
    Node* node;
  };
  std::vector<Entry> entries;
  int last_collective = 0;
  // Nodes that need the result of a gradient's collective: running them at once
  // would stop backward until the transfer is done, so they follow it.
  absl::flat_hash_map<const Node*, bool> behind;
  for (Node* node : graph.nodes()) {
    int at = position[node];
    if (BroughtForward(*node)) {
      at = 0;
      for (int i = 0; i < node->num_inputs(); ++i) {
        const Value* v = node->input(i);
        if (v == nullptr || v->producer == nullptr) continue;
        at = std::max(at, place.at(v->producer));
        if (!node->op().collective && (v->producer->op().collective || behind[v->producer])) {
          behind[node] = true;
        }
      }
      if (behind[node]) at = std::max(at, count);
      const auto it = writes.find(node);
      if (it != writes.end()) {
        for (const State* state : it->second) {
          for (const Use& use : state->current->uses()) {
            if (use.kind == Use::Kind::kNode && use.node != node) {
              const auto seen = place.find(use.node);
              at = std::max(at, seen != place.end() ? seen->second : position[use.node]);
            }
          }
        }
      }
      if (node->op().collective) {
        at = std::max({at, last_collective, node == last ? last_read : 0});
        last_collective = at;
      }
    }
    place[node] = at;
    if (RunsOn(*node, device)) entries.push_back({at, position[node], node});
  }
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.place != b.place ? a.place < b.place : a.position < b.position;
  });
  std::vector<Node*> order;
  order.reserve(entries.size());
  for (const Entry& e : entries) order.push_back(e.node);
  return order;
}

}  // namespace onward
