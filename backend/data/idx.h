// IDX files, as MNIST is published: big-endian arrays with a short header.
#ifndef ONWARD_BACKEND_DATA_IDX_H_
#define ONWARD_BACKEND_DATA_IDX_H_

#include <string>

#include "absl/status/statusor.h"
#include "backend/data/dataset.h"

namespace onward {

// Two zero bytes, a type (0x08 uint8, 0x09 int8, 0x0B int16, 0x0C int32, 0x0D
// float32, 0x0E float64), the rank, the extents as 32-bit numbers, the data. The
// first axis is the rows.
bool LooksLikeIdx(absl::string_view first_bytes);
absl::StatusOr<Column> ReadIdx(ByteReader& reader, std::string name, const ReadOptions& options);

}  // namespace onward

#endif  // ONWARD_BACKEND_DATA_IDX_H_
