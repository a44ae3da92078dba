// Which gradients travel together.
#include <algorithm>
#include <limits>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "graph/base/status_macros.h"
#include "graph/ir/builder.h"
#include "graph/ir/operator.h"
#include "strategy/strategy.h"

namespace onward {
namespace {

constexpr int64_t kFirstBucketBytes = 1 << 20;

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
  // Behind the buckets that stand there: collectives keep their order.
  while (before != nullptr && before->op().collective) before = before->next();
  Node* made = graph->AddNode(before, &nodes[0]->op(), inputs, types, names,
                              {{"number", int64_t{number}}, {"replicas", int64_t{1}}});
  made->phase = Phase::kReduce;
  for (size_t i = 0; i < old.size(); ++i)
    graph->ReplaceUses(old[i], made->output(static_cast<int>(i)));
  for (Node* node : nodes) graph->Remove(node);
  return absl::OkStatus();
}

}  // namespace

absl::flat_hash_set<const Node*> MidStepCollectives(const Graph& graph) {
  absl::flat_hash_set<const Node*> mid;
  absl::flat_hash_set<const Node*> leads;  // to a collective, or is one
  for (const Node* node = graph.last(); node != nullptr; node = node->previous()) {
    bool leads_on = false;
    for (int i = 0; i < node->num_outputs() && !leads_on; ++i) {
      if (node->output(i) == nullptr) continue;
      for (const Use& use : node->output(i)->uses()) {
        leads_on |= use.kind == Use::Kind::kNode && leads.contains(use.node);
      }
    }
    if (node->op().collective && leads_on) mid.insert(node);
    if (node->op().collective || leads_on) leads.insert(node);
  }
  return mid;
}

namespace {

// A collective, where its inputs are all made, and where the first reader stands.
struct Ready {
  int at = 0;
  int read = 0;
  Node* node = nullptr;
  int64_t bytes = 0;
  bool mid = false;
};

struct Bucket {
  std::vector<Node*> nodes;
  int64_t bytes = 0;
  int read = std::numeric_limits<int>::max();
};

std::vector<Ready> InOrderOfMaking(Graph* graph,
                                   const absl::flat_hash_map<const Node*, int>& position) {
  const absl::flat_hash_set<const Node*> mid = MidStepCollectives(*graph);
  std::vector<Ready> ready;
  for (Node* node : graph->nodes()) {
    if (!node->op().collective) continue;
    Ready r;
    r.node = node;
    r.mid = mid.contains(node);
    r.read = static_cast<int>(position.size());
    for (int i = 0; i < node->num_inputs(); ++i) {
      r.bytes += node->input(i)->type.bytes();
      if (node->input(i)->producer != nullptr) {
        r.at = std::max(r.at, position.at(node->input(i)->producer));
      }
    }
    for (int i = 0; i < node->num_outputs(); ++i) {
      for (const Use& use : node->output(i)->uses()) {
        if (use.kind == Use::Kind::kNode) r.read = std::min(r.read, position.at(use.node));
      }
    }
    ready.push_back(r);
  }
  std::stable_sort(ready.begin(), ready.end(),
                   [](const Ready& a, const Ready& b) { return a.at < b.at; });
  return ready;
}

}  // namespace

absl::Status FormBuckets(Graph* graph, int64_t bytes) {
  absl::flat_hash_map<const Node*, int> position;
  int count = 0;
  for (Node* node : graph->nodes()) position[node] = count++;
  const std::vector<Ready> ready = InOrderOfMaking(graph, position);
  int number = 0;
  // Of those at the end of the step, and of those in its middle: the former wait while
  // the latter pass.
  Bucket end, mid;
  const auto close = [&](Bucket* bucket) -> absl::Status {
    if (bucket->nodes.empty()) return absl::OkStatus();
    RETURN_IF_ERROR(MakeBucket(graph, bucket->nodes, number++, position));
    *bucket = Bucket();
    return absl::OkStatus();
  };
  bool first = true;
  for (const Ready& r : ready) {
    Bucket& bucket = r.mid ? mid : end;
    if (r.at >= bucket.read) RETURN_IF_ERROR(close(&bucket));
    bucket.nodes.push_back(r.node);
    bucket.bytes += r.bytes;
    bucket.read = std::min(bucket.read, r.read);
    if (r.mid || bucket.bytes < (first ? std::min(bytes, kFirstBucketBytes) : bytes)) continue;
    first = false;
    RETURN_IF_ERROR(close(&mid));  // it stands before
    RETURN_IF_ERROR(close(&end));
  }
  RETURN_IF_ERROR(close(&mid));
  return close(&end);
}

}  // namespace onward
