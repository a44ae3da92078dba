#include "graph/onnx/schema.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "graph/base/status_macros.h"
#include "graph/onnx/graph_reader.h"
#include "graph/onnx/proto.h"
#include "onnx/defs/schema.h"
#include "onnx/defs/shape_inference.h"

namespace onward {
namespace {

const onnx::OpSchema* FindSchema(absl::string_view domain, absl::string_view name) {
  const std::string op(name), where(domain);
  // Of other domains the newest: their files are taken as they are.
  const onnx::OpSchema* schema = domain.empty()
                                     ? onnx::OpSchemaRegistry::Schema(op, kCanonicalOpset, where)
                                     : onnx::OpSchemaRegistry::Schema(op, where);
  return schema == nullptr || schema->deprecated() ? nullptr : schema;
}

// Constants over this size decide no shape.
constexpr int64_t kLargestShapeInput = 4096;

// Presents one call to ONNX's inference functions.
class OnnxContext : public onnx::InferenceContext {
 public:
  // `ranked`, if given, says of which inputs the rank is known.
  explicit OnnxContext(InferContext& call, const std::vector<bool>* ranked = nullptr)
      : call_(call), outputs_(call.num_outputs()) {
    types_.resize(call.num_inputs());
    data_.resize(call.num_inputs());
    for (int i = 0; i < call.num_inputs(); ++i) {
      if (!call.has(i)) continue;
      types_[i] = std::make_unique<onnx::TypeProto>();
      TypeToProto(call.input(i), types_[i].get());
      if (ranked != nullptr && !(*ranked)[i]) types_[i]->mutable_tensor_type()->clear_shape();
      const Tensor* constant = call.constant(i);
      if (constant != nullptr && constant->elements() <= kLargestShapeInput) {
        data_[i] = std::make_unique<onnx::TensorProto>();
        TensorToProto(*constant, "", data_[i].get());
      }
    }
    for (const auto& [name, value] : call.attributes().list()) {
      attributes_.emplace_back(name, std::make_unique<onnx::AttributeProto>());
      AttributeToProto(name, value, attributes_.back().second.get());
    }
  }

  const onnx::AttributeProto* getAttribute(const std::string& name) const override {
    for (const auto& [key, proto] : attributes_) {
      if (key == name) return proto.get();
    }
    return nullptr;
  }
  size_t getNumInputs() const override { return types_.size(); }
  const onnx::TypeProto* getInputType(size_t i) const override {
    return i < types_.size() ? types_[i].get() : nullptr;
  }
  const onnx::TensorProto* getInputData(size_t i) const override {
    return i < data_.size() ? data_[i].get() : nullptr;
  }
  size_t getNumOutputs() const override { return outputs_.size(); }
  onnx::TypeProto* getOutputType(size_t i) override {
    return i < outputs_.size() ? &outputs_[i] : nullptr;
  }
  onnx::GraphInferencer* getGraphAttributeInferencer(const std::string& name) override {
    throw onnx::InferenceError("subgraph '" + name + "' is not supported");
  }
  const onnx::SparseTensorProto* getInputSparseData(size_t) const override { return nullptr; }
  const onnx::TensorShapeProto* getSymbolicInput(size_t) const override { return nullptr; }

  // As far as it was inferred; an output without a type stays undefined.
  std::vector<PartialType> Partial() const {
    std::vector<PartialType> types(outputs_.size());
    for (size_t i = 0; i < outputs_.size(); ++i) {
      if (!outputs_[i].has_tensor_type()) continue;
      const onnx::TypeProto::Tensor& t = outputs_[i].tensor_type();
      types[i].dtype = static_cast<DataType>(t.elem_type());
      types[i].ranked = t.has_shape();
      for (const auto& d : t.shape().dim()) {
        types[i].dims.push_back(d.has_dim_value() && d.dim_value() >= 0 ? d.dim_value() : kDynamic);
      }
    }
    return types;
  }

  // Copies what was inferred; an output without a type stays undefined.
  absl::Status Finish() {
    for (size_t i = 0; i < outputs_.size(); ++i) {
      if (!outputs_[i].has_tensor_type()) continue;
      const onnx::TypeProto::Tensor& t = outputs_[i].tensor_type();
      if (!t.has_shape()) {
        return DependsOnData("the rank of its result");
      }
      Dims dims;
      for (const auto& d : t.shape().dim()) {
        dims.push_back(d.has_dim_value() ? d.dim_value() : kDynamic);
      }
      call_.SetOutput(static_cast<int>(i), static_cast<DataType>(t.elem_type()), std::move(dims));
    }
    return absl::OkStatus();
  }

