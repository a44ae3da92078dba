#include "graph/onnx/type_constraints.h"

#include <algorithm>
#include <string>

#include "absl/strings/strip.h"
#include "graph/onnx/schema.h"
#include "onnx/defs/schema.h"

namespace onward {

std::vector<DataType> OnnxTypes(absl::string_view domain, absl::string_view name,
                                absl::string_view variable) {
  std::vector<DataType> types;
  const auto add = [&](const std::string& text) {
    absl::string_view element = text;
    if (!absl::ConsumePrefix(&element, "tensor(") || !absl::ConsumeSuffix(&element, ")")) return;
    const absl::StatusOr<DataType> type = ParseDataType(element);
    if (type.ok()) types.push_back(*type);
  };
  const onnx::OpSchema* schema =
      onnx::OpSchemaRegistry::Schema(std::string(name), kCanonicalOpset, std::string(domain));
  if (schema == nullptr) return types;
  add(std::string(variable));  // a type of its own
  for (const auto& constraint : schema->typeConstraintParams()) {
    if (constraint.type_param_str != std::string(variable)) continue;
    for (const std::string& text : constraint.allowed_type_strs) add(text);
  }
  std::sort(types.begin(), types.end());
  return types;
}

}  // namespace onward
