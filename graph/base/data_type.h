// The element types of tensors, as ONNX numbers and names them.
#ifndef ONWARD_GRAPH_BASE_DATA_TYPE_H_
#define ONWARD_GRAPH_BASE_DATA_TYPE_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/base/string_ref.h"

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
  kFloat8E4M3Fn = 17,
  kFloat8E4M3Fnuz = 18,
  kFloat8E5M2 = 19,
  kFloat8E5M2Fnuz = 20,
  kUint4 = 21,
  kInt4 = 22,
  kFloat4E2M1 = 23,
  kFloat8E8M0 = 24,
  kUint2 = 25,
  kInt2 = 26,
  kFloat6E2M3 = 27,
  kFloat6E3M2 = 28,
};

// Bytes of one element in memory; 0 for kUndefined and what is not listed. Types of
// less than a byte take one each; a string is a handle (see string_ref.h) of eight.
size_t SizeOf(DataType type);

// Bits of one element where ONNX's files pack them: 8 * SizeOf, and 2, 4 or 6 for the
// types of less than a byte. 0 for strings, which files hold otherwise.
int PackedBits(DataType type);

// "float32", "int64", ...; ONNX's spelling in text ("float", "double") is
// OnnxName.
absl::string_view Name(DataType type);
absl::string_view OnnxName(DataType type);

// Accepts both spellings. InvalidArgument for another.
absl::StatusOr<DataType> ParseDataType(absl::string_view name);

// float16, bfloat16, float32 and float64: the types that carry gradients.
bool IsFloating(DataType type);
// Those of a byte or more: what arithmetic is defined for.
bool IsInteger(DataType type);
// The floats of 8 bits and less, for which there are conversions only.
bool IsSmallFloat(DataType type);
// int4, uint4, int2 and uint2, likewise.
bool IsSmallInteger(DataType type);
// The lowest bits of an integer as an element of such a type: the byte in memory holds
// its value (with its sign), not its bits alone.
inline uint8_t SmallIntegerOf(DataType type, int64_t value) {
  const int unused = type == DataType::kInt4 || type == DataType::kUint4 ? 4 : 6;
  const uint8_t shifted = static_cast<uint8_t>(static_cast<uint64_t>(value) << unused);
  const bool is_signed = type == DataType::kInt4 || type == DataType::kInt2;
  return is_signed ? static_cast<uint8_t>(static_cast<int8_t>(shifted) >> unused)
                   : static_cast<uint8_t>(shifted >> unused);
}

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
struct DataTypeOf<StringRef> {
  static constexpr DataType value = DataType::kString;
};
template <>
struct DataTypeOf<bool> {
  static constexpr DataType value = DataType::kBool;
};

}  // namespace onward

#endif  // ONWARD_GRAPH_BASE_DATA_TYPE_H_
