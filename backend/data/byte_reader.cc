#include "backend/data/byte_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "backend/data/data_error.h"
#include "graph/base/status_macros.h"

namespace onward {
namespace {

class PlainFileReader final : public ByteReader {
 public:
  explicit PlainFileReader(std::shared_ptr<const File> file)
      : ByteReader(file->path(), file->size(), /*exact=*/true), file_(std::move(file)) {}

  std::shared_ptr<const File> plain_file() const override { return file_; }

 protected:
  absl::StatusOr<int64_t> Fill(char* to, int64_t bytes) override {
    // A file that grows while it is read stays as long as it was.
    bytes = std::min(bytes, file_->size() - position_);
    if (bytes <= 0) return 0;
    ASSIGN_OR_RETURN(const int64_t got, file_->ReadSomeAt(position_, to, bytes));
    position_ += got;
    return got;
  }

 private:
  std::shared_ptr<const File> file_;
  int64_t position_ = 0;
};

class GzipReader final : public ByteReader {
 public:
  explicit GzipReader(std::shared_ptr<const File> file)
      : ByteReader(file->path(), MostInflated(file->size()), /*exact=*/false),
        file_(std::move(file)) {
    std::memset(&stream_, 0, sizeof stream_);
  }
  ~GzipReader() override {
    if (started_) inflateEnd(&stream_);
  }

 protected:
  absl::StatusOr<int64_t> Fill(char* to, int64_t bytes) override {
    RETURN_IF_ERROR(Start());
    constexpr int64_t kMostAtOnce = int64_t{1} << 30;  // zlib counts in 32 bits
    const int64_t wanted = std::min(bytes, kMostAtOnce);
    stream_.next_out = reinterpret_cast<Bytef*>(to);
    stream_.avail_out = static_cast<uInt>(wanted);
    while (stream_.avail_out > 0 && !ended_) {
      RETURN_IF_ERROR(Step());
    }
    return wanted - static_cast<int64_t>(stream_.avail_out);
  }

 private:
  absl::Status Start() {
    if (started_) return absl::OkStatus();
    if (inflateInit2(&stream_, 15 + 16) != Z_OK)
      return DataTooLarge(name(), ": no memory to inflate");
    started_ = true;
    ASSIGN_OR_RETURN(input_, Buffer::Allocate(1 << 18));
    return absl::OkStatus();
  }

  // More compressed bytes, if there are any.
  absl::Status Refill() {
    if (stream_.avail_in > 0) return absl::OkStatus();
    ASSIGN_OR_RETURN(const int64_t got, file_->ReadSomeAt(position_, input_.data(), input_.size()));
    position_ += got;
    stream_.next_in = reinterpret_cast<Bytef*>(input_.data());
    stream_.avail_in = static_cast<uInt>(got);
    return absl::OkStatus();
  }

  absl::Status Step() {
    RETURN_IF_ERROR(Refill());
    if (stream_.avail_in == 0) {
      return DataError(name(), ": the gzip stream ends at byte ", position_,
                       " before it is complete: the file was cut short");
    }
    const int rc = inflate(&stream_, Z_NO_FLUSH);
    if (rc == Z_STREAM_END) return NextMember();
    if (rc != Z_OK) {
      return DataError(name(), ": the gzip stream is damaged before byte ",
                       position_ - stream_.avail_in, " (",
                       stream_.msg ? stream_.msg : "no progress", ")");
    }
    return absl::OkStatus();
  }

  // gzip files may be several, one behind the other, and padded with zeros.
  absl::Status NextMember() {
    for (;;) {
      RETURN_IF_ERROR(Refill());
      if (stream_.avail_in == 0) {
        ended_ = true;
        return absl::OkStatus();
      }
      if (*stream_.next_in != 0) break;
      ++stream_.next_in;
      --stream_.avail_in;
    }
    if (*stream_.next_in != 0x1f || inflateReset(&stream_) != Z_OK) {
      return DataError(name(), ": byte ", position_ - stream_.avail_in,
                       ": what follows the gzip stream is not gzip");
    }
    return absl::OkStatus();
  }

