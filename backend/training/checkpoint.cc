#include "backend/training/checkpoint.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "backend/training/checkpoint_format.h"
#include "graph/base/errors.h"
#include "graph/base/status_macros.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace onward {

using checkpoint_format::Checksum;
using checkpoint_format::kAlignment;
using checkpoint_format::kManifestFile;
using checkpoint_format::kMostManifestBytes;
using checkpoint_format::kStatesFile;

namespace {

constexpr int kMostDepth = 64;  // of nested JSON
constexpr size_t kMostRank = 64;
constexpr int64_t kChunk = int64_t{1} << 20;

absl::Status Unusable(absl::Status status) {
  return WithExitCode(std::move(status), ExitCode::kNoCheckpoint);
}

absl::Status Broken(absl::string_view what) { return absl::InvalidArgumentError(what); }

// Parsing without exceptions and without recursion; null where it is no JSON.
bool ParseJson(const std::string& text, nlohmann::json* out) {
  bool deep = false;
  const auto watch = [&deep](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    deep = deep || depth > kMostDepth;
    return !deep;
  };
  *out = nlohmann::json::parse(text, watch, /*allow_exceptions=*/false);
  return !deep && !out->is_discarded();
}

absl::StatusOr<std::string> TextOf(const nlohmann::json& object, const char* field) {
  const auto it = object.find(field);
  if (it == object.end() || !it->is_string()) {
    return Broken(absl::StrCat("'", field, "' is no text"));
  }
  return it->get<std::string>();
}

absl::StatusOr<int64_t> CountOf(const nlohmann::json& object, const char* field) {
  const auto it = object.find(field);
  if (it == object.end() || !it->is_number_integer() ||
      (it->is_number_unsigned() && it->get<uint64_t>() > INT64_MAX) || it->get<int64_t>() < 0) {
    return Broken(absl::StrCat("'", field, "' is no count"));
  }
  return it->get<int64_t>();
}

absl::StatusOr<Dims> DimsOf(const nlohmann::json& object) {
  const auto it = object.find("dims");
  if (it == object.end() || !it->is_array() || it->size() > kMostRank) {
    return Broken("'dims' are no extents");
  }
  Dims dims;
  for (const nlohmann::json& d : *it) {
    if (!d.is_number_integer() || (d.is_number_unsigned() && d.get<uint64_t>() > INT64_MAX)) {
      return Broken("'dims' are no extents");
    }
    dims.push_back(d.get<int64_t>());
  }
  return dims;
}

absl::StatusOr<CheckpointReader::Entry> ReadEntry(const nlohmann::json& json) {
  if (!json.is_object()) return Broken("is no object");
  CheckpointReader::Entry entry;
  ASSIGN_OR_RETURN(entry.name, TextOf(json, "name"));
  ASSIGN_OR_RETURN(const std::string kind, TextOf(json, "kind"));
  ASSIGN_OR_RETURN(entry.kind, checkpoint_format::ParseKind(kind));
  ASSIGN_OR_RETURN(const std::string dtype, TextOf(json, "dtype"));
  ASSIGN_OR_RETURN(entry.dtype, ParseDataType(dtype));
  if (PackedBits(entry.dtype) == 0) return Broken(absl::StrCat("has data type ", dtype));
  ASSIGN_OR_RETURN(entry.dims, DimsOf(json));
  ASSIGN_OR_RETURN(const int64_t elements, CheckedElements(entry.dims));
  ASSIGN_OR_RETURN(entry.offset, CountOf(json, "offset"));
  ASSIGN_OR_RETURN(entry.bytes, CountOf(json, "bytes"));
  if (entry.bytes != elements * static_cast<int64_t>(SizeOf(entry.dtype))) {
    return Broken(absl::StrCat("has ", entry.bytes, " bytes, which do not fit ", dtype,
                               ToString(entry.dims)));
  }
  ASSIGN_OR_RETURN(const std::string checksum, TextOf(json, "xxh64"));
  if (checksum.size() != 16 || !absl::SimpleHexAtoi(checksum, &entry.checksum)) {
    return Broken("'xxh64' is no checksum");
  }
  return entry;
}

}  // namespace

