#include "backend/data/read_dataset.h"

#include <unistd.h>

#include "backend/data/npy.h"
#include "backend/data/test_files.h"

namespace onward {
namespace {

std::string Npy(const std::string& name, const Tensor& t) {
  EXPECT_TRUE(WriteNpy(TestPath(name), t.view()).ok());
  return TestPath(name);
}

DataSpec Spec(const std::string& data, const std::string& labels = "",
              std::vector<InputSpec> inputs = {}) {
  DataSpec spec;
  spec.data = data;
  spec.labels = labels;
  spec.inputs = std::move(inputs);
  return spec;
}

InputSpec Input(const std::string& name, Dims dims) {
  return {name, DataType::kFloat32, std::move(dims)};
}

double Value(const Dataset& data, const std::string& column, int64_t row, int64_t e = 0) {
  const Column* c = data.Find(column);
  EXPECT_NE(c, nullptr) << column;
  Dims dims = c->dims();
  Tensor t(c->dtype(), dims.empty() ? Dims{1} : dims);
  EXPECT_TRUE(c->Read(row, 1, t.data()).ok());
  return t.At(e);
}

TEST(Sources, AreParsed) {
  auto s = ParseSources("a.npy");
  ASSERT_TRUE(s.ok());
  EXPECT_EQ((*s)[0].file, "a.npy");
  EXPECT_TRUE((*s)[0].name.empty());
  s = ParseSources("x=a.npy,b.npy,y=c.npz:labels");
  ASSERT_TRUE(s.ok());
  ASSERT_EQ(s->size(), 3u);
  EXPECT_EQ((*s)[1].name, "x");
  EXPECT_EQ((*s)[1].file, "b.npy");
  EXPECT_EQ((*s)[2].name, "y");
  EXPECT_EQ((*s)[2].file, "c.npz");
  EXPECT_EQ((*s)[2].array, "labels");
  for (const char* bad : {"a,,b", "x=", "=a", "a,x=b", ","}) {
    EXPECT_EQ(ExitCodeOf(ParseSources(bad).status()), ExitCode::kUsage) << bad;
  }
  // A file that is called so as it stands.
  const std::string odd = WriteFile("odd=1,2:3.npy", "x");
  s = ParseSources(odd);
  ASSERT_TRUE(s.ok());
  EXPECT_EQ((*s)[0].file, odd);
  EXPECT_TRUE((*s)[0].array.empty());
}

TEST(ReadDataset, FashionMnistAsInTheReadme) {
  const std::string folder = "/usr/share/datasets/fashion-mnist/";
  const auto data = ReadDataset(Spec(folder + "t10k-images-idx3-ubyte.gz",
                                     folder + "t10k-labels-idx1-ubyte.gz", {Input("x", {784})}));
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->rows(), 10000);
  EXPECT_EQ(data->Find("x")->dims(), (Dims{28, 28}));
  EXPECT_EQ(data->Find("labels")->dtype(), DataType::kUint8);
  EXPECT_EQ(data->bytes(), 10000 * 785);
  const auto wrong = ReadDataset(
      Spec(folder + "t10k-images-idx3-ubyte.gz", folder + "train-labels-idx1-ubyte.gz"));
  ExpectDataError(wrong.status(), "'labels' has 60000 rows, but 'data' has 10000");
}

TEST(ReadDataset, FilesAreJoinedByRows) {
  const std::string a = Npy("a.npy", Tensor::Of<float>({2, 1}, {1, 2}));
  const std::string b = Npy("b.npy", Tensor::Of<float>({1, 1}, {3}));
  const std::string none = Npy("none.npy", Tensor(DataType::kFloat32, {0, 1}));
  const auto data = ReadDataset(Spec(a + "," + none + "," + b, "", {Input("x", {1})}));
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->rows(), 3);
  EXPECT_EQ(Value(*data, "x", 2), 3);
  EXPECT_EQ(data->columns()[0].Where(2), b + ": row 0");
  const std::string other = Npy("d.npy", Tensor::Of<double>({1, 1}, {3}));
  ExpectDataError(ReadDataset(Spec(a + "," + other)).status(), "cannot be joined");
  ExpectDataError(ReadDataset(Spec(none)).status(), "none.npy: has no rows");
}

