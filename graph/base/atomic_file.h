// Files that are there whole or not at all.
#ifndef ONWARD_GRAPH_BASE_ATOMIC_FILE_H_
#define ONWARD_GRAPH_BASE_ATOMIC_FILE_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace onward {

// A file on its way to `path`. What is appended goes to a temporary file beside it
// (".NAME.tmp-..."), which Commit brings to the disk and renames: whoever reads
// `path` finds the old file or the whole new one, also after a crash. Destroyed
// without Commit, it leaves everything as it was.
//
// The temporary file is locked while its process lives. Those of killed processes
// for the same `path` are removed when a new one is made.
//
// A symbolic link stays, and its target is replaced. What is there and is no file (a
// pipe, /dev/null) is written to directly. An existing file's permissions stay.
//
// All errors have exit code kOutput and name the path. Not thread-safe. Where the
// size of files is limited, SIGXFSZ has to be ignored for the error to be seen.
class AtomicFile {
 public:
  static absl::StatusOr<AtomicFile> Create(const std::string& path);

  AtomicFile(AtomicFile&& o) noexcept
      : path_(std::move(o.path_)),
        target_(std::move(o.target_)),
        temporary_(std::move(o.temporary_)),
        fd_(std::exchange(o.fd_, -1)) {}
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  absl::Status Append(const void* data, int64_t bytes);
  absl::Status Append(absl::string_view text) {
    return Append(text.data(), static_cast<int64_t>(text.size()));
  }
  // Where libraries write by themselves. Stays this object's.
  int descriptor() const { return fd_; }

  // At most once; nothing may be appended after it.
  absl::Status Commit();

 private:
  AtomicFile(std::string path, std::string target, std::string temporary, int fd)
      : path_(std::move(path)),
        target_(std::move(target)),
        temporary_(std::move(temporary)),
        fd_(fd) {}

  std::string path_;       // as the caller wrote it
  std::string target_;     // behind symbolic links
  std::string temporary_;  // empty where `target_` is written to directly
  int fd_ = -1;
};

// The whole of a file at once.
absl::Status WriteFileAtomically(const std::string& path, absl::string_view bytes);

// All of `bytes` bytes to `fd`, whatever write() takes at a time. The error has exit
// code kOutput and begins with `path`.
absl::Status WriteAll(int fd, const void* data, int64_t bytes, const std::string& path);

// Brings a folder's entries (names made, renamed or removed) to the disk.
absl::Status SyncFolder(const std::string& folder);

// "PATH: cannot be WHAT: No space left on device", with exit code kOutput.
absl::Status OutputError(const std::string& path, absl::string_view what, int error);

}  // namespace onward

#endif  // ONWARD_GRAPH_BASE_ATOMIC_FILE_H_
