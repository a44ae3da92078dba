// The bytes of data files: opened, inflated, bounded.
#ifndef ONWARD_BACKEND_DATA_BYTE_READER_H_
#define ONWARD_BACKEND_DATA_BYTE_READER_H_

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace onward {

// Memory that is not zeroed: pages that are never written are never taken, so
// that a header that lies about its size costs address space only.
class Buffer {
 public:
  Buffer() = default;
  // ResourceExhausted (kData) where the memory is not to be had.
  static absl::StatusOr<Buffer> Allocate(int64_t bytes);
  // Keeps the first min(old, new) bytes.
  absl::Status Resize(int64_t bytes);

  Buffer(Buffer&& o) noexcept
      : data_(std::exchange(o.data_, nullptr)), size_(std::exchange(o.size_, 0)) {}
  Buffer& operator=(Buffer&& o) noexcept {
    std::swap(data_, o.data_);
    std::swap(size_, o.size_);
    return *this;
  }
  ~Buffer() { std::free(data_); }

  char* data() { return data_; }
  const char* data() const { return data_; }
  int64_t size() const { return size_; }

 private:
  char* data_ = nullptr;
  int64_t size_ = 0;
};

// An open regular file. Its bytes are only ever read by pread, never mapped: a
// file that is cut short or rewritten by another program while it is in use
// gives a Status, where a mapping would give SIGBUS. Thread-safe.
class File {
 public:
  // NotFound, InvalidArgument (a folder, a pipe, a device), all kData.
  static absl::StatusOr<std::shared_ptr<const File>> Open(const std::string& path);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  const std::string& path() const { return path_; }
  // As it was when opened.
  int64_t size() const { return size_; }

  // Exactly `bytes` bytes. InvalidArgument where the file ends before.
  absl::Status ReadAt(int64_t offset, void* to, int64_t bytes) const;
  // Up to `bytes` bytes; 0 at the end.
  absl::StatusOr<int64_t> ReadSomeAt(int64_t offset, void* to, int64_t bytes) const;
  // InvalidArgument where size or time of change differ from those at opening.
  absl::Status CheckUnchanged() const;

 private:
  File(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  std::string path_;
  int fd_;
  int64_t size_ = 0;
  int64_t changed_ = 0;  // modification time in nanoseconds
};

// A stream of bytes with a name for messages and a bound on its length that is
// known before it is read. Not thread-safe.
class ByteReader {
 public:
  // Opens a file; one that is gzip (by its first bytes) is inflated, however
  // many members it has.
  static absl::StatusOr<std::unique_ptr<ByteReader>> Open(const std::string& path);
  virtual ~ByteReader() = default;

  const std::string& name() const { return name_; }
  // Bytes handed out so far: in a compressed file, of the inflated stream.
  int64_t offset() const { return offset_; }
  // No more bytes than this can come in all: the size of a plain file, and what
  // the densest deflate stream (1032 : 1) would give of a compressed one.
  int64_t most_bytes() const { return most_bytes_; }
  // True where most_bytes() is the exact length.
  bool exact() const { return exact_; }
  // The file whose bytes these are, unchanged; null where they are inflated.
  virtual std::shared_ptr<const File> plain_file() const { return nullptr; }

  // Exactly `bytes` bytes; `what` names them in the error where the stream ends
  // before ("FILE: ends at byte 7, inside the header of 16 bytes").
  absl::Status Read(void* to, int64_t bytes, absl::string_view what);
  // Up to `bytes` bytes; 0 at the end only.
  absl::StatusOr<int64_t> ReadSome(void* to, int64_t bytes);
  // The next bytes (up to `bytes`, at most kMostPeek), which stay in the stream.
  absl::StatusOr<absl::string_view> Peek(int64_t bytes);
  // InvalidArgument where more bytes follow. Reads (and so verifies) a
  // compressed stream's checksum.
  absl::Status ExpectEnd(absl::string_view what);

  static constexpr int64_t kMostPeek = 1 << 16;

 protected:
  ByteReader(std::string name, int64_t most_bytes, bool exact)
      : name_(std::move(name)), most_bytes_(most_bytes), exact_(exact) {}
  // Up to `bytes` > 0 bytes; 0 at the end only.
  virtual absl::StatusOr<int64_t> Fill(char* to, int64_t bytes) = 0;

 private:
  std::string name_;
  int64_t most_bytes_;
  bool exact_;
  int64_t offset_ = 0;
  std::string peeked_;
  size_t peeked_used_ = 0;
};

// The bytes of a file read by pread, without inflation.
std::unique_ptr<ByteReader> PlainReader(std::shared_ptr<const File> file);

// What deflate can make of `compressed` bytes at most; saturates.
int64_t MostInflated(int64_t compressed);

// How many bytes data may take in memory by default: what the system says is
// available, or the control group's limit where that is less.
int64_t AvailableMemory();

// InvalidArgument where `bytes` more bytes cannot be in `reader`,
// ResourceExhausted where they are more than `max_bytes`. `what` names them.
absl::Status CheckDeclaredBytes(const ByteReader& reader, int64_t bytes, int64_t max_bytes,
                                absl::string_view what);

}  // namespace onward

#endif  // ONWARD_BACKEND_DATA_BYTE_READER_H_
