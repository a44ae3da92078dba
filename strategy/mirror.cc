// A clone of the step on every device, with all-reduce between the clones.
#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "graph/base/status_macros.h"
#include "graph/ir/builder.h"
#include "graph/ir/operator.h"
#include "strategy/strategy.h"

namespace onward {
namespace {

// Copies nodes of one replica's step into the graph of all.
class Replica {
 public:
  Replica(const Graph& from, Graph* to, int number, const Device& device)
      : from_(from), to_(to), number_(number), device_(device), at_(from.first()) {}

  // The copy of a value that nodes before the copied ones make, or that none makes.
  Value* Copy(const Value* value) {
    if (value == nullptr) return nullptr;
    const auto it = copies_.find(value);
    if (it != copies_.end()) return it->second;
    Value* made = nullptr;
    switch (value->kind) {
      case Value::Kind::kInput:
        made = to_->AddInput(value->name, value->type, value->symbols);
        made->feed = value->feed.empty() ? value->name : value->feed;
        break;
      case Value::Kind::kConstant:
        made = to_->AddConstant(value->constant, value->name);
        break;
      case Value::Kind::kState: {
        const State& s = *value->state;
        State* state = to_->AddState(s.kind, s.name, value->type, s.initial, s.fill);
        state->replica = number_;
        made = state->current;
        break;
      }
      case Value::Kind::kResult:
        ONWARD_CHECK(false);
    }
    made->device = device_;
    copies_[value] = made;
    return made;
  }
  void SetCopy(const Value* value, Value* copy) { copies_[value] = copy; }
  bool Has(const Value* value) const { return copies_.contains(value); }

  void CopyNode(const Node& node) {
    std::vector<Value*> inputs;
    for (int i = 0; i < node.num_inputs(); ++i) inputs.push_back(Copy(node.input(i)));
    std::vector<TensorType> types;
    std::vector<std::string> names;
    for (int i = 0; i < node.num_outputs(); ++i) {
      types.push_back(node.output(i) == nullptr ? TensorType{} : node.output(i)->type);
      names.push_back(node.output(i) == nullptr ? "" : node.output(i)->name);
    }
    Node* made = to_->AddNode(nullptr, &node.op(), inputs, types, names, node.attributes);
    made->name = node.name;
    made->phase = node.phase;
    made->device = device_;
    made->ordinal = node.ordinal;
    made->source = node.source;
    for (int i = 0; i < node.num_outputs(); ++i) {
      if (node.output(i) != nullptr) copies_[node.output(i)] = made->output(i);
    }
  }

  // Copies up to the next collective, which it returns; null at the end.
  const Node* CopyToCollective() {
    for (; at_ != nullptr; at_ = at_->next()) {
      if (at_->op().collective) {
        const Node* collective = at_;
        at_ = at_->next();
        return collective;
      }
      CopyNode(*at_);
    }
    return nullptr;
  }

  void Finish() {
    for (const auto& state : from_.states()) {
      if (state->next == nullptr) continue;
      Value* current = Copy(state->current);
      to_->SetNext(current->state, Copy(state->next));
    }
    for (const Graph::Output& o : from_.outputs()) to_->AddOutput(o.name, Copy(o.value));
  }

  const Graph& from() const { return from_; }
  const Device& device() const { return device_; }

