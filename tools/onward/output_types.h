// Types and shapes of a model's outputs.
#ifndef ONWARD_TOOLS_ONWARD_OUTPUT_TYPES_H_
#define ONWARD_TOOLS_ONWARD_OUTPUT_TYPES_H_

#include <vector>

#include "graph/onnx/import.h"

namespace onward {

// The outputs, with what the file leaves open or has wrong inferred from its nodes: an
// extent that follows an open one of an input has its symbol, unless the file names
// another; one that changes otherwise stays open. Where the graph cannot be built (an
// operator that Onward does not know), they are as declared.
std::vector<ModelOutput> TypedOutputs(const OnnxModel& model);

}  // namespace onward

#endif  // ONWARD_TOOLS_ONWARD_OUTPUT_TYPES_H_