TEST(ReadDataset, SeveralInputsByNameOrFromOneNpz) {
  const Tensor u = Tensor::Of<float>({2, 2}, {1, 2, 3, 4}), v = Tensor::Of<int64_t>({2}, {5, 6}),
               y = Tensor::Of<uint8_t>({2}, {0, 1}),
               w = Tensor::Of<uint8_t>({7}, {0, 1, 0, 0, 0, 0, 0});
  const std::string fu = Npy("u.npy", u), fv = Npy("v.npy", v), fy = Npy("y.npy", y);
  const std::string npz = TestPath("all.npz");
  ASSERT_TRUE(
      WriteNpz(npz, {{"u", u.view()}, {"v", v.view()}, {"y", y.view()}, {"w", w.view()}}).ok());
  const std::vector<InputSpec> inputs = {Input("u", {2}), Input("v", {})};
  for (const DataSpec& spec :
       {Spec("v=" + fv + ",u=" + fu, fy, inputs), Spec(npz, "", inputs), Spec(npz, "y", inputs),
        Spec(npz, npz + ":y", inputs), Spec(npz, fy, inputs),
        Spec("u=" + npz + ":u,v=" + npz, npz + ":y", inputs)}) {
    SCOPED_TRACE(spec.data + " " + spec.labels);
    const auto data = ReadDataset(spec);
    ASSERT_TRUE(data.ok()) << data.status();
    EXPECT_EQ(data->columns().size(), 3u);
    EXPECT_EQ(Value(*data, "u", 1, 1), 4);
    EXPECT_EQ(Value(*data, "v", 0), 5);
    EXPECT_EQ(Value(*data, "labels", 1), 1);
  }
  const auto notes = ReadDataset(Spec(npz, "", inputs))->notes;
  EXPECT_EQ(notes, (std::vector<std::string>{npz + ": 'y' is taken as the labels",
                                             npz + ": not used: w"}));

  EXPECT_EQ(ExitCodeOf(ReadDataset(Spec("u=" + fu, "", inputs)).status()), ExitCode::kUsage);
  EXPECT_EQ(ExitCodeOf(ReadDataset(Spec("u=" + fu + ",z=" + fv, "", inputs)).status()),
            ExitCode::kUsage);
  ExpectDataError(ReadDataset(Spec(fu, "", inputs)).status(), "NAME=FILE");
  ExpectDataError(ReadDataset(Spec(npz, "q", inputs)).status(), "has no 'q' (it has u, v, y, w)");
  ExpectDataError(ReadDataset(Spec(npz, "", {Input("x", {2})})).status(), "several arrays");
  EXPECT_TRUE(ReadDataset(Spec(npz + ":u", npz + ":y", {Input("x", {2})})).ok());
  ExpectDataError(ReadDataset(Spec(npz + ":p", "", {Input("x", {2})})).status(), "has no 'p'");
}

TEST(ReadDataset, CsvWithItsLabels) {
  const std::string csv = WriteFile("t.csv", "a,b,kind\n0.5,1,0\n2,3,1\n");
  for (const char* label : {"kind", "2", "-1"}) {
    const auto data = ReadDataset(Spec(csv, label, {Input("x", {2})}));
    ASSERT_TRUE(data.ok()) << data.status();
    EXPECT_EQ(data->Find("x")->dims(), Dims{2});
    EXPECT_EQ(data->Find("x")->dtype(), DataType::kFloat32);
    EXPECT_EQ(Value(*data, "x", 1, 0), 2);
    EXPECT_EQ(data->Find("labels")->dtype(), DataType::kUint8);
    EXPECT_EQ(Value(*data, "labels", 1), 1);
    EXPECT_EQ(data->bytes(), 2 * 2 * 4 + 2);
  }
  DataSpec unlabelled = Spec(csv, "", {Input("x", {2})});
  ExpectDataError(ReadDataset(unlabelled).status(), "say which column holds the labels");
  unlabelled.want_labels = false;
  ExpectDataError(ReadDataset(unlabelled).status(), "call their column 'labels'");
  EXPECT_EQ(ReadDataset(Spec(csv, "", {Input("x", {3})}))->columns().size(), 1u);
  // Parts of two files may narrow differently: the column holds both.
  const std::string big = WriteFile("big.csv", "a,b,kind\n1,0.1,300\n");
  const auto both = ReadDataset(Spec(csv + "," + big, "kind", {Input("x", {2})}));
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ(both->rows(), 3);
  EXPECT_EQ(Value(*both, "x", 2, 1), 0.1);
  EXPECT_EQ(Value(*both, "labels", 2), 300);
  const auto named = ReadDataset(
      Spec("p=" + csv + ":b,q=" + csv + ":a", csv + ":kind", {Input("p", {}), Input("q", {})}));
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_EQ(Value(*named, "p", 1), 3);
  const auto labels_alone = ReadDataset(Spec(csv + ":a", WriteFile("l.csv", "7\n8\n")));
  ASSERT_TRUE(labels_alone.ok()) << labels_alone.status();
  EXPECT_TRUE(labels_alone->Find("labels")->dims().empty());
}

