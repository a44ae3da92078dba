#include "backend/data/npy.h"

#include <zip.h>

#include "backend/data/test_files.h"
#include "graph/base/status_macros.h"

namespace onward {
namespace {

absl::StatusOr<Column> Read(const std::string& path, const ReadOptions& options = {}) {
  ASSIGN_OR_RETURN(std::unique_ptr<ByteReader> reader, ByteReader::Open(path));
  return ReadNpy(*reader, "x", options);
}

template <typename T>
std::vector<T> Values(const Column& column) {
  std::vector<T> out(column.rows() * column.row_bytes() / sizeof(T));
  EXPECT_TRUE(column.Read(0, column.rows(), out.data()).ok());
  return out;
}

const char kFloat23[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }   \n";

TEST(Npy, ReadsVersionsOneToThree) {
  const std::string data = Bytes<float>({0, 1, 2, 3, 4, 5});
  std::string v1 = NpyBytes(kFloat23, data);
  for (int version : {1, 2, 3}) {
    std::string bytes = v1;
    bytes[6] = static_cast<char>(version);
    if (version > 1) bytes.insert(10, 2, '\0');
    const auto column = Read(WriteFile("v.npy", bytes));
    ASSERT_TRUE(column.ok()) << column.status();
    EXPECT_EQ(column->rows(), 2);
    EXPECT_EQ(column->dims(), Dims{3});
    EXPECT_EQ(column->dtype(), DataType::kFloat32);
    EXPECT_EQ(Values<float>(*column), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  }
  v1[6] = 4;
  ExpectDataError(Read(WriteFile("v4.npy", v1)).status(), "v4.npy");
}

TEST(Npy, ReadsBothByteOrdersInMemoryAndFromTheFile) {
  const std::string bytes = NpyBytes("{'descr': '>i2', 'fortran_order': False, 'shape': (3,), }\n",
                                     std::string("\x01\x02\xff\xfe\x00\x07", 6));
  ReadOptions in_file;
  in_file.read_whole_bytes = 0;
  for (const ReadOptions& options : {ReadOptions{}, in_file}) {
    const auto column = Read(WriteFile("big.npy", bytes), options);
    ASSERT_TRUE(column.ok()) << column.status();
    EXPECT_EQ(column->in_memory(), options.read_whole_bytes != 0);
    EXPECT_EQ(Values<int16_t>(*column), (std::vector<int16_t>{0x102, -2, 7}));
  }
}

TEST(Npy, ReadsFortranOrder) {
  // a[i, j, k] = 100 i + 10 j + k of shape (2, 3, 2), first axis fastest.
  std::string data;
  for (int k = 0; k < 2; ++k) {
    for (int j = 0; j < 3; ++j) {
      for (int i = 0; i < 2; ++i) data += Bytes<int32_t>({100 * i + 10 * j + k});
    }
  }
  const auto column = Read(WriteFile(
      "f.npy", NpyBytes("{'descr': '<i4', 'fortran_order': True, 'shape': (2L, 3L, 2L)}", data)));
  ASSERT_TRUE(column.ok()) << column.status();
  EXPECT_EQ(Values<int32_t>(*column),
            (std::vector<int32_t>{0, 1, 10, 11, 20, 21, 100, 101, 110, 111, 120, 121}));
}

TEST(Npy, ReadsEveryType) {
  const struct {
    const char* descr;
    DataType type;
  } kRows[] = {
      {"|b1", DataType::kBool},    {"|i1", DataType::kInt8},    {"<i2", DataType::kInt16},
      {"<i4", DataType::kInt32},   {"<i8", DataType::kInt64},   {"|u1", DataType::kUint8},
      {">u2", DataType::kUint16},  {"<u4", DataType::kUint32},  {">u8", DataType::kUint64},
      {"<f2", DataType::kFloat16}, {">f4", DataType::kFloat32}, {"=f8", DataType::kFloat64}};
  for (const auto& row : kRows) {
    const std::string header =
        std::string("{'descr': '") + row.descr + "', 'fortran_order': False, 'shape': (5,)}";
    const auto column =
        Read(WriteFile("t.npy", NpyBytes(header, std::string(5 * SizeOf(row.type), '\0'))));
    ASSERT_TRUE(column.ok()) << column.status();
    EXPECT_EQ(column->dtype(), row.type);
    EXPECT_EQ(column->rows(), 5);
    EXPECT_TRUE(column->dims().empty());
  }
  for (const char* descr : {"|O", "<U5", "|S3", "<c8", "<f16", "<M8[s]", "", "f4", "<i3"}) {
    const std::string header =
        std::string("{'descr': '") + descr + "', 'fortran_order': False, 'shape': (1,)}";
    ExpectDataError(Read(WriteFile("t.npy", NpyBytes(header, std::string(64, '\0')))).status(),
                    "t.npy");
  }
}

TEST(Npy, RefusesHostileHeaders) {
  for (const char* shape :
       {"(9223372036854775807,)", "(4294967296, 4294967296)", "(99999999999999999999,)", "(-1,)",
        "()", "(1, 0)", "(0, 4611686018427387904)", "(281474976710656, 1)", "(2, 3", "(1 2)",
        "2"}) {
    const std::string header =
        std::string("{'descr': '<f4', 'fortran_order': False, 'shape': ") + shape + "}";
    SCOPED_TRACE(shape);
    ExpectDataError(Read(WriteFile("h.npy", NpyBytes(header, std::string(24, '\0')))).status(),
                    "h.npy");
  }
  for (const char* header :
       {"", "{", "{}", "[]", "{'descr': '<f4'}",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (6,)}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (6,)}",
        "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (6,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (6,)} + 1"}) {
    SCOPED_TRACE(header);
    ExpectDataError(Read(WriteFile("h.npy", NpyBytes(header, std::string(24, '\0')))).status(),
                    "h.npy");
  }
  // A header longer than the file, and one longer than any sane one.
  ExpectDataError(Read(WriteFile("l.npy", std::string("\x93NUMPY\x01\x00\xff\xff{", 11))).status(),
                  "l.npy");
  ExpectDataError(
      Read(WriteFile("l.npy", std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff{", 13))).status(),
      "l.npy");
}

TEST(Npy, SaysWhatIsMissing) {
  const std::string bytes = NpyBytes(kFloat23, Bytes<float>({0, 1, 2, 3, 4, 5}));
  const auto status = Read(WriteFile("short.npy", bytes.substr(0, bytes.size() - 4))).status();
  ExpectDataError(status, "short.npy");
  EXPECT_NE(status.message().find("24 bytes"), absl::string_view::npos) << status;
  ExpectDataError(Read(WriteFile("long.npy", bytes + "x")).status(), "long.npy");
  ExpectDataError(Read(TestPath("none.npy")).status(), "none.npy");
  ExpectDataError(Read(TestPath("")).status(), "folder");
}

TEST(Npy, BrokenFilesAreErrors) {
  TryBroken("broken.npy", NpyBytes(kFloat23, Bytes<float>({0, 1, 2, 3, 4, 5})),
            [](const std::string& path) { return Read(path).status(); });
  TryBroken("broken.npy", Gzip(NpyBytes(kFloat23, Bytes<float>({0, 1, 2, 3, 4, 5}))),
            [](const std::string& path) { return Read(path).status(); });
}

TEST(Npy, MemoryIsBounded) {
  ReadOptions options;
  options.max_bytes = 23;
  const std::string path = WriteFile("m.npy", NpyBytes(kFloat23, Bytes<float>({0, 1, 2, 3, 4, 5})));
  EXPECT_EQ(Read(path, options).status().code(), absl::StatusCode::kResourceExhausted);
  options.max_bytes = 24;
  EXPECT_TRUE(Read(path, options).ok());
}

TEST(Npy, AFileThatChangesWhileInUseIsAnError) {
  ReadOptions options;
  options.read_whole_bytes = 0;
  const std::string bytes = NpyBytes(kFloat23, Bytes<float>({0, 1, 2, 3, 4, 5}));
  const auto column = Read(WriteFile("c.npy", bytes), options);
  ASSERT_TRUE(column.ok());
  EXPECT_TRUE(column->CheckUnchanged().ok());
  WriteFile("c.npy", bytes.substr(0, bytes.size() - 10));
  ExpectDataError(column->CheckUnchanged(), "c.npy");
  std::vector<float> to(6);
  ExpectDataError(column->Read(0, 2, to.data()), "c.npy");
}

TEST(Npy, WritesWhatItReads) {
  for (const Dims& dims : {Dims{4}, Dims{2, 2}, Dims{4, 1, 1}}) {
    Tensor t = Tensor::Of<double>(dims, {1.5, -2, 3, 4e300});
    ASSERT_TRUE(WriteNpy(TestPath("w.npy"), t.view()).ok());
    const auto column = Read(TestPath("w.npy"));
    ASSERT_TRUE(column.ok()) << column.status();
    EXPECT_EQ(Values<double>(*column), (std::vector<double>{1.5, -2, 3, 4e300}));
    EXPECT_EQ(column->rows(), dims[0]);
  }
  // numpy's own bytes for numpy.save of numpy.array([1, 2], dtype='<u2').
  std::string expected = NpyBytes("{'descr': '<u2', 'fortran_order': False, 'shape': (2,), }", "");
  expected.resize(127, ' ');
  expected[8] = 118;
  expected += "\n" + Bytes<uint16_t>({1, 2});
  Tensor t = Tensor::Of<uint16_t>({2}, {1, 2});
  ASSERT_TRUE(WriteNpy(TestPath("w.npy"), t.view()).ok());
  EXPECT_EQ(ReadWholeFile(TestPath("w.npy")), expected);
  const absl::Status status = WriteNpy(TestPath("no/such/folder/w.npy"), t.view());
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kOutput) << status;
}

// --- .npz ---

// A zip made by libzip, members deflated or stored.
std::string MakeNpz(const std::string& name, bool deflate,
                    const std::vector<std::pair<std::string, std::string>>& members) {
  const std::string path = TestPath(name);
  std::remove(path.c_str());
  zip_t* z = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, nullptr);
  for (const auto& m : members) {
    const zip_int64_t i = zip_file_add(
        z, m.first.c_str(), zip_source_buffer(z, m.second.data(), m.second.size(), 0), 0);
    zip_set_file_compression(z, i, deflate ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 0);
  }
  EXPECT_EQ(zip_close(z), 0);
  return path;
}

absl::Status ReadAllOf(const std::string& path) {
  ASSIGN_OR_RETURN(const std::vector<NpzEntry> entries, ListNpz(path));
  for (const NpzEntry& entry : entries)
    RETURN_IF_ERROR(ReadNpzArray(path, entry.name, {}).status());
  return absl::OkStatus();
}

TEST(Npz, ReadsStoredAndDeflatedArrays) {
  const std::string a = NpyBytes(kFloat23, Bytes<float>({0, 1, 2, 3, 4, 5}));
  const std::string b = NpyBytes("{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }\n",
                                 Bytes<int64_t>({7, 8}));
  for (bool deflate : {false, true}) {
    const std::string path = MakeNpz("a.npz", deflate, {{"x.npy", a}, {"y.npy", b}});
    const auto entries = ListNpz(path);
    ASSERT_TRUE(entries.ok()) << entries.status();
    ASSERT_EQ(entries->size(), 2u);
    EXPECT_EQ((*entries)[0].name, "x");
    EXPECT_EQ((*entries)[1].header.dtype, DataType::kInt64);
    const auto x = ReadNpzArray(path, "x", {});
    ASSERT_TRUE(x.ok()) << x.status();
    EXPECT_EQ(Values<float>(*x), (std::vector<float>{0, 1, 2, 3, 4, 5}));
    const auto y = ReadNpzArray(path, "y", {});
    ASSERT_TRUE(y.ok()) << y.status();
    EXPECT_EQ(Values<int64_t>(*y), (std::vector<int64_t>{7, 8}));
    const auto none = ReadNpzArray(path, "z", {}).status();
    ExpectDataError(none, "a.npz");
    EXPECT_NE(none.message().find("x, y"), absl::string_view::npos);
  }
}

TEST(Npz, WritesWhatItReads) {
  Tensor a = Tensor::Of<float>({2, 2}, {1, 2, 3, 4});
  Tensor b = Tensor::Full(DataType::kBfloat16, {3}, 0.5);
  ASSERT_TRUE(WriteNpz(TestPath("w.npz"), {{"probabilities", a.view()}, {"b", b.view()}}).ok());
  EXPECT_EQ(Values<float>(*ReadNpzArray(TestPath("w.npz"), "probabilities", {})),
            (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(Values<float>(*ReadNpzArray(TestPath("w.npz"), "b", {})),
            (std::vector<float>{.5, .5, .5}));
  EXPECT_EQ(ExitCodeOf(WriteNpz(TestPath("no/such/w.npz"), {{"a", a.view()}})), ExitCode::kOutput);
}

TEST(Npz, BrokenFilesAreErrors) {
  for (bool deflate : {false, true}) {
    const std::string whole = ReadWholeFile(MakeNpz(
        "b.npz", deflate, {{"x.npy", NpyBytes(kFloat23, Bytes<float>({0, 1, 2, 3, 4, 5}))}}));
    TryBroken("b.npz", whole, ReadAllOf);
  }
}

TEST(Npz, DeclaredSizesAreHeldAgainstTheFile) {
  // 50 MB of zeros behind a header that declares 6 numbers, and the reverse.
  const std::string bomb =
      MakeNpz("bomb.npz", true, {{"x.npy", NpyBytes(kFloat23, std::string(50 << 20, '\0'))}});
  ExpectDataError(ReadAllOf(bomb), "bomb.npz");
  const std::string liar = MakeNpz(
      "liar.npz", true,
      {{"x.npy",
        NpyBytes("{'descr': '<f4', 'fortran_order': False, 'shape': (70000000000,), }", "abcd")}});
  ExpectDataError(ReadAllOf(liar), "liar.npz");
  ExpectDataError(ReadAllOf(MakeNpz("o.npz", false, {{"readme.txt", "hello"}})), "o.npz");
}

}  // namespace
}  // namespace onward
