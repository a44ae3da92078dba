// What ONNX's schemas say of an operator, without ONNX's own types.
#ifndef ONWARD_GRAPH_ONNX_SCHEMA_H_
#define ONWARD_GRAPH_ONNX_SCHEMA_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "graph/ir/operator.h"

namespace onward {

// The one opset inside: the newest of the pinned ONNX. Files of opsets 7 and on
// are brought to it at import.
inline constexpr int kCanonicalOpset = 28;
inline constexpr int kOldestOpset = 6;

// Does ONNX have this operator in the canonical opset?
bool OnnxHas(absl::string_view domain, absl::string_view name);

// Of a node whose operator ONNX has in no opset: what is wrong, and what helps.
absl::Status NoSuchOperator(absl::string_view domain, absl::string_view name);

// Type and shape inference by the schema. REQUIRES: OnnxHas(domain, name).
InferRule OnnxInference(absl::string_view domain, absl::string_view name);

// The part of it that looks at the call alone: how many inputs and outputs there are, their
// types and those of the attributes. REQUIRES: OnnxHas(domain, name).
absl::Status CheckOnnxCall(absl::string_view domain, absl::string_view name,
                           const InferContext& call);

// What the schema says of each formal input.
struct FormalInput {
  std::string name;
  // The schema's tag; not to be believed blindly.
  enum class Tag { kUnknown, kDifferentiable, kNotDifferentiable };
  Tag tag = Tag::kUnknown;
  bool optional = false;
  bool variadic = false;
};
std::vector<FormalInput> OnnxInputs(absl::string_view domain, absl::string_view name);

// The schema's names for the types of its formal inputs and outputs ("T1", or one type's
// own: "tensor(int64)"): equal where the types are to be equal.
struct TypeVariables {
  std::vector<std::string> inputs, outputs;
};
TypeVariables OnnxTypeVariables(absl::string_view domain, absl::string_view name);

// Names of all operators of a domain in the canonical opset, sorted; deprecated
// ones left out.
std::vector<std::string> OnnxOperators(absl::string_view domain);

// Opsets up to the canonical one in which ONNX has defined the operator anew, ascending.
std::vector<int> OnnxVersions(absl::string_view domain, absl::string_view name);

}  // namespace onward

#endif  // ONWARD_GRAPH_ONNX_SCHEMA_H_
