#include "backend/data/data_file.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backend/data/cifar.h"
#include "backend/data/data_error.h"
#include "backend/data/idx.h"
#include "graph/base/status_macros.h"

namespace onward {
namespace {

// Whether bytes look like text: no control characters but those that text has.
bool LooksLikeText(absl::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char c) {
    const unsigned char u = c;
    return u >= ' ' || u == '\t' || u == '\n' || u == '\r';
  });
}

struct Foreign {
  const char* magic;
  size_t at;
  const char* name;
};
constexpr Foreign kForeign[] = {
    {"\x89HDF", 0, "an HDF5 file"},
    {"\x89PNG", 0, "a PNG image"},
    {"\xff\xd8\xff", 0, "a JPEG image"},
    {"PAR1", 0, "a Parquet file"},
    {"ustar", 257, "a tar archive"},
    {"\xfd"
     "7zXZ",
     0, "an xz archive"},
    {"BZh", 0, "a bzip2 archive"},
    {"\x28\xb5\x2f\xfd", 0, "a zstd archive"},
    {"ARROW1", 0, "an Arrow file"},
    {"\xff\xfe", 0, "text in UTF-16"},
    {"\xfe\xff", 0, "text in UTF-16"},
};

// An IDX header whose data would not be as long as the file is may be the start
// of a CIFAR record of label 0.
bool LengthFitsIdx(const ByteReader& reader, absl::string_view bytes) {
  if (!reader.exact()) return true;
  const int rank = bytes[3];
  if (bytes.size() < 4 + 4 * static_cast<size_t>(rank)) return true;
  double elements = 1;
  for (int i = 0; i < rank; ++i) {
    uint32_t extent = 0;
    for (int b = 0; b < 4; ++b)
      extent = extent << 8 | static_cast<unsigned char>(bytes[4 + 4 * i + b]);
    elements *= extent;
  }
  const unsigned char type = bytes[2];
  const double size = type < 0x0B ? 1 : type == 0x0B ? 2 : type == 0x0E ? 8 : 4;
  const int64_t total = reader.most_bytes();
  return elements * size + 4 + 4 * rank == static_cast<double>(total) ||
         (total % 3073 != 0 && total % 3074 != 0);
}

}  // namespace

absl::StatusOr<DataFormat> TellFormat(ByteReader& reader) {
  ASSIGN_OR_RETURN(const absl::string_view bytes, reader.Peek(4096));
  if (bytes.empty()) return DataError(reader.name(), ": is empty");
  if (bytes.substr(0, 6) == "\x93NUMPY") return DataFormat::kNpy;
  if (bytes.substr(0, 4) == "PK\x03\x04" || bytes.substr(0, 4) == "PK\x05\x06") {
    if (!reader.exact()) return DataError(reader.name(), ": is a gzipped .npz: unpack it first");
    return DataFormat::kNpz;
  }
  if (LooksLikePickle(bytes)) return DataFormat::kCifarPickle;
  if (LooksLikeIdx(bytes) && LengthFitsIdx(reader, bytes)) return DataFormat::kIdx;
  for (const Foreign& f : kForeign) {
    if (bytes.size() > f.at &&
        bytes.substr(f.at).substr(0, std::char_traits<char>::length(f.magic)) == f.magic) {
      return DataError(reader.name(), ": is ", f.name,
                       "; .npy, .npz, IDX, CIFAR's batches and CSV are read");
    }
  }
  if (LooksLikeText(bytes)) return DataFormat::kCsv;
  // Records of CIFAR have no mark: what is left is tried as such where its
  // length allows it.
  const int64_t size = reader.most_bytes();
  if (!reader.exact() || size % 3073 == 0 || size % 3074 == 0) return DataFormat::kCifarBinary;
  return DataError(reader.name(),
                   ": is of no known format; .npy, .npz, IDX, CIFAR's batches and CSV are read");
}

