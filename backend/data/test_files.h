// Files that tests of this folder write.
#ifndef ONWARD_BACKEND_DATA_TEST_FILES_H_
#define ONWARD_BACKEND_DATA_TEST_FILES_H_

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "backend/data/dataset.h"
#include "graph/base/errors.h"
#include "graph/base/tensor.h"

namespace onward {

inline std::string TestPath(const std::string& name) {
  const char* folder = std::getenv("TEST_TMPDIR");
  return std::string(folder == nullptr ? "/tmp" : folder) + "/" + name;
}

inline std::string WriteFile(const std::string& name, const std::string& bytes) {
  const std::string path = TestPath(name);
  std::FILE* f = std::fopen(path.c_str(), "wb");
  EXPECT_NE(f, nullptr) << path;
  EXPECT_EQ(std::fwrite(bytes.data(), 1, bytes.size(), f), bytes.size());
  EXPECT_EQ(std::fclose(f), 0);
  return path;
}

inline std::string ReadWholeFile(const std::string& path) {
  std::string out;
  std::FILE* f = std::fopen(path.c_str(), "rb");
  EXPECT_NE(f, nullptr) << path;
  char buffer[4096];
  for (size_t n; (n = std::fread(buffer, 1, sizeof buffer, f)) > 0;) out.append(buffer, n);
  std::fclose(f);
  return out;
}

inline std::string Gzip(const std::string& bytes) {
  z_stream s;
  std::memset(&s, 0, sizeof s);
  EXPECT_EQ(deflateInit2(&s, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&s, bytes.size()) + 64, '\0');
  s.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  s.avail_in = bytes.size();
  s.next_out = reinterpret_cast<Bytef*>(&out[0]);
  s.avail_out = out.size();
  EXPECT_EQ(deflate(&s, Z_FINISH), Z_STREAM_END);
  out.resize(s.total_out);
  deflateEnd(&s);
  return out;
}

// The bytes of values as they lie in memory.
template <typename T>
std::string Bytes(std::initializer_list<T> values) {
  std::string out;
  for (T v : values) out.append(reinterpret_cast<const char*>(&v), sizeof v);
  return out;
}

// A column in memory with the values of `t`, whose first axis is the rows.
inline Column ColumnOf(const std::string& name, const Tensor& t) {
  Buffer memory = *Buffer::Allocate(t.bytes());
  if (t.bytes() > 0) std::memcpy(memory.data(), t.data(), t.bytes());
  return Column::InMemory(name, t.dtype(), Dims(t.dims().begin() + 1, t.dims().end()), t.dims()[0],
                          std::move(memory), name + ".file");
}

// Version 1 .npy around a dictionary and data.
inline std::string NpyBytes(const std::string& dictionary, const std::string& data) {
  std::string out("\x93NUMPY\x01\x00", 8);
  out.push_back(static_cast<char>(dictionary.size() & 0xff));
  out.push_back(static_cast<char>(dictionary.size() >> 8));
  return out + dictionary + data;
}

inline std::string IdxBytes(unsigned char type, std::initializer_list<uint32_t> dims,
                            const std::string& data) {
  std::string out("\0\0", 2);
  out.push_back(static_cast<char>(type));
  out.push_back(static_cast<char>(dims.size()));
  for (uint32_t d : dims) {
    for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>(d >> shift));
  }
  return out + data;
}

// An error of the kind that files cause: exit code 4, one line, naming `file`.
inline void ExpectDataError(const absl::Status& status, const std::string& file) {
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kData) << status;
  EXPECT_EQ(status.message().find('\n'), absl::string_view::npos) << status;
  EXPECT_NE(status.message().find(file), absl::string_view::npos) << status;
}

// Tries `read` on `bytes` cut at every length below the whole: an error each
// time. Then with every byte replaced by several others: whatever comes, no crash.
// `step`: only every so many lengths and bytes, of long files.
inline void TryBroken(const std::string& name, const std::string& bytes,
                      const std::function<absl::Status(const std::string& path)>& read,
                      size_t step = 1) {
  ASSERT_TRUE(read(WriteFile(name, bytes)).ok()) << read(WriteFile(name, bytes));
  for (size_t length = 0; length < bytes.size(); length += step) {
    SCOPED_TRACE(length);
    ExpectDataError(read(WriteFile(name, bytes.substr(0, length))), name);
  }
  for (size_t at = 0; at < bytes.size(); at += step) {
    for (int change : {0x01, 0x80, 0xff, 0x20}) {
      std::string flipped = bytes;
      flipped[at] = static_cast<char>(flipped[at] ^ change);
      const absl::Status status = read(WriteFile(name, flipped));
      if (!status.ok()) ExpectDataError(status, name);
    }
  }
}

}  // namespace onward

#endif  // ONWARD_BACKEND_DATA_TEST_FILES_H_
