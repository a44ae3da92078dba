#include "backend/data/csv_reader.h"

#include "backend/data/test_files.h"
#include "graph/base/status_macros.h"

namespace onward {
namespace {

absl::StatusOr<CsvTable> Read(const std::string& bytes, const CsvOptions& options = {},
                              const ReadOptions& read = {}) {
  ASSIGN_OR_RETURN(std::unique_ptr<ByteReader> reader, ByteReader::Open(WriteFile("t.csv", bytes)));
  return ReadCsv(*reader, options, read);
}

std::vector<double> Values(const CsvTable& t) {
  const double* v = reinterpret_cast<const double*>(t.values.data());
  return std::vector<double>(v, v + t.rows * t.names.size());
}

TEST(Csv, HeaderIsToldFromNumbers) {
  for (const char* text : {"a,b\n1,2\n3,4\n", "a,b\r\n1,2\r\n3,4", "\"a\",b\n 1 , \"2\"\n\n3,+4\n",
                           "\xef\xbb\xbf"
                           "a,b\n1,2\n3,4\n",
                           "a;b\n1;2\n3;4\n", "a\tb\n1\t2\n3\t4\n"}) {
    SCOPED_TRACE(text);
    const auto t = Read(text);
    ASSERT_TRUE(t.ok()) << t.status();
    EXPECT_EQ(t->names, (std::vector<std::string>{"a", "b"}));
    EXPECT_EQ(t->rows, 2);
    EXPECT_EQ(Values(*t), (std::vector<double>{1, 2, 3, 4}));
  }
  const auto none = Read("1.5,-2e3\n");
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_EQ(none->names, (std::vector<std::string>{"0", "1"}));
  EXPECT_EQ(Values(*none), (std::vector<double>{1.5, -2000}));
  CsvOptions with_header;
  with_header.header = true;
  EXPECT_EQ(Read("1,2\n3,4\n", with_header)->rows, 1);
  with_header.header = false;
  ExpectDataError(Read("a,b\n1,2\n", with_header).status(),
                  "t.csv: line 1, column '0': 'a' is no number");
}

TEST(Csv, ColumnsAreFoundByNameAndNumber) {
  const auto t = Read("a,b,-1\n1,2,3\n");
  EXPECT_EQ(t->Find("b"), 1);
  EXPECT_EQ(t->Find("0"), 0);
  EXPECT_EQ(t->Find("-1"), 2);
  EXPECT_EQ(t->Find("-3"), 0);
  EXPECT_EQ(t->Find("3"), -1);
  EXPECT_EQ(t->Find("c"), -1);
  const auto column = t->Take("x", {2, 0}, false);
  EXPECT_EQ(column->dims(), Dims{2});
  EXPECT_EQ(column->dtype(), DataType::kUint8);
  EXPECT_EQ(static_cast<const uint8_t*>(column->Row(0))[0], 3);
  EXPECT_TRUE(t->Take("x", {1}, true)->dims().empty());
}

TEST(Csv, ColumnsAreAsNarrowAsTheirValues) {
  const auto t = Read("1,0.5,300,1e300,4294967297,nan\n2,1,-1,0.1,1,1\n");
  ASSERT_TRUE(t.ok()) << t.status();
  const DataType types[] = {DataType::kUint8,   DataType::kFloat32, DataType::kFloat32,
                            DataType::kFloat64, DataType::kInt64,   DataType::kFloat32};
  for (int i = 0; i < 6; ++i) EXPECT_EQ(t->Take("x", {i}, true)->dtype(), types[i]) << i;
  EXPECT_EQ(t->Take("x", {0, 1}, false)->dtype(), DataType::kFloat32);
  const auto wide = t->Take("x", {1, 4}, false);
  EXPECT_EQ(wide->dtype(), DataType::kFloat64);
  EXPECT_EQ(static_cast<const double*>(wide->Row(0))[1], 4294967297.0);
  EXPECT_EQ(static_cast<const double*>(wide->Row(1))[0], 1.0);
}

TEST(Csv, ErrorsNameLineAndColumn) {
  ExpectDataError(Read("a,b\n1,2\n3,x\n").status(), "t.csv: line 3, column 'b': 'x' is no number");
  ExpectDataError(Read("a,b\n1,\n").status(), "t.csv: line 2, column 'b': is empty");
  ExpectDataError(Read("a,b\n1,2\n\n3\n").status(), "t.csv: line 4: 1 fields, 2 were expected");
  ExpectDataError(Read("a,b\n1,2,3\n").status(), "t.csv: line 2: 3 fields, 2 were expected");
  ExpectDataError(Read("a,b\n1,\"2\n").status(), "t.csv: line 3: a quoted field does not end");
  ExpectDataError(Read("a,b\n1,\"2\"3\n").status(), "t.csv: line 2: is no CSV");
  ExpectDataError(Read("a\n1e999\n").status(), "'1e999' is no number");
  ExpectDataError(Read("a\n0x10\n").status(), "'0x10' is no number");
  ExpectDataError(Read("").status(), "t.csv: holds no rows");
  ExpectDataError(Read("a\n" + std::string(5000, '1') + "\n").status(),
                  "t.csv: line 2: a field of 5000 bytes");
  ExpectDataError(Read("a\n\"" + std::string(3 << 20, '1')).status(),
                  "t.csv: line 2: a field of more than 1 MiB");
}

TEST(Csv, MemoryIsBounded) {
  ReadOptions read;
  read.max_bytes = 32;
  EXPECT_TRUE(Read("1,2\n3,4\n", {}, read).ok());
  EXPECT_EQ(Read("1,2\n3,4\n5,6\n", {}, read).status().code(),
            absl::StatusCode::kResourceExhausted);
  read.max_bytes = 1 << 20;
  std::string zeros;
  for (int i = 0; i < 1 << 20; ++i) zeros += "0\n";
  EXPECT_EQ(Read(Gzip(zeros), {}, read).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(Csv, BrokenFilesAreErrorsOrTables) {
  const std::string whole = "a,\"b\"\n1,2.5\n-3,\"4\"\n";
  for (size_t at = 0; at < whole.size(); ++at) {
    const auto cut = Read(whole.substr(0, at));
    if (!cut.ok()) ExpectDataError(cut.status(), "t.csv");
    for (int change : {0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0xff}) {
      std::string flipped = whole;
      flipped[at] = static_cast<char>(flipped[at] ^ change);
      const auto t = Read(flipped);
      if (!t.ok()) ExpectDataError(t.status(), "t.csv");
      if (t.ok()) {
        EXPECT_EQ(t->values.size(),
                  t->rows * static_cast<int64_t>(t->names.size() * sizeof(double)));
      }
    }
  }
  const std::string zipped = Gzip(whole);
  for (size_t length = 2; length < zipped.size(); ++length) {
    ExpectDataError(Read(zipped.substr(0, length)).status(), "t.csv");
  }
}

}  // namespace
}  // namespace onward
