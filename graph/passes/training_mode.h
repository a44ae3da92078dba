// Putting a model in training or in inference form, node by node.
#ifndef ONWARD_GRAPH_PASSES_TRAINING_MODE_H_
#define ONWARD_GRAPH_PASSES_TRAINING_MODE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/ir/graph.h"
#include "graph/ir/operator.h"
#include "graph/passes/parameters.h"

namespace onward {

// Names of what every step has.
inline constexpr char kSeedState[] = "onward/seed";  // int64: of random numbers
inline constexpr char kStepState[] = "onward/step";  // int64: optimizer steps done
// int64: where the shard begins in the batch.
inline constexpr char kSampleOffsetFeed[] = "onward/sample_offset";

struct TrainingModeOptions {
  bool dropout = true;  // false: dropout does nothing, for comparisons
  int64_t seed = 0;
  // BatchNormalization takes the statistics of all shards (by AllReduce nodes, forward
  // and in its gradient) instead of those of its own.
  bool sync_normalization = false;
};

// What the passes did, for people.
struct TrainingModeNotes {
  int dropouts = 0;
  int normalizations = 0;
  // The running statistics as they became states.
  std::vector<Parameter> statistics;
};

// Dropout draws masks, and BatchNormalization takes the batch's statistics and
// updates its running ones, which become states, whatever form the file has them in.
// Operators that draw random numbers are keyed by the step.
absl::StatusOr<TrainingModeNotes> ToTrainingMode(Graph* graph, const OperatorSet& operators,
                                                 const TrainingModeOptions& options);

// Dropout does nothing, and BatchNormalization uses its running statistics, which
// are states of the same names.
absl::Status ToInferenceMode(Graph* graph, const OperatorSet& operators);

// `name`, with '~' behind it as often as it takes to be the name of no state of the graph
// and none of the two above: names come from files, which may hold any.
std::string FreeStateName(const Graph& graph, std::string name);

// The number of the shard's first sample in the batch, fed; made where it is not there.
Value* SampleOffset(Graph* graph);

// The state of that name, made where it is not there.
State* CounterState(Graph* graph, const std::string& name, int64_t initial);

}  // namespace onward

#endif  // ONWARD_GRAPH_PASSES_TRAINING_MODE_H_
