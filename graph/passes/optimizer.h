// Appends the optimizer to a step.
#ifndef ONWARD_GRAPH_PASSES_OPTIMIZER_H_
#define ONWARD_GRAPH_PASSES_OPTIMIZER_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "graph/ir/graph.h"
#include "graph/ir/operator.h"
#include "graph/passes/optimizer_rules.h"

namespace onward {

inline constexpr char kLearningRateFeed[] = "onward/learning_rate";  // float64

struct TrainedParameter {
  State* state = nullptr;
  Value* gradient = nullptr;  // summed over the samples of all shards
};

// Gives every parameter its next value, adds the optimizer's moments as states
// ("NAME/momentum"), and counts steps (kStepState). `denominator` (a scalar) divides
// the gradients; null: nothing does. With clip_norm > 0 the gradients, taken
// together, are scaled so that their L2 norm is at most that.
absl::Status AttachOptimizer(Graph* graph, const OperatorSet& operators, const OptimizerSpec& spec,
                             double clip_norm, absl::Span<const TrainedParameter> parameters,
                             Value* denominator);

}  // namespace onward

#endif  // ONWARD_GRAPH_PASSES_OPTIMIZER_H_
