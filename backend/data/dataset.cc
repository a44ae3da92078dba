#include "backend/data/dataset.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "backend/data/convert.h"
#include "backend/data/data_error.h"
#include "graph/base/status_macros.h"

namespace onward {
namespace {

template <typename T>
void SwapAll(void* data, int64_t count) {
  T* p = static_cast<T*>(data);
  for (int64_t i = 0; i < count; ++i) {
    if (sizeof(T) == 2) p[i] = static_cast<T>(__builtin_bswap16(static_cast<uint16_t>(p[i])));
    if (sizeof(T) == 4) p[i] = static_cast<T>(__builtin_bswap32(static_cast<uint32_t>(p[i])));
    if (sizeof(T) == 8) p[i] = static_cast<T>(__builtin_bswap64(static_cast<uint64_t>(p[i])));
  }
}

// From Fortran's order (first axis fastest) to C's. Both hold all elements.
template <typename T>
void Transpose(const T* from, const Dims& dims, T* to) {
  const int64_t rows = dims[0];
  const Dims sample(dims.begin() + 1, dims.end());
  const int64_t elements = Elements(sample);
  const Dims strides = Strides(sample);
  constexpr int64_t kBlock = 64;  // rows at once, so that whole cache lines are used
  for (int64_t first = 0; first < rows; first += kBlock) {
    const int64_t end = std::min(rows, first + kBlock);
    Dims index(sample.size(), 0);
    int64_t offset = 0;  // of the element in a row of C's order
    for (int64_t e = 0; e < elements; ++e) {
      for (int64_t r = first; r < end; ++r) to[r * elements + offset] = from[e * rows + r];
      for (size_t axis = 0; axis < sample.size(); ++axis) {
        offset += strides[axis];
        if (++index[axis] < sample[axis]) break;
        offset -= strides[axis] * sample[axis];
        index[axis] = 0;
      }
    }
  }
}

void TransposeBytes(const char* from, const Dims& dims, size_t size, char* to) {
  switch (size) {
    case 1:
      return Transpose(reinterpret_cast<const uint8_t*>(from), dims,
                       reinterpret_cast<uint8_t*>(to));
    case 2:
      return Transpose(reinterpret_cast<const uint16_t*>(from), dims,
                       reinterpret_cast<uint16_t*>(to));
    case 4:
      return Transpose(reinterpret_cast<const uint32_t*>(from), dims,
                       reinterpret_cast<uint32_t*>(to));
    default:
      return Transpose(reinterpret_cast<const uint64_t*>(from), dims,
                       reinterpret_cast<uint64_t*>(to));
  }
}

int64_t BytesOf(DataType dtype, const Dims& dims) {
  return Elements(dims) * static_cast<int64_t>(SizeOf(dtype));
}

}  // namespace

std::string DimsText(const Dims& dims) {
  if (dims.empty()) return "scalar";
  std::string out;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i > 0) out += "x";
    out += dims[i] == kDynamic ? "?" : absl::StrCat(dims[i]);
  }
  return out;
}

void SwapBytes(void* data, int64_t count, size_t size) {
  if (size == 2) SwapAll<uint16_t>(data, count);
  if (size == 4) SwapAll<uint32_t>(data, count);
  if (size == 8) SwapAll<uint64_t>(data, count);
}

Column Column::InMemory(std::string name, DataType dtype, Dims dims, int64_t rows, Buffer memory,
                        std::string source) {
  Column c;
  c.name_ = std::move(name);
  c.dtype_ = dtype;
  c.dims_ = std::move(dims);
  c.rows_ = rows;
  c.row_bytes_ = BytesOf(dtype, c.dims_);
  ONWARD_CHECK(memory.size() == rows * c.row_bytes_);
  Part part;
  part.rows = rows;
  part.memory = std::move(memory);
  part.source = std::move(source);
  c.parts_.push_back(std::move(part));
  return c;
}

Column Column::InFile(std::string name, DataType dtype, Dims dims, int64_t rows,
                      std::shared_ptr<const File> file, int64_t offset, bool swapped) {
  Column c;
  c.name_ = std::move(name);
  c.dtype_ = dtype;
  c.dims_ = std::move(dims);
  c.rows_ = rows;
  c.row_bytes_ = BytesOf(dtype, c.dims_);
  Part part;
  part.rows = rows;
  part.source = file->path();
  part.file = std::move(file);
  part.offset = offset;
  part.swapped = swapped;
  c.parts_.push_back(std::move(part));
  return c;
}

int64_t Column::bytes() const {
  int64_t n = 0;
  for (const Part& part : parts_) n += part.memory.size();
  return n;
}

const Column::Part& Column::PartOf(int64_t row) const {
  if (parts_.size() == 1) return parts_[0];
  const auto after =
      std::upper_bound(parts_.begin(), parts_.end(), row,
                       [](int64_t r, const Part& part) { return r < part.first_row; });
  return *(after - 1);
}

