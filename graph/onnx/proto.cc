#include "graph/onnx/proto.h"

#include <exception>
#include <memory>
#include <type_traits>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "graph/base/status_macros.h"

namespace onward {
namespace {

// The location of data that is in memory.
constexpr char kElsewhere[] = "onward";

// Copies a repeated protobuf field into the tensor's element type.
template <typename T, typename Field>
absl::Status CopyField(const Field& field, Tensor* tensor) {
  if (field.size() != tensor->elements()) {
    return absl::InvalidArgumentError(absl::StrCat("holds ", field.size(), " elements, expected ",
                                                   tensor->elements(), " for shape ",
                                                   ToString(tensor->dims())));
  }
  T* out = static_cast<T*>(tensor->data());
  for (int i = 0; i < field.size(); ++i) out[i] = static_cast<T>(field.Get(i));
  return absl::OkStatus();
}

absl::Status CopyTyped(const onnx::TensorProto& proto, Tensor* tensor) {
  switch (tensor->dtype()) {
    case DataType::kFloat32:
      return CopyField<float>(proto.float_data(), tensor);
    case DataType::kFloat64:
      return CopyField<double>(proto.double_data(), tensor);
    case DataType::kInt64:
      return CopyField<int64_t>(proto.int64_data(), tensor);
    case DataType::kUint64:
      return CopyField<uint64_t>(proto.uint64_data(), tensor);
    case DataType::kUint32:
      return CopyField<uint32_t>(proto.uint64_data(), tensor);
    case DataType::kInt32:
      return CopyField<int32_t>(proto.int32_data(), tensor);
    case DataType::kInt16:
      return CopyField<int16_t>(proto.int32_data(), tensor);
    case DataType::kUint16:
    case DataType::kFloat16:
    case DataType::kBfloat16:
      return CopyField<uint16_t>(proto.int32_data(), tensor);
    case DataType::kInt8:
      return CopyField<int8_t>(proto.int32_data(), tensor);
    case DataType::kBool:
      return CopyField<bool>(proto.int32_data(), tensor);
    case DataType::kUint8:
    case DataType::kFloat6E2M3:  // not packed where they are typed
    case DataType::kFloat6E3M2:
    case DataType::kFloat8E4M3Fn:
    case DataType::kFloat8E4M3Fnuz:
    case DataType::kFloat8E5M2:
    case DataType::kFloat8E5M2Fnuz:
    case DataType::kFloat8E8M0:
      return CopyField<uint8_t>(proto.int32_data(), tensor);
    case DataType::kInt4:
    case DataType::kUint4:
    case DataType::kInt2:
    case DataType::kUint2:
    case DataType::kFloat4E2M1: {
      uint8_t* out = static_cast<uint8_t*>(tensor->data());
      for (int32_t packed : proto.int32_data()) *out++ = static_cast<uint8_t>(packed);
      FinishRawData(tensor);
      return absl::OkStatus();
    }
    case DataType::kString: {
      StringRef* out = static_cast<StringRef*>(tensor->data());
      for (const std::string& text : proto.string_data()) *out++ = StringRef::Of(text);
      return absl::OkStatus();
    }
    default:
      return absl::UnimplementedError(absl::StrCat("tensors of ", Name(tensor->dtype())));
  }
}

}  // namespace

std::string OneLine(const std::string& message) {
  std::string out = absl::StrReplaceAll(
      message, {{"\n", " "}, {"[ShapeInferenceError] ", ""}, {"[TypeInferenceError] ", ""}});
  while (absl::StrReplaceAll({{"  ", " "}}, &out) > 0) {
  }
  const size_t context = out.find(" ==> Context:");
  if (context != std::string::npos) {
    const std::string where = out.substr(context + 13);
    out = absl::StrCat(out.substr(0, context), " (", absl::StripAsciiWhitespace(where), ")");
  }
  absl::StripAsciiWhitespace(&out);
  return out;
}

absl::Status CatchOnnx(const std::function<void()>& body) {
  try {
    body();
    return absl::OkStatus();
  } catch (const std::exception& e) {
    return absl::InvalidArgumentError(OneLine(e.what()));
  } catch (...) {
    return absl::InvalidArgumentError("an unknown exception of ONNX");
  }
}

namespace {

// A tensor whose data is known to be there before memory is taken. An item has so many
// bits.
absl::StatusOr<Tensor> RoomFor(const onnx::TensorProto& proto, const char* what, int64_t held,
                               int bits, int bits_of_item) {
  const auto where = [&] { return absl::StrCat("tensor '", proto.name(), "'"); };
  const DataType dtype = static_cast<DataType>(proto.data_type());
  if (SizeOf(dtype) == 0) {
    return absl::UnimplementedError(
        absl::StrCat(where(), ": data type ", proto.data_type(), " is not supported"));
  }
  Dims dims(proto.dims().begin(), proto.dims().end());
  const absl::StatusOr<int64_t> elements = CheckedElements(dims);
  if (!elements.ok()) return Annotate(elements.status(), where());
  const int64_t expected = (*elements * bits + bits_of_item - 1) / bits_of_item;
  if (held != expected) {
    return absl::InvalidArgumentError(absl::StrCat(where(), ": holds ", held, " ", what,
                                                   ", expected ", expected, " for ", Name(dtype),
                                                   ToString(dims)));
  }
  return Tensor::Allocate(dtype, std::move(dims));
}

}  // namespace

absl::StatusOr<Tensor> RoomForRawData(const onnx::TensorProto& proto, int64_t held) {
  const DataType dtype = static_cast<DataType>(proto.data_type());
  if (dtype == DataType::kString) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor '", proto.name(), "': strings as raw data"));
  }
  return RoomFor(proto, "bytes", held, PackedBits(dtype), 8);
}