// An open file, read by pread: one that is changed meanwhile gives an error.
class CheckpointReader::Bytes {
 public:
  static absl::StatusOr<std::shared_ptr<const Bytes>> Open(const std::string& path) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return absl::ErrnoToStatus(errno, path);
    struct stat status;
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
      close(fd);
      return Broken(absl::StrCat(path, ": is no file"));
    }
    return std::shared_ptr<const Bytes>(new Bytes(path, fd, status.st_size));
  }
  ~Bytes() { close(fd_); }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;

  const std::string& path() const { return path_; }
  int64_t size() const { return size_; }

  absl::Status ReadAt(int64_t offset, void* to, int64_t bytes) const {
    char* at = static_cast<char*>(to);
    while (bytes > 0) {
      const ssize_t n = pread(fd_, at, static_cast<size_t>(std::min(bytes, kChunk)), offset);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return absl::ErrnoToStatus(errno, path_);
      if (n == 0) return Broken(absl::StrCat(path_, ": ends at byte ", offset));
      at += n;
      offset += n;
      bytes -= n;
    }
    return absl::OkStatus();
  }

 private:
  Bytes(std::string path, int fd, int64_t size) : path_(std::move(path)), fd_(fd), size_(size) {}
  std::string path_;
  int fd_;
  int64_t size_;
};

namespace checkpoint_format {

uint64_t Checksum(const void* data, int64_t bytes) {
  return XXH64(data, static_cast<size_t>(bytes), 0);
}

std::string ChecksumText(uint64_t checksum) {
  return absl::StrCat(absl::Hex(checksum, absl::kZeroPad16));
}

absl::string_view Name(State::Kind kind) {
  switch (kind) {
    case State::Kind::kParameter:
      return "parameter";
    case State::Kind::kFrozen:
      return "frozen";
    case State::Kind::kStatistic:
      return "statistic";
    case State::Kind::kMoment:
      return "moment";
    case State::Kind::kCounter:
      return "counter";
  }
  return "";
}

absl::StatusOr<State::Kind> ParseKind(absl::string_view name) {
  for (const State::Kind kind :
       {State::Kind::kParameter, State::Kind::kFrozen, State::Kind::kStatistic,
        State::Kind::kMoment, State::Kind::kCounter}) {
    if (Name(kind) == name) return kind;
  }
  return Broken(absl::StrCat("is of kind '", name, "', which is unknown"));
}

}  // namespace checkpoint_format

const CheckpointReader::Entry* CheckpointReader::Find(const std::string& name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : &states_[it->second];
}

absl::Status CheckpointReader::ReadManifest(const std::string& text) {
  nlohmann::json manifest;
  if (!ParseJson(text, &manifest) || !manifest.is_object()) return Broken("is no manifest");
  ASSIGN_OR_RETURN(const std::string format, TextOf(manifest, "format"));
  if (format != checkpoint_format::kFormat) return Broken("is no manifest of a checkpoint");
  ASSIGN_OR_RETURN(const int64_t version, CountOf(manifest, "version"));
  if (version != checkpoint_format::kVersion) {
    return Broken(absl::StrCat("is of version ", version, ", expected ",
                               checkpoint_format::kVersion, ", as this program writes it"));
  }
  ASSIGN_OR_RETURN(const std::string checksum, TextOf(manifest, "xxh64"));
  manifest.erase("xxh64");
  // What was parsed is UTF-8, so that dump cannot throw.
  const std::string rest = manifest.dump();
  if (checksum != checkpoint_format::ChecksumText(Checksum(rest.data(), rest.size()))) {
    return Broken("does not have the checksum that it states");
  }
  ASSIGN_OR_RETURN(step_, CountOf(manifest, "step"));
  ASSIGN_OR_RETURN(fingerprint_, TextOf(manifest, "fingerprint"));
  const auto training = manifest.find("training");
  const auto states = manifest.find("states");
  if (training == manifest.end()) return Broken("'training' is missing");
  if (states == manifest.end() || !states->is_array()) return Broken("'states' are no list");
  training_ = std::move(*training);
  return ReadEntries(*states);
}

absl::Status CheckpointReader::ReadEntries(const nlohmann::json& list) {
  int64_t end = 0;
  for (const nlohmann::json& json : list) {
    absl::StatusOr<Entry> entry = ReadEntry(json);
    const std::string where = absl::StrCat("state ", states_.size());
    if (!entry.ok()) return Annotate(entry.status(), where);
    if (entry->offset < end || entry->offset % kAlignment != 0 || entry->offset > bytes_->size() ||
        entry->bytes > bytes_->size() - entry->offset) {
      return Broken(absl::StrCat(where, " ('", entry->name, "'): ", entry->bytes,
                                 " bytes from byte ", entry->offset, " do not fit ", kStatesFile,
                                 " of ", bytes_->size(), " bytes"));
    }
    end = entry->offset + entry->bytes;
    if (entry->name.empty() || !by_name_.emplace(entry->name, states_.size()).second) {
      return Broken(absl::StrCat(where, ": name '", entry->name, "' is empty or there twice"));
    }
    states_.push_back(*std::move(entry));
  }
  if (end != bytes_->size()) {
    return Broken(absl::StrCat(kStatesFile, " has ", bytes_->size(), " bytes, expected ", end));
  }
  return absl::OkStatus();
}

