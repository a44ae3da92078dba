#include "graph/passes/cross_shards.h"

#include "graph/base/status_macros.h"
#include "graph/ir/builder.h"

namespace onward {
namespace {

absl::StatusOr<Value*> Reduce(Builder* b, Value* value) {
  const Operator* op = b->operators()->Find(kOnward, "AllReduce");
  b->SetPhase(Phase::kReduce);
  // Halves are added in float32, and rounded once.
  const DataType type = value->dtype();
  const bool half = type == DataType::kFloat16 || type == DataType::kBfloat16;
  Expr wide = half ? b->Cast(b->Wrap(value), DataType::kFloat32) : b->Wrap(value);
  RETURN_IF_ERROR(b->status());
  ASSIGN_OR_RETURN(Node * node, b->AddNode(op, {wide.value()}, {{"replicas", int64_t{1}}}));
  Expr sum = b->Cast(b->Wrap(node->output(0)), type);
  RETURN_IF_ERROR(b->status());
  return sum.value();
}

// Uses of a batch statistic in updates become uses of the combined one.
void RedirectUpdates(Graph* graph, Value* from, Value* to) {
  const std::vector<Use> uses(from->uses().begin(), from->uses().end());  // edited below
  for (const Use& use : uses) {
    if (use.kind == Use::Kind::kNode && use.node->phase == Phase::kUpdate) {
      graph->SetInput(use.node, use.index, to);
    }
  }
}

// What one normalisation sends across shards.
struct Statistics {
  const Node* norm = nullptr;
  const State* running_mean = nullptr;
  Value* count = nullptr;    // sum n_i
  Value* sum = nullptr;      // sum n_i (m_i - K)
  Value* squares = nullptr;  // sum n_i (v_i + (m_i - K)^2)
};

absl::Status SendStatistics(Builder* b, Statistics* s) {
  const Dims& x = s->norm->input(0)->dims();
  const double count = static_cast<double>(Elements(x)) / static_cast<double>(x[1]);
  Value* mean = s->norm->output(1);
  b->SetPhase(Phase::kForward);
  Expr shifted = b->Wrap(mean) - b->Wrap(s->running_mean->current);
  Expr sum = shifted * count;
  Expr squares = (b->Wrap(s->norm->output(2)) + shifted * shifted) * count;
  Expr n = b->Scalar(mean->dtype(), count);
  RETURN_IF_ERROR(b->status());
  ASSIGN_OR_RETURN(s->count, Reduce(b, n.value()));
  ASSIGN_OR_RETURN(s->sum, Reduce(b, sum.value()));
  ASSIGN_OR_RETURN(s->squares, Reduce(b, squares.value()));
  return absl::OkStatus();
}

absl::Status ReceiveStatistics(Graph* graph, Builder* b, const Statistics& s) {
  b->SetPhase(Phase::kReduce);
  Expr n = b->Wrap(s.count);
  Expr offset = b->Wrap(s.sum) / n;
  Expr mean = b->Wrap(s.running_mean->current) + offset;
  Expr variance = b->Wrap(s.squares) / n - offset * offset;
  RETURN_IF_ERROR(b->status());
  RedirectUpdates(graph, s.norm->output(1), mean.value());
  RedirectUpdates(graph, s.norm->output(2), variance.value());
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
  std::vector<Statistics> all;
  std::vector<Node*> updates;
  for (Node* node : graph->nodes()) {
    if (node->op().id() == "onward.BatchNormalizationTraining") {
      const State* running_mean = RunningMeanOf(*graph, node->output(1));
      if (running_mean != nullptr) all.push_back({node, running_mean});
    }
    if (node->phase == Phase::kUpdate) updates.push_back(node);
  }
  // All is sent before anything is received: what travels together must be ready
  // before its first reader.
  Builder b(graph, &operators);
  for (Statistics& s : all) {
    b.SetSource(s.norm->source);
    RETURN_IF_ERROR(Annotate(SendStatistics(&b, &s), Describe(*s.norm)));
  }
  for (const Statistics& s : all) {
    b.SetSource(s.norm->source);
    RETURN_IF_ERROR(Annotate(ReceiveStatistics(graph, &b, s), Describe(*s.norm)));
  }
  for (Node* update : updates) graph->Move(update, nullptr);
  return absl::OkStatus();
}

}  // namespace onward
