// The element types of tensors, as ONNX numbers and names them.
#ifndef ONWARD_GRAPH_BASE_DATA_TYPE_H_
#define ONWARD_GRAPH_BASE_DATA_TYPE_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace onward {

// Values equal onnx::TensorProto::DataType, so that they can be written to and
// read from files without a table.
enum class DataType : int {
  kUndefined = 0,
  kFloat32 = 1,
  kUint8 = 2,
  kInt8 = 3,
  kUint16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kString = 8,
  kBool = 9,
  kFloat16 = 10,
  kFloat64 = 11,
  kUint32 = 12,
  kUint64 = 13,
  kBfloat16 = 16,
};

// Bytes of one element; 0 for kUndefined and kString.
size_t SizeOf(DataType type);

// "float32", "int64", ...; ONNX's spelling in text ("float", "double") is
// OnnxName.
absl::string_view Name(DataType type);
absl::string_view OnnxName(DataType type);

// Accepts both spellings. InvalidArgument for another.
absl::StatusOr<DataType> ParseDataType(absl::string_view name);

// float16, bfloat16, float32 and float64: the types that carry gradients.
bool IsFloating(DataType type);
bool IsInteger(DataType type);

// DataTypeOf<float>::value and so on, for the C++ types that kernels work in.
template <typename T>
struct DataTypeOf;
template <>
struct DataTypeOf<float> {
  static constexpr DataType value = DataType::kFloat32;
};
template <>
struct DataTypeOf<double> {
  static constexpr DataType value = DataType::kFloat64;
};
template <>
struct DataTypeOf<int8_t> {
  static constexpr DataType value = DataType::kInt8;
};
template <>
struct DataTypeOf<uint8_t> {
  static constexpr DataType value = DataType::kUint8;
};
template <>
struct DataTypeOf<int16_t> {
  static constexpr DataType value = DataType::kInt16;
};
template <>
struct DataTypeOf<uint16_t> {
  static constexpr DataType value = DataType::kUint16;
};
template <>
struct DataTypeOf<int32_t> {
  static constexpr DataType value = DataType::kInt32;
};
template <>
struct DataTypeOf<uint32_t> {
  static constexpr DataType value = DataType::kUint32;
};
template <>
struct DataTypeOf<int64_t> {
  static constexpr DataType value = DataType::kInt64;
};
template <>
struct DataTypeOf<uint64_t> {
  static constexpr DataType value = DataType::kUint64;
};
template <>
struct DataTypeOf<bool> {
  static constexpr DataType value = DataType::kBool;
};

}  // namespace onward

#endif  // ONWARD_GRAPH_BASE_DATA_TYPE_H_
