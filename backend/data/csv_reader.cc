#include "backend/data/csv_reader.h"

#include <csv.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "backend/data/data_error.h"
#include "graph/base/status_macros.h"

namespace onward {
namespace {

constexpr size_t kMostField = 4096;  // bytes of a field
constexpr size_t kMostColumns = 1 << 20;
constexpr size_t kMostPending = 1 << 20;  // bytes that libcsv may hold of one field
constexpr int64_t kChunk = 1 << 16;

bool ParseNumber(absl::string_view text, double* value) {
  const char* first = text.data();
  const char* last = first + text.size();
  if (first != last && *first == '+') ++first;
  const auto result = std::from_chars(first, last, *value);
  // Too large or too small for a double is no number that could be trained on.
  return result.ec == std::errc() && result.ptr == last;
}

std::string Shown(absl::string_view text) {
  std::string out;
  for (char c : text.substr(0, 30)) out.push_back(static_cast<unsigned char>(c) < ' ' ? '?' : c);
  return text.size() > 30 ? out + "..." : out;
}

class CsvParser {
 public:
  CsvParser(ByteReader& reader, const CsvOptions& options, const ReadOptions& read)
      : reader_(reader), options_(options), read_(read) {}
  ~CsvParser() {
    if (started_) csv_free(&csv_);
  }

  absl::StatusOr<CsvTable> Parse() {
    RETURN_IF_ERROR(Start());
    ASSIGN_OR_RETURN(Buffer chunk, Buffer::Allocate(kChunk));
    for (;;) {
      ASSIGN_OR_RETURN(const int64_t got, reader_.ReadSome(chunk.data(), kChunk));
      if (got == 0) break;
      RETURN_IF_ERROR(Feed(chunk.data(), got));
    }
    if (csv_fini(&csv_, OnField, OnRow, this) != 0) {
      return DataError(reader_.name(), ": line ", line_, ": a quoted field does not end");
    }
    RETURN_IF_ERROR(status_);
    if (table_.names.empty()) return DataError(reader_.name(), ": holds no rows");
    table_.source = reader_.name();
    RETURN_IF_ERROR(table_.values.Resize(used_ * static_cast<int64_t>(sizeof(double))));
    return std::move(table_);
  }

 private:
  absl::Status Start() {
    if (csv_init(&csv_, CSV_APPEND_NULL | CSV_STRICT | CSV_STRICT_FINI) != 0) {
      return DataTooLarge(reader_.name(), ": no memory to parse CSV");
    }
    started_ = true;
    ASSIGN_OR_RETURN(absl::string_view first, reader_.Peek(ByteReader::kMostPeek));
    if (first.substr(0, 3) == "\xef\xbb\xbf") {  // a byte order mark
      char mark[3];
      RETURN_IF_ERROR(reader_.Read(mark, 3, "the byte order mark"));
      ASSIGN_OR_RETURN(first, reader_.Peek(ByteReader::kMostPeek));
    }
    const absl::string_view line = first.substr(0, first.find('\n'));
    const auto has = [&](char c) { return line.find(c) != absl::string_view::npos; };
    char delimiter = options_.delimiter;
    if (delimiter == 0) delimiter = has(',') ? ',' : has('\t') ? '\t' : has(';') ? ';' : ',';
    csv_set_delim(&csv_, delimiter);
    // libcsv would strip a tab as space even where it separates.
    if (delimiter == '\t')
      csv_set_space_func(&csv_, [](unsigned char c) { return c == ' ' ? 1 : 0; });
    return absl::OkStatus();
  }

  // Line by line, so that errors know where they are.
  absl::Status Feed(const char* data, int64_t size) {
    while (size > 0) {
      const void* newline = std::memchr(data, '\n', size);
      const int64_t n = newline == nullptr ? size : static_cast<const char*>(newline) - data + 1;
      if (csv_parse(&csv_, data, n, OnField, OnRow, this) != static_cast<size_t>(n)) {
        return DataError(reader_.name(), ": line ", line_,
                         ": is no CSV: ", csv_strerror(csv_error(&csv_)));
      }
      RETURN_IF_ERROR(status_);
      if (csv_.entry_pos > kMostPending) {
        return DataError(reader_.name(), ": line ", line_, ": a field of more than 1 MiB");
      }
      if (newline != nullptr) ++line_;
      data += n;
      size -= n;
    }
    return absl::OkStatus();
  }

  // libcsv is C: nothing may be thrown through it, and errors wait in status_.
  static void OnField(void* field, size_t length, void* self) {
    static_cast<CsvParser*>(self)->Field(
        absl::string_view(static_cast<const char*>(field), length));
  }
  static void OnRow(int, void* self) { static_cast<CsvParser*>(self)->Row(); }

  void Fail(absl::Status status) {
    if (status_.ok()) status_ = std::move(status);
  }

  void Field(absl::string_view text) {
    if (!status_.ok()) return;
    if (text.size() > kMostField)
      return Fail(
          DataError(reader_.name(), ": line ", line_, ": a field of ", text.size(), " bytes"));
    if (!first_done_) {
      if (first_row_.size() == kMostColumns) {
        return Fail(DataError(reader_.name(), ": line ", line_, ": more than 2^20 columns"));
      }
      first_row_.emplace_back(text);
      return;
    }
    if (field_++ >= table_.names.size()) return;  // Row() says so
    AddNumber(text, field_ - 1);
  }

