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
};

constexpr Row kRows[] = {
    {DataType::kUndefined, "undefined", "undefined", 0},
    {DataType::kFloat32, "float32", "float", 4},
    {DataType::kUint8, "uint8", "uint8", 1},
    {DataType::kInt8, "int8", "int8", 1},
    {DataType::kUint16, "uint16", "uint16", 2},
    {DataType::kInt16, "int16", "int16", 2},
    {DataType::kInt32, "int32", "int32", 4},
    {DataType::kInt64, "int64", "int64", 8},
    {DataType::kString, "string", "string", 0},
    {DataType::kBool, "bool", "bool", 1},
    {DataType::kFloat16, "float16", "float16", 2},
    {DataType::kFloat64, "float64", "double", 8},
    {DataType::kUint32, "uint32", "uint32", 4},
    {DataType::kUint64, "uint64", "uint64", 8},
    {DataType::kBfloat16, "bfloat16", "bfloat16", 2},
};

const Row& Find(DataType type) {
  for (const Row& row : kRows) {
    if (row.type == type) return row;
  }
  return kRows[0];
}

}  // namespace

size_t SizeOf(DataType type) { return Find(type).size; }
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

}  // namespace onward