absl::Status CheckpointReader::Verify() const {
  std::vector<char> chunk(kChunk);
  XXH64_state_t hash;
  for (const Entry& entry : states_) {
    XXH64_reset(&hash, 0);
    for (int64_t done = 0; done < entry.bytes; done += kChunk) {
      const int64_t n = std::min(kChunk, entry.bytes - done);
      RETURN_IF_ERROR(bytes_->ReadAt(entry.offset + done, chunk.data(), n));
      XXH64_update(&hash, chunk.data(), static_cast<size_t>(n));
    }
    if (XXH64_digest(&hash) != entry.checksum) {
      return Broken(
          absl::StrCat(bytes_->path(), ": state '", entry.name, "' does not have its checksum"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Tensor> CheckpointReader::Read(const std::string& name) const {
  const Entry* entry = Find(name);
  if (entry == nullptr) {
    return Unusable(absl::NotFoundError(absl::StrCat(path_, ": has no state '", name, "'")));
  }
  absl::StatusOr<Tensor> tensor = Tensor::Allocate(entry->dtype, entry->dims);
  if (!tensor.ok()) return Unusable(Annotate(tensor.status(), path_));
  RETURN_IF_ERROR(Unusable(bytes_->ReadAt(entry->offset, tensor->data(), entry->bytes)));
  if (Checksum(tensor->data(), entry->bytes) != entry->checksum) {
    return Unusable(Broken(
        absl::StrCat(bytes_->path(), ": state '", name, "' has changed since it was opened")));
  }
  return tensor;
}

absl::StatusOr<CheckpointReader> OpenCheckpoint(const std::string& path) {
  CheckpointReader reader;
  reader.path_ = path;
  const std::string manifest_path = absl::StrCat(path, "/", kManifestFile);
  absl::StatusOr<std::shared_ptr<const CheckpointReader::Bytes>> manifest =
      CheckpointReader::Bytes::Open(manifest_path);
  if (!manifest.ok()) return Unusable(manifest.status());
  if ((*manifest)->size() > kMostManifestBytes) {
    return Unusable(Broken(absl::StrCat(manifest_path, ": has ", (*manifest)->size(),
                                        " bytes, expected ", kMostManifestBytes, " at most")));
  }
  std::string text((*manifest)->size(), '\0');
  RETURN_IF_ERROR(Unusable((*manifest)->ReadAt(0, text.data(), (*manifest)->size())));
  absl::StatusOr<std::shared_ptr<const CheckpointReader::Bytes>> bytes =
      CheckpointReader::Bytes::Open(absl::StrCat(path, "/", kStatesFile));
  if (!bytes.ok()) return Unusable(bytes.status());
  reader.bytes_ = *std::move(bytes);
  RETURN_IF_ERROR(Unusable(Annotate(reader.ReadManifest(text), manifest_path)));
  RETURN_IF_ERROR(Unusable(reader.Verify()));
  return reader;
}

absl::StatusOr<CheckpointReader> NewestCheckpoint(const std::string& dir,
                                                  std::vector<std::string>* warnings) {
  const std::vector<int64_t> steps = checkpoint_format::StepsIn(dir);
  for (const int64_t step : steps) {
    absl::StatusOr<CheckpointReader> reader =
        OpenCheckpoint(absl::StrCat(dir, "/", CheckpointName(step)));
    if (reader.ok()) return reader;
    if (warnings != nullptr) {
      warnings->push_back(
          absl::StrCat("checkpoint not used: ", std::string(reader.status().message())));
    }
  }
  return Unusable(absl::NotFoundError(
      absl::StrCat(dir, ": there is no ", steps.empty() ? "" : "usable ", "checkpoint")));
}

std::vector<int64_t> CheckpointSteps(const std::string& dir) {
  return checkpoint_format::StepsIn(dir);
}

absl::StatusOr<CheckpointReader> BestCheckpoint(const std::string& dir) {
  const int64_t step = checkpoint_format::BestIn(dir, checkpoint_format::StepsIn(dir));
  if (step >= 0) return OpenCheckpoint(absl::StrCat(dir, "/", CheckpointName(step)));
  return Unusable(absl::NotFoundError(absl::StrCat(dir, ": no checkpoint is marked as the best")));
}

}  // namespace onward