 private:
  InferContext& call_;
  std::vector<std::unique_ptr<onnx::TypeProto>> types_;
  std::vector<std::unique_ptr<onnx::TensorProto>> data_;
  std::vector<std::pair<std::string, std::unique_ptr<onnx::AttributeProto>>> attributes_;
  std::vector<onnx::TypeProto> outputs_;
};

absl::Status CheckArity(const onnx::OpSchema& schema, const InferContext& call) {
  if (call.num_inputs() < schema.min_input() || call.num_inputs() > schema.max_input()) {
    return absl::InvalidArgumentError(absl::StrCat(schema.Name(), " has ", call.num_inputs(),
                                                   " inputs, expected ", schema.min_input(), " to ",
                                                   schema.max_input()));
  }
  if (call.num_outputs() > schema.max_output()) {
    return absl::InvalidArgumentError(absl::StrCat(schema.Name(), " has ", call.num_outputs(),
                                                   " outputs, expected at most ",
                                                   schema.max_output()));
  }
  return absl::OkStatus();
}

// Types of inputs that share a type variable must be equal: inference functions
// do not look.
absl::Status CheckTypes(const onnx::OpSchema& schema, const InferContext& call) {
  std::vector<std::pair<std::string, DataType>> bound;
  const auto& formals = schema.inputs();
  for (int i = 0; i < call.num_inputs(); ++i) {
    if (formals.empty()) continue;
    const auto& formal = formals[std::min<size_t>(i, formals.size() - 1)];
    if (!call.has(i)) {
      if (formal.GetOption() == onnx::OpSchema::Optional) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("input ", i, " (", formal.GetName(), ") of ", schema.Name(), " is absent"));
    }
    const DataType dtype = call.input(i).dtype;
    const std::string type = absl::StrCat("tensor(", std::string(OnnxName(dtype)), ")");
    const auto& allowed = formal.GetTypes();
    const bool fits = std::any_of(allowed.begin(), allowed.end(),
                                  [&](const std::string* t) { return *t == type; });
    if (!fits) {
      return absl::InvalidArgumentError(absl::StrCat("input ", i, " (", formal.GetName(), ") is ",
                                                     Name(dtype), ", which ", schema.Name(),
                                                     " does not take"));
    }
    const bool heterogeneous =
        formal.GetOption() == onnx::OpSchema::Variadic && !formal.GetIsHomogeneous();
    if (heterogeneous) continue;
    // The first of a variable binds it.
    const auto first = std::find_if(bound.begin(), bound.end(),
                                    [&](const auto& b) { return b.first == formal.GetTypeStr(); });
    if (first == bound.end()) {
      bound.emplace_back(formal.GetTypeStr(), dtype);
    } else if (first->second != dtype) {
      return absl::InvalidArgumentError(
          absl::StrCat("input ", i, " (", formal.GetName(), ") is ", Name(dtype), ", expected ",
                       Name(first->second), " as the inputs before it"));
    }
  }
  return absl::OkStatus();
}

// Of the types that the schema says: ONNX's checker does not see what a call gives to
// the nodes of a function, and its inference reads zeros out of the wrong field.
absl::Status CheckAttributeTypes(const onnx::OpSchema& schema, const InferContext& call) {
  using Proto = onnx::AttributeProto;
  // In the order of AttributeValue.
  static constexpr Proto::AttributeType kTypes[] = {Proto::INT,   Proto::FLOAT,  Proto::STRING,
                                                    Proto::INTS,  Proto::FLOATS, Proto::STRINGS,
                                                    Proto::TENSOR};
  static_assert(std::variant_size_v<AttributeValue> == std::size(kTypes));
  for (const auto& [name, value] : call.attributes().list()) {
    const auto formal = schema.attributes().find(name);
    if (formal == schema.attributes().end()) continue;
    const auto type = kTypes[value.index()];
    // Inference reads it as 32 bits: an axis of 2^32 would be checked as 0.
    const auto* number = std::get_if<int64_t>(&value);
    if (number != nullptr && *number != static_cast<int32_t>(*number) && name != "value_int") {
      return absl::InvalidArgumentError(
          absl::StrCat("attribute '", name, "' is ", *number, ", expected a number of 32 bits"));
    }
    if (type == formal->second.type) continue;
    return absl::InvalidArgumentError(absl::StrCat("attribute '", name, "' is of type ",
                                                   Proto::AttributeType_Name(type), ", expected ",
                                                   Proto::AttributeType_Name(formal->second.type)));
  }
  return absl::OkStatus();
}

// What ONNX's inference takes although it means nothing: rules and kernels rely on it.
absl::Status CheckAttributes(const onnx::OpSchema& schema, const InferContext& call) {
  RETURN_IF_ERROR(CheckAttributeTypes(schema, call));
  if (schema.Name() != "Transpose" || !call.has(0) || !call.attributes().Has("perm")) {
    return absl::OkStatus();
  }
  std::vector<int64_t> perm = call.attributes().Ints("perm");
  std::sort(perm.begin(), perm.end());
  bool fits = perm.size() == call.input(0).dims.size();
  for (size_t i = 0; fits && i < perm.size(); ++i) fits = perm[i] == static_cast<int64_t>(i);
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("perm is no order of the ", call.input(0).dims.size(), " axes of its input"));
}

}  // namespace

bool OnnxHas(absl::string_view domain, absl::string_view name) {
  return FindSchema(domain, name) != nullptr;
}

