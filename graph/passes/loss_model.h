// A loss that a second model computes.
#ifndef ONWARD_GRAPH_PASSES_LOSS_MODEL_H_
#define ONWARD_GRAPH_PASSES_LOSS_MODEL_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/ir/evaluator.h"
#include "graph/ir/graph.h"
#include "graph/ir/operator.h"
#include "graph/onnx/import.h"
#include "graph/passes/loss.h"

namespace onward {

// What each input of a loss model takes.
struct LossInputs {
  std::vector<std::string> outputs;  // by input: an output of the trained model; "": the labels
  int labels = -1;                   // the input that takes the labels; -1: none does
};

// An input takes the model's output of its name, the one that is named "labels" takes
// the labels; those that are left take in their order the outputs that are left, in
// theirs, and one more takes the labels. `outputs`: of the trained model, or the one
// that the user has named.
// InvalidArgument (kUsage) where that does not come out even, or the loss model has more
// than one output.
absl::StatusOr<LossInputs> MatchLossInputs(const OnnxModel& loss,
                                           const std::vector<std::string>& outputs);

// Appends the loss model's nodes behind the outputs of `graph`; see TermsOfLoss for what
// its output may be. Its initializers are constants, which are never trained.
// InvalidArgument where the outputs or the labels do not fit its inputs (kUsage), or a
// node is wrong; Unimplemented for random operators and bodies in it. Names the file.
absl::StatusOr<LossValues> AttachLossModel(Graph* graph, const OperatorSet& operators,
                                           Evaluator* evaluator, const OnnxModel& loss,
                                           const LossRequest& request);

}  // namespace onward

#endif  // ONWARD_GRAPH_PASSES_LOSS_MODEL_H_
