// The writing half of backend/training/checkpoint.h.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "backend/training/checkpoint.h"
#include "backend/training/checkpoint_format.h"
#include "graph/base/atomic_file.h"
#include "graph/base/errors.h"
#include "graph/base/status_macros.h"

namespace onward {
namespace {

namespace fs = std::filesystem;

constexpr char kPrefix[] = "step-";

bool Exists(const std::string& path) {
  struct stat status;
  return lstat(path.c_str(), &status) == 0;
}

// Held while a checkpoint is written: what has a temporary name then, and is not the
// holder's, was left behind by a process that is no more. Process numbers would not
// tell, as containers use the same ones again.
class FolderLock {
 public:
  static absl::StatusOr<FolderLock> Take(const std::string& dir) {
    const std::string path = absl::StrCat(dir, "/.lock");
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) return OutputError(dir, "written to", errno);
    FolderLock lock(fd);
    for (int tries = 0; flock(fd, LOCK_EX | LOCK_NB) != 0; ++tries) {
      if (errno == EINTR) continue;
      if (errno != EWOULDBLOCK) {  // a file system without locks
        lock.held_ = false;
        return lock;
      }
      if (tries == 200) {
        return WithExitCode(
            absl::UnavailableError(absl::StrCat(
                dir,
                ": another process is writing checkpoints here; give every run its own "
                "folder")),
            ExitCode::kOutput);
      }
      absl::SleepFor(absl::Milliseconds(50));
    }
    return lock;
  }
  FolderLock(FolderLock&& o) noexcept : fd_(std::exchange(o.fd_, -1)), held_(o.held_) {}
  FolderLock& operator=(FolderLock&&) = delete;
  ~FolderLock() {
    if (fd_ >= 0) close(fd_);
  }
  bool held() const { return held_; }