std::string Column::Where(int64_t row) const {
  const Part& part = PartOf(row);
  return absl::StrCat(part.source, ": row ", row - part.first_row);
}

const void* Column::Row(int64_t row) const {
  const Part& part = PartOf(row);
  if (part.file != nullptr) return nullptr;
  return part.memory.data() + (row - part.first_row) * row_bytes_;
}

absl::Status Column::Read(int64_t first, int64_t count, void* to) const {
  char* p = static_cast<char*>(to);
  while (count > 0) {
    const Part& part = PartOf(first);
    const int64_t here = first - part.first_row;
    const int64_t n = std::min(count, part.rows - here);
    const int64_t bytes = n * row_bytes_;
    if (part.file == nullptr) {
      if (bytes > 0) std::memcpy(p, part.memory.data() + here * row_bytes_, bytes);
    } else {
      RETURN_IF_ERROR(part.file->ReadAt(part.offset + here * row_bytes_, p, bytes));
      if (part.swapped) SwapBytes(p, bytes / SizeOf(dtype_), SizeOf(dtype_));
    }
    p += bytes;
    first += n;
    count -= n;
  }
  return absl::OkStatus();
}

absl::Status Column::CheckUnchanged() const {
  for (const Part& part : parts_) {
    if (part.file != nullptr) RETURN_IF_ERROR(part.file->CheckUnchanged());
  }
  return absl::OkStatus();
}

absl::Status Column::Load(int64_t max_bytes) {
  for (Part& part : parts_) {
    if (part.file == nullptr) continue;
    const int64_t bytes = part.rows * row_bytes_;
    if (bytes > max_bytes - this->bytes()) {
      return DataTooLarge(part.source, ": takes ", bytes, " bytes of memory, at most ",
                          max_bytes - this->bytes(), " may be used");
    }
    ASSIGN_OR_RETURN(Buffer memory, Buffer::Allocate(bytes));
    RETURN_IF_ERROR(Read(part.first_row, part.rows, memory.data()));
    RETURN_IF_ERROR(part.file->CheckUnchanged());
    part.memory = std::move(memory);
    part.file = nullptr;
  }
  return absl::OkStatus();
}

absl::Status Column::Append(Column other) {
  if (parts_.empty()) {
    *this = std::move(other);
    return absl::OkStatus();
  }
  if (other.dtype_ != dtype_ && from_text_ && other.from_text_) {
    if (dtype_ != DataType::kFloat64) RETURN_IF_ERROR(ConvertTo(DataType::kFloat64));
    if (other.dtype_ != DataType::kFloat64) RETURN_IF_ERROR(other.ConvertTo(DataType::kFloat64));
  }
  if (other.dtype_ != dtype_ || other.dims_ != dims_) {
    return DataError(other.parts_.empty() ? "" : other.parts_[0].source, ": rows are ",
                     Name(other.dtype_), " ", DimsText(other.dims_), ", those of ",
                     parts_[0].source, " are ", Name(dtype_), " ", DimsText(dims_),
                     ": they cannot be joined");
  }
  for (Part& part : other.parts_) {
    part.first_row = rows_;
    rows_ += part.rows;
    parts_.push_back(std::move(part));
  }
  // A part without rows would hide the one behind it from the search by row.
  parts_.erase(
      std::remove_if(parts_.begin(), parts_.end(), [](const Part& p) { return p.rows == 0; }),
      parts_.end());
  if (parts_.empty()) parts_.emplace_back();
  return absl::OkStatus();
}

void Column::Reshape(Dims dims) {
  ONWARD_CHECK(Elements(dims) == Elements(dims_));
  dims_ = std::move(dims);
}

DataType NarrowestType(absl::Span<const double> values) {
  bool bytes = true, integers = true, floats = true;
  for (const double v : values) {
    const bool integer = std::abs(v) < 9007199254740992.0 && v == std::trunc(v);
    integers &= integer;
    bytes &= integer && v >= 0 && v <= 255;
    floats &= !std::isfinite(v) || (std::abs(v) <= std::numeric_limits<float>::max() &&
                                    static_cast<double>(static_cast<float>(v)) == v);
  }
  // float32 before int64: half the size where both are exact.
  if (bytes) return DataType::kUint8;
  if (floats) return DataType::kFloat32;
  return integers ? DataType::kInt64 : DataType::kFloat64;
}

absl::Status Column::Narrow() {
  if (!from_text_ || dtype_ != DataType::kFloat64) return absl::OkStatus();
  DataType narrowest = DataType::kUint8;
  for (const Part& part : parts_) {
    const DataType t = NarrowestType(absl::MakeConstSpan(
        reinterpret_cast<const double*>(part.memory.data()), part.rows * Elements(dims_)));
    if (t == narrowest || t == DataType::kUint8) continue;
    // float32 and int64 hold each other's values in float64 only.
    narrowest = narrowest == DataType::kUint8 ? t : DataType::kFloat64;
  }
  return narrowest == dtype_ ? absl::OkStatus() : ConvertTo(narrowest);
}

