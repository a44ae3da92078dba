#include "backend/data/byte_reader.h"

#include <sys/stat.h>

#include "backend/data/test_files.h"

namespace onward {
namespace {

std::string ReadAllOf(ByteReader& reader, size_t piece) {
  std::string out;
  std::string buffer(piece, '\0');
  for (;;) {
    const auto got = reader.ReadSome(&buffer[0], static_cast<int64_t>(piece));
    EXPECT_TRUE(got.ok()) << got.status();
    if (!got.ok() || *got == 0) return out;
    out.append(buffer, 0, *got);
  }
}

TEST(ByteReader, PlainAndGzippedBytesAreTheSame) {
  std::string bytes;
  for (int i = 0; i < 300000; ++i) bytes.push_back(static_cast<char>(i * 2654435761u >> 24));
  const std::string members =
      Gzip(bytes.substr(0, 1000)) + Gzip("") + Gzip(bytes.substr(1000)) + std::string(3, '\0');
  for (const std::string& form : {bytes, Gzip(bytes), members}) {
    for (size_t piece : {1000, 77777, 1000000}) {
      auto reader = ByteReader::Open(WriteFile("r", form));
      ASSERT_TRUE(reader.ok());
      EXPECT_GE((*reader)->most_bytes(), static_cast<int64_t>(bytes.size()));
      EXPECT_EQ(*(*reader)->Peek(5), bytes.substr(0, 5));
      EXPECT_EQ(ReadAllOf(**reader, piece), bytes);
      EXPECT_EQ((*reader)->offset(), static_cast<int64_t>(bytes.size()));
      EXPECT_TRUE((*reader)->ExpectEnd("it").ok());
    }
  }
}

TEST(ByteReader, ErrorsSayWhere) {
  auto reader = ByteReader::Open(WriteFile("short", "abc"));
  char to[8];
  ExpectDataError((*reader)->Read(to, 8, "the header"),
                  "short: ends at byte 3, 5 bytes before the end of the header");
  reader = ByteReader::Open(WriteFile("long", "abcd"));
  ASSERT_TRUE((*reader)->Read(to, 3, "it").ok());
  ExpectDataError((*reader)->ExpectEnd("the array"), "long: byte 3: more follows");
  // What stands behind the last byte may be found with it or at the end.
  const auto read_to_end = [&](const std::string& name, const std::string& bytes) {
    reader = ByteReader::Open(WriteFile(name, bytes));
    const absl::Status status = (*reader)->Read(to, 3, "it");
    return status.ok() ? (*reader)->ExpectEnd("it") : status;
  };
  std::string zipped = Gzip("abc");
  EXPECT_TRUE(read_to_end("sum.gz", zipped).ok());
  zipped[zipped.size() - 8] = static_cast<char>(zipped[zipped.size() - 8] ^ 1);  // the checksum
  ExpectDataError(read_to_end("sum.gz", zipped), "sum.gz: the gzip stream is damaged");
  ExpectDataError(read_to_end("tail.gz", Gzip("abc") + "xyz"), "tail.gz: byte 23: what follows");
}

TEST(ByteReader, WhatIsNoFileIsRefusedWithoutWaiting) {
  const std::string pipe = TestPath("pipe");
  std::remove(pipe.c_str());
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  ExpectDataError(ByteReader::Open(pipe).status(), "pipe: is not a regular file");
  ExpectDataError(ByteReader::Open(TestPath("")).status(), "is a folder");
  EXPECT_EQ(ByteReader::Open(TestPath("absent")).status().code(), absl::StatusCode::kNotFound);
}

TEST(ByteReader, DeclaredSizesAreBounded) {
  const auto reader = ByteReader::Open(WriteFile("d", "0123456789"));
  EXPECT_TRUE(CheckDeclaredBytes(**reader, 10, 10, "it").ok());
  ExpectDataError(CheckDeclaredBytes(**reader, 11, 100, "it"),
                  "d: byte 0: it should take 11 bytes");
  EXPECT_EQ(CheckDeclaredBytes(**reader, 10, 9, "it").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_GT(AvailableMemory(), 1 << 20);
  EXPECT_GT(MostInflated(int64_t{1} << 62), 0);
}

TEST(Buffer, KeepsItsBytesWhenResized) {
  Buffer b = *Buffer::Allocate(3);
  std::memcpy(b.data(), "abc", 3);
  ASSERT_TRUE(b.Resize(1 << 20).ok());
  EXPECT_EQ(std::memcmp(b.data(), "abc", 3), 0);
  EXPECT_EQ(b.Resize(int64_t{1} << 60).code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace onward
