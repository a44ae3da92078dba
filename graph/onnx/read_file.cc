#include "graph/onnx/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl.h"
#include "google/protobuf/stubs/logging.h"
#include "google/protobuf/wire_format_lite.h"
#include "graph/base/status_macros.h"
#include "graph/onnx/proto.h"

namespace onward {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;
using google::protobuf::io::FileInputStream;
using google::protobuf::io::StringOutputStream;

// Raw data of more bytes stays in the file until its tensor is made.
constexpr int kLeastBytes = 4096;

// A message without some of its bytes, as it would lie in a file.
class Fields {
 public:
  // One more field, copied from `in`, whose tag has been read. False where the file is
  // broken, or old-fashioned (groups).
  bool Copy(uint32_t tag, CodedInputStream* in) {
    StringOutputStream stream(&bytes_);
    CodedOutputStream out(&stream);
    return WireFormatLite::GetTagWireType(tag) != WireFormatLite::WIRETYPE_START_GROUP &&
           WireFormatLite::SkipField(in, tag, &out);
  }
  void Add(int number, const std::string& bytes) {
    StringOutputStream stream(&bytes_);
    CodedOutputStream out(&stream);
    WireFormatLite::WriteBytes(number, bytes, &out);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// Reads a model's file but for large raw data of its initializers, which it only finds:
// they are much of the file, and go from there into their tensors at once.
class LightReader {
 public:
  explicit LightReader(CodedInputStream* in) : in_(in) {}

  // False where the file is not of the usual form: it has to be parsed as a whole.
  bool Read(onnx::ModelProto* proto, RawPlaces* raw_data) {
    Fields model;
    const bool read = Message(&model, [&](uint32_t tag, Fields* to) {
      if (!Is(tag, onnx::ModelProto::kGraphFieldNumber)) return to->Copy(tag, in_);
      return Nested(onnx::ModelProto::kGraphFieldNumber, to,
                    [&](uint32_t inner, Fields* graph) { return GraphField(inner, graph); });
    });
    if (!read || raw_data_.empty() || !proto->ParseFromString(model.bytes())) return false;
    *raw_data = std::move(raw_data_);
    return true;
  }

 private:
  static bool Is(uint32_t tag, int number) {
    return tag == WireFormatLite::MakeTag(number, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
  }

  // Every field up to the end of the message, by `field`.
  template <typename Field>
  bool Message(Fields* to, const Field& field) {
    for (;;) {
      const uint32_t tag = in_->ReadTag();
      if (tag == 0) return in_->ConsumedEntireMessage();
      if (!field(tag, to)) return false;
    }
  }

  // A message in a field, whose tag has been read.
  template <typename Field>
  bool Nested(int number, Fields* to, const Field& field) {
    int length = 0;
    if (!in_->ReadVarintSizeAsInt(&length)) return false;
    const CodedInputStream::Limit limit = in_->PushLimit(length);
    Fields message;
    if (!Message(&message, field)) return false;
    in_->PopLimit(limit);
    to->Add(number, message.bytes());
    return true;
  }

  bool GraphField(uint32_t tag, Fields* graph) {
    if (!Is(tag, onnx::GraphProto::kInitializerFieldNumber)) return graph->Copy(tag, in_);
    const int index = initializers_++;
    return Nested(
        onnx::GraphProto::kInitializerFieldNumber, graph,
        [&](uint32_t inner, Fields* tensor) { return TensorField(index, inner, tensor); });
  }

  bool TensorField(int index, uint32_t tag, Fields* tensor) {
    if (!Is(tag, onnx::TensorProto::kRawDataFieldNumber)) return tensor->Copy(tag, in_);
    int length = 0;
    if (!in_->ReadVarintSizeAsInt(&length)) return false;
    if (length > kLeastBytes) {
      return raw_data_.emplace(index, RawPlace{in_->CurrentPosition(), length}).second &&
             in_->Skip(length);
    }
    std::string bytes;
    if (!in_->ReadString(&bytes, length)) return false;
    tensor->Add(onnx::TensorProto::kRawDataFieldNumber, bytes);
    return true;
  }

  CodedInputStream* in_;
  int initializers_ = 0;
  RawPlaces raw_data_;
};

// Where the bytes of an initializer outside the model lie.
struct ExternalPlace {
  std::string location;
  int64_t offset = 0;
  int64_t length = -1;
};

absl::StatusOr<ExternalPlace> PlaceOf(const onnx::TensorProto& proto) {
  ExternalPlace place;
  for (const auto& entry : proto.external_data()) {
    int64_t* number = entry.key() == "offset"   ? &place.offset
                      : entry.key() == "length" ? &place.length
                                                : nullptr;
    if (entry.key() == "location") place.location = entry.value();
    if (number != nullptr && (!absl::SimpleAtoi(entry.value(), number) || *number < 0)) {
      return absl::InvalidArgumentError(
          absl::StrCat("external ", entry.key(), " '", entry.value(), "' is not a size"));
    }
  }
  if (place.location.empty()) return absl::InvalidArgumentError("external data without location");
  if (place.location.find('\0') != std::string::npos) {
    return absl::InvalidArgumentError("the location of external data is not a file's name");
  }
  return place;
}

bool LiesIn(const std::filesystem::path& file, const std::filesystem::path& folder) {
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(folder, error);
  if (error) return false;
  return std::mismatch(real.begin(), real.end(), file.begin(), file.end()).first == real.end();
}

// The file, only if it lies in the model's folder: a model must not be able to read
// files of its user elsewhere. Links are followed as long as they stay in the folder, or
// lead to where the model itself is a link to (stores of models keep files so).
absl::StatusOr<std::string> FileInside(const std::string& model, const std::string& location) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(model).has_parent_path() ? fs::path(model).parent_path() : ".";
  const fs::path relative = location;
  bool outside = relative.is_absolute();
  for (const fs::path& part : relative) outside |= part == "..";
  const fs::path file = folder / relative;
  std::error_code error;
  if (!outside && !fs::is_regular_file(file, error)) {
    return absl::NotFoundError(
        absl::StrCat("external data '", file.string(), "' is missing; keep it beside the model"));
  }
  if (!outside) {
    const fs::path real = fs::canonical(file, error);
    outside = error ||
              (!LiesIn(real, folder) && !LiesIn(real, fs::canonical(model, error).parent_path()));
  }
  if (outside) {
    return absl::InvalidArgumentError(
        absl::StrCat("external data '", location, "' lies outside the model's folder"));
  }
  return file.string();
}

// Reads (does not map: a file that is changed meanwhile must not harm us).
absl::Status ReadAt(const std::string& path, int64_t offset, void* data, int64_t bytes) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return absl::NotFoundError(absl::StrCat("'", path, "': ", std::strerror(errno)));
  int64_t done = 0;
  while (done < bytes) {
    const ssize_t n = pread(fd, static_cast<char*>(data) + done, bytes - done, offset + done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const int error = errno;
      close(fd);
      return absl::InvalidArgumentError(
          absl::StrCat("'", path, "' cannot be read: ", std::strerror(error)));
    }
    if (n == 0) {
      close(fd);
      return absl::InvalidArgumentError(
          absl::StrCat("'", path, "' ends at byte ", offset + done, ", expected ", offset + bytes));
    }
    done += n;
  }
  close(fd);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelFile> ReadModelFile(const std::string& path) {
  // Its own account of what it does not like is not for users.
  google::protobuf::SetLogHandler(nullptr);
  // Without O_NONBLOCK the opening of a pipe would wait for a writer.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    return absl::NotFoundError(absl::StrCat("cannot be opened: ", std::strerror(errno)));
  }
  FileInputStream owner(fd);
  owner.SetCloseOnDelete(true);
  struct stat status;
  if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    return absl::InvalidArgumentError("is not a file");
  }
  if (status.st_size > INT32_MAX) {
    return absl::InvalidArgumentError(
        absl::StrCat("is ", status.st_size, " bytes long; a model over 2 GB keeps its weights in ",
                     "files beside it (external data)"));
  }
  ModelFile file;
  const auto with_stream = [&](const auto& read) {
    if (lseek(fd, 0, SEEK_SET) != 0) return false;
    FileInputStream stream(fd);
    CodedInputStream coded(&stream);
    coded.SetTotalBytesLimit(INT32_MAX);
    return read(&coded);
  };
  file.proto = std::make_unique<onnx::ModelProto>();
  const bool light = with_stream([&](CodedInputStream* coded) {
    return LightReader(coded).Read(file.proto.get(), &file.raw_data);
  });
  if (light) return file;
  file.proto = std::make_unique<onnx::ModelProto>();
  const bool whole =
      status.st_size > 0 && with_stream([&](CodedInputStream* coded) {
        return file.proto->ParseFromCodedStream(coded) && coded->ConsumedEntireMessage();
      });
  if (whole) return file;
  return absl::InvalidArgumentError(
      absl::StrCat("is not an ONNX model, or is cut short (", status.st_size, " bytes)"));
}

absl::StatusOr<Tensor> ReadRawData(const onnx::TensorProto& proto, const std::string& path,
                                   const RawPlace& place) {
  ASSIGN_OR_RETURN(Tensor tensor, RoomForRawData(proto, place.bytes));
  RETURN_IF_ERROR(ReadAt(path, place.offset, tensor.data(), place.bytes));
  FinishRawData(&tensor);
  return tensor;
}

absl::StatusOr<Tensor> ReadExternal(const onnx::TensorProto& proto, const std::string& model,
                                    std::vector<std::string>* files) {
  const DataType dtype = static_cast<DataType>(proto.data_type());
  if (PackedBits(dtype) == 0) {
    return absl::UnimplementedError(absl::StrCat("data type ", proto.data_type()));
  }
  Dims dims(proto.dims().begin(), proto.dims().end());
  ASSIGN_OR_RETURN(const int64_t elements, CheckedElements(dims));
  const int64_t bytes = (elements * PackedBits(dtype) + 7) / 8;
  ASSIGN_OR_RETURN(const ExternalPlace place, PlaceOf(proto));
  if (place.length >= 0 && place.length != bytes) {
    return absl::InvalidArgumentError(absl::StrCat("external data is ", place.length,
                                                   " bytes long, expected ", bytes, " for ",
                                                   Name(dtype), ToString(dims)));
  }
  ASSIGN_OR_RETURN(const std::string file, FileInside(model, place.location));
  std::error_code error;
  const int64_t size = static_cast<int64_t>(std::filesystem::file_size(file, error));
  if (error || place.offset > size || bytes > size - place.offset) {
    return absl::InvalidArgumentError(absl::StrCat("external data '", file, "' is ", size,
                                                   " bytes long, expected ", bytes, " from byte ",
                                                   place.offset));
  }
  ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(dtype, std::move(dims)));
  RETURN_IF_ERROR(ReadAt(file, place.offset, tensor.data(), bytes));
  FinishRawData(&tensor);
  if (std::find(files->begin(), files->end(), file) == files->end()) files->push_back(file);
  return tensor;
}

}  // namespace onward