  std::shared_ptr<const File> file_;
  z_stream stream_;
  bool started_ = false;
  bool ended_ = false;
  Buffer input_;
  int64_t position_ = 0;
};

// The number behind `key` in a file of the system; -1 where there is none.
int64_t NumberFrom(const char* path, const char* key) {
  std::FILE* f = std::fopen(path, "re");
  if (f == nullptr) return -1;
  char line[256];
  long long value = -1;
  const size_t length = std::strlen(key);
  while (std::fgets(line, sizeof line, f) != nullptr) {
    if (std::strncmp(line, key, length) == 0 && std::sscanf(line + length, "%lld", &value) == 1)
      break;
  }
  std::fclose(f);
  return value;
}

}  // namespace

absl::StatusOr<Buffer> Buffer::Allocate(int64_t bytes) {
  Buffer b;
  RETURN_IF_ERROR(b.Resize(bytes));
  return b;
}

absl::Status Buffer::Resize(int64_t bytes) {
  void* p = std::realloc(data_, static_cast<size_t>(std::max<int64_t>(bytes, 1)));
  if (p == nullptr) return DataTooLarge("no memory for ", bytes, " bytes of data");
  data_ = static_cast<char*>(p);
  size_ = bytes;
  return absl::OkStatus();
}

namespace {
int64_t TimeOf(const struct stat& s) {
  return int64_t{s.st_mtim.tv_sec} * 1000000000 + s.st_mtim.tv_nsec;
}
}  // namespace

absl::StatusOr<std::shared_ptr<const File>> File::Open(const std::string& path) {
  // O_NONBLOCK: a pipe without a writer must not stop us before it is refused.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    const int error = errno;
    if (error == ENOENT || error == ENOTDIR) {
      return WithExitCode(absl::NotFoundError(absl::StrCat(path, ": there is no such file")),
                          ExitCode::kData);
    }
    return DataError(path, ": cannot be opened: ", std::strerror(error));
  }
  std::shared_ptr<File> file(new File(path, fd));
  struct stat s;
  if (::fstat(fd, &s) != 0) return DataError(path, ": cannot be read: ", std::strerror(errno));
  if (!S_ISREG(s.st_mode)) {
    return DataError(path, S_ISDIR(s.st_mode) ? ": is a folder" : ": is not a regular file",
                     ", a file was expected");
  }
  file->size_ = s.st_size;
  file->changed_ = TimeOf(s);
  return std::shared_ptr<const File>(std::move(file));
}

File::~File() { ::close(fd_); }

absl::StatusOr<int64_t> File::ReadSomeAt(int64_t offset, void* to, int64_t bytes) const {
  for (;;) {
    const ssize_t got = ::pread(fd_, to, static_cast<size_t>(bytes), offset);
    if (got >= 0) return got;
    if (errno != EINTR) {
      return DataError(path_, ": byte ", offset, ": cannot be read: ", std::strerror(errno));
    }
  }
}

absl::Status File::ReadAt(int64_t offset, void* to, int64_t bytes) const {
  char* p = static_cast<char*>(to);
  while (bytes > 0) {
    ASSIGN_OR_RETURN(const int64_t got, ReadSomeAt(offset, p, bytes));
    if (got == 0) {
      return DataError(path_, ": ends at byte ", offset, ", it had ", size_,
                       " bytes when it was opened");
    }
    p += got;
    offset += got;
    bytes -= got;
  }
  return absl::OkStatus();
}