absl::Status Column::ConvertTo(DataType dtype) {
  ColumnTransform t;
  t.from = dtype_;
  t.dtype = dtype;
  t.from_dims = t.dims = dims_;
  t.allow_non_finite = true;
  Converter converter(t);
  for (Part& part : parts_) {
    ASSIGN_OR_RETURN(Buffer memory, Buffer::Allocate(part.rows * t.row_bytes()));
    for (int64_t r = 0; r < part.rows; ++r) {
      const void* row = part.memory.data() + r * row_bytes_;
      ONWARD_CHECK(converter.Convert(&row, 1, memory.data() + r * t.row_bytes()) == 1);
    }
    part.memory = std::move(memory);
  }
  dtype_ = dtype;
  row_bytes_ = t.row_bytes();
  return absl::OkStatus();
}

absl::Status Dataset::Add(Column column) {
  if (Find(column.name()) != nullptr) {
    return DataError("two columns are called '", column.name(), "'");
  }
  if (!columns_.empty() && column.rows() != rows()) {
    return DataError("'", column.name(), "' has ", column.rows(), " rows, but '",
                     columns_[0].name(), "' has ", rows(), ": they must have as many");
  }
  columns_.push_back(std::move(column));
  return absl::OkStatus();
}

const Column* Dataset::Find(const std::string& name) const {
  for (const Column& column : columns_) {
    if (column.name() == name) return &column;
  }
  return nullptr;
}

int64_t Dataset::bytes() const {
  int64_t n = 0;
  for (const Column& column : columns_) n += column.bytes();
  return n;
}

absl::Status Dataset::Load(int64_t max_bytes) {
  for (Column& column : columns_) {
    RETURN_IF_ERROR(column.Load(max_bytes - (bytes() - column.bytes())));
  }
  return absl::OkStatus();
}

absl::StatusOr<Column> ReadArray(ByteReader& reader, std::string name, DataType dtype,
                                 const Dims& dims, bool swapped, bool fortran,
                                 const ReadOptions& options) {
  if (dims.empty()) {
    return DataError(reader.name(), ": holds a single number, rows were expected");
  }
  const absl::StatusOr<int64_t> elements = CheckedElements(dims);
  if (!elements.ok()) return DataError(reader.name(), ": ", elements.status().message());
  const size_t size = SizeOf(dtype);
  const int64_t bytes = *elements * static_cast<int64_t>(size);  // below 2^51
  const std::string what = absl::StrCat("the array ", ToString(dims), " of ", Name(dtype));
  const Dims sample(dims.begin() + 1, dims.end());
  fortran = fortran && dims.size() > 1;
  swapped = swapped && size > 1;
  // An array without elements may still have huge other extents (0 x 2^60), and
  // one without bytes in a row as many rows as it likes.
  const absl::StatusOr<int64_t> sample_elements = CheckedElements(sample);
  if (!sample_elements.ok())
    return DataError(reader.name(), ": ", sample_elements.status().message());
  if (*sample_elements == 0)
    return DataError(reader.name(), ": ", what, " has rows without elements");

  const std::shared_ptr<const File> file = reader.plain_file();
  const bool stays = file != nullptr && !fortran && options.read_whole_bytes >= 0 &&
                     bytes > options.read_whole_bytes;
  RETURN_IF_ERROR(CheckDeclaredBytes(
      reader, bytes, stays ? std::numeric_limits<int64_t>::max() : options.max_bytes, what));
  if (stays) {
    if (reader.offset() + bytes != file->size()) {
      return DataError(reader.name(), ": byte ", reader.offset() + bytes, ": more follows where ",
                       what, " ends by its header");
    }
    return Column::InFile(std::move(name), dtype, sample, dims[0], file, reader.offset(), swapped);
  }
  if (fortran && bytes > options.max_bytes / 2) {
    return DataTooLarge(reader.name(), ": ", what, " in Fortran order takes ", 2 * bytes,
                        " bytes of memory, at most ", options.max_bytes, " may be used");
  }
  ASSIGN_OR_RETURN(Buffer memory, Buffer::Allocate(bytes));
  RETURN_IF_ERROR(reader.Read(memory.data(), bytes, what));
  RETURN_IF_ERROR(reader.ExpectEnd(what));
  if (file != nullptr) RETURN_IF_ERROR(file->CheckUnchanged());  // half old, half new
  if (swapped) SwapBytes(memory.data(), *elements, size);
  if (fortran) {
    ASSIGN_OR_RETURN(Buffer turned, Buffer::Allocate(bytes));
    TransposeBytes(memory.data(), dims, size, turned.data());
    memory = std::move(turned);
  }
  return Column::InMemory(std::move(name), dtype, sample, dims[0], std::move(memory),
                          reader.name());
}

}  // namespace onward
