#include "graph/passes/sample_axis.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/base/errors.h"
#include "graph/ir/builder.h"

namespace onward {
namespace {

// The axis of a broadcast input, counted in the result.
SampleAxis Elementwise(const Node& node, absl::Span<const SampleAxis> inputs) {
  const int rank = node.output(0) == nullptr ? 0 : node.output(0)->rank();
  SampleAxis result;
  for (int i = 0; i < node.num_inputs(); ++i) {
    if (node.input(i) == nullptr || inputs[i].kind == SampleAxis::Kind::kNone) continue;
    if (inputs[i].kind == SampleAxis::Kind::kMixed) return inputs[i];
    SampleAxis moved = inputs[i];
    moved.axis += rank - node.input(i)->rank();
    if (result.kind == SampleAxis::Kind::kNone) {
      result = moved;
    } else if (!(result == moved)) {
      return SampleAxis::Mixed();
    }
  }
  return result;
}

SampleAxis AxisOf(const Node& node, absl::Span<const SampleAxis> inputs, int output) {
  // Sums over shards are the same in all of them, whatever a shard's part is made of.
  if (node.op().collective) return SampleAxis::None();
  bool any = false;
  for (const SampleAxis& a : inputs) {
    if (a.kind == SampleAxis::Kind::kMixed) return a;
    any |= a.kind != SampleAxis::Kind::kNone;
  }
  if (!any) return SampleAxis::None();
  if (node.op().sample_axis) return node.op().sample_axis(node, inputs, output);
  if (node.op().elementwise) return Elementwise(node, inputs);
  return SampleAxis::Mixed();
}

}  // namespace

SampleAxes FindSampleAxes(const Graph& graph) {
  SampleAxes axes;
  for (const auto& v : graph.inputs()) {
    axes[v.get()] = v->rank() == 0 ? SampleAxis::None() : SampleAxis::Axis(0);
  }
  for (const Node* node : graph.nodes()) {
    std::vector<SampleAxis> inputs;
    for (int i = 0; i < node->num_inputs(); ++i) {
      const auto it = axes.find(node->input(i));
      inputs.push_back(it == axes.end() ? SampleAxis::None() : it->second);
    }
    for (int i = 0; i < node->num_outputs(); ++i) {
      if (node->output(i) != nullptr) axes[node->output(i)] = AxisOf(*node, inputs, i);
    }
  }
  return axes;
}

absl::Status CheckSplittable(const Graph& graph, const Value* value) {
  const SampleAxes axes = FindSampleAxes(graph);
  absl::flat_hash_map<const Node*, bool> needed;
  if (value->producer != nullptr) needed[value->producer] = true;
  for (const Node* node = graph.last(); node != nullptr; node = node->previous()) {
    if (!needed[node]) continue;
    for (int i = 0; i < node->num_inputs(); ++i) {
      const Value* v = node->input(i);
      if (v != nullptr && v->producer != nullptr) needed[v->producer] = true;
    }
  }
  for (const Node* node : graph.nodes()) {
    if (!needed[node]) continue;
    bool mixed = false;
    for (int i = 0; i < node->num_outputs(); ++i) {
      const Value* v = node->output(i);
      if (v == nullptr || v == value || v->uses().empty()) continue;
      if (node->op().id() == "onward.BatchNormalizationTraining" && i > 0) continue;
      mixed |= axes.at(v).kind == SampleAxis::Kind::kMixed;
    }
    if (!mixed) continue;
    return WithExitCode(
        absl::UnimplementedError(absl::StrCat(
            Describe(*node),
            ": mixes the samples of a batch, so the batch cannot be split over several devices or "
            "shards; train with one device and without --shards and --accumulate")),
        ExitCode::kUntrainable);
  }
  return absl::OkStatus();
}

}  // namespace onward
