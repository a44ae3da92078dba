#include "graph/base/data_type.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace onward {
namespace {

struct Row {
  DataType type;
  const char* name;
  const char* onnx_name;
  size_t size;
  int bits;  // packed
};

constexpr Row kRows[] = {
    {DataType::kUndefined, "undefined", "undefined", 0, 0},
    {DataType::kFloat32, "float32", "float", 4, 32},
    {DataType::kUint8, "uint8", "uint8", 1, 8},
    {DataType::kInt8, "int8", "int8", 1, 8},
    {DataType::kUint16, "uint16", "uint16", 2, 16},
    {DataType::kInt16, "int16", "int16", 2, 16},
    {DataType::kInt32, "int32", "int32", 4, 32},
    {DataType::kInt64, "int64", "int64", 8, 64},
    {DataType::kString, "string", "string", 8, 0},
    {DataType::kBool, "bool", "bool", 1, 8},
    {DataType::kFloat16, "float16", "float16", 2, 16},
    {DataType::kFloat64, "float64", "double", 8, 64},
    {DataType::kUint32, "uint32", "uint32", 4, 32},
    {DataType::kUint64, "uint64", "uint64", 8, 64},
    {DataType::kBfloat16, "bfloat16", "bfloat16", 2, 16},
    {DataType::kFloat8E4M3Fn, "float8e4m3fn", "float8e4m3fn", 1, 8},
    {DataType::kFloat8E4M3Fnuz, "float8e4m3fnuz", "float8e4m3fnuz", 1, 8},
    {DataType::kFloat8E5M2, "float8e5m2", "float8e5m2", 1, 8},
    {DataType::kFloat8E5M2Fnuz, "float8e5m2fnuz", "float8e5m2fnuz", 1, 8},
    {DataType::kUint4, "uint4", "uint4", 1, 4},
    {DataType::kInt4, "int4", "int4", 1, 4},
    {DataType::kFloat4E2M1, "float4e2m1", "float4e2m1", 1, 4},
    {DataType::kFloat8E8M0, "float8e8m0", "float8e8m0", 1, 8},
    {DataType::kUint2, "uint2", "uint2", 1, 2},
    {DataType::kInt2, "int2", "int2", 1, 2},
    {DataType::kFloat6E2M3, "float6e2m3", "float6e2m3", 1, 6},
    {DataType::kFloat6E3M2, "float6e3m2", "float6e3m2", 1, 6},
};

const Row& Find(DataType type) {
  for (const Row& row : kRows) {
    if (row.type == type) return row;
  }
  return kRows[0];
}

}  // namespace

size_t SizeOf(DataType type) { return Find(type).size; }
int PackedBits(DataType type) { return Find(type).bits; }
absl::string_view Name(DataType type) { return Find(type).name; }
absl::string_view OnnxName(DataType type) { return Find(type).onnx_name; }

absl::StatusOr<DataType> ParseDataType(absl::string_view name) {
  for (const Row& row : kRows) {
    if (name == row.name || name == row.onnx_name) return row.type;
  }
  return absl::InvalidArgumentError(absl::StrCat("no data type is called '", name, "'"));
}

bool IsFloating(DataType type) {
  return type == DataType::kFloat32 || type == DataType::kFloat64 || type == DataType::kFloat16 ||
         type == DataType::kBfloat16;
}

bool IsInteger(DataType type) {
  switch (type) {
    case DataType::kUint8:
    case DataType::kInt8:
    case DataType::kUint16:
    case DataType::kInt16:
    case DataType::kInt32:
    case DataType::kInt64:
    case DataType::kUint32:
    case DataType::kUint64:
      return true;
    default:
      return false;
  }
}

bool IsSmallFloat(DataType type) {
  switch (type) {
    case DataType::kFloat8E4M3Fn:
    case DataType::kFloat8E4M3Fnuz:
    case DataType::kFloat8E5M2:
    case DataType::kFloat8E5M2Fnuz:
    case DataType::kFloat8E8M0:
    case DataType::kFloat4E2M1:
    case DataType::kFloat6E2M3:
    case DataType::kFloat6E3M2:
      return true;
    default:
      return false;
  }
}

bool IsSmallInteger(DataType type) {
  return type == DataType::kInt4 || type == DataType::kUint4 || type == DataType::kInt2 ||
         type == DataType::kUint2;
}

}  // namespace onward