TEST(ReadDataset, CifarBatches) {
  const std::string one = WriteFile("one.bin", std::string("\x03") + std::string(3072, 'a'));
  const std::string two = WriteFile("two.bin", std::string("\x04") + std::string(3072, 'b'));
  auto data = ReadDataset(Spec(one + "," + two, "", {Input("x", {3, 32, 32})}));
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->rows(), 2);
  EXPECT_EQ(Value(*data, "x", 1, 5), 'b');
  EXPECT_EQ(Value(*data, "labels", 1), 4);
  const std::string hundred = WriteFile("h.bin", std::string("\x03\x50") + std::string(3072, 'a'));
  EXPECT_EQ(Value(*ReadDataset(Spec(hundred)), "labels", 0), 80);
  EXPECT_EQ(Value(*ReadDataset(Spec(hundred, "coarse_labels")), "labels", 0), 3);
  // A first record that begins like an IDX file.
  std::string trap(3073, '\0');
  trap[2] = 8;
  trap[3] = 1;
  EXPECT_TRUE(ReadDataset(Spec(WriteFile("trap.bin", trap))).ok());
}

TEST(ReadDataset, LabelsThatNobodyWantsAreLeftOut) {
  const std::string csv = WriteFile("named.csv", "a,label,b\n0.5,1,0\n2,0,1\n");
  const std::string bin = WriteFile("one.bin", std::string("\x03") + std::string(3072, 'a'));
  for (DataSpec spec :
       {Spec(csv, "", {Input("x", {2})}), Spec(bin, "", {Input("x", {3, 32, 32})})}) {
    spec.want_labels = false;
    const auto data = ReadDataset(spec);
    ASSERT_TRUE(data.ok()) << data.status();
    EXPECT_EQ(data->columns().size(), 1u);
    ASSERT_EQ(data->notes.size(), 1u);
    EXPECT_NE(data->notes[0].find("' holds labels, which are not used"), std::string::npos);
  }
  // Asked for by name, they are there.
  DataSpec named = Spec(csv, "label", {Input("x", {2})});
  named.want_labels = false;
  EXPECT_NE(ReadDataset(named)->Find("labels"), nullptr);
}

TEST(ReadDataset, FormatsAreToldByContent) {
  const std::string npy = ReadWholeFile(Npy("a.npy", Tensor::Of<float>({2, 1}, {1, 2})));
  for (const char* name : {"a.csv", "a.gz", "a"}) {
    EXPECT_TRUE(ReadDataset(Spec(WriteFile(name, npy))).ok()) << name;
    EXPECT_TRUE(ReadDataset(Spec(WriteFile(name, Gzip(npy)))).ok()) << name;
  }
  EXPECT_TRUE(ReadDataset(Spec(WriteFile("c.npy", Gzip("1,2\n3,4\n")))).ok());
  const struct {
    std::string bytes;
    const char* said;
  } kRows[] = {
      {"", "is empty"},
      {"\x89HDF\r\n\x1a\n", "is an HDF5 file"},
      {"\x89PNG\r\n\x1a\n", "is a PNG image"},
      {std::string("\x01\x02\x00\x03", 4), "is of no known format"},
      {std::string(257, '\0') + "ustar" + std::string(250, '\0'), "is a tar archive"},
      {Gzip(std::string(257, '\1') + "ustar" + std::string(250, '\0')), "is a tar archive"},
      {"PK\x03\x04 and no more", "cannot be read as .npz"},
      {"Dear reader", "no rows"}};
  for (const auto& row : kRows) {
    const auto status = ReadDataset(Spec(WriteFile("f.dat", row.bytes))).status();
    ExpectDataError(status, "f.dat");
    EXPECT_NE(std::string(status.message()).find(row.said), std::string::npos) << status;
  }
  ExpectDataError(ReadDataset(Spec(TestPath("nothing"))).status(), "there is no such file");
  ExpectDataError(ReadDataset(Spec(TestPath("/"))).status(), "is a folder");
  ExpectDataError(ReadDataset(Spec("/dev/zero")).status(), "is not a regular file");
  EXPECT_EQ(ExitCodeOf(ReadDataset(Spec("")).status()), ExitCode::kUsage);
}

TEST(ReadDataset, LargeFilesStayUnlessCached) {
  // A sparse file: 65 MiB of zeros behind the header.
  const int64_t rows = 65 << 10;
  const std::string path = WriteFile(
      "large.npy",
      NpyBytes("{'descr': '|u1', 'fortran_order': False, 'shape': (66560, 1024), }\n", ""));
  const int64_t header = static_cast<int64_t>(ReadWholeFile(path).size());
  ASSERT_EQ(::truncate(path.c_str(), header + rows * 1024), 0);
  DataSpec spec = Spec(path);
  auto data = ReadDataset(spec);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->bytes(), 0);
  EXPECT_EQ(data->rows(), rows);
  spec.cache = true;
  data = ReadDataset(spec);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->bytes(), rows * 1024);
  spec.max_bytes = 1 << 20;
  EXPECT_EQ(ReadDataset(spec).status().code(), absl::StatusCode::kResourceExhausted);
  spec.cache = false;
  data = ReadDataset(spec);
  ASSERT_TRUE(data.ok());
  EXPECT_EQ(data->Load(1 << 20).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(data->Load(rows * 1024).ok());
  EXPECT_EQ(data->bytes(), rows * 1024);
  std::remove(path.c_str());
}

}  // namespace
}  // namespace onward
