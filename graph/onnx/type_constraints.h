// Which data types ONNX's schemas allow.
#ifndef ONWARD_GRAPH_ONNX_TYPE_CONSTRAINTS_H_
#define ONWARD_GRAPH_ONNX_TYPE_CONSTRAINTS_H_

#include <vector>

#include "absl/strings/string_view.h"
#include "graph/base/data_type.h"

namespace onward {

// The element types of tensors that an operator of the canonical opset allows for one of
// its type variables (see OnnxTypeVariables), of those that DataType has; ascending.
std::vector<DataType> OnnxTypes(absl::string_view domain, absl::string_view name,
                                absl::string_view variable);

}  // namespace onward

#endif  // ONWARD_GRAPH_ONNX_TYPE_CONSTRAINTS_H_
