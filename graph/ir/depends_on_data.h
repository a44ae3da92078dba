// The error of what only data decides, when a graph is built.
#ifndef ONWARD_GRAPH_IR_DEPENDS_ON_DATA_H_
#define ONWARD_GRAPH_IR_DEPENDS_ON_DATA_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace onward {

// "WHAT depends on data". Of an inference rule: the node waits until the values are there
// (graph/onnx/region.h). Unimplemented where it cannot.
absl::Status DependsOnData(absl::string_view what);

// Is the error, or that of a layer above it, one?
bool IsDependsOnData(const absl::Status& status);

}  // namespace onward

#endif  // ONWARD_GRAPH_IR_DEPENDS_ON_DATA_H_
