#include "backend/training/walk.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backend/runtime/prepare_for_plan.h"
#include "backend/runtime/regions.h"
#include "graph/base/errors.h"
#include "graph/base/status_macros.h"
#include "graph/ir/builder.h"
#include "graph/ir/verifier.h"
#include "graph/passes/autodiff.h"
#include "graph/passes/cross_shards.h"
#include "graph/passes/loss_model.h"
#include "graph/passes/optimizer.h"
#include "graph/passes/sample_axis.h"
#include "graph/passes/training_mode.h"

namespace onward {
namespace {

absl::StatusOr<Value*> One(Graph* graph, const OperatorSet& operators, const Value* like) {
  Builder b(graph, &operators);
  Expr one = b.Scalar(like->dtype(), 1);
  RETURN_IF_ERROR(b.status());
  return one.value();
}

std::string BiasesNote(const std::vector<DroppedBias>& biases) {
  if (biases.empty()) return "--restore-biases: no bias is missing";
  std::vector<std::string> names;
  for (const DroppedBias& bias : biases) names.push_back(absl::StrCat("'", bias.name, "'"));
  return absl::StrCat("biases that were dropped train again, from zero: ",
                      absl::StrJoin(names, ", "));
}

}  // namespace

Walk::Walk(const OnnxModel* model, WalkOptions options, StageObserver observer)
    : model_(model),
      options_(std::move(options)),
      observer_(std::move(observer)),
      operators_(StandardOperators()),
      kernels_(options_.kernels == nullptr ? HostKernels() : *options_.kernels),
      evaluator_(&operators_, &HostKernels()),
      oracle_(&kernels_) {}

absl::StatusOr<std::unique_ptr<Walk>> Walk::Create(const OnnxModel* model, WalkOptions options,
                                                   StageObserver observer) {
  for (const ModelInput& input : model->inputs()) {
    if (!absl::StartsWith(input.name, "onward/")) continue;
    return WithExitCode(
        absl::InvalidArgumentError(absl::StrCat(model->path(), ": input '", input.name,
                                                "': names that begin with onward/ are of feeds of "
                                                "Onward's own; rename it")),
        ExitCode::kUntrainable);
  }
  std::unique_ptr<Walk> walk(new Walk(model, std::move(options), std::move(observer)));
  RETURN_IF_ERROR(walk->Refused(walk->DecideParameters()));
  return walk;
}

// What cannot be built from a model is the model's, unless a layer below knows better.
absl::Status Walk::Refused(const absl::Status& status) const {
  if (status.ok() || status.code() == absl::StatusCode::kInternal) return status;
  const bool named = absl::StrContains(status.message(), model_->path());
  return WithExitCode(named ? status : Annotate(status, model_->path()), ExitCode::kUntrainable);
}

absl::Status Walk::Observe(const char* stage, const Graph& graph) const {
  RETURN_IF_ERROR(Annotate(Verify(graph), absl::StrCat("after stage '", stage, "'")));
  return observer_ ? observer_({stage, &graph, nullptr}) : absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Graph>> Walk::Import(int64_t samples,
                                                    std::vector<DroppedBias>* restored) const {
  Binding binding;
  for (const FeedSpec& feed : options_.inputs) {
    Dims dims = {samples};
    dims.insert(dims.end(), feed.dims.begin(), feed.dims.end());
    binding.inputs[feed.name] = std::move(dims);
  }
  ASSIGN_OR_RETURN(std::unique_ptr<Graph> graph, model_->Build(operators_, &evaluator_, binding));
  if (!options_.restore_biases) return graph;
  ASSIGN_OR_RETURN(std::vector<DroppedBias> biases,
                   RestoreBiases(*model_, graph.get(), operators_));
  if (restored != nullptr) *restored = std::move(biases);
  return graph;
}

absl::StatusOr<LossValues> Walk::AttachTheLoss(Graph* graph) const {
  if (options_.loss.kind != LossRequest::Kind::kModelFile) {
    return AttachLoss(graph, operators_, options_.loss);
  }
  return AttachLossModel(graph, operators_, &evaluator_, *options_.loss_model, options_.loss);
}

// Parameters are told from a step in training form; every later graph of the model
// makes the same states.
absl::Status Walk::DecideParameters() {
  std::vector<DroppedBias> biases;
  ASSIGN_OR_RETURN(std::unique_ptr<Graph> graph, Import(model_->FixedBatch(2), &biases));
  TrainingModeOptions mode{options_.dropout, options_.seed};
  ASSIGN_OR_RETURN(TrainingModeNotes changes, ToTrainingMode(graph.get(), operators_, mode));
  statistics_ = std::move(changes.statistics);
  if (options_.known_parameters.has_value()) parameters_ = *options_.known_parameters;
  if (options_.loss.kind == LossRequest::Kind::kNone) return absl::OkStatus();
  ASSIGN_OR_RETURN(const LossValues loss, AttachTheLoss(graph.get()));
  notes_ = loss.notes;
  if (changes.dropouts > 0) {
    training_notes_.push_back(absl::StrCat(
        changes.dropouts, changes.dropouts == 1 ? " Dropout node draws" : " Dropout nodes draw",
        changes.dropouts == 1 ? " a mask" : " masks"));
  }
  if (changes.normalizations > 0) {
    training_notes_.push_back(absl::StrCat(
        changes.normalizations, " BatchNormalization ",
        changes.normalizations == 1 ? "node uses" : "nodes use", " the statistics of the ",
        options_.sync_batch_norm || !splits() ? "batch" : "shard"));
  }
  if (splits()) RETURN_IF_ERROR(CheckSplittable(*graph, loss.numerator));
  if (options_.known_parameters.has_value()) return absl::OkStatus();
  KnowFromExporter(*model_, &options_.parameters);
  ASSIGN_OR_RETURN(parameters_, FindParameters(*graph, loss.numerator, options_.parameters));
  for (Parameter& p : parameters_.list) {
    for (const DroppedBias& bias : biases) {
      if (p.initializer == bias.name) p.bias_of = bias.ordinal;
    }
  }
  if (options_.restore_biases) training_notes_.push_back(BiasesNote(biases));
  training_notes_.insert(training_notes_.end(), parameters_.notes.begin(), parameters_.notes.end());
  return absl::OkStatus();
}

// ---- The three steps. Each reads like a table of contents.

absl::StatusOr<std::unique_ptr<Graph>> Walk::TrainingStep(int64_t samples) {
  ASSIGN_OR_RETURN(std::unique_ptr<Graph> graph, Import(samples));
  RETURN_IF_ERROR(Observe("import", *graph));
  TrainingModeOptions mode{options_.dropout, options_.seed};
  mode.sync_normalization = options_.sync_batch_norm && splits();
  RETURN_IF_ERROR(ToTrainingMode(graph.get(), operators_, mode).status());
  RETURN_IF_ERROR(Observe("training", *graph));
  RETURN_IF_ERROR(MakeParameterStates(graph.get(), operators_, parameters_));
  ASSIGN_OR_RETURN(LossValues loss, AttachTheLoss(graph.get()));
  ASSIGN_OR_RETURN(Value * metrics, AttachMetrics(graph.get(), operators_, loss, options_.metrics));
  RETURN_IF_ERROR(Observe("loss", *graph));

  std::vector<State*> trained;
  std::vector<Value*> targets;
  for (const auto& state : graph->states()) {
    if (state->kind != State::Kind::kParameter) continue;
    trained.push_back(state.get());
    targets.push_back(state->current);
  }
  ASSIGN_OR_RETURN(Value * one, One(graph.get(), operators_, loss.numerator));
  ASSIGN_OR_RETURN(std::vector<Value*> gradients,
                   AppendGradients(graph.get(), operators_, {{loss.numerator, one}}, targets));
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (gradients[i] == nullptr) {
      return WithExitCode(absl::FailedPreconditionError(absl::StrCat(
                              "parameter '", trained[i]->name, "' does not reach the loss")),
                          ExitCode::kUntrainable);
    }
  }
  RETURN_IF_ERROR(Observe("gradients", *graph));

  if (splits()) {
    std::vector<Value*> crossing = gradients;
    crossing.push_back(loss.denominator);
    crossing.push_back(metrics);
    ASSIGN_OR_RETURN(std::vector<Value*> sums,
                     ReduceAcrossShards(graph.get(), operators_, crossing));
    metrics = sums.back();
    sums.pop_back();
    loss.denominator = sums.back();
    sums.pop_back();
    gradients = std::move(sums);
    RETURN_IF_ERROR(CombineStatistics(graph.get(), operators_));
  }
  std::vector<TrainedParameter> updates;
  for (size_t i = 0; i < trained.size(); ++i) updates.push_back({trained[i], gradients[i]});
  RETURN_IF_ERROR(AttachOptimizer(graph.get(), operators_, options_.optimizer, options_.clip_norm,
                                  updates, loss.denominator));
  graph->ClearOutputs();
  graph->AddOutput(kMetricsOutput, metrics);
  RETURN_IF_ERROR(Observe("optimizer", *graph));
  RETURN_IF_ERROR(Optimize(graph.get()));
  return graph;
}

absl::StatusOr<std::unique_ptr<Graph>> Walk::EvaluationStep(int64_t samples) {
  ASSIGN_OR_RETURN(std::unique_ptr<Graph> graph, Import(samples));
  RETURN_IF_ERROR(ToInferenceMode(graph.get(), operators_));
  RETURN_IF_ERROR(MakeParameterStates(graph.get(), operators_, parameters_));
  ASSIGN_OR_RETURN(const LossValues loss, AttachTheLoss(graph.get()));
  ASSIGN_OR_RETURN(Value * metrics, AttachMetrics(graph.get(), operators_, loss, options_.metrics));
  if (splits()) {
    ASSIGN_OR_RETURN(std::vector<Value*> sums,
                     ReduceAcrossShards(graph.get(), operators_, {metrics}));
    metrics = sums[0];
  }
  graph->ClearOutputs();
  graph->AddOutput(kMetricsOutput, metrics);
  RETURN_IF_ERROR(Optimize(graph.get()));
  return graph;
}

absl::StatusOr<std::unique_ptr<Graph>> Walk::PredictionStep(int64_t samples) {
  ASSIGN_OR_RETURN(std::unique_ptr<Graph> graph, Import(samples));
  RETURN_IF_ERROR(ToInferenceMode(graph.get(), operators_));
  RETURN_IF_ERROR(MakeParameterStates(graph.get(), operators_, parameters_));
  RETURN_IF_ERROR(Optimize(graph.get()));
  return graph;
}

absl::Status Walk::Optimize(Graph* graph) {
  const Device device =
      options_.placement.devices.empty() ? Device{} : options_.placement.devices[0];
  return PrepareForPlan(graph, operators_, &evaluator_, oracle_, device,
                        std::max(1, options_.placement.threads),
                        [this](const char* stage, const Graph& g) { return Observe(stage, g); });
}

absl::StatusOr<Plan> Walk::PlanOf(const ReplicaStep& step, int64_t samples) {
  const absl::StatusOr<ReplicatedStep> placed = Place(step, samples, options_.placement);
  if (!placed.ok()) return Refused(placed.status());
  const ReplicatedStep& replicated = *placed;
  RETURN_IF_ERROR(Observe("replicated", *replicated.graph));
  absl::StatusOr<Plan> plan = MakePlan(replicated, oracle_, &layouts_);
  if (!plan.ok()) return Refused(plan.status());
  if (observer_) RETURN_IF_ERROR(observer_({"plan", nullptr, &*plan}));
  return plan;
}

absl::StatusOr<Plan> Walk::TrainingPlan(int64_t samples) {
  return PlanOf([this](int64_t n) { return TrainingStep(n); }, samples);
}

absl::StatusOr<Plan> Walk::EvaluationPlan(int64_t samples) {
  return PlanOf([this](int64_t n) { return EvaluationStep(n); }, samples);
}

absl::StatusOr<Plan> Walk::PredictionPlan(int64_t samples) {
  return PlanOf([this](int64_t n) { return PredictionStep(n); }, samples);
}

}  // namespace onward