  void AddNumber(absl::string_view text, size_t column) {
    double value = 0;
    if (!ParseNumber(text, &value)) {
      return Fail(DataError(
          reader_.name(), ": line ", line_, ", column '", Shown(table_.names[column]),
          "': ", text.empty() ? "is empty" : absl::StrCat("'", Shown(text), "' is no number")));
    }
    if ((used_ + 1) * static_cast<int64_t>(sizeof value) > table_.values.size()) {
      const int64_t wanted =
          std::min(std::max<int64_t>(1 << 16, table_.values.size() / 2 * 3), read_.max_bytes);
      if ((used_ + 1) * static_cast<int64_t>(sizeof value) > wanted) {
        return Fail(DataTooLarge(reader_.name(), ": line ", line_, ": takes more than the ",
                                 read_.max_bytes, " bytes of memory that may be used"));
      }
      const absl::Status grown = table_.values.Resize(wanted);
      if (!grown.ok()) return Fail(grown);
    }
    std::memcpy(table_.values.data() + used_ * sizeof value, &value, sizeof value);
    ++used_;
  }

  void Row() {
    if (!status_.ok()) return;
    if (!first_done_) return FirstRow();
    const size_t fields = field_;
    field_ = 0;
    if (fields != table_.names.size()) {
      return Fail(DataError(reader_.name(), ": line ", line_, ": ", fields, " fields, ",
                            table_.names.size(), " were expected"));
    }
    ++table_.rows;
  }

  void FirstRow() {
    first_done_ = true;
    double ignored;
    const bool numbers =
        std::all_of(first_row_.begin(), first_row_.end(),
                    [&](const std::string& s) { return ParseNumber(s, &ignored); });
    if (options_.header.value_or(!numbers)) {
      table_.names = std::move(first_row_);
      return;
    }
    for (size_t i = 0; i < first_row_.size(); ++i) table_.names.push_back(absl::StrCat(i));
    for (size_t i = 0; i < first_row_.size() && status_.ok(); ++i) AddNumber(first_row_[i], i);
    ++table_.rows;
  }

  ByteReader& reader_;
  const CsvOptions& options_;
  const ReadOptions& read_;
  csv_parser csv_;
  bool started_ = false;
  int64_t line_ = 1;
  bool first_done_ = false;
  std::vector<std::string> first_row_;
  size_t field_ = 0;
  int64_t used_ = 0;
  CsvTable table_;
  absl::Status status_;
};

}  // namespace

int CsvTable::Find(const std::string& column) const {
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == column) return static_cast<int>(i);
  }
  int number;
  if (!absl::SimpleAtoi(column, &number)) return -1;
  const int count = static_cast<int>(names.size());
  if (number < 0) number += count;
  return number >= 0 && number < count ? number : -1;
}

absl::StatusOr<Column> CsvTable::Take(const std::string& name, const std::vector<int>& columns,
                                      bool scalar) const {
  const int64_t width = static_cast<int64_t>(columns.size());
  const int64_t stride = static_cast<int64_t>(names.size());
  const double* from = reinterpret_cast<const double*>(values.data());
  // The type of all fields is that of the wanted ones too, if it is uint8.
  DataType dtype = NarrowestType(absl::MakeConstSpan(from, rows * stride));
  std::vector<double> row(width);
  const auto gather = [&](int64_t r) {
    for (int64_t i = 0; i < width; ++i) row[i] = from[r * stride + columns[i]];
  };
  if (dtype != DataType::kUint8) {
    dtype = DataType::kUint8;
    for (int64_t r = 0; r < rows && dtype != DataType::kFloat64; ++r) {
      gather(r);
      const DataType t = NarrowestType(row);
      if (t == dtype || t == DataType::kUint8) continue;
      dtype = dtype == DataType::kUint8 ? t : DataType::kFloat64;
    }
  }
  ASSIGN_OR_RETURN(Buffer memory,
                   Buffer::Allocate(rows * width * static_cast<int64_t>(SizeOf(dtype))));
  char* to = memory.data();
  const auto store = [&](auto typed) {
    for (double v : row) {
      const auto t = static_cast<decltype(typed)>(v);
      std::memcpy(to, &t, sizeof t);
      to += sizeof t;
    }
  };
  for (int64_t r = 0; r < rows; ++r) {
    gather(r);
    if (dtype == DataType::kUint8) store(uint8_t{});
    if (dtype == DataType::kFloat32) store(float{});
    if (dtype == DataType::kInt64) store(int64_t{});
    if (dtype == DataType::kFloat64) store(double{});
  }
  Column column =
      Column::InMemory(name, dtype, scalar ? Dims{} : Dims{width}, rows, std::move(memory), source);
  column.set_from_text();
  return column;
}

absl::StatusOr<CsvTable> ReadCsv(ByteReader& reader, const CsvOptions& options,
                                 const ReadOptions& read) {
  return CsvParser(reader, options, read).Parse();
}

}  // namespace onward