absl::Status File::CheckUnchanged() const {
  struct stat s;
  if (::fstat(fd_, &s) != 0) return DataError(path_, ": cannot be read: ", std::strerror(errno));
  if (s.st_size != size_) {
    return DataError(path_, ": was changed while in use: it had ", size_, " bytes and has ",
                     s.st_size);
  }
  if (TimeOf(s) != changed_) return DataError(path_, ": was written to while in use");
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ByteReader>> ByteReader::Open(const std::string& path) {
  ASSIGN_OR_RETURN(std::shared_ptr<const File> file, File::Open(path));
  unsigned char magic[2] = {0, 0};
  if (file->size() >= 2) RETURN_IF_ERROR(file->ReadAt(0, magic, 2));
  if (magic[0] == 0x1f && magic[1] == 0x8b) {
    return std::unique_ptr<ByteReader>(new GzipReader(std::move(file)));
  }
  return PlainReader(std::move(file));
}

absl::StatusOr<int64_t> ByteReader::ReadSome(void* to, int64_t bytes) {
  if (bytes <= 0) return 0;
  int64_t got = 0;
  if (peeked_used_ < peeked_.size()) {
    got = std::min<int64_t>(bytes, peeked_.size() - peeked_used_);
    std::memcpy(to, peeked_.data() + peeked_used_, got);
    peeked_used_ += got;
  } else {
    ASSIGN_OR_RETURN(got, Fill(static_cast<char*>(to), bytes));
  }
  offset_ += got;
  return got;
}

absl::Status ByteReader::Read(void* to, int64_t bytes, absl::string_view what) {
  char* p = static_cast<char*>(to);
  for (int64_t left = bytes; left > 0;) {
    ASSIGN_OR_RETURN(const int64_t got, ReadSome(p, left));
    if (got == 0) {
      return DataError(name_, ": ends at byte ", offset_, ", ", left, " bytes before the end of ",
                       what);
    }
    p += got;
    left -= got;
  }
  return absl::OkStatus();
}

absl::StatusOr<absl::string_view> ByteReader::Peek(int64_t bytes) {
  bytes = std::min(bytes, kMostPeek);
  peeked_.erase(0, peeked_used_);
  peeked_used_ = 0;
  while (static_cast<int64_t>(peeked_.size()) < bytes) {
    const size_t had = peeked_.size();
    peeked_.resize(bytes);
    absl::StatusOr<int64_t> got = Fill(&peeked_[had], bytes - had);
    peeked_.resize(had + (got.ok() ? *got : 0));
    if (!got.ok()) return got.status();
    if (*got == 0) break;
  }
  return absl::string_view(peeked_.data(), std::min<size_t>(peeked_.size(), bytes));
}

absl::Status ByteReader::ExpectEnd(absl::string_view what) {
  char extra;
  const int64_t at = offset_;
  ASSIGN_OR_RETURN(const int64_t got, ReadSome(&extra, 1));
  if (got != 0) {
    return DataError(name_, ": byte ", at, ": more follows where ", what, " ends by its header");
  }
  return absl::OkStatus();
}

std::unique_ptr<ByteReader> PlainReader(std::shared_ptr<const File> file) {
  return std::unique_ptr<ByteReader>(new PlainFileReader(std::move(file)));
}

int64_t MostInflated(int64_t compressed) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max() / 2048;
  return std::min(compressed, kMost) * 1032 + 64;
}

int64_t AvailableMemory() {
  int64_t bytes = int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE);
  const int64_t available = NumberFrom("/proc/meminfo", "MemAvailable:");
  if (available > 0) bytes = std::min(bytes, available * 1024);
  const int64_t group = NumberFrom("/sys/fs/cgroup/memory.max", "");
  if (group > 0) bytes = std::min(bytes, group);
  return bytes;
}

absl::Status CheckDeclaredBytes(const ByteReader& reader, int64_t bytes, int64_t max_bytes,
                                absl::string_view what) {
  const int64_t left = reader.most_bytes() - reader.offset();
  if (bytes > left) {
    return DataError(reader.name(), ": byte ", reader.offset(), ": ", what, " should take ", bytes,
                     " bytes by its header, but ", reader.exact() ? "" : "at most ", left,
                     " follow");
  }
  if (bytes > max_bytes) {
    return DataTooLarge(reader.name(), ": ", what, " takes ", bytes, " bytes of memory, at most ",
                        max_bytes, " may be used");
  }
  return absl::OkStatus();
}

}  // namespace onward
