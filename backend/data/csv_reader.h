// Tables of numbers as text.
#ifndef ONWARD_BACKEND_DATA_CSV_READER_H_
#define ONWARD_BACKEND_DATA_CSV_READER_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backend/data/dataset.h"

namespace onward {

struct CsvOptions {
  // Default: told by the first row, which is a header if a field of it is no number.
  std::optional<bool> header;
  // Default (0): tab or semicolon where the first line has one and no comma; else comma.
  char delimiter = 0;
};

// All fields of a file, row by row, as doubles.
struct CsvTable {
  std::vector<std::string> names;  // of its columns; "0", "1", ... without a header
  int64_t rows = 0;
  Buffer values;  // rows x names.size() doubles
  std::string source;

  // The column of that name, or, where none has it, of that number (from 0; -1
  // is the last). -1: there is none.
  int Find(const std::string& column) const;
  // The columns as one: a sample is a number (`scalar`, for one column alone) or
  // a row of them, of the narrowest type that holds them all (Column::Narrow).
  absl::StatusOr<Column> Take(const std::string& name, const std::vector<int>& columns,
                              bool scalar) const;
};

// Errors name the line and the column: an empty field, a text, a row of another
// length.
absl::StatusOr<CsvTable> ReadCsv(ByteReader& reader, const CsvOptions& options,
                                 const ReadOptions& read);

}  // namespace onward

#endif  // ONWARD_BACKEND_DATA_CSV_READER_H_
