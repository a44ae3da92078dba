#include "graph/passes/cross_shards.h"

#include "graph/base/status_macros.h"
#include "graph/ir/builder.h"

namespace onward {
namespace {

absl::StatusOr<Value*> Reduce(Builder* b, Value* value) {
  const Operator* op = b->operators()->Find(kOnward, "AllReduce");
  b->SetPhase(Phase::kReduce);
  ASSIGN_OR_RETURN(Node * node, b->AddNode(op, {value}, {{"replicas", int64_t{1}}}));
  return node->output(0);
}

// Uses of a batch statistic in updates become uses of the combined one.
void RedirectUpdates(Graph* graph, Value* from, Value* to) {
  const std::vector<Use> uses = from->uses();
  for (const Use& use : uses) {
    if (use.kind == Use::Kind::kNode && use.node->phase == Phase::kUpdate) {
      graph->SetInput(use.node, use.index, to);
    }
  }
}

absl::Status CombineOne(Graph* graph, Builder* b, const Node& norm, const State& running_mean) {
  Value* mean = norm.output(1);
  Value* variance = norm.output(2);
  const Dims& x = norm.input(0)->dims();
  const double count = static_cast<double>(Elements(x)) / static_cast<double>(x[1]);
  b->SetPhase(Phase::kForward);
  Expr k = b->Wrap(running_mean.current);
  Expr shifted = b->Wrap(mean) - k;
  Expr sum = shifted * count;
  Expr squares = (b->Wrap(variance) + shifted * shifted) * count;
  Expr n = b->Scalar(mean->dtype(), count);
  RETURN_IF_ERROR(b->status());
  ASSIGN_OR_RETURN(Value * total_n, Reduce(b, n.value()));
  ASSIGN_OR_RETURN(Value * total_sum, Reduce(b, sum.value()));
  ASSIGN_OR_RETURN(Value * total_squares, Reduce(b, squares.value()));
  b->SetPhase(Phase::kReduce);
  Expr offset = b->Wrap(total_sum) / b->Wrap(total_n);
  Expr combined_mean = k + offset;
  Expr combined_variance = b->Wrap(total_squares) / b->Wrap(total_n) - offset * offset;
  RETURN_IF_ERROR(b->status());
  RedirectUpdates(graph, mean, combined_mean.value());
  RedirectUpdates(graph, variance, combined_variance.value());
  return absl::OkStatus();
}

// The state whose next value is made from the batch mean.
const State* RunningMeanOf(const Graph& graph, const Value* mean) {
  for (const auto& state : graph.states()) {
    if (state->kind != State::Kind::kStatistic || state->next == nullptr) continue;
    const Node* add = state->next->producer;
    for (int i = 0; add != nullptr && i < add->num_inputs(); ++i) {
      const Node* part = add->input(i)->producer;
      for (int k = 0; part != nullptr && k < part->num_inputs(); ++k) {
        if (part->input(k) == mean) return state.get();
      }
    }
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<std::vector<Value*>> ReduceAcrossShards(Graph* graph, const OperatorSet& operators,
                                                       absl::Span<Value* const> values) {
  Builder b(graph, &operators);
  std::vector<Value*> sums;
  for (Value* value : values) {
    ASSIGN_OR_RETURN(Value * sum, Reduce(&b, value));
    sums.push_back(sum);
  }
  return sums;
}

absl::Status CombineStatistics(Graph* graph, const OperatorSet& operators) {
  std::vector<Node*> norms;
  std::vector<Node*> updates;
  for (Node* node : graph->nodes()) {
    if (node->op().id() == "onward.BatchNormalizationTraining") norms.push_back(node);
    if (node->phase == Phase::kUpdate) updates.push_back(node);
  }
  Builder b(graph, &operators);
  for (Node* norm : norms) {
    const State* running_mean = RunningMeanOf(*graph, norm->output(1));
    if (running_mean == nullptr) continue;
    b.SetSource(norm->source);
    RETURN_IF_ERROR(Annotate(CombineOne(graph, &b, *norm, *running_mean), Describe(*norm)));
  }
  for (Node* update : updates) graph->Move(update, nullptr);
  return absl::OkStatus();
}

}  // namespace onward
