#include "graph/base/atomic_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph/base/errors.h"
#include "graph/base/status_macros.h"

namespace onward {
namespace {

namespace fs = std::filesystem;

std::string FolderOf(const std::string& path) {
  const std::string folder = fs::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

// The file that `path` leads to; a link whose target is missing included.
std::string BehindLinks(const std::string& path) {
  fs::path at = path;
  std::error_code error;
  for (int links = 0; links < 40 && fs::is_symlink(at, error); ++links) {
    const fs::path to = fs::read_symlink(at, error);
    if (error) break;
    at = to.is_absolute() ? to : at.parent_path() / to;
  }
  return at.string();
}

// Removes the temporary files of processes that are no more: theirs are unlocked.
void RemoveLeftovers(const std::string& folder, const std::string& prefix) {
  std::error_code error;
  std::vector<std::string> found;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (absl::StartsWith(name, prefix)) found.push_back(it->path().string());
  }
  for (const std::string& file : found) {
    const int fd = open(file.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) continue;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) unlink(file.c_str());
    close(fd);
  }
}

// A new, locked file. -1 with errno set where that fails.
int MakeLocked(const std::string& prefix, std::string* name) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    *name = absl::StrCat(prefix, getpid(), "-", attempt);
    const int fd = open(name->c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0 && errno == EEXIST) continue;
    if (fd < 0) return -1;
    // File systems without locks keep their leftovers. Where there are locks, another
    // process may have taken this file for a leftover before it was locked.
    struct stat status;
    const bool lost = flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (!lost && fstat(fd, &status) == 0 && status.st_nlink > 0) return fd;
    close(fd);
  }
  errno = EEXIST;
  return -1;
}

}  // namespace

absl::Status OutputError(const std::string& path, absl::string_view what, int error) {
  return WithExitCode(absl::ErrnoToStatus(error, absl::StrCat(path, ": cannot be ", what)),
                      ExitCode::kOutput);
}

absl::Status WriteAll(int fd, const void* data, int64_t bytes, const std::string& path) {
  constexpr int64_t kMostAtOnce = int64_t{1} << 30;  // write() takes less than 2^31
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = write(fd, at, static_cast<size_t>(std::min(bytes, kMostAtOnce)));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return OutputError(path, "written", n < 0 ? errno : ENOSPC);
    at += n;
    bytes -= n;
  }
  return absl::OkStatus();
}

absl::Status SyncFolder(const std::string& folder) {
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return OutputError(folder, "opened", errno);
  const int rc = fsync(fd);
  const int error = errno;
  close(fd);
  // Some file systems cannot sync folders and say EINVAL.
  if (rc != 0 && error != EINVAL) return OutputError(folder, "synced", error);
  return absl::OkStatus();
}

absl::StatusOr<AtomicFile> AtomicFile::Create(const std::string& path) {
  if (path.empty() || path.back() == '/') return OutputError(path, "written", EISDIR);
  const std::string target = BehindLinks(path);
  struct stat status;
  const bool exists = stat(target.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) return OutputError(path, "written", EISDIR);
  if (exists && !S_ISREG(status.st_mode)) {
    const int fd = open(target.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd < 0) return OutputError(path, "opened", errno);
    return AtomicFile(path, target, "", fd);
  }
  // Renaming needs no right to write to the file; a file that its user has made
  // read-only is meant to stay.
  if (exists && access(target.c_str(), W_OK) != 0) return OutputError(path, "written", errno);
  const std::string folder = FolderOf(target);
  const std::string prefix = absl::StrCat(".", fs::path(target).filename().string(), ".tmp-");
  RemoveLeftovers(folder, prefix);
  std::string temporary;
  const int fd = MakeLocked(absl::StrCat(folder, "/", prefix), &temporary);
  if (fd < 0) return OutputError(path, "written", errno);
  AtomicFile file(path, target, temporary, fd);
  if (exists && fchmod(fd, status.st_mode & 07777) != 0) {
    return OutputError(path, "given its permissions", errno);
  }
  return file;
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  if (!temporary_.empty()) unlink(temporary_.c_str());
  close(fd_);
}

absl::Status AtomicFile::Append(const void* data, int64_t bytes) {
  ONWARD_CHECK(fd_ >= 0);
  return WriteAll(fd_, data, bytes, path_);
}

absl::Status AtomicFile::Commit() {
  ONWARD_CHECK(fd_ >= 0);
  if (temporary_.empty()) {
    if (close(std::exchange(fd_, -1)) != 0) return OutputError(path_, "written", errno);
    return absl::OkStatus();
  }
  if (fsync(fd_) != 0) return OutputError(path_, "written", errno);
  if (rename(temporary_.c_str(), target_.c_str()) != 0) {
    return OutputError(path_, "put in place", errno);
  }
  close(std::exchange(fd_, -1));
  return SyncFolder(FolderOf(target_));
}

absl::Status WriteFileAtomically(const std::string& path, absl::string_view bytes) {
  ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  RETURN_IF_ERROR(file.Append(bytes));
  return file.Commit();
}

}  // namespace onward
