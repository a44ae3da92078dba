// NumPy's files: .npy (one array) and .npz (a zip of them).
#ifndef ONWARD_BACKEND_DATA_NPY_H_
#define ONWARD_BACKEND_DATA_NPY_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "backend/data/byte_reader.h"
#include "backend/data/dataset.h"
#include "graph/base/tensor.h"

namespace onward {

// What a .npy header declares.
struct NpyHeader {
  DataType dtype = DataType::kUndefined;
  bool swapped = false;  // not in the machine's byte order
  bool fortran = false;  // first axis fastest
  Dims dims;             // rows first
};

// Reads a header of version 1, 2 or 3 and leaves `reader` at the data. bool,
// int8-64, uint8-64, float16/32/64 of either byte order; other types (objects,
// texts, records, complex) are refused.
absl::StatusOr<NpyHeader> ReadNpyHeader(ByteReader& reader);

// The array as a column called `name`: its first axis is the rows.
absl::StatusOr<Column> ReadNpy(ByteReader& reader, std::string name, const ReadOptions& options);

// What arrays an .npz holds, in its order, without reading their data.
struct NpzEntry {
  std::string name;  // without ".npy"
  NpyHeader header;
};
absl::StatusOr<std::vector<NpzEntry>> ListNpz(const std::string& path);

// One array of an .npz (stored or deflated). Always in memory.
absl::StatusOr<Column> ReadNpzArray(const std::string& path, const std::string& array,
                                    const ReadOptions& options);

// Writes version 1.0, little-endian, row-major, to a file beside `path` that is
// then renamed. Errors are kOutput. bfloat16 is written as float32.
absl::Status WriteNpy(const std::string& path, const TensorView& array);

// The same for several named arrays, stored without compression (what
// numpy.savez does), readable by numpy.load.
absl::Status WriteNpz(const std::string& path,
                      absl::Span<const std::pair<std::string, TensorView>> arrays);

}  // namespace onward

#endif  // ONWARD_BACKEND_DATA_NPY_H_
