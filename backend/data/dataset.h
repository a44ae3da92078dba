// Data sets: named columns of equally many rows.
//
// How the pieces of backend/data fit:
//
//   DataSpec ── ReadDataset ──> Dataset ── FitInput, FitLabels ──> ColumnTransform per column
//   (--data, --labels,          (columns in the                    (type, shape, scale of what the
//    the model's inputs)         files' own types)                  model takes; notes to print)
//                                                    │
//                    Loader(Dataset, transforms) <───┘  ── Next() ──> Batch: a TensorView per
//                    order by (seed, epoch), gather,                  column and shard
//                    convert, one thread ahead
//
// - byte_reader.h opens, inflates and bounds; npy.h, idx.h, cifar.h, csv_reader.h
//   turn bytes into columns; read_dataset.h tells formats by their first bytes,
//   joins files and gives columns the names of the model's inputs.
// - A column keeps the type of its file (uint8 images stay uint8); conversion
//   happens as a batch is made (transform.h, convert.h).
// - No file is mapped. Columns of up to kReadWholeBytes, and all that had to be
//   inflated, swapped or transposed, are in memory; larger ones stay in their
//   file and rows are read by pread as batches are made. A file that changes
//   meanwhile is found (size and time of change are compared at every batch) and
//   gives an error, never a crash.
#ifndef ONWARD_BACKEND_DATA_DATASET_H_
#define ONWARD_BACKEND_DATA_DATASET_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "backend/data/byte_reader.h"
#include "graph/base/data_type.h"
#include "graph/base/shape.h"

namespace onward {

// Columns larger than this stay in their (uncompressed, row-major) file: 64 MiB
// are read in some 30 ms, which a start within 0.2 s can spend.
inline constexpr int64_t kReadWholeBytes = int64_t{64} << 20;

// How readers turn bytes into columns.
struct ReadOptions {
  // Memory that the columns may take. Default: AvailableMemory().
  int64_t max_bytes = AvailableMemory();
  // Columns over this many bytes stay in their file where they can; -1: none do.
  int64_t read_whole_bytes = kReadWholeBytes;
};

// `rows` samples, each of the extents `dims` and the type `dtype`. Rows may lie
// in several parts (files joined by rows), each in memory or in its file.
// Movable. Reading is thread-safe.
class Column {
 public:
  Column() = default;
  // Rows in memory, row-major, in the machine's byte order; `source` (a file)
  // stands in messages. REQUIRES: memory.size() = rows * bytes of a row.
  static Column InMemory(std::string name, DataType dtype, Dims dims, int64_t rows, Buffer memory,
                         std::string source);
  // Rows that stay in `file` from byte `offset` on. `swapped`: their byte order
  // is not the machine's. REQUIRES: the file held them when it was opened.
  static Column InFile(std::string name, DataType dtype, Dims dims, int64_t rows,
                       std::shared_ptr<const File> file, int64_t offset, bool swapped);

  const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }
  DataType dtype() const { return dtype_; }
  const Dims& dims() const { return dims_; }  // of one sample
  int64_t rows() const { return rows_; }
  int64_t row_bytes() const { return row_bytes_; }
  // Bytes of memory that it holds; parts that stay in their file count nothing.
  int64_t bytes() const;
  bool in_memory() const { return bytes() == rows_ * row_bytes_; }
  // The file that `row` came from, and the row's number in it: "a.npy: row 17".
  std::string Where(int64_t row) const;

  // Where the row lies in memory; null for one that stays in its file.
  // REQUIRES: 0 <= row < rows().
  const void* Row(int64_t row) const;
  // Copies rows [first, first + count). REQUIRES: they exist.
  absl::Status Read(int64_t first, int64_t count, void* to) const;
  // InvalidArgument where a file that rows stay in has changed since it was opened.
  absl::Status CheckUnchanged() const;
  // Brings all rows into memory (the cache). ResourceExhausted over `max_bytes`.
  absl::Status Load(int64_t max_bytes);
  // The rows of `other` behind one's own. InvalidArgument where type or extents
  // differ.
  absl::Status Append(Column other);
  // Rows that were parsed from text, which does not tell their type: Append
  // widens such columns to float64 where their types differ, and Narrow turns
  // float64 in memory into the smallest of uint8, float32, int64 and float64 that
  // holds every value exactly. Others keep the type of their file.
  void set_from_text() { from_text_ = true; }
  absl::Status Narrow();
  // Other extents over the same memory. REQUIRES: as many elements.
  void Reshape(Dims dims);

 private:
  struct Part {
    int64_t first_row = 0;
    int64_t rows = 0;
    Buffer memory;
    std::shared_ptr<const File> file;  // null: in memory
    int64_t offset = 0;
    bool swapped = false;
    std::string source;
  };
  const Part& PartOf(int64_t row) const;
  absl::Status ConvertTo(DataType dtype);

  std::string name_;
  DataType dtype_ = DataType::kUndefined;
  Dims dims_;
  int64_t rows_ = 0;
  int64_t row_bytes_ = 0;
  bool from_text_ = false;
  std::vector<Part> parts_;
};

// Columns with equally many rows, in the order in which they were added.
class Dataset {
 public:
  // InvalidArgument where the name is taken or the number of rows differs.
  absl::Status Add(Column column);

  int64_t rows() const { return columns_.empty() ? 0 : columns_[0].rows(); }
  const std::vector<Column>& columns() const { return columns_; }
  std::vector<Column>& mutable_columns() { return columns_; }
  // Null where there is none.
  const Column* Find(const std::string& name) const;
  // Memory that its columns hold: exactly what `plan` forecasts as data cache.
  int64_t bytes() const;
  // Brings every column into memory.
  absl::Status Load(int64_t max_bytes);

  // What was chosen without being asked for, one printable line each.
  std::vector<std::string> notes;

 private:
  std::vector<Column> columns_;
};

// The smallest of uint8, float32, int64 and float64 that holds all of `values`
// exactly.
DataType NarrowestType(absl::Span<const double> values);

// "28x28"; "scalar" where there are no extents; "?" for kDynamic.
std::string DimsText(const Dims& dims);

// Reverses the bytes of each of `count` elements of `size` bytes (1, 2, 4, 8).
void SwapBytes(void* data, int64_t count, size_t size);

// The array of `dtype` and extents `dims` (rows first) that makes up the rest of
// `reader`, as a column: in memory, or left in its file by `options`. `fortran`:
// the first axis runs fastest in the file.
absl::StatusOr<Column> ReadArray(ByteReader& reader, std::string name, DataType dtype,
                                 const Dims& dims, bool swapped, bool fortran,
                                 const ReadOptions& options);

}  // namespace onward

#endif  // ONWARD_BACKEND_DATA_DATASET_H_
