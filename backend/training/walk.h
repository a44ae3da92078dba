// The walk: from a model to the plans of its steps.
#ifndef ONWARD_BACKEND_TRAINING_WALK_H_
#define ONWARD_BACKEND_TRAINING_WALK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backend/runtime/interpreter.h"
#include "backend/runtime/kernel_oracle.h"
#include "graph/onnx/import.h"
#include "graph/ops/operators.h"
#include "graph/passes/loss.h"
#include "graph/passes/metrics.h"
#include "graph/passes/optimizer_rules.h"
#include "graph/passes/parameters.h"
#include "graph/passes/restore_biases.h"
#include "graph/plan/planner.h"
#include "kernels/kernel.h"
#include "strategy/strategy.h"

namespace onward {

// What is fed for each sample, in the model's order; labels last, where there are any.
struct FeedSpec {
  std::string name;
  DataType dtype = DataType::kUndefined;
  Dims dims;  // of one sample
};

struct WalkOptions {
  std::vector<FeedSpec> inputs;                 // every input of the model
  LossRequest loss;                             // training and evaluation
  std::shared_ptr<const OnnxModel> loss_model;  // of Kind::kModelFile
  std::vector<MetricRequest> metrics;
  ParameterOptions parameters;
  // What was decided before, of a checkpoint; empty: `parameters` decides, from the loss.
  std::optional<Parameters> known_parameters;
  bool restore_biases = false;  // dropped biases come back as parameters
  OptimizerSpec optimizer;
  double clip_norm = 0;
  bool dropout = true;
  bool sync_batch_norm = false;  // BatchNormalization takes the statistics of all shards
  int64_t seed = 0;
  Placement placement;
  // The rows to choose kernels from; must outlive the walk. Default: HostKernels().
  const KernelTable* kernels = nullptr;
};

// What the walk has come to: a graph or, at its end, the plan; the other one is null.
// Names and order: StageNames() of config.h.
struct Stage {
  std::string name;
  const Graph* graph = nullptr;
  const Plan* plan = nullptr;
};

// Called after every stage. An error ends the walk.
using StageObserver = std::function<absl::Status(const Stage& stage)>;

// Makes plans for batches of any size over the same states. Walking again for
// another size takes milliseconds.
class Walk {
 public:
  // The model must outlive it. Decides what is a parameter. Errors name the node,
  // before any sample is read.
  static absl::StatusOr<std::unique_ptr<Walk>> Create(const OnnxModel* model, WalkOptions options,
                                                      StageObserver observer = nullptr);

  // A whole training step of `samples` samples: forward, backward, update. Its output
  // "metrics" holds, in float64, numerator and denominator of the loss and of every
  // metric, over all shards.
  absl::StatusOr<Plan> TrainingPlan(int64_t samples);
  // Forward in inference form; output "metrics" as above.
  absl::StatusOr<Plan> EvaluationPlan(int64_t samples);
  // Forward in inference form; the model's outputs, on each device those of its shard.
  absl::StatusOr<Plan> PredictionPlan(int64_t samples);

  const Parameters& parameters() const { return parameters_; }
  // Running statistics as states.
  const std::vector<Parameter>& statistics() const { return statistics_; }
  // What was decided, one printable line each: about the loss, for all plans that
  // measure one, and about training plans alone (what trains, masks, statistics).
  const std::vector<std::string>& notes() const { return notes_; }
  const std::vector<std::string>& training_notes() const { return training_notes_; }
  const WalkOptions& options() const { return options_; }
  const KernelTable& kernels() const { return kernels_; }

 private:
  Walk(const OnnxModel* model, WalkOptions options, StageObserver observer);
  absl::Status DecideParameters();
  absl::Status Refused(const absl::Status& status) const;
  // `restored`: what RestoreBiases did; may be null.
  absl::StatusOr<std::unique_ptr<Graph>> Import(int64_t samples,
                                                std::vector<DroppedBias>* restored = nullptr) const;
  absl::StatusOr<LossValues> AttachTheLoss(Graph* graph) const;
  absl::StatusOr<std::unique_ptr<Graph>> TrainingStep(int64_t samples);
  absl::StatusOr<std::unique_ptr<Graph>> EvaluationStep(int64_t samples);
  absl::StatusOr<std::unique_ptr<Graph>> PredictionStep(int64_t samples);
  absl::Status Optimize(Graph* graph);
  absl::StatusOr<Plan> PlanOf(const ReplicaStep& step, int64_t samples);
  absl::Status Observe(const char* stage, const Graph& graph) const;
  bool splits() const { return options_.placement.shards > 1; }

  const OnnxModel* model_;
  WalkOptions options_;
  StageObserver observer_;
  const OperatorList& operators_;
  const KernelTable& kernels_;
  mutable Interpreter evaluator_;
  TableOracle oracle_;
  Parameters parameters_;
  std::vector<Parameter> statistics_;
  std::vector<std::string> notes_;
  std::vector<std::string> training_notes_;
  StateLayouts layouts_;
};

}  // namespace onward

#endif  // ONWARD_BACKEND_TRAINING_WALK_H_
