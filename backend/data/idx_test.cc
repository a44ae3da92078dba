#include "backend/data/idx.h"

#include <numeric>

#include "backend/data/test_files.h"
#include "graph/base/status_macros.h"

namespace onward {
namespace {

absl::StatusOr<Column> Read(const std::string& path, const ReadOptions& options = {}) {
  ASSIGN_OR_RETURN(std::unique_ptr<ByteReader> reader, ByteReader::Open(path));
  return ReadIdx(*reader, "x", options);
}

template <typename T>
std::vector<T> Values(const Column& column) {
  std::vector<T> out(column.rows() * column.row_bytes() / sizeof(T));
  EXPECT_TRUE(column.Read(0, column.rows(), out.data()).ok());
  return out;
}

TEST(Idx, ReadsImagesAndLabelsPlainAndGzipped) {
  const std::string bytes = IdxBytes(0x08, {2, 2, 3}, "abcdefghijkl");
  for (const std::string& form :
       {bytes, Gzip(bytes), Gzip(bytes.substr(0, 9)) + Gzip(bytes.substr(9))}) {
    const auto column = Read(WriteFile("i.idx", form));
    ASSERT_TRUE(column.ok()) << column.status();
    EXPECT_EQ(column->rows(), 2);
    EXPECT_EQ(column->dims(), (Dims{2, 3}));
    EXPECT_EQ(column->dtype(), DataType::kUint8);
    EXPECT_EQ(static_cast<const char*>(column->Row(1))[0], 'g');
  }
}

TEST(Idx, ReadsEveryType) {
  EXPECT_EQ(Values<int8_t>(*Read(WriteFile("t", IdxBytes(0x09, {2}, "\x01\xff")))),
            (std::vector<int8_t>{1, -1}));
  EXPECT_EQ(Values<int16_t>(*Read(WriteFile("t", IdxBytes(0x0B, {1}, "\x01\x02")))),
            (std::vector<int16_t>{0x102}));
  EXPECT_EQ(Values<int32_t>(
                *Read(WriteFile("t", IdxBytes(0x0C, {1}, std::string("\xff\xff\xff\x00", 4))))),
            (std::vector<int32_t>{-256}));
  EXPECT_EQ(
      Values<float>(*Read(WriteFile("t", IdxBytes(0x0D, {1}, std::string("\x3f\xc0\0\0", 4))))),
      (std::vector<float>{1.5f}));
  EXPECT_EQ(Values<double>(
                *Read(WriteFile("t", IdxBytes(0x0E, {1}, std::string("\xbf\xf8\0\0\0\0\0\0", 8))))),
            (std::vector<double>{-1.5}));
}

TEST(Idx, RefusesWhatItIsNot) {
  ExpectDataError(Read(WriteFile("n.idx", IdxBytes(0x0A, {1}, "a"))).status(), "n.idx");
  ExpectDataError(Read(WriteFile("n.idx", IdxBytes(0x08, {}, "a"))).status(), "n.idx");
  ExpectDataError(
      Read(WriteFile("n.idx", IdxBytes(0x08, {0xffffffff, 0xffffffff, 0xffffffff}, "a"))).status(),
      "n.idx");
  ExpectDataError(Read(WriteFile("n.idx", Gzip(IdxBytes(0x08, {0x7fffffff}, "a")))).status(),
                  "n.idx");
  const auto gap = Read(WriteFile("n.idx", IdxBytes(0x08, {2, 2}, "abc"))).status();
  ExpectDataError(gap, "n.idx");
  EXPECT_NE(gap.message().find("4 bytes"), absl::string_view::npos) << gap;
}

TEST(Idx, BrokenFilesAreErrors) {
  const std::string bytes = IdxBytes(0x0B, {3, 2}, "abcdefghijkl");
  const auto read = [](const std::string& path) { return Read(path).status(); };
  TryBroken("b.idx", bytes, read);
  TryBroken("b.idx", Gzip(bytes), read);
}

TEST(Idx, ReadsFashionMnist) {
  const std::string folder = "/usr/share/datasets/fashion-mnist/";
  const auto images = Read(folder + "train-images-idx3-ubyte.gz");
  ASSERT_TRUE(images.ok()) << images.status();
  EXPECT_EQ(images->rows(), 60000);
  EXPECT_EQ(images->dims(), (Dims{28, 28}));
  EXPECT_EQ(images->dtype(), DataType::kUint8);
  EXPECT_EQ(images->bytes(), 60000 * 784);
  // The mean of the training images is 72.9404 of 255.
  const uint8_t* pixels = static_cast<const uint8_t*>(images->Row(0));
  const double sum = std::accumulate(pixels, pixels + images->bytes(), int64_t{0});
  EXPECT_NEAR(sum / images->bytes(), 72.9404, 1e-3);
  const auto labels = Read(folder + "train-labels-idx1-ubyte.gz");
  ASSERT_TRUE(labels.ok()) << labels.status();
  std::vector<int> count(10);
  for (uint8_t label : Values<uint8_t>(*labels)) ++count.at(label);
  EXPECT_EQ(count, std::vector<int>(10, 6000));
}

}  // namespace
}  // namespace onward
