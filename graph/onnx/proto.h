// Conversions between ONNX's protobufs and our types. For graph/onnx only.
#ifndef ONWARD_GRAPH_ONNX_PROTO_H_
#define ONWARD_GRAPH_ONNX_PROTO_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "graph/base/attribute.h"
#include "graph/base/tensor.h"
#include "onnx/onnx_pb.h"

namespace onward {

// The tensor of a proto that holds its data itself (raw or typed fields); a copy.
// InvalidArgument where the number of elements does not fit the extents.
absl::StatusOr<Tensor> TensorFromProto(const onnx::TensorProto& proto);

// Memory for such a tensor, of which so many bytes are known to be had. InvalidArgument
// where they are not as many as it takes, and for strings. The bytes go to its beginning;
// then FinishRawData gives elements of less than a byte, which files pack, one each.
absl::StatusOr<Tensor> RoomForRawData(const onnx::TensorProto& proto, int64_t held);
void FinishRawData(Tensor* tensor);

// Raw data, packed as files have it; strings as what they are.
void SetData(const Tensor& tensor, onnx::TensorProto* proto);
void TensorToProto(const Tensor& tensor, const std::string& name, onnx::TensorProto* proto);

// Name, type, extents and what else is said of the tensor stay; its data goes, and the
// memory that it took. REQUIRES: a message of its own, not of an arena.
void ClearData(onnx::TensorProto* proto);

// Instead of its data, the tensor gets a reference that names no file: the data is in
// a Tensor elsewhere. RefersToData tells such a tensor.
void ReferToData(onnx::TensorProto* proto);
bool RefersToData(const onnx::TensorProto& proto);

// Subgraphs are not attributes here (see Node::bodies): InvalidArgument.
absl::StatusOr<AttributeValue> AttributeFromProto(const onnx::AttributeProto& proto);
// All of a node's.
absl::StatusOr<Attributes> AttributesFromProto(const onnx::NodeProto& node);
void AttributeToProto(const std::string& name, const AttributeValue& value,
                      onnx::AttributeProto* proto);

// Null, or `otherwise`, where the node has no attribute of that name.
const onnx::AttributeProto* FindAttribute(const onnx::NodeProto& node, absl::string_view name);
int64_t IntAttribute(const onnx::NodeProto& node, absl::string_view name, int64_t otherwise);

void TypeToProto(const TensorType& type, onnx::TypeProto* proto);

// Runs `body` and turns an exception of ONNX or protobuf into InvalidArgument.
absl::Status CatchOnnx(const std::function<void()>& body);

// ONNX's multi-line messages in one line, without its own prefixes.
std::string OneLine(const std::string& message);

}  // namespace onward

#endif  // ONWARD_GRAPH_ONNX_PROTO_H_
