// A model's nodes in inference form. For graph/onnx only.
#ifndef ONWARD_GRAPH_ONNX_INFERENCE_FORM_H_
#define ONWARD_GRAPH_ONNX_INFERENCE_FORM_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "onnx/onnx_pb.h"

namespace onward {

// Puts BatchNormalization and Dropout in inference form, in subgraphs and functions too,
// and adds a line for what was done to `lines`.
void ToInferenceForm(onnx::ModelProto* model, std::vector<std::string>* lines);

// All names that nodes of `graph` or of its subgraphs read, and its outputs'.
absl::flat_hash_set<std::string> NamesRead(const onnx::GraphProto& graph);

// Is the node one of ONNX's own operators of that name?
bool IsOnnx(const onnx::NodeProto& node, const char* op_type);

}  // namespace onward

#endif  // ONWARD_GRAPH_ONNX_INFERENCE_FORM_H_
