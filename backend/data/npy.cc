#include "backend/data/npy.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "backend/data/data_error.h"
#include "graph/base/status_macros.h"

namespace onward {
namespace {

constexpr bool kLittleEndian = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
constexpr int64_t kMostHeader = 1 << 16;  // numpy itself refuses more than 10,000
constexpr size_t kMostRank = 32;          // numpy's own limit

// A header is a Python literal: {'descr': '<f4', 'fortran_order': False,
// 'shape': (2, 3), }. This reads exactly such dictionaries.
class HeaderParser {
 public:
  HeaderParser(absl::string_view file, absl::string_view text, int64_t offset)
      : file_(file), text_(text), offset_(offset) {}

  absl::StatusOr<NpyHeader> Parse() {
    if (!Take('{')) return Unexpected("'{'");
    for (bool more = true; more && !Take('}');) {
      ASSIGN_OR_RETURN(const std::string key, String());
      if (!Take(':')) return Unexpected("':'");
      RETURN_IF_ERROR(Field(key));
      more = Take(',');
      if (!more && !Take('}')) return Unexpected("',' or '}'");
    }
    Space();
    if (at_ != text_.size()) return Unexpected("the end of the header");
    if (!seen_descr_ || !seen_order_ || !seen_shape_) {
      return Unexpected("the keys 'descr', 'fortran_order' and 'shape'");
    }
    return header_;
  }

 private:
  absl::Status Field(const std::string& key) {
    bool* seen = key == "descr"           ? &seen_descr_
                 : key == "fortran_order" ? &seen_order_
                 : key == "shape"         ? &seen_shape_
                                          : nullptr;
    if (seen == nullptr || *seen)
      return Unexpected("the keys 'descr', 'fortran_order' and 'shape', once each");
    *seen = true;
    if (key == "descr") return Descr();
    if (key == "shape") return Shape();
    if (Word("True")) {
      header_.fortran = true;
    } else if (!Word("False")) {
      return Unexpected("True or False");
    }
    return absl::OkStatus();
  }

  absl::Status Descr() {
    Space();
    if (at_ < text_.size() && text_[at_] == '[') {
      return DataError(file_,
                       ": holds records (a structured array); arrays of one number type are read");
    }
    ASSIGN_OR_RETURN(const std::string descr, String());
    if (descr.size() < 3 || std::strchr("<>|=", descr[0]) == nullptr) return WrongType(descr);
    static constexpr struct {
      const char* code;
      DataType type;
    } kTypes[] = {
        {"b1", DataType::kBool},    {"i1", DataType::kInt8},    {"i2", DataType::kInt16},
        {"i4", DataType::kInt32},   {"i8", DataType::kInt64},   {"u1", DataType::kUint8},
        {"u2", DataType::kUint16},  {"u4", DataType::kUint32},  {"u8", DataType::kUint64},
        {"f2", DataType::kFloat16}, {"f4", DataType::kFloat32}, {"f8", DataType::kFloat64}};
    for (const auto& row : kTypes) {
      if (descr.substr(1) == row.code) header_.dtype = row.type;
    }
    if (header_.dtype == DataType::kUndefined) return WrongType(descr);
    header_.swapped = SizeOf(header_.dtype) > 1 && descr[0] == (kLittleEndian ? '>' : '<');
    return absl::OkStatus();
  }

  absl::Status WrongType(const std::string& descr) {
    if (!descr.empty() && descr.substr(1) == "O") {
      return DataError(file_, ": holds Python objects; save it with a number type (array.astype)");
    }
    return DataError(file_, ": holds type '", descr,
                     "'; bool, integers and float16/32/64 are read");
  }

  absl::Status Shape() {
    if (!Take('(')) return Unexpected("'('");
    while (!Take(')')) {
      Space();
      const size_t start = at_;
      while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
      int64_t extent = 0;
      const absl::string_view digits = text_.substr(start, at_ - start);
      if (digits.empty() || !absl::SimpleAtoi(digits, &extent)) return Unexpected("an extent");
      if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // Python 2 wrote 3L
      header_.dims.push_back(extent);
      if (header_.dims.size() > kMostRank) return Unexpected("at most 32 extents");
      if (!Take(',')) {
        if (!Take(')')) return Unexpected("',' or ')'");
        break;
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> String() {
    Space();
    if (at_ >= text_.size() || (text_[at_] != '\'' && text_[at_] != '"'))
      return Unexpected("a text in quotes");
    const char quote = text_[at_];
    const size_t end = text_.find(quote, at_ + 1);
    if (end == absl::string_view::npos) return Unexpected("a closing quote");
    const std::string out(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return out;
  }

  void Space() {
    while (at_ < text_.size() && std::strchr(" \t\n\r", text_[at_]) != nullptr && text_[at_] != 0)
      ++at_;
  }
  bool Take(char c) {
    Space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool Word(absl::string_view word) {
    Space();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  absl::Status Unexpected(absl::string_view expected) {
    return DataError(file_, ": byte ", offset_ + at_, ": the .npy header is damaged: ", expected,
                     " was expected");
  }

  absl::string_view file_;
  absl::string_view text_;
  int64_t offset_;
  size_t at_ = 0;
  bool seen_descr_ = false, seen_order_ = false, seen_shape_ = false;
  NpyHeader header_;
};

}  // namespace

absl::StatusOr<NpyHeader> ReadNpyHeader(ByteReader& reader) {
  unsigned char start[8];
  RETURN_IF_ERROR(reader.Read(start, 8, "the .npy header"));
  if (std::memcmp(start, "\x93NUMPY", 6) != 0) {
    return DataError(reader.name(), ": byte 0: is no .npy file");
  }
  const int major = start[6];
  if (major < 1 || major > 3) {
    return DataError(reader.name(), ": byte 6: .npy version ", major, "; 1 to 3 are read");
  }
  unsigned char length[4] = {0, 0, 0, 0};
  RETURN_IF_ERROR(reader.Read(length, major == 1 ? 2 : 4, "the .npy header"));
  const int64_t bytes = length[0] | length[1] << 8 | length[2] << 16 | int64_t{length[3]} << 24;
  const int64_t offset = reader.offset();
  if (bytes > kMostHeader) {
    return DataError(reader.name(), ": byte 8: a .npy header of ", bytes, " bytes; at most ",
                     kMostHeader, " are read");
  }
  RETURN_IF_ERROR(CheckDeclaredBytes(reader, bytes, kMostHeader, "the .npy header"));
  std::string text(bytes, '\0');
  RETURN_IF_ERROR(reader.Read(&text[0], bytes, "the .npy header"));
  return HeaderParser(reader.name(), text, offset).Parse();
}

absl::StatusOr<Column> ReadNpy(ByteReader& reader, std::string name, const ReadOptions& options) {
  ASSIGN_OR_RETURN(const NpyHeader header, ReadNpyHeader(reader));
  return ReadArray(reader, std::move(name), header.dtype, header.dims, header.swapped,
                   header.fortran, options);
}

}  // namespace onward