void FinishRawData(Tensor* tensor) {
  const int bits = PackedBits(tensor->dtype());
  if (bits == 0 || bits >= 8) return;
  // From the last one on: an element's bits never lie behind its byte.
  uint8_t* const bytes = static_cast<uint8_t*>(tensor->data());
  for (int64_t i = tensor->elements() - 1; i >= 0; --i) {
    const int64_t first = i * bits / 8, last = (i * bits + bits - 1) / 8;
    const int both = bytes[first] | (last > first ? bytes[last] << 8 : 0);
    const int code = (both >> (i * bits % 8)) & ((1 << bits) - 1);
    bytes[i] = IsSmallInteger(tensor->dtype()) ? SmallIntegerOf(tensor->dtype(), code)
                                               : static_cast<uint8_t>(code);
  }
}

absl::StatusOr<Tensor> TensorFromProto(const onnx::TensorProto& proto) {
  if (proto.has_raw_data()) {
    const std::string& raw = proto.raw_data();
    ASSIGN_OR_RETURN(Tensor tensor, RoomForRawData(proto, static_cast<int64_t>(raw.size())));
    if (!raw.empty()) std::memcpy(tensor.data(), raw.data(), raw.size());
    FinishRawData(&tensor);
    return tensor;
  }
  const DataType dtype = static_cast<DataType>(proto.data_type());
  const int64_t held = dtype == DataType::kString
                           ? proto.string_data_size()
                           : std::max<int64_t>({proto.float_data_size(), proto.double_data_size(),
                                                proto.int32_data_size(), proto.int64_data_size(),
                                                proto.uint64_data_size()});
  // Types of 4 and 2 bits are packed into the bytes of int32_data too.
  const int bits = PackedBits(dtype);
  const bool packed = bits == 4 || bits == 2;
  ASSIGN_OR_RETURN(
      Tensor tensor,
      RoomFor(proto, "elements", packed ? proto.int32_data_size() : held, packed ? bits : 8, 8));
  RETURN_IF_ERROR(Annotate(CopyTyped(proto, &tensor), absl::StrCat("tensor '", proto.name(), "'")));
  return tensor;
}

void SetData(const Tensor& tensor, onnx::TensorProto* proto) {
  const int bits = PackedBits(tensor.dtype());
  if (tensor.dtype() == DataType::kString) {
    proto->clear_string_data();
    for (StringRef s : tensor.values<StringRef>()) proto->add_string_data(s.text());
  } else if (bits >= 8) {
    proto->set_raw_data(tensor.data(), tensor.bytes());
  } else {
    std::string packed((tensor.elements() * bits + 7) / 8, '\0');
    const uint8_t* const codes = static_cast<const uint8_t*>(tensor.data());
    for (int64_t i = 0; i < tensor.elements(); ++i) {
      const int shifted = (codes[i] & ((1 << bits) - 1)) << (i * bits % 8);
      packed[i * bits / 8] |= static_cast<char>(shifted);
      if (shifted > 0xff) packed[i * bits / 8 + 1] |= static_cast<char>(shifted >> 8);
    }
    proto->set_raw_data(std::move(packed));
  }
}

void TensorToProto(const Tensor& tensor, const std::string& name, onnx::TensorProto* proto) {
  proto->set_name(name);
  proto->set_data_type(static_cast<int>(tensor.dtype()));
  for (int64_t d : tensor.dims()) proto->add_dims(d);
  SetData(tensor, proto);
}

void ClearData(onnx::TensorProto* proto) {
  // clear_...() would keep the memory for other values; here it goes back.
  std::unique_ptr<std::string>(proto->release_raw_data()).reset();
  const auto give_back = [](auto* field) { std::decay_t<decltype(*field)>().Swap(field); };
  give_back(proto->mutable_float_data());
  give_back(proto->mutable_int32_data());
  give_back(proto->mutable_int64_data());
  give_back(proto->mutable_uint64_data());
  give_back(proto->mutable_double_data());
  give_back(proto->mutable_string_data());
  proto->clear_external_data();
  proto->clear_data_location();
}