absl::StatusOr<DataFile> DataFile::Open(const std::string& path, const CsvOptions& csv,
                                        const ReadOptions& read) {
  DataFile f;
  f.path_ = path;
  f.read_ = read;
  ASSIGN_OR_RETURN(f.reader_, ByteReader::Open(path));
  ASSIGN_OR_RETURN(f.format_, TellFormat(*f.reader_));
  switch (f.format_) {
    case DataFormat::kNpy:
    case DataFormat::kIdx:
      f.arrays_ = {""};
      break;
    case DataFormat::kNpz: {
      ASSIGN_OR_RETURN(f.entries_, ListNpz(path));
      for (const NpzEntry& entry : f.entries_) f.arrays_.push_back(entry.name);
      break;
    }
    case DataFormat::kCifarBinary:
    case DataFormat::kCifarPickle: {
      ASSIGN_OR_RETURN(f.columns_, f.format_ == DataFormat::kCifarBinary
                                       ? ReadCifarBinary(*f.reader_, read)
                                       : ReadCifarPickle(*f.reader_, read));
      for (const Column& column : f.columns_) f.arrays_.push_back(column.name());
      break;
    }
    case DataFormat::kCsv: {
      ASSIGN_OR_RETURN(f.table_, ReadCsv(*f.reader_, csv, read));
      f.arrays_ = f.table_.names;
      break;
    }
  }
  return f;
}

std::string DataFile::ArraysText() const {
  constexpr size_t kMost = 12;
  std::vector<std::string> some(arrays_.begin(), arrays_.begin() + std::min(kMost, arrays_.size()));
  return absl::StrCat(absl::StrJoin(some, ", "), arrays_.size() > kMost ? ", ..." : "");
}

std::optional<std::string> DataFile::Find(const std::string& array) const {
  if (format_ == DataFormat::kCsv) {
    const int column = table_.Find(array);
    if (column >= 0) return table_.names[column];
    return std::nullopt;
  }
  if (named() && std::find(arrays_.begin(), arrays_.end(), array) != arrays_.end()) return array;
  return std::nullopt;
}

int64_t DataFile::SampleElements(const std::string& array) const {
  for (const NpzEntry& entry : entries_) {
    if (entry.name != array || entry.header.dims.empty()) continue;
    const auto elements = CheckedElements(absl::MakeConstSpan(entry.header.dims).subspan(1));
    return elements.ok() ? *elements : 0;
  }
  for (const Column& column : columns_) {
    if (column.name() == array) return Elements(column.dims());
  }
  return 1;
}

absl::StatusOr<Column> DataFile::Take(const std::string& array) {
  const std::optional<std::string> found = Find(array);
  if (!found.has_value()) {
    if (!named())
      return DataError(path_, ": holds one array without a name, '", array, "' was asked for");
    return DataError(path_, ": has no '", array, "'; it has ", ArraysText());
  }
  if (format_ == DataFormat::kNpz) return ReadNpzArray(path_, *found, read_);
  if (format_ == DataFormat::kCsv)
    return table_.Take(*found, {table_.Find(*found)}, /*scalar=*/true);
  for (Column& column : columns_) {
    if (column.name() == *found && column.rows() > 0) return std::exchange(column, Column());
  }
  return DataError(path_, ": '", *found, "' is used twice or empty");
}

absl::StatusOr<Column> DataFile::TakeSamples(const std::string& labels) {
  switch (format_) {
    case DataFormat::kNpy:
      return ReadNpy(*reader_, "data", read_);
    case DataFormat::kIdx:
      return ReadIdx(*reader_, "data", read_);
    case DataFormat::kCifarBinary:
    case DataFormat::kCifarPickle:
      return Take("images");
    case DataFormat::kNpz: {
      std::string only;
      for (const std::string& array : arrays_) {
        if (array == labels) continue;
        if (!only.empty()) {
          return DataError(path_, ": holds several arrays (", ArraysText(), "): say which by ",
                           path_, ":ARRAY");
        }
        only = array;
      }
      return Take(only);
    }
    case DataFormat::kCsv: {
      std::vector<int> columns;
      const int label = labels.empty() ? -1 : table_.Find(labels);
      for (int i = 0; i < static_cast<int>(arrays_.size()); ++i) {
        if (i != label) columns.push_back(i);
      }
      if (columns.empty()) return DataError(path_, ": has no column but the labels");
      return table_.Take("data", columns, /*scalar=*/false);
    }
  }
  return DataError(path_, ": is of no known format");
}

}  // namespace onward
