#include "graph/passes/autodiff.h"

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "graph/base/errors.h"
#include "graph/base/status_macros.h"
#include "graph/ir/builder.h"

namespace onward {
namespace {

using ValueSet = absl::flat_hash_set<const Value*>;

// Values that depend on a target through differentiable nodes.
ValueSet DependOn(const Graph& graph, absl::Span<Value* const> targets) {
  ValueSet active(targets.begin(), targets.end());
  for (Node* node : graph.nodes()) {
    if (node->op().gradients == Operator::Gradients::kNone) continue;
    bool any = false;
    for (int i = 0; i < node->num_inputs() && !any; ++i) any = active.contains(node->input(i));
    if (!any) continue;
    for (int i = 0; i < node->num_outputs(); ++i) {
      if (node->output(i) != nullptr && IsFloating(node->output(i)->dtype())) {
        active.insert(node->output(i));
      }
    }
  }
  return active;
}

// Replaces nodes between targets and seeds that have no rule of their own by
// their lowerings, until all have one.
absl::Status LowerWhereNoRule(Graph* graph, const OperatorSet& operators,
                              absl::Span<const GradientSeed> seeds,
                              absl::Span<Value* const> targets) {
  // A lowering makes at most as many levels as there are operators defined by
  // others; 32 is far above any and stops one that makes itself.
  for (int round = 0; round < 32; ++round) {
    const ValueSet active = DependOn(*graph, targets);
    bool changed = false;
    for (Node* node = graph->first(); node != nullptr;) {
      Node* next = node->next();
      bool on_way = false;
      for (int i = 0; i < node->num_outputs(); ++i) on_way |= active.contains(node->output(i));
      const bool no_rule = node->op().gradients == Operator::Gradients::kUnstated;
      if (on_way && (no_rule || node->op().always_lower)) {
        if (!node->op().lower) {
          return WithExitCode(
              absl::UnimplementedError(absl::StrCat(Describe(*node), ": operator ", node->op().id(),
                                                    " has no gradient")),
              ExitCode::kUntrainable);
        }
        // LowerNode moves uses; a seed that is only pointed at would dangle.
        for (const GradientSeed& seed : seeds) {
          if (seed.y->producer == node) {
            return absl::InternalError("a seed must be made by an operator with a gradient");
          }
        }
        RETURN_IF_ERROR(LowerNode(graph, &operators, node));
        changed = true;
      }
      node = next;
    }
    if (!changed) return absl::OkStatus();
  }
  return absl::InternalError("lowerings do not end");
}

class ReverseWalk {
 public:
  ReverseWalk(Graph* graph, const OperatorSet& operators, ValueSet active)
      : builder_(graph, &operators), active_(std::move(active)) {
    builder_.SetPhase(Phase::kBackward);
    builder_.SetScope("grad");
  }

  void Add(const Value* value, Expr gradient) {
    if (gradient) parts_[value].push_back(gradient);
  }
  void Add(const Value* value, Value* gradient) { Add(value, builder_.Wrap(gradient)); }

  // The sum of all that was added; empty where nothing was.
  Expr Total(const Value* value) {
    const auto it = parts_.find(value);
    if (it == parts_.end()) return Expr();
    Expr sum = it->second[0];
    for (size_t i = 1; i < it->second.size(); ++i) sum = sum + it->second[i];
    it->second = {sum};
    return sum;
  }

  absl::Status Through(Node* node) {
    std::vector<Expr> dy;
    bool any = false;
    for (int i = 0; i < node->num_outputs(); ++i) {
      dy.push_back(node->output(i) == nullptr ? Expr() : Total(node->output(i)));
      any |= static_cast<bool>(dy.back());
    }
    std::vector<bool> wanted;
    bool wants = false;
    for (int i = 0; i < node->num_inputs(); ++i) {
      const Value* x = node->input(i);
      wanted.push_back(x != nullptr && active_.contains(x));
      wants |= wanted.back();
    }
    if (!any || !wants || node->op().gradients == Operator::Gradients::kNone) {
      return builder_.status();
    }
    builder_.SetSource(node->name.empty() ? node->source : node->name);
    GradientContext context(&builder_, node, std::move(dy), wanted);
    RETURN_IF_ERROR(Annotate(node->op().gradient(context), Describe(*node)));
    RETURN_IF_ERROR(Annotate(builder_.status(), absl::StrCat("gradient of ", Describe(*node))));
    for (int i = 0; i < node->num_inputs(); ++i) {
      if (!wanted[i]) continue;
      Expr gradient = context.result()[i];
      if (gradient) Add(node->input(i), builder_.SumTo(gradient, node->input(i)->dims()));
    }
    return builder_.status();
  }

 private:
  Builder builder_;
  ValueSet active_;
  absl::flat_hash_map<const Value*, std::vector<Expr>> parts_;
};

}  // namespace

absl::StatusOr<std::vector<Value*>> AppendGradients(Graph* graph, const OperatorSet& operators,
                                                    absl::Span<const GradientSeed> seeds,
                                                    absl::Span<Value* const> targets) {
  RETURN_IF_ERROR(LowerWhereNoRule(graph, operators, seeds, targets));
  ReverseWalk walk(graph, operators, DependOn(*graph, targets));
  for (const GradientSeed& seed : seeds) walk.Add(seed.y, seed.dy);
  // Nodes are appended while we walk: start from what is last now.
  for (Node* node = graph->last(); node != nullptr; node = node->previous()) {
    RETURN_IF_ERROR(walk.Through(node));
  }
  std::vector<Value*> gradients;
  for (Value* target : targets) gradients.push_back(walk.Total(target).value());
  return gradients;
}

}  // namespace onward
