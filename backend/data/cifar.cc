#include "backend/data/cifar.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "backend/data/data_error.h"
#include "backend/data/pickle.h"
#include "graph/base/status_macros.h"

namespace onward {
namespace {

constexpr int64_t kPixels = 3 * 32 * 32;

// All bytes of the stream.
absl::StatusOr<Buffer> ReadAll(ByteReader& reader, int64_t max_bytes) {
  constexpr int64_t kFirst = 1 << 20;
  Buffer all;
  int64_t used = 0;
  const int64_t most = reader.most_bytes();
  RETURN_IF_ERROR(
      all.Resize(reader.exact() ? std::min(most, max_bytes) : std::min({most, max_bytes, kFirst})));
  for (;;) {
    if (used == all.size()) {
      if (used >= max_bytes || all.size() >= most) break;
      RETURN_IF_ERROR(all.Resize(std::min({most, max_bytes, all.size() * 2})));
    }
    ASSIGN_OR_RETURN(const int64_t got, reader.ReadSome(all.data() + used, all.size() - used));
    if (got == 0) break;
    used += got;
  }
  if (used >= max_bytes) {
    return DataTooLarge(reader.name(), ": takes more than the ", max_bytes,
                        " bytes of memory that may be used");
  }
  RETURN_IF_ERROR(reader.ExpectEnd("the file"));
  RETURN_IF_ERROR(all.Resize(used));
  return all;
}

// Empty where the bytes are records with `labels` labels each, below `classes`
// of them; otherwise what is wrong.
std::string RecordsComplaint(const Buffer& bytes, int64_t labels, const int* classes) {
  const int64_t record = labels + kPixels;
  if (bytes.size() == 0 || bytes.size() % record != 0) {
    return absl::StrCat(bytes.size(), " bytes are no whole number of records of ", record);
  }
  for (int64_t at = 0; at < bytes.size(); at += record) {
    for (int64_t l = 0; l < labels; ++l) {
      const int label = static_cast<unsigned char>(bytes.data()[at + l]);
      if (label >= classes[l]) {
        return absl::StrCat("byte ", at + l, ": label ", label, " where 0 to ", classes[l] - 1,
                            " were expected");
      }
    }
  }
  return "";
}

absl::StatusOr<Column> LabelColumn(const std::string& name, const std::vector<uint8_t>& labels,
                                   const std::string& source) {
  ASSIGN_OR_RETURN(Buffer memory, Buffer::Allocate(static_cast<int64_t>(labels.size())));
  if (!labels.empty()) std::memcpy(memory.data(), labels.data(), labels.size());
  return Column::InMemory(name, DataType::kUint8, {}, static_cast<int64_t>(labels.size()),
                          std::move(memory), source);
}

// The labels under `key`: a list of numbers, or an array of bytes or int64.
absl::Status PickledLabels(const Pickle& pickle, const std::string& file, absl::string_view key,
                           int64_t rows, std::vector<Column>* columns) {
  const Pickle::Value* v = pickle.Find(pickle.root(), key);
  if (v == nullptr) return absl::OkStatus();
  std::vector<uint8_t> labels;
  const auto add = [&](int64_t number) -> absl::Status {
    if (number < 0 || number > 255) {
      return DataError(file, ": '", key, "', row ", labels.size(), ": label ", number,
                       "; 0 to 255 are read");
    }
    labels.push_back(static_cast<uint8_t>(number));
    return absl::OkStatus();
  };
  if (v->kind == Pickle::Kind::kList) {
    for (int32_t item : v->items) {
      const Pickle::Value& label = pickle.value(item);
      if (label.kind != Pickle::Kind::kInt) {
        return DataError(file, ": '", key, "', row ", labels.size(), ": is no whole number");
      }
      RETURN_IF_ERROR(add(label.number));
    }
  } else if (v->kind == Pickle::Kind::kArray && v->data >= 0) {
    const absl::string_view bytes = pickle.value(v->data).bytes;
    const Pickle::Value& dtype = pickle.value(v->dtype);
    const size_t size = dtype.bytes == "u1"   ? 1
                        : dtype.bytes == "i4" ? 4
                        : dtype.bytes == "i8" ? 8
                                              : 0;
    if (size == 0 || dtype.big_endian || bytes.size() % size != 0) {
      return DataError(file, ": '", key, "' is no array of uint8, int32 or int64");
    }
    for (size_t at = 0; at < bytes.size(); at += size) {
      uint64_t bits = 0;
      std::memcpy(&bits, bytes.data() + at, size);
      RETURN_IF_ERROR(add(size == 4 ? static_cast<int32_t>(bits) : static_cast<int64_t>(bits)));
    }
  } else {
    return DataError(file, ": '", key, "' is no list of numbers");
  }
  if (static_cast<int64_t>(labels.size()) != rows) {
    return DataError(file, ": has ", rows, " images but ", labels.size(), " ", key);
  }
  ASSIGN_OR_RETURN(Column column, LabelColumn(std::string(key), labels, file));
  columns->push_back(std::move(column));
  return absl::OkStatus();
}

// The images of n x 3072 or n x 3 x 32 x 32 bytes.
absl::StatusOr<Column> PickledImages(const Pickle& pickle, const std::string& file) {
  const Pickle::Value* v = pickle.Find(pickle.root(), "data");
  if (v == nullptr)
    return DataError(file, ": is no CIFAR batch: a dictionary with the key 'data' was expected");
  if (v->kind != Pickle::Kind::kArray || v->data < 0 || pickle.value(v->dtype).bytes != "u1") {
    return DataError(file, ": 'data' is no array of uint8");
  }
  Dims dims;
  for (int32_t item : v->items) dims.push_back(pickle.value(item).number);
  const absl::string_view bytes = pickle.value(v->data).bytes;
  const bool fits = (dims.size() == 2 && dims[1] == kPixels) ||
                    (dims.size() == 4 && dims[1] == 3 && dims[2] == 32 && dims[3] == 32);
  if (!fits || dims[0] < 0 || dims[0] > (int64_t{1} << 32) ||
      static_cast<uint64_t>(dims[0] * kPixels) != bytes.size()) {
    return DataError(file, ": 'data' is ", ToString(dims), " in ", bytes.size(),
                     " bytes; n x 3072 of uint8 was expected");
  }
  const bool flat = dims.size() == 2;
  if (v->fortran && !flat) return DataError(file, ": 'data' is in Fortran order");
  ASSIGN_OR_RETURN(Buffer memory, Buffer::Allocate(static_cast<int64_t>(bytes.size())));
  if (v->fortran) {
    for (int64_t r = 0; r < dims[0]; ++r) {
      for (int64_t p = 0; p < kPixels; ++p) memory.data()[r * kPixels + p] = bytes[p * dims[0] + r];
    }
  } else if (!bytes.empty()) {
    std::memcpy(memory.data(), bytes.data(), bytes.size());
  }
  return Column::InMemory("images", DataType::kUint8, {3, 32, 32}, dims[0], std::move(memory),
                          file);
}

}  // namespace

absl::StatusOr<std::vector<Column>> ReadCifarBinary(ByteReader& reader,
                                                    const ReadOptions& options) {
  ASSIGN_OR_RETURN(const Buffer bytes, ReadAll(reader, options.max_bytes / 2));
  constexpr int kTen[] = {10};
  constexpr int kHundred[] = {20, 100};
  const std::string not_ten = RecordsComplaint(bytes, 1, kTen);
  const std::string not_hundred = RecordsComplaint(bytes, 2, kHundred);
  if (not_ten.empty() == not_hundred.empty()) {
    if (not_ten.empty()) return DataError(reader.name(), ": may be CIFAR-10 as well as CIFAR-100");
    return DataError(reader.name(), ": is neither CIFAR-10 (", not_ten, ") nor CIFAR-100 (",
                     not_hundred, ")");
  }
  const int64_t labels = not_ten.empty() ? 1 : 2;
  const int64_t record = labels + kPixels;
  const int64_t rows = bytes.size() / record;
  ASSIGN_OR_RETURN(Buffer images, Buffer::Allocate(rows * kPixels));
  std::vector<std::vector<uint8_t>> numbers(labels, std::vector<uint8_t>(rows));
  for (int64_t r = 0; r < rows; ++r) {
    const char* from = bytes.data() + r * record;
    for (int64_t l = 0; l < labels; ++l) numbers[l][r] = static_cast<uint8_t>(from[l]);
    std::memcpy(images.data() + r * kPixels, from + labels, kPixels);
  }
  std::vector<Column> columns;
  columns.push_back(Column::InMemory("images", DataType::kUint8, {3, 32, 32}, rows,
                                     std::move(images), reader.name()));
  ASSIGN_OR_RETURN(Column last, LabelColumn(labels == 1 ? "labels" : "fine_labels",
                                            numbers[labels - 1], reader.name()));
  columns.push_back(std::move(last));
  if (labels == 2) {
    ASSIGN_OR_RETURN(Column coarse, LabelColumn("coarse_labels", numbers[0], reader.name()));
    columns.push_back(std::move(coarse));
  }
  return columns;
}

bool LooksLikePickle(absl::string_view first_bytes) {
  return first_bytes.size() >= 2 && static_cast<unsigned char>(first_bytes[0]) == 0x80 &&
         first_bytes[1] >= 2 && first_bytes[1] <= 5;
}

absl::StatusOr<std::vector<Column>> ReadCifarPickle(ByteReader& reader,
                                                    const ReadOptions& options) {
  ASSIGN_OR_RETURN(const Buffer bytes, ReadAll(reader, options.max_bytes / 2));
  ASSIGN_OR_RETURN(const Pickle pickle,
                   Pickle::Parse(reader.name(), absl::string_view(bytes.data(), bytes.size())));
  ASSIGN_OR_RETURN(Column images, PickledImages(pickle, reader.name()));
  const int64_t rows = images.rows();
  std::vector<Column> columns;
  columns.push_back(std::move(images));
  for (const char* key : {"labels", "fine_labels", "coarse_labels"}) {
    RETURN_IF_ERROR(PickledLabels(pickle, reader.name(), key, rows, &columns));
  }
  return columns;
}

}  // namespace onward