 private:
  const Graph& from_;
  Graph* to_;
  int number_;
  Device device_;
  Node* at_;
  absl::flat_hash_map<const Value*, Value*> copies_;
};

// One node over the replicas' collectives of the same number.
absl::Status JoinCollectives(const std::vector<const Node*>& nodes, std::vector<Replica>& replicas,
                             Graph* graph) {
  std::vector<Value*> inputs;
  std::vector<TensorType> types;
  std::vector<std::string> names;
  for (size_t r = 0; r < replicas.size(); ++r) {
    for (int i = 0; i < nodes[r]->num_inputs(); ++i) {
      if (nodes[r]->input(i)->type != nodes[0]->input(i)->type) {
        return absl::InternalError(
            absl::StrCat("replicas differ in what they reduce: ", nodes[r]->input(i)->name));
      }
      inputs.push_back(replicas[r].Copy(nodes[r]->input(i)));
      types.push_back(nodes[r]->input(i)->type);
      names.push_back(nodes[r]->output(i)->name);
    }
  }
  Node* made = graph->AddNode(nullptr, &nodes[0]->op(), inputs, types, names,
                              {{"number", nodes[0]->attributes.Int("number", 0)},
                               {"replicas", static_cast<int64_t>(replicas.size())}});
  made->phase = Phase::kReduce;
  int output = 0;
  for (size_t r = 0; r < replicas.size(); ++r) {
    for (int i = 0; i < nodes[r]->num_outputs(); ++i) {
      Value* value = made->output(output++);
      value->device = replicas[r].device();
      replicas[r].SetCopy(nodes[r]->output(i), value);
    }
  }
  return absl::OkStatus();
}

// One shard per device: whole clones side by side.
absl::StatusOr<std::unique_ptr<Graph>> CloneWhole(const std::vector<std::unique_ptr<Graph>>& steps,
                                                  const std::vector<Device>& devices) {
  auto graph = std::make_unique<Graph>();
  std::vector<Replica> replicas;
  for (size_t d = 0; d < devices.size(); ++d) {
    replicas.emplace_back(*steps[d], graph.get(), static_cast<int>(d), devices[d]);
  }
  for (;;) {
    std::vector<const Node*> nodes;
    for (Replica& r : replicas) nodes.push_back(r.CopyToCollective());
    const bool end = nodes[0] == nullptr;
    for (const Node* node : nodes) {
      if ((node == nullptr) != end || (!end && node->num_inputs() != nodes[0]->num_inputs())) {
        return absl::InternalError("replicas differ in their collectives");
      }
    }
    if (end) break;
    RETURN_IF_ERROR(JoinCollectives(nodes, replicas, graph.get()));
  }
  for (Replica& r : replicas) r.Finish();
  return graph;
}

// The collectives with which the shards' part of the step ends.
absl::flat_hash_set<const Node*> LastCollectives(const Graph& graph) {
  const absl::flat_hash_set<const Node*> mid = MidStepCollectives(graph);
  absl::flat_hash_set<const Node*> last;
  for (const Node* node : graph.nodes()) {
    if (node->op().collective && !mid.contains(node)) last.insert(node);
  }
  return last;
}

// Nodes behind one of those.
absl::flat_hash_map<const Node*, bool> NodesBehind(
    const Graph& graph, const absl::flat_hash_set<const Node*>& collectives) {
  absl::flat_hash_map<const Node*, bool> behind;
  for (const Node* node : graph.nodes()) {
    bool is = false;
    for (int i = 0; i < node->num_inputs() && !is; ++i) {
      const Value* v = node->input(i);
      is = v != nullptr && v->producer != nullptr &&
           (collectives.contains(v->producer) || behind[v->producer]);
    }
    behind[node] = is;
  }
  return behind;
}

// The part of a step up to its last collectives, whose inputs become outputs. Those in
// the middle of the step stay: there the shards wait for one another.
absl::StatusOr<std::unique_ptr<Graph>> Head(const Graph& step) {
  const absl::flat_hash_set<const Node*> last = LastCollectives(step);
  auto behind = NodesBehind(step, last);
  auto graph = std::make_unique<Graph>();
  Replica replica(step, graph.get(), 0, Device{});
  int crossing = 0;
  for (const Node* node : step.nodes()) {
    if (last.contains(node)) {
      for (int i = 0; i < node->num_inputs(); ++i) {
        graph->AddOutput(node->input(i)->name, replica.Copy(node->input(i)), crossing++);
      }
    } else if (!behind[node]) {
      replica.CopyNode(*node);
    }
  }
  return graph;
}

const Value* FirstOutput(const Node& node) {
  for (int i = 0; i < node.num_outputs(); ++i) {
    if (node.output(i) != nullptr) return node.output(i);
  }
  return nullptr;
}

// Copies what makes `value` into a tail. Behind a collective, or made from states
// and constants alone: nothing of a shard may pass.
absl::Status Pull(const Value* value, Replica* replica) {
  if (value == nullptr || replica->Has(value)) return absl::OkStatus();
  if (value->kind == Value::Kind::kInput && (value->rank() > 0)) {
    return absl::InternalError(
        absl::StrCat("'", value->name, "' is needed behind the sum over shards"));
  }
  if (value->producer == nullptr) {
    replica->Copy(value);
    return absl::OkStatus();
  }
  // An explicit stack: chains may be long.
  std::vector<const Node*> stack = {value->producer};
  while (!stack.empty()) {
    const Node* node = stack.back();
    if (replica->Has(FirstOutput(*node))) {
      stack.pop_back();
      continue;
    }
    bool ready = true;
    for (int i = 0; i < node->num_inputs(); ++i) {
      const Value* v = node->input(i);
      if (v == nullptr || replica->Has(v)) continue;
      if (v->kind == Value::Kind::kInput && v->rank() > 0) {
        return absl::InternalError(
            absl::StrCat("'", v->name, "' is needed behind the sum over shards"));
      }
      if (v->producer != nullptr) {
        if (v->producer->op().collective) {
          return absl::InternalError(
              absl::StrCat("'", v->name, "' is needed behind the last sum over shards"));
        }
        stack.push_back(v->producer);
        ready = false;
      }
    }
    if (ready) {
      replica->CopyNode(*node);
      stack.pop_back();
    }
  }
  return absl::OkStatus();
}

// The part behind the collectives, on every device.
absl::StatusOr<std::unique_ptr<Graph>> Tails(const Graph& step,
                                             const std::vector<Device>& devices) {
  auto graph = std::make_unique<Graph>();
  std::vector<Replica> replicas;
  for (size_t d = 0; d < devices.size(); ++d) {
    replicas.emplace_back(step, graph.get(), static_cast<int>(d), devices[d]);
  }
  int crossing = 0;
  const absl::flat_hash_set<const Node*> last = LastCollectives(step);
  for (const Node* node : step.nodes()) {
    if (!last.contains(node)) continue;
    for (Replica& replica : replicas) {
      for (int i = 0; i < node->num_inputs(); ++i) {
        const Value* v = node->input(i);
        Value* in = graph->AddInput(v->name, v->type);
        in->device = replica.device();
        in->crossing = crossing + i;
        replica.SetCopy(v, in);
      }
    }
    RETURN_IF_ERROR(
        JoinCollectives(std::vector<const Node*>(replicas.size(), node), replicas, graph.get()));
    // What crosses is not to be read past the collective in its unreduced form.
    crossing += node->num_inputs();
  }
  for (Replica& replica : replicas) {
    for (const auto& state : step.states()) {
      if (state->next != nullptr) RETURN_IF_ERROR(Pull(state->next, &replica));
    }
    for (const Graph::Output& o : step.outputs()) RETURN_IF_ERROR(Pull(o.value, &replica));
    replica.Finish();
  }
  return graph;
}

}  // namespace

absl::StatusOr<ReplicatedStep> Mirror(const ReplicaStep& step, int64_t samples,
                                      const Placement& placement) {
  const int devices = static_cast<int>(placement.devices.size());
  ReplicatedStep out;
  out.shard_sizes = ShardSizes(samples, placement.shards);
  for (int s = 0; s < placement.shards; ++s) {
    out.device_of_shard.push_back(static_cast<int>(int64_t{s} * devices / placement.shards));
  }
  const int threads = std::max(1, placement.threads / devices);
  for (const Device& d : placement.devices) {
    out.devices.push_back(
        {d, placement.fixed_shards ? threads : 1, placement.fixed_shards ? 1 : threads});
  }
  const auto bucketed = [&](int64_t size) -> absl::StatusOr<std::unique_ptr<Graph>> {
    ASSIGN_OR_RETURN(std::unique_ptr<Graph> graph, step(size));
    RETURN_IF_ERROR(FormBuckets(graph.get(), placement.bucket_bytes));
    return graph;
  };
  if (placement.shards == devices && !placement.fixed_shards) {
    std::vector<std::unique_ptr<Graph>> steps;
    for (int d = 0; d < devices; ++d) {
      ASSIGN_OR_RETURN(std::unique_ptr<Graph> graph, bucketed(out.shard_sizes[d]));
      steps.push_back(std::move(graph));
    }
    ASSIGN_OR_RETURN(out.graph, CloneWhole(steps, placement.devices));
    return out;
  }
  for (int64_t size : out.shard_sizes) {
    const bool known = std::any_of(out.shard_graphs.begin(), out.shard_graphs.end(),
                                   [&](const auto& entry) { return entry.first == size; });
    if (known) continue;
    ASSIGN_OR_RETURN(std::unique_ptr<Graph> whole, bucketed(size));
    ASSIGN_OR_RETURN(std::unique_ptr<Graph> head, Head(*whole));
    out.shard_graphs.emplace_back(size, std::move(head));
    if (out.graph == nullptr) {
      ASSIGN_OR_RETURN(out.graph, Tails(*whole, placement.devices));
    }
  }
  return out;
}

absl::StatusOr<ReplicatedStep> Place(const ReplicaStep& step, int64_t samples,
                                     const Placement& placement) {
  const bool single = placement.devices.size() == 1 && placement.shards == 1;
  return single ? PlaceOnSingleDevice(step, samples, placement) : Mirror(step, samples, placement);
}

}  // namespace onward
