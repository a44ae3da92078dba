// Which gradients travel together.
#include <algorithm>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "graph/base/status_macros.h"
#include "graph/ir/builder.h"
#include "graph/ir/operator.h"
#include "strategy/strategy.h"

namespace onward {
namespace {

constexpr int64_t kFirstBucketBytes = 1 << 20;

// Moves a node and what depends on nothing but it... the replacement stands where
// its last input is made.
Node* LatestProducer(const std::vector<Value*>& values,
                     const absl::flat_hash_map<const Node*, int>& position) {
  Node* latest = nullptr;
  for (Value* v : values) {
    if (v->producer == nullptr) continue;
    if (latest == nullptr || position.at(v->producer) > position.at(latest)) latest = v->producer;
  }
  return latest;
}

absl::Status MakeBucket(Graph* graph, const std::vector<Node*>& nodes, int number,
                        const absl::flat_hash_map<const Node*, int>& position) {
  std::vector<Value*> inputs;
  std::vector<TensorType> types;
  std::vector<std::string> names;
  std::vector<Value*> old;
  for (Node* node : nodes) {
    for (int i = 0; i < node->num_inputs(); ++i) {
      inputs.push_back(node->input(i));
      types.push_back(node->input(i)->type);
      names.push_back(node->input(i)->name + "/sum");
      old.push_back(node->output(i));
    }
  }
  Node* latest = LatestProducer(inputs, position);
  Node* before = latest == nullptr ? graph->first() : latest->next();
  Node* made = graph->AddNode(before, &nodes[0]->op(), inputs, types, names,
                              {{"number", int64_t{number}}, {"replicas", int64_t{1}}});
  made->phase = Phase::kReduce;
  for (size_t i = 0; i < old.size(); ++i)
    graph->ReplaceUses(old[i], made->output(static_cast<int>(i)));
  for (Node* node : nodes) graph->Remove(node);
  return absl::OkStatus();
}

}  // namespace

absl::Status FormBuckets(Graph* graph, int64_t bytes) {
  absl::flat_hash_map<const Node*, int> position;
  int count = 0;
  for (Node* node : graph->nodes()) position[node] = count++;
  struct Ready {
    int at;
    Node* node;
    int64_t bytes;
  };
  std::vector<Ready> ready;
  for (Node* node : graph->nodes()) {
    if (!node->op().collective) continue;
    Ready r{0, node, 0};
    for (int i = 0; i < node->num_inputs(); ++i) {
      r.bytes += node->input(i)->type.bytes();
      if (node->input(i)->producer != nullptr) {
        r.at = std::max(r.at, position.at(node->input(i)->producer));
      }
    }
    ready.push_back(r);
  }
  std::stable_sort(ready.begin(), ready.end(),
                   [](const Ready& a, const Ready& b) { return a.at < b.at; });
  int number = 0;
  int64_t filled = 0;
  std::vector<Node*> bucket;
  for (size_t i = 0; i < ready.size(); ++i) {
    bucket.push_back(ready[i].node);
    filled += ready[i].bytes;
    const int64_t limit = number == 0 ? std::min(bytes, kFirstBucketBytes) : bytes;
    if (filled < limit && i + 1 < ready.size()) continue;
    RETURN_IF_ERROR(MakeBucket(graph, bucket, number++, position));
    bucket.clear();
    filled = 0;
  }
  return absl::OkStatus();
}

}  // namespace onward
