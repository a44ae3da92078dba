#include "graph/passes/optimizer.h"

#include "absl/strings/str_cat.h"
#include "graph/base/status_macros.h"
#include "graph/ir/builder.h"
#include "graph/passes/training_mode.h"

namespace onward {
namespace {

// What every gradient is multiplied by so that their common norm is at most
// `clip`. PyTorch: min(1, clip / (norm + 1e-6)); Keras: clip / max(norm, clip).
Expr ClipScale(Builder* b, const OptimizerSpec& spec, double clip,
               absl::Span<const TrainedParameter> parameters, Value* denominator) {
  Expr squares;
  for (const TrainedParameter& p : parameters) {
    Expr g = b->Wrap(p.gradient);
    Expr own = b->Op("ReduceSumSquare", {g}, {{"keepdims", int64_t{0}}});
    squares = squares ? squares + own : own;
  }
  Expr norm = b->Op("Sqrt", {squares});
  // An empty batch has the denominator 0 and gradients 0.
  if (denominator != nullptr) {
    norm = norm / b->Op("Max", {b->Cast(b->Wrap(denominator), norm.dtype()),
                                b->Scalar(norm.dtype(), 1e-30)});
  }
  if (spec.formula == FormulaOf::kKeras) return clip / b->Op("Max", {norm, b->Like(norm, clip)});
  return b->Op("Min", {clip / (norm + 1e-6), b->Like(norm, 1)});
}

}  // namespace

absl::Status AttachOptimizer(Graph* graph, const OperatorSet& operators, const OptimizerSpec& spec,
                             double clip_norm, absl::Span<const TrainedParameter> parameters,
                             Value* denominator) {
  Builder b(graph, &operators);
  b.SetPhase(Phase::kUpdate);
  Value* rate = graph->AddInput(kLearningRateFeed, {DataType::kFloat64, {}, {}});
  rate->feed = kLearningRateFeed;
  State* steps = CounterState(graph, kStepState, 0);
  Expr step = b.Wrap(steps->current) + 1.0;
  RETURN_IF_ERROR(b.status());
  graph->SetNext(steps, step.value());
  Expr scale;
  if (clip_norm > 0) scale = ClipScale(&b, spec, clip_norm, parameters, denominator);
  RETURN_IF_ERROR(b.status());
  for (const TrainedParameter& p : parameters) {
    b.SetSource(p.state->name);
    b.SetScope(p.state->name);
    UpdateOperands operands;
    operands.parameter = b.Wrap(p.state->current);
    operands.gradient = b.Wrap(p.gradient);
    operands.learning_rate = b.Wrap(rate);
    operands.step = step;
    if (denominator != nullptr) operands.denominator = b.Wrap(denominator);
    operands.scale = scale;
    std::vector<State*> moments;
    for (const MomentState& m : MomentsOf(spec)) {
      moments.push_back(graph->AddState(
          State::Kind::kMoment, FreeStateName(*graph, absl::StrCat(p.state->name, "/", m.suffix)),
          p.state->current->type, nullptr, m.fill));
      operands.moments.push_back(b.Wrap(moments.back()->current));
    }
    ASSIGN_OR_RETURN(const UpdateResults results, AppendUpdate(b, spec, operands));
    RETURN_IF_ERROR(b.status());
    graph->SetNext(p.state, results.parameter.value());
    for (size_t i = 0; i < moments.size(); ++i) {
      graph->SetNext(moments[i], results.moments[i].value());
    }
  }
  return absl::OkStatus();
}

}  // namespace onward