absl::Status NoSuchOperator(absl::string_view domain, absl::string_view name) {
  return absl::UnimplementedError(absl::StrCat(
      "ONNX has no operator ", domain, domain.empty() ? "" : ".", name,
      "; the exporter wrote something that only it understands: export again in inference form "
      "(from Keras with tools/keras_export.py), or without that layer"));
}

InferRule OnnxInference(absl::string_view domain, absl::string_view name) {
  const onnx::OpSchema* schema = FindSchema(domain, name);
  ONWARD_CHECK(schema != nullptr);
  return [schema](InferContext& call) -> absl::Status {
    RETURN_IF_ERROR(CheckArity(*schema, call));
    RETURN_IF_ERROR(CheckTypes(*schema, call));
    RETURN_IF_ERROR(CheckAttributes(*schema, call));
    OnnxContext context(call);
    RETURN_IF_ERROR(CatchOnnx([&] { schema->GetTypeAndShapeInferenceFunction()(context); }));
    RETURN_IF_ERROR(context.Finish());
    for (const TensorType& type : call.outputs()) {
      for (int64_t d : type.dims) {
        if (d < kDynamic) return absl::InvalidArgumentError("a negative extent is inferred");
      }
    }
    return absl::OkStatus();
  };
}

absl::Status CheckOnnxCall(absl::string_view domain, absl::string_view name,
                           const InferContext& call) {
  const onnx::OpSchema* schema = FindSchema(domain, name);
  ONWARD_CHECK(schema != nullptr);
  RETURN_IF_ERROR(CheckArity(*schema, call));
  RETURN_IF_ERROR(CheckTypes(*schema, call));
  return CheckAttributes(*schema, call);
}

absl::StatusOr<std::vector<PartialType>> InferPartially(const Operator& op,
                                                        const Attributes& attributes,
                                                        const std::vector<PartialType>& inputs,
                                                        const std::vector<const Tensor*>& constants,
                                                        int num_outputs) {
  const onnx::OpSchema* schema = FindSchema(op.domain, op.name);
  if (schema == nullptr) return DependsOnData(op.name);
  std::vector<TensorType> types(inputs.size());
  std::vector<const TensorType*> pointers;
  std::vector<bool> ranked;
  for (size_t i = 0; i < inputs.size(); ++i) {
    types[i] = {inputs[i].dtype, inputs[i].dims, {}};
    pointers.push_back(inputs[i].dtype == DataType::kUndefined ? nullptr : &types[i]);
    ranked.push_back(inputs[i].ranked);
  }
  InferContext call(op, attributes, pointers, constants, num_outputs);
  RETURN_IF_ERROR(CheckArity(*schema, call));
  RETURN_IF_ERROR(CheckTypes(*schema, call));
  OnnxContext context(call, &ranked);
  RETURN_IF_ERROR(CatchOnnx([&] { schema->GetTypeAndShapeInferenceFunction()(context); }));
  return context.Partial();
}

std::vector<FormalInput> OnnxInputs(absl::string_view domain, absl::string_view name) {
  std::vector<FormalInput> out;
  const onnx::OpSchema* schema = FindSchema(domain, name);
  if (schema == nullptr) return out;
  for (const auto& formal : schema->inputs()) {
    FormalInput input;
    input.name = formal.GetName();
    switch (formal.GetDifferentiationCategory()) {
      case onnx::OpSchema::Differentiable:
        input.tag = FormalInput::Tag::kDifferentiable;
        break;
      case onnx::OpSchema::NonDifferentiable:
        input.tag = FormalInput::Tag::kNotDifferentiable;
        break;
      default:
        break;
    }
    input.optional = formal.GetOption() == onnx::OpSchema::Optional;
    input.variadic = formal.GetOption() == onnx::OpSchema::Variadic;
    out.push_back(std::move(input));
  }
  return out;
}

TypeVariables OnnxTypeVariables(absl::string_view domain, absl::string_view name) {
  TypeVariables out;
  const onnx::OpSchema* schema = FindSchema(domain, name);
  if (schema == nullptr) return out;
  for (const auto& formal : schema->inputs()) out.inputs.push_back(formal.GetTypeStr());
  for (const auto& formal : schema->outputs()) out.outputs.push_back(formal.GetTypeStr());
  return out;
}

std::vector<int> OnnxVersions(absl::string_view domain, absl::string_view name) {
  static const auto* schemas =
      new std::vector<onnx::OpSchema>(onnx::OpSchemaRegistry::get_all_schemas_with_history());
  std::vector<int> versions;
  for (const onnx::OpSchema& schema : *schemas) {
    if (schema.domain() == std::string(domain) && schema.Name() == std::string(name) &&
        schema.SinceVersion() <= kCanonicalOpset) {
      versions.push_back(schema.SinceVersion());
    }
  }
  std::sort(versions.begin(), versions.end());
  return versions;
}

std::vector<std::string> OnnxOperators(absl::string_view domain) {
  std::vector<std::string> names;
  for (const onnx::OpSchema& schema : onnx::OpSchemaRegistry::get_all_schemas()) {
    if (schema.domain() == std::string(domain) && !schema.deprecated()) {
      names.push_back(schema.Name());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace onward