 private:
  explicit FolderLock(int fd) : fd_(fd) {}
  int fd_;
  bool held_ = true;
};

// An open file that is closed by itself, and synced by Finish.
class NewFile {
 public:
  explicit NewFile(std::string path)
      : path_(std::move(path)),
        fd_(open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) {}
  ~NewFile() {
    if (fd_ >= 0) close(fd_);
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  absl::Status Append(const void* data, int64_t bytes) {
    if (fd_ < 0) return OutputError(path_, "made", errno);
    return WriteAll(fd_, data, bytes, path_);
  }
  absl::Status Finish() {
    if (fd_ < 0) return OutputError(path_, "made", errno);
    if (fsync(fd_) != 0) return OutputError(path_, "written", errno);
    if (close(std::exchange(fd_, -1)) != 0) return OutputError(path_, "written", errno);
    return absl::OkStatus();
  }

 private:
  std::string path_;
  int fd_;
};

absl::Status CheckStates(const std::vector<NamedTensor>& states) {
  absl::flat_hash_set<std::string> names;
  for (const NamedTensor& state : states) {
    if (state.name.empty() || !names.insert(state.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("state '", state.name, "' has no name, or one that is taken"));
    }
    if (PackedBits(state.value.dtype()) == 0 || !state.value.type().layout.plain()) {
      return absl::InvalidArgumentError(absl::StrCat("state '", state.name, "' is ",
                                                     ToString(state.value.type()),
                                                     ", which cannot be stored"));
    }
  }
  return absl::OkStatus();
}

// The manifest as text.
absl::StatusOr<std::string> ManifestOf(const CheckpointOptions& options,
                                       const std::vector<NamedTensor>& states,
                                       const nlohmann::json& training) {
  using checkpoint_format::kAlignment;
  nlohmann::json list = nlohmann::json::array();
  int64_t end = 0;
  for (const NamedTensor& state : states) {
    const int64_t offset = (end + kAlignment - 1) / kAlignment * kAlignment;
    const int64_t bytes = state.value.bytes();
    const uint64_t checksum = checkpoint_format::Checksum(state.value.data(), bytes);
    list.push_back(
        {{"name", state.name},
         {"kind", std::string(checkpoint_format::Name(state.kind))},
         {"dtype", std::string(Name(state.value.dtype()))},
         {"dims", std::vector<int64_t>(state.value.dims().begin(), state.value.dims().end())},
         {"offset", offset},
         {"bytes", bytes},
         {"xxh64", checkpoint_format::ChecksumText(checksum)}});
    end = offset + bytes;
  }
  nlohmann::json manifest = {{"format", checkpoint_format::kFormat},
                             {"version", checkpoint_format::kVersion},
                             {"step", options.step},
                             {"fingerprint", options.fingerprint},
                             {"states", std::move(list)},
                             {"training", training}};
  std::string text;
  try {
    const std::string rest = manifest.dump();
    manifest["xxh64"] = checkpoint_format::ChecksumText(
        checkpoint_format::Checksum(rest.data(), static_cast<int64_t>(rest.size())));
    text = manifest.dump() + "\n";
  } catch (const std::exception& e) {  // text that is not UTF-8
    return absl::InvalidArgumentError(absl::StrCat("checkpoint: ", e.what()));
  }
  if (static_cast<int64_t>(text.size()) > checkpoint_format::kMostManifestBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("checkpoint: a manifest of ", text.size(), " bytes is too long"));
  }
  return text;
}

absl::Status FillFolder(const std::string& folder, const std::vector<NamedTensor>& states,
                        const std::string& manifest, bool best) {
  using checkpoint_format::kAlignment;
  if (mkdir(folder.c_str(), 0777) != 0) return OutputError(folder, "made", errno);
  {
    NewFile file(absl::StrCat(folder, "/", checkpoint_format::kStatesFile));
    constexpr char kZeros[kAlignment] = {};
    int64_t end = 0;
    for (const NamedTensor& state : states) {
      const int64_t padding = (kAlignment - end % kAlignment) % kAlignment;
      RETURN_IF_ERROR(file.Append(kZeros, padding));
      RETURN_IF_ERROR(file.Append(state.value.data(), state.value.bytes()));
      end += padding + state.value.bytes();
    }
    RETURN_IF_ERROR(file.Finish());
  }
  if (best) {
    NewFile file(absl::StrCat(folder, "/", checkpoint_format::kBestFile));
    RETURN_IF_ERROR(file.Finish());
  }
  NewFile file(absl::StrCat(folder, "/", checkpoint_format::kManifestFile));
  RETURN_IF_ERROR(file.Append(manifest.data(), static_cast<int64_t>(manifest.size())));
  RETURN_IF_ERROR(file.Finish());
  return SyncFolder(folder);
}

void RemoveLeftovers(const std::string& dir) {
  std::error_code error;
  std::vector<std::string> found;
  for (fs::directory_iterator it(dir, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (absl::StartsWith(name, absl::StrCat(".", kPrefix)) && absl::StrContains(name, ".tmp-")) {
      found.push_back(it->path().string());
    }
  }
  for (const std::string& path : found) fs::remove_all(path, error);
}

// Renames `from` to `to`. A folder that is there is exchanged, and `from` is the old one
// after that.
absl::Status PutInPlace(const std::string& from, const std::string& to) {
  if (!Exists(to)) {
    if (rename(from.c_str(), to.c_str()) != 0) return OutputError(to, "put in place", errno);
    return absl::OkStatus();
  }
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) {
    return absl::OkStatus();
  }
  // Not every file system can exchange. Between the two steps the checkpoint before
  // this one is the newest.
  const std::string aside = absl::StrCat(from, "-old");
  if (rename(to.c_str(), aside.c_str()) != 0) return OutputError(to, "replaced", errno);
  if (rename(from.c_str(), to.c_str()) != 0) {
    const int error = errno;
    rename(aside.c_str(), to.c_str());
    return OutputError(to, "put in place", error);
  }
  if (rename(aside.c_str(), from.c_str()) != 0) return OutputError(aside, "renamed", errno);
  return absl::OkStatus();
}

// Removes the checkpoints beyond `keep`.
void Prune(const CheckpointOptions& options, std::vector<std::string>* warnings) {
  if (options.keep <= 0) return;
  const std::vector<int64_t> steps = checkpoint_format::StepsIn(options.dir);
  const int64_t best = checkpoint_format::BestIn(options.dir, steps);
  int64_t others = 0;
  for (const int64_t step : steps) {
    if (step == options.step || ++others < options.keep || step == best) continue;
    const std::string path = absl::StrCat(options.dir, "/", CheckpointName(step));
    // Renamed first: a checkpoint is there whole or not at all.
    const std::string aside =
        absl::StrCat(options.dir, "/.", CheckpointName(step), ".tmp-", getpid(), "-old");
    std::error_code error;
    if (rename(path.c_str(), aside.c_str()) != 0) {
      error = std::error_code(errno, std::generic_category());
    } else {
      fs::remove_all(aside, error);
    }
    if (error && warnings != nullptr) {
      warnings->push_back(
          absl::StrCat(path, ": the old checkpoint cannot be removed: ", error.message()));
    }
  }
}

absl::Status MakeFolder(const std::string& dir) {
  if (dir.empty()) return OutputError("checkpoints' folder ''", "made", ENOENT);
  std::error_code error;
  fs::create_directories(dir, error);
  if (!fs::is_directory(dir)) {
    return OutputError(dir, "made", error ? error.value() : ENOTDIR);
  }
  const std::string parent = fs::path(dir).lexically_normal().parent_path().string();
  return SyncFolder(parent.empty() ? "." : parent);
}

}  // namespace

