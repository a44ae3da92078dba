// Types and shapes of a model's outputs.
#ifndef ONWARD_TOOLS_ONWARD_OUTPUT_TYPES_H_
#define ONWARD_TOOLS_ONWARD_OUTPUT_TYPES_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/ir/evaluator.h"
#include "graph/ir/graph.h"
#include "graph/onnx/import.h"

namespace onward {

// The outputs, with what the file leaves open or has wrong inferred from its nodes: an
// extent that follows an open one of an input has its symbol, unless the file names
// another; one that changes otherwise stays open. Where the graph cannot be built (an
// operator that Onward does not know), they are as declared.
std::vector<ModelOutput> TypedOutputs(const OnnxModel& model);

// The graph with sizes of our choice for the extents of inputs that the file leaves open.
absl::StatusOr<std::unique_ptr<Graph>> BuildWithTrialSizes(const OnnxModel& model,
                                                           Evaluator* evaluator);

}  // namespace onward

#endif  // ONWARD_TOOLS_ONWARD_OUTPUT_TYPES_H_
