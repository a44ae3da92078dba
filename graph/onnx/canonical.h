// From the opset of a file to the canonical one. For graph/onnx only.
#ifndef ONWARD_GRAPH_ONNX_CANONICAL_H_
#define ONWARD_GRAPH_ONNX_CANONICAL_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "onnx/onnx_pb.h"

namespace onward {

// A copy of `model` with model-local functions inlined, in the canonical opset,
// checked. ONNX's own converter does most; what it lacks or gets wrong is cured
// before and after it (rows in upgrade.cc). Large initializers may be external
// references: they are carried along unread.
absl::StatusOr<std::unique_ptr<onnx::ModelProto>> ToCanonicalOpset(const onnx::ModelProto& model);

// Does ONNX's checker accept `model`, in its own opset? Data that is not in the proto
// is not looked at.
absl::Status CheckModel(onnx::ModelProto model);

}  // namespace onward

#endif  // ONWARD_GRAPH_ONNX_CANONICAL_H_
