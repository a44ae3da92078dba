#include <zip.h>

#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backend/data/npy.h"
#include "graph/base/atomic_file.h"
#include "graph/base/errors.h"
#include "graph/base/status_macros.h"

namespace onward {
namespace {

template <typename... Parts>
absl::Status OutputError(const Parts&... parts) {
  return WithExitCode(absl::UnavailableError(absl::StrCat(parts...)), ExitCode::kOutput);
}

absl::StatusOr<std::string> Descr(DataType dtype) {
  switch (dtype) {
    case DataType::kBool:
      return std::string("|b1");
    case DataType::kUint8:
      return std::string("|u1");
    case DataType::kInt8:
      return std::string("|i1");
    case DataType::kUint16:
      return std::string("<u2");
    case DataType::kInt16:
      return std::string("<i2");
    case DataType::kUint32:
      return std::string("<u4");
    case DataType::kInt32:
      return std::string("<i4");
    case DataType::kUint64:
      return std::string("<u8");
    case DataType::kInt64:
      return std::string("<i8");
    case DataType::kFloat16:
      return std::string("<f2");
    case DataType::kFloat32:
    case DataType::kBfloat16:  // numpy has no name for it
      return std::string("<f4");
    case DataType::kFloat64:
      return std::string("<f8");
    default:
      return OutputError("arrays of type ", Name(dtype), " cannot be written as .npy");
  }
}

// Magic, version, length and dictionary, padded so that the data is aligned to
// 64 bytes as numpy does it.
absl::StatusOr<std::string> Header(const TensorView& array) {
  ASSIGN_OR_RETURN(const std::string descr, Descr(array.type.dtype));
  std::string shape;
  for (int64_t extent : array.type.dims) absl::StrAppend(&shape, extent, ", ");
  if (array.type.dims.size() > 1) shape.resize(shape.size() - 2);
  if (array.type.dims.size() == 1) shape.resize(shape.size() - 1);
  std::string text =
      absl::StrCat("{'descr': '", descr, "', 'fortran_order': False, 'shape': (", shape, "), }");
  const size_t unpadded = 10 + text.size() + 1;
  text.append((64 - unpadded % 64) % 64, ' ');
  text.push_back('\n');
  std::string out("\x93NUMPY\x01\x00", 8);
  out.push_back(static_cast<char>(text.size() & 0xff));
  out.push_back(static_cast<char>(text.size() >> 8));
  return out + text;
}

// The elements as they are written; `widened` holds them where they differ from
// those in memory.
absl::string_view Body(const TensorView& array, std::string* widened) {
  const int64_t n = Elements(array.type.dims);
  if (array.type.dtype == DataType::kBfloat16) {
    widened->resize(n * sizeof(float));
    for (int64_t i = 0; i < n; ++i) {
      const float f = BfloatToFloat(array.as<uint16_t>()[i]);
      std::memcpy(&(*widened)[i * sizeof f], &f, sizeof f);
    }
    return *widened;
  }
  return absl::string_view(array.as<char>(), n * SizeOf(array.type.dtype));
}

absl::Status AddArray(zip_t* z, const std::string& name, const TensorView& array,
                      std::vector<std::string>* kept, const std::string& path) {
  ASSIGN_OR_RETURN(std::string header, Header(array));
  std::string widened;
  // libzip reads the bytes when the archive is closed.
  kept->push_back(absl::StrCat(header, Body(array, &widened)));
  zip_source_t* source = zip_source_buffer(z, kept->back().data(), kept->back().size(), 0);
  const zip_int64_t index = source == nullptr ? -1
                                              : zip_file_add(z, absl::StrCat(name, ".npy").c_str(),
                                                             source, ZIP_FL_ENC_UTF_8);
  if (index < 0) {
    if (source != nullptr) zip_source_free(source);
    return OutputError(path, ": array '", name, "' cannot be written: ", zip_strerror(z));
  }
  if (zip_set_file_compression(z, index, ZIP_CM_STORE, 0) != 0) {
    return OutputError(path, ": array '", name, "' cannot be written: ", zip_strerror(z));
  }
  return absl::OkStatus();
}

absl::Status AppendSource(zip_source_t* source, const std::string& path, AtomicFile* file) {
  if (zip_source_open(source) != 0) return OutputError(path, ": cannot be written");
  std::vector<char> part(int64_t{1} << 20);
  absl::Status status;
  for (;;) {
    const zip_int64_t n = zip_source_read(source, part.data(), part.size());
    if (n < 0) status = OutputError(path, ": cannot be written");
    if (n <= 0 || !status.ok()) break;
    status = file->Append(part.data(), n);
    if (!status.ok()) break;
  }
  zip_source_close(source);
  return status;
}

// The archive is made in memory, which its arrays take once more.
absl::Status AppendArchive(absl::Span<const std::pair<std::string, TensorView>> arrays,
                           const std::string& path, AtomicFile* file) {
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* archive = zip_source_buffer_create(nullptr, 0, 0, &error);
  zip_t* z = archive == nullptr ? nullptr : zip_open_from_source(archive, ZIP_TRUNCATE, &error);
  if (z == nullptr) {
    if (archive != nullptr) zip_source_free(archive);
    return OutputError(path, ": cannot be written: ", zip_error_strerror(&error));
  }
  zip_source_keep(archive);
  std::vector<std::string> kept;
  kept.reserve(arrays.size());
  absl::Status status;
  for (const auto& array : arrays) {
    if (status.ok()) status = AddArray(z, array.first, array.second, &kept, path);
  }
  if (status.ok() && zip_close(z) != 0) {
    status = OutputError(path, ": cannot be written: ", zip_strerror(z));
  }
  if (!status.ok()) {
    zip_discard(z);
  } else {
    status = AppendSource(archive, path, file);
  }
  zip_source_free(archive);
  return status;
}

}  // namespace

absl::Status WriteNpy(const std::string& path, const TensorView& array) {
  ASSIGN_OR_RETURN(const std::string header, Header(array));
  ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  std::string widened;
  RETURN_IF_ERROR(file.Append(header));
  RETURN_IF_ERROR(file.Append(Body(array, &widened)));
  return file.Commit();
}

absl::Status WriteNpz(const std::string& path,
                      absl::Span<const std::pair<std::string, TensorView>> arrays) {
  ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  RETURN_IF_ERROR(AppendArchive(arrays, path, &file));
  return file.Commit();
}

}  // namespace onward
