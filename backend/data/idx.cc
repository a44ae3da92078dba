#include "backend/data/idx.h"

#include "backend/data/data_error.h"
#include "graph/base/status_macros.h"

namespace onward {
namespace {

constexpr int kMostRank = 32;

DataType TypeOf(unsigned char code) {
  switch (code) {
    case 0x08:
      return DataType::kUint8;
    case 0x09:
      return DataType::kInt8;
    case 0x0B:
      return DataType::kInt16;
    case 0x0C:
      return DataType::kInt32;
    case 0x0D:
      return DataType::kFloat32;
    case 0x0E:
      return DataType::kFloat64;
    default:
      return DataType::kUndefined;
  }
}

}  // namespace

bool LooksLikeIdx(absl::string_view first_bytes) {
  return first_bytes.size() >= 4 && first_bytes[0] == 0 && first_bytes[1] == 0 &&
         TypeOf(first_bytes[2]) != DataType::kUndefined && first_bytes[3] >= 1 &&
         first_bytes[3] <= kMostRank;
}

absl::StatusOr<Column> ReadIdx(ByteReader& reader, std::string name, const ReadOptions& options) {
  unsigned char magic[4];
  RETURN_IF_ERROR(reader.Read(magic, 4, "the IDX header"));
  const DataType dtype = TypeOf(magic[2]);
  if (magic[0] != 0 || magic[1] != 0 || dtype == DataType::kUndefined) {
    return DataError(reader.name(), ": byte 0: is no IDX file");
  }
  if (magic[3] < 1 || magic[3] > kMostRank) {
    return DataError(reader.name(), ": byte 3: an IDX array of rank ", int{magic[3]}, "; 1 to ",
                     kMostRank, " are read");
  }
  Dims dims;
  for (int axis = 0; axis < magic[3]; ++axis) {
    unsigned char b[4];
    RETURN_IF_ERROR(reader.Read(b, 4, "the IDX header"));
    dims.push_back(int64_t{b[0]} << 24 | b[1] << 16 | b[2] << 8 | b[3]);
  }
  const bool swapped = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
  return ReadArray(reader, std::move(name), dtype, dims, swapped, /*fortran=*/false, options);
}

}  // namespace onward