void ReferToData(onnx::TensorProto* proto) {
  ClearData(proto);
  proto->set_data_location(onnx::TensorProto::EXTERNAL);
  onnx::StringStringEntryProto* entry = proto->add_external_data();
  entry->set_key("location");
  entry->set_value(kElsewhere);
}

bool RefersToData(const onnx::TensorProto& proto) {
  return proto.data_location() == onnx::TensorProto::EXTERNAL && proto.external_data_size() == 1 &&
         proto.external_data(0).value() == kElsewhere;
}

absl::StatusOr<AttributeValue> AttributeFromProto(const onnx::AttributeProto& proto) {
  switch (proto.type()) {
    case onnx::AttributeProto::INT:
      return AttributeValue(static_cast<int64_t>(proto.i()));
    case onnx::AttributeProto::FLOAT:
      return AttributeValue(static_cast<double>(proto.f()));
    case onnx::AttributeProto::STRING:
      return AttributeValue(proto.s());
    case onnx::AttributeProto::INTS:
      return AttributeValue(std::vector<int64_t>(proto.ints().begin(), proto.ints().end()));
    case onnx::AttributeProto::FLOATS:
      return AttributeValue(std::vector<double>(proto.floats().begin(), proto.floats().end()));
    case onnx::AttributeProto::STRINGS:
      return AttributeValue(
          std::vector<std::string>(proto.strings().begin(), proto.strings().end()));
    case onnx::AttributeProto::TENSOR: {
      ASSIGN_OR_RETURN(Tensor tensor, TensorFromProto(proto.t()));
      return AttributeValue(std::make_shared<const Tensor>(std::move(tensor)));
    }
    default:
      return absl::UnimplementedError(
          absl::StrCat("attribute '", proto.name(), "' of type ", proto.type()));
  }
}

absl::StatusOr<Attributes> AttributesFromProto(const onnx::NodeProto& node) {
  Attributes attributes;
  for (const onnx::AttributeProto& a : node.attribute()) {
    ASSIGN_OR_RETURN(AttributeValue value, AttributeFromProto(a));
    attributes.Set(a.name(), std::move(value));
  }
  return attributes;
}

void AttributeToProto(const std::string& name, const AttributeValue& value,
                      onnx::AttributeProto* proto) {
  proto->set_name(name);
  struct Setter {
    onnx::AttributeProto* p;
    void operator()(int64_t v) const {
      p->set_type(onnx::AttributeProto::INT);
      p->set_i(v);
    }
    void operator()(double v) const {
      p->set_type(onnx::AttributeProto::FLOAT);
      p->set_f(static_cast<float>(v));
    }
    void operator()(const std::string& v) const {
      p->set_type(onnx::AttributeProto::STRING);
      p->set_s(v);
    }
    void operator()(const std::vector<int64_t>& v) const {
      p->set_type(onnx::AttributeProto::INTS);
      for (int64_t x : v) p->add_ints(x);
    }
    void operator()(const std::vector<double>& v) const {
      p->set_type(onnx::AttributeProto::FLOATS);
      for (double x : v) p->add_floats(static_cast<float>(x));
    }
    void operator()(const std::vector<std::string>& v) const {
      p->set_type(onnx::AttributeProto::STRINGS);
      for (const std::string& x : v) p->add_strings(x);
    }
    void operator()(const std::shared_ptr<const Tensor>& v) const {
      p->set_type(onnx::AttributeProto::TENSOR);
      TensorToProto(*v, "", p->mutable_t());
    }
  };
  std::visit(Setter{proto}, value);
}

const onnx::AttributeProto* FindAttribute(const onnx::NodeProto& node, absl::string_view name) {
  for (const onnx::AttributeProto& a : node.attribute()) {
    if (absl::string_view(a.name()) == name) return &a;
  }
  return nullptr;
}

int64_t IntAttribute(const onnx::NodeProto& node, absl::string_view name, int64_t otherwise) {
  const onnx::AttributeProto* a = FindAttribute(node, name);
  return a == nullptr ? otherwise : a->i();
}

void TypeToProto(const TensorType& type, onnx::TypeProto* proto) {
  onnx::TypeProto::Tensor* tensor = proto->mutable_tensor_type();
  tensor->set_elem_type(static_cast<int>(type.dtype));
  onnx::TensorShapeProto* shape = tensor->mutable_shape();
  for (int64_t d : type.dims) {
    auto* dim = shape->add_dim();
    if (d != kDynamic) dim->set_dim_value(d);
  }
}

}  // namespace onward
