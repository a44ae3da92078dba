#include "graph/ops/widening.h"

#include "graph/onnx/schema.h"

namespace onward {
namespace {

bool IsHalf(DataType type) {
  return type == DataType::kFloat16 || type == DataType::kBfloat16 || IsSmallFloat(type);
}

// An operator that is told its result's type would not give another.
bool NamesItsType(const Attributes& attributes) {
  for (const char* name : {"to", "dtype", "output_dtype", "output_datatype"}) {
    if (attributes.Has(name)) return true;
  }
  return false;
}

// The type variable of value i; of a variadic one, the last stands for all.
const std::string& VariableOf(const std::vector<std::string>& variables, size_t i) {
  return variables[std::min(i, variables.size() - 1)];
}

}  // namespace

Widening WidenHalves(const Operator& op, const Attributes& attributes,
                     absl::Span<const DataType> inputs, absl::Span<const DataType> outputs) {
  // Whether a number is rounded up or down is decided in the type of the scale; CastLike is
  // told its result's type by an input, and how to round to it.
  if (op.id() == "QuantizeLinear" || op.id() == "DequantizeLinear" || op.id() == "CastLike") {
    return {};
  }
  Widening w;
  bool any = false;
  for (const bool of_inputs : {true, false}) {
    for (DataType type : of_inputs ? inputs : outputs) {
      any = any || IsHalf(type);
      (of_inputs ? w.inputs : w.outputs)
          .push_back(IsHalf(type) ? DataType::kFloat32 : DataType::kUndefined);
    }
  }
  return any && !NamesItsType(attributes) ? w : Widening();
}

Widening WidenIntegers(const Operator& op, const Attributes& attributes, DataType wide,
                       absl::Span<const DataType> inputs, absl::Span<const DataType> outputs) {
  if (!op.domain.empty() || inputs.empty() || inputs[0] == wide ||
      !(IsInteger(inputs[0]) || IsSmallInteger(inputs[0])) || NamesItsType(attributes)) {
    return {};
  }
  const TypeVariables variables = OnnxTypeVariables(op.domain, op.name);
  if (variables.inputs.empty() || variables.outputs.empty()) return {};
  const std::string& widened = variables.inputs[0];
  Widening w;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool same = inputs[i] == inputs[0] && VariableOf(variables.inputs, i) == widened;
    w.inputs.push_back(same ? wide : DataType::kUndefined);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const bool same = outputs[i] == inputs[0] && VariableOf(variables.outputs, i) == widened;
    w.outputs.push_back(same ? wide : DataType::kUndefined);
  }
  return w;
}

}  // namespace onward