std::string CheckpointName(int64_t step) { return absl::StrFormat("%s%08d", kPrefix, step); }

namespace checkpoint_format {

std::vector<int64_t> StepsIn(const std::string& dir) {
  std::vector<int64_t> steps;
  std::error_code error;
  for (fs::directory_iterator it(dir, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    int64_t step = -1;
    if (absl::StartsWith(name, kPrefix) &&
        absl::SimpleAtoi(name.substr(sizeof(kPrefix) - 1), &step) && step >= 0 &&
        name == CheckpointName(step)) {
      steps.push_back(step);
    }
  }
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}

int64_t BestIn(const std::string& dir, const std::vector<int64_t>& steps) {
  for (const int64_t step : steps) {
    if (Exists(absl::StrCat(dir, "/", CheckpointName(step), "/", kBestFile))) return step;
  }
  return -1;
}

}  // namespace checkpoint_format

absl::StatusOr<std::string> WriteCheckpoint(const CheckpointOptions& options,
                                            const std::vector<NamedTensor>& states,
                                            const nlohmann::json& training,
                                            std::vector<std::string>* warnings) {
  RETURN_IF_ERROR(CheckStates(states));
  if (options.step < 0) return absl::InvalidArgumentError("checkpoint: step is negative");
  ASSIGN_OR_RETURN(const std::string manifest, ManifestOf(options, states, training));
  RETURN_IF_ERROR(MakeFolder(options.dir));
  ASSIGN_OR_RETURN(const FolderLock lock, FolderLock::Take(options.dir));
  if (lock.held()) RemoveLeftovers(options.dir);

  const std::string name = CheckpointName(options.step);
  const std::string path = absl::StrCat(options.dir, "/", name);
  const std::string temporary = absl::StrCat(options.dir, "/.", name, ".tmp-", getpid());
  std::error_code error;
  fs::remove_all(temporary, error);
  absl::Status status = FillFolder(temporary, states, manifest, options.best);
  if (status.ok()) status = PutInPlace(temporary, path);
  fs::remove_all(temporary, error);
  if (!status.ok()) return status;
  RETURN_IF_ERROR(SyncFolder(options.dir));
  Prune(options, warnings);
  return path;
}

}  // namespace onward
