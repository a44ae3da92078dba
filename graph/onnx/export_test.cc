#include "graph/onnx/export.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph/base/errors.h"
#include "onnx/checker.h"
#include "onnx/defs/parser.h"
#include "onnx/onnx_pb.h"

namespace onward {
namespace {

namespace fs = std::filesystem;
using SharedTensor = std::shared_ptr<const Tensor>;

// Real files in a folder of their own: tests are given links, and a model's data must
// not lie elsewhere.
const std::string& Models() {
  static const auto* folder = [] {
    auto* path = new std::string(testing::TempDir() + "/export_models");
    fs::remove_all(*path);
    fs::create_directories(*path);
    for (const auto& entry : fs::directory_iterator("tests/models")) {
      fs::copy_file(entry.path(), *path + "/" + entry.path().filename().string());
    }
    return path;
  }();
  return *folder;
}

std::vector<std::string> AllModels() {
  std::vector<std::string> paths;
  for (const auto& entry : fs::directory_iterator(Models())) {
    if (entry.path().extension() == ".onnx") paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

int NodesButConstants(const OnnxModel& model) {
  const auto& nodes = model.original().graph().node();
  return static_cast<int>(std::count_if(
      nodes.begin(), nodes.end(), [](const auto& node) { return node.op_type() != "Constant"; }));
}

SharedTensor Share(Tensor tensor) { return std::make_shared<const Tensor>(std::move(tensor)); }
SharedTensor Floats(Dims dims, double value) {
  return Share(Tensor::Full(DataType::kFloat32, std::move(dims), value));
}

std::map<std::string, SharedTensor> ValuesOf(const OnnxModel& model) {
  return {model.initializers().begin(), model.initializers().end()};
}

bool Equal(const Tensor& a, const Tensor& b) {
  return a.type() == b.type() && std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

// Empty where ONNX's checker accepts the file, with its external data.
std::string CheckerSays(const std::string& path) {
  try {
    onnx::checker::check_model(path);
    return "";
  } catch (const std::exception& e) {
    return e.what();
  }
}

class ExportTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(testing::TempDir(), "/export_",
                           testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    path_ = folder_ + "/trained.onnx";
  }

  // A model from ONNX text.
  std::unique_ptr<OnnxModel> Parse(const std::string& text) {
    onnx::ModelProto proto;
    const auto status = onnx::OnnxParser::Parse(proto, text.c_str());
    EXPECT_TRUE(status.IsOK()) << status.ErrorMessage();
    absl::StatusOr<std::unique_ptr<OnnxModel>> model =
        OnnxModel::FromBytes(proto.SerializeAsString(), "text");
    EXPECT_TRUE(model.ok()) << model.status();
    return model.ok() ? *std::move(model) : nullptr;
  }

  // Exports to path_, checks the file, and loads it again.
  std::unique_ptr<OnnxModel> Export(const OnnxModel& model, const ExportChanges& changes) {
    absl::StatusOr<std::vector<std::string>> lines = ExportModel(model, changes, path_);
    EXPECT_TRUE(lines.ok()) << model.path() << ": " << lines.status();
    if (!lines.ok()) return nullptr;
    lines_ = *std::move(lines);
    EXPECT_EQ(CheckerSays(path_), "") << model.path();
    absl::StatusOr<std::unique_ptr<OnnxModel>> again = OnnxModel::Load(path_);
    EXPECT_TRUE(again.ok()) << model.path() << ": " << again.status();
    return again.ok() ? *std::move(again) : nullptr;
  }

  const onnx::NodeProto& NodeOf(const OnnxModel& model, const std::string& output) {
    for (const auto& node : model.original().graph().node()) {
      if (node.output(0) == output) return node;
    }
    ADD_FAILURE() << "no node makes " << output;
    static const onnx::NodeProto kNone;
    return kNone;
  }

  bool Says(const std::string& text) const {
    return std::any_of(lines_.begin(), lines_.end(),
                       [&](const std::string& line) { return absl::StrContains(line, text); });
  }

  std::string folder_, path_;
  std::vector<std::string> lines_;
};

ExportChanges Unchanged() {
  ExportChanges changes;
  changes.inference_form = false;
  return changes;
}

TEST_F(ExportTest, EveryModelUnchangedIsTheSame) {
  int tried = 0, outside = 0;
  for (const std::string& file : AllModels()) {
    const absl::StatusOr<std::unique_ptr<OnnxModel>> model = OnnxModel::Load(file);
    if (!model.ok()) {  // it holds an operator that ONNX does not have
      EXPECT_TRUE(absl::StrContains(file, "keras_cnn-tf2onnx_function-train")) << model.status();
      continue;
    }
    fs::remove(path_ + ".data");
    const std::unique_ptr<OnnxModel> again = Export(**model, Unchanged());
    ASSERT_NE(again, nullptr) << file;
    EXPECT_EQ(again->original().SerializeAsString(), (*model)->original().SerializeAsString());
    const auto values = ValuesOf(*again);
    for (const auto& [name, tensor] : (*model)->initializers()) {
      EXPECT_TRUE(Equal(*values.at(name), *tensor)) << file << ": " << name;
    }
    EXPECT_EQ(fs::exists(path_ + ".data"), fs::exists(file + ".data")) << file;
    ++tried;
    outside += fs::exists(path_ + ".data");
  }
  EXPECT_GE(tried, 20);
  EXPECT_GE(outside, 5);
}

TEST_F(ExportTest, EveryModelTakesNewValuesInInferenceForm) {
  int tried = 0;
  for (const std::string& file : AllModels()) {
    const absl::StatusOr<std::unique_ptr<OnnxModel>> model = OnnxModel::Load(file);
    if (!model.ok()) continue;
    ExportChanges changes;
    for (const auto& [name, tensor] : (*model)->initializers()) {
      if (tensor->dtype() != DataType::kFloat32) continue;
      Tensor other = tensor->Clone();
      for (float& x : other.mutable_values<float>()) x = x * 0.5f + 0.25f;
      changes.values.emplace_back(name, Share(std::move(other)));
    }
    const std::unique_ptr<OnnxModel> again = Export(**model, changes);
    ASSERT_NE(again, nullptr) << file;
    std::map<std::string, SharedTensor> wanted = ValuesOf(**model);
    for (const auto& [name, tensor] : changes.values) wanted[name] = tensor;
    const auto values = ValuesOf(*again);
    for (const auto& [name, tensor] : values) EXPECT_TRUE(Equal(*tensor, *wanted.at(name))) << name;
    EXPECT_EQ(again->opset(), (*model)->opset());
    EXPECT_EQ(again->original().ir_version(), (*model)->original().ir_version());
    EXPECT_EQ(again->original().metadata_props_size(), (*model)->original().metadata_props_size());
    EXPECT_EQ(NodesButConstants(*again), NodesButConstants(**model)) << file;
    for (const auto& node : again->original().graph().node()) {
      if (node.op_type() == "BatchNormalization") {
        EXPECT_EQ(node.output_size(), 1) << file;
        for (const auto& a : node.attribute()) {
          if (a.name() == "training_mode") {
            EXPECT_EQ(a.i(), 0) << file;
          }
        }
      }
    }
    ++tried;
  }
  EXPECT_GE(tried, 20);
}

TEST_F(ExportTest, MergedInitializersComeApart) {
  const auto model = Parse(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[N, 3] x) => (float[N, 3] y)
    <float[3] zero = {0, 0, 0}, float[3] one = {1, 1, 1}>
    { a = Add(x, zero)  b = Mul(a, one)  c = Add(b, zero)  d = Mul(c, one)  y = Add(zero, d) })");
  ExportChanges changes = Unchanged();
  changes.values = {{"one", Floats({3}, 7)}};
  changes.splits = {{"a", 1, "zero/a", Floats({3}, 2)},
                    {"c", 1, "zero/c", Floats({3}, 3)},
                    {"y", 0, "one", Floats({3}, 4)}};  // a name that is taken
  const auto again = Export(*model, changes);
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(NodeOf(*again, "a").input(1), "zero/a");
  EXPECT_EQ(NodeOf(*again, "c").input(1), "zero/c");
  EXPECT_EQ(NodeOf(*again, "y").input(0), "one_2");
  EXPECT_EQ(NodeOf(*again, "b").input(1), "one");
  EXPECT_EQ(NodeOf(*again, "d").input(1), "one");
  const auto values = ValuesOf(*again);
  EXPECT_EQ(values.size(), 4u);  // zero itself is read no more
  EXPECT_EQ(values.at("zero/a")->At(0), 2);
  EXPECT_EQ(values.at("zero/c")->At(1), 3);
  EXPECT_EQ(values.at("one_2")->At(2), 4);
  EXPECT_EQ(values.at("one")->At(0), 7);
  EXPECT_TRUE(Says("zero/a, zero/c, one_2"));
  EXPECT_TRUE(Says("'zero' is read no more"));
}

TEST_F(ExportTest, SplitsOfTheSameNameStayTied) {
  const auto model = Parse(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[N, 3] x) => (float[N, 3] y) <float[3] zero = {0, 0, 0}>
    { a = Add(x, zero)  b = Add(a, zero)  y = Add(b, zero) })");
  ExportChanges changes = Unchanged();
  const SharedTensor tied = Floats({3}, 2);
  changes.splits = {{"a", 1, "tied", tied}, {"y", 1, "tied", tied}};
  const auto again = Export(*model, changes);
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(NodeOf(*again, "a").input(1), "tied");
  EXPECT_EQ(NodeOf(*again, "b").input(1), "zero");
  EXPECT_EQ(NodeOf(*again, "y").input(1), "tied");
  EXPECT_EQ(ValuesOf(*again).size(), 2u);
}

TEST_F(ExportTest, IdentitiesOfMergedInitializersBecomeInitializers) {
  const auto model = Parse(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[N, 3] x) => (float[N, 3] y) <float[3] zero = {0, 0, 0}>
    { other = Identity(zero)  a = Add(x, zero)  y = Add(a, other) })");
  ExportChanges changes = Unchanged();
  changes.restored = {{"other", Floats({3}, 5)}};
  const auto again = Export(*model, changes);
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(again->original().graph().node_size(), 2);
  EXPECT_EQ(NodeOf(*again, "y").input(1), "other");
  EXPECT_EQ(ValuesOf(*again).at("other")->At(0), 5);
  EXPECT_EQ(ValuesOf(*again).at("zero")->At(0), 0);
  changes.restored = {{"a", Floats({3}, 5)}};  // reads an input
  EXPECT_FALSE(ExportModel(*model, changes, path_).ok());
}

TEST_F(ExportTest, UsesOfIdentitiesAndConstantsComeApartToo) {
  const auto model = Parse(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[N, 3] x) => (float[N, 3] y) <float[3] zero = {0, 0, 0}>
    { other = Identity(zero)  k = Constant<value = float[3] {1, 1, 1}>()  u = Relu(x)
      a = Add(u, other)  b = Mul(a, k)  c = Mul(b, k)  y = Add(c, other) })");
  ExportChanges changes = Unchanged();
  changes.splits = {{"a", 1, "za", Floats({3}, 5)}, {"c", 1, "kc", Floats({3}, 2)}};
  const auto again = Export(*model, changes);
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(NodeOf(*again, "a").input(1), "za");
  EXPECT_EQ(NodeOf(*again, "y").input(1), "other");
  EXPECT_EQ(NodeOf(*again, "b").input(1), "k");
  EXPECT_EQ(NodeOf(*again, "c").input(1), "kc");
  // Once nothing reads the Identity, it goes with what it read.
  changes.splits.push_back({"y", 1, "zy", Floats({3}, 6)});
  const auto all = Export(*model, changes);
  ASSERT_NE(all, nullptr);
  EXPECT_EQ(all->original().graph().node_size(), 6);
  EXPECT_FALSE(ValuesOf(*all).count("zero"));
  changes.splits = {{"a", 0, "za", Floats({3}, 5)}};  // Relu's result
  EXPECT_FALSE(ExportModel(*model, changes, path_).ok());
}

TEST_F(ExportTest, BiasesComeBack) {
  const auto model = Parse(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[N, 3] x) => (float[N, 3] y) <float[3, 3] w = {1, 0, 0, 0, 1, 0, 0, 0, 1}>
    { a = MatMul(x, w)  b = Relu(a)  y = Gemm(b, w) })");
  ExportChanges changes = Unchanged();
  changes.biases = {{"a", "a/bias", Floats({3}, 5)}, {"y", "y/bias", Floats({3}, 6)}};
  const auto again = Export(*model, changes);
  ASSERT_NE(again, nullptr);
  ASSERT_EQ(again->original().graph().node_size(), 4);
  EXPECT_EQ(NodeOf(*again, "a").op_type(), "Add");
  EXPECT_EQ(NodeOf(*again, NodeOf(*again, "a").input(0)).op_type(), "MatMul");
  EXPECT_EQ(NodeOf(*again, "b").input(0), "a");
  EXPECT_EQ(NodeOf(*again, "y").input(2), "y/bias");
  EXPECT_EQ(ValuesOf(*again).at(NodeOf(*again, "a").input(1))->At(0), 5);
}

TEST_F(ExportTest, OldFilesListNewInitializersAsInputsToo) {
  const auto model = Parse(R"(
    <ir_version: 3, opset_import: ["" : 8]>
    g (float[N, 3] x, float[3] zero) => (float[N, 3] y) <float[3] zero = {0, 0, 0}>
    { a = Add(x, zero)  y = Add(a, zero) })");
  ExportChanges changes = Unchanged();
  changes.splits = {{"a", 1, "za", Floats({3}, 2)}, {"y", 1, "zy", Floats({3}, 3)}};
  const auto again = Export(*model, changes);
  ASSERT_NE(again, nullptr);
  std::string inputs;
  for (const auto& input : again->original().graph().input()) inputs += input.name() + " ";
  EXPECT_EQ(inputs, "x za zy ");
}

TEST_F(ExportTest, TrainedConstantsGetNewValues) {
  const auto model = Parse(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[N, 2] x) => (float[N, 2] y)
    { w = Constant<value = float[2, 2] {1, 2, 3, 4}>()  y = MatMul(x, w) })");
  ExportChanges changes = Unchanged();
  changes.values = {{"w", Floats({2, 2}, 9)}};
  const auto again = Export(*model, changes);
  ASSERT_NE(again, nullptr);
  const onnx::TensorProto& t = NodeOf(*again, "w").attribute(0).t();
  float first = 0;
  ASSERT_EQ(t.raw_data().size(), 16u);
  std::memcpy(&first, t.raw_data().data(), sizeof(first));
  EXPECT_EQ(first, 9);
}

constexpr char kWithFunction[] = R"(
    <ir_version: 8, opset_import: ["" : 17, "f" : 1]>
    g (float[N, 3] x) => (float[N, 3] y) <float[3] zero = {0, 0, 0}>
    { a = f.Shift(x, zero)  y = f.Shift(a, zero) }
    <domain: "f", opset_import: ["" : 17]>
    Shift (u, v) => (w) { w = Add(u, v) })";

TEST_F(ExportTest, FunctionsStay) {
  const auto model = Parse(kWithFunction);
  ExportChanges changes = Unchanged();
  changes.values = {{"zero", Floats({3}, 2)}};
  const auto again = Export(*model, changes);
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(again->original().functions_size(), 1);
  EXPECT_EQ(ValuesOf(*again).at("zero")->At(0), 2);
}

TEST_F(ExportTest, FunctionsAreWrittenOutWhereAChangeLiesInOne) {
  const auto model = Parse(kWithFunction);
  ASSERT_EQ(model->canonical().graph().node_size(), 2);
  ExportChanges changes = Unchanged();
  changes.splits = {{model->canonical().graph().node(0).output(0), 1, "own", Floats({3}, 2)}};
  const auto again = Export(*model, changes);
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(again->original().functions_size(), 0);
  EXPECT_EQ(again->original().graph().node(0).input(1), "own");
  EXPECT_EQ(again->original().graph().node(1).input(1), "zero");
  EXPECT_EQ(again->opset(), 17);
  EXPECT_TRUE(Says("functions"));
}

TEST_F(ExportTest, InferenceForm) {
  const auto model = Parse(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[N, 3] x) => (float[N, 3] y, float[3] moved)
    <float[3] s = {1, 1, 1}, float[3] m = {4, 5, 6}, float ratio = {0.5}, bool yes = {1}, bool no = {0}>
    { a, moved, v = BatchNormalization<training_mode = 1>(x, s, m, m, s)
      b, mask = Dropout(a, ratio, yes)
      c = Dropout(b, ratio, no)
      y = Dropout(c, , yes) })");
  const auto again = Export(*model, ExportChanges());
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(NodeOf(*again, "a").output_size(), 1);
  EXPECT_EQ(NodeOf(*again, "a").attribute(0).i(), 0);
  EXPECT_EQ(NodeOf(*again, "moved").op_type(), "Identity");
  EXPECT_EQ(NodeOf(*again, "moved").input(0), "m");
  EXPECT_EQ(NodeOf(*again, "b").input_size(), 2);
  EXPECT_EQ(NodeOf(*again, "b").output_size(), 2);
  EXPECT_EQ(NodeOf(*again, "c").input_size(), 3);
  EXPECT_EQ(NodeOf(*again, "y").input_size(), 1);
  EXPECT_FALSE(ValuesOf(*again).count("yes"));
  EXPECT_TRUE(Says("1 BatchNormalization"));
  EXPECT_TRUE(Says("2 Dropout"));
}

TEST_F(ExportTest, InferenceFormBeforeOpset14AndInFunctions) {
  const auto old = Parse(R"(
    <ir_version: 8, opset_import: ["" : 9]>
    g (float[2, 3, 4] x) => (float[2, 3, 4] y) <float[3] s = {1, 1, 1}>
    { y, m, v, sm, sv = BatchNormalization(x, s, s, s, s) })");
  auto again = Export(*old, ExportChanges());
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(NodeOf(*again, "y").output_size(), 1);
  const auto function = Parse(R"(
    <ir_version: 8, opset_import: ["" : 17, "f" : 1]>
    g (float[N, 3] x) => (float[N, 3] y) <bool yes = {1}>
    { y = f.Drop(x, yes) }
    <domain: "f", opset_import: ["" : 17]>
    Drop (u, t) => (w) { r = Constant<value = float {0.5}>()  w = Dropout(u, r, t) })");
  again = Export(*function, ExportChanges());
  ASSERT_NE(again, nullptr);
  ASSERT_EQ(again->original().functions_size(), 1);
  EXPECT_EQ(again->original().functions(0).node(1).input_size(), 2);
}

TEST_F(ExportTest, LargeModelsKeepTheirDataOutside) {
  const auto model = Parse(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[N, 3] x) => (float[N, 3] y) <float[3] small = {1, 2, 3}>
    { y = Add(x, small) })");
  ExportChanges changes = Unchanged();
  changes.splits = {};
  const auto mlp = OnnxModel::Load(Models() + "/mlp-torch-ts-eval.onnx");
  ASSERT_TRUE(mlp.ok()) << mlp.status();
  changes.embed_below = 50000;
  const auto again = Export(**mlp, changes);
  ASSERT_NE(again, nullptr);
  EXPECT_GT(fs::file_size(path_ + ".data"), 90000u);
  EXPECT_LT(fs::file_size(path_), 10000u);
  const auto values = ValuesOf(*again);
  for (const auto& [name, tensor] : (*mlp)->initializers()) {
    EXPECT_TRUE(Equal(*values.at(name), *tensor)) << name;
  }
  // Nothing to put outside: no file.
  fs::remove(path_ + ".data");
  changes.embed_below = 0;
  ASSERT_NE(Export(*model, changes), nullptr);
  EXPECT_FALSE(fs::exists(path_ + ".data"));
}

TEST_F(ExportTest, WhatIsSaidOfLargeInitializersStays) {
  onnx::ModelProto proto;
  const auto parsed = onnx::OnnxParser::Parse(proto, R"(
    <ir_version: 10, opset_import: ["" : 17]>
    g (float[N, 100] x) => (float[N, 100] y) <float[100] w> { y = Add(x, w) })");
  ASSERT_TRUE(parsed.IsOK()) << parsed.ErrorMessage();
  proto.mutable_graph()->clear_initializer();
  onnx::TensorProto* w = proto.mutable_graph()->add_initializer();
  w->set_name("w");
  w->set_data_type(onnx::TensorProto::FLOAT);
  w->add_dims(100);
  for (int i = 0; i < 100; ++i) w->add_float_data(static_cast<float>(i));
  w->set_doc_string("about w");
  const auto model = OnnxModel::FromBytes(proto.SerializeAsString(), "text");
  ASSERT_TRUE(model.ok()) << model.status();
  const auto again = Export(**model, Unchanged());
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(again->original().graph().initializer(0).doc_string(), "about w");
  EXPECT_EQ(ValuesOf(*again).at("w")->At(99), 99);
}

TEST_F(ExportTest, TheModelsOwnFilesAreNeverWrittenTo) {
  const std::string source = Models() + "/mlp-torch-dynamo-eval.onnx";
  const std::string copy = folder_ + "/own.onnx";
  fs::copy_file(source, copy);
  fs::copy_file(source + ".data", folder_ + "/mlp-torch-dynamo-eval.onnx.data");
  fs::create_symlink("own.onnx", folder_ + "/link.onnx");
  fs::create_hard_link(folder_ + "/mlp-torch-dynamo-eval.onnx.data", folder_ + "/b.onnx.data");
  const auto model = OnnxModel::Load(copy);
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_EQ((*model)->external_files().size(), 1u);
  const auto size = fs::file_size(copy);
  for (const char* name : {"own.onnx", "link.onnx", "mlp-torch-dynamo-eval.onnx.data", "b.onnx"}) {
    const absl::Status status =
        ExportModel(**model, Unchanged(), absl::StrCat(folder_, "/", name)).status();
    EXPECT_EQ(ExitCodeOf(status), ExitCode::kUsage) << name << ": " << status;
  }
  EXPECT_EQ(fs::file_size(copy), size);
  EXPECT_TRUE(OnnxModel::Load(copy).ok());
  EXPECT_FALSE(fs::exists(folder_ + "/b.onnx"));
}

TEST_F(ExportTest, UnwritablePlacesAreSaid) {
  const auto model = OnnxModel::Load(Models() + "/mlp-torch-dynamo-eval.onnx");
  ASSERT_TRUE(model.ok());
  std::ofstream(folder_ + "/file") << "x";
  fs::create_directory(folder_ + "/c.onnx.data");
  for (const std::string& bad : {folder_ + "/file/a.onnx", folder_ + "/none/a.onnx", folder_,
                                 folder_ + "/c.onnx", std::string("/dev/full")}) {
    const absl::Status status = ExportModel(**model, Unchanged(), bad).status();
    EXPECT_EQ(ExitCodeOf(status), ExitCode::kOutput) << bad << ": " << status;
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 2);
}

TEST_F(ExportTest, ChangesThatDoNotFitAreErrors) {
  const auto model = Parse(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[N, 3] x) => (float[N, 3] y) <float[3] w = {1, 2, 3}> { y = Add(x, w) })");
  const auto refused = [&](const ExportChanges& changes) {
    const absl::Status status = ExportModel(*model, changes, path_).status();
    return !status.ok() && !fs::exists(path_);
  };
  ExportChanges changes;
  changes.values = {{"other", Floats({3}, 1)}};
  EXPECT_TRUE(refused(changes));
  changes.values = {{"w", Floats({1, 3}, 1)}};
  EXPECT_TRUE(refused(changes));
  changes.values = {{"w", Share(Tensor::Full(DataType::kFloat64, {3}, 1))}};
  EXPECT_TRUE(refused(changes));
  changes.values.clear();
  changes.splits = {{"y", 0, "s", Floats({3}, 1)}};  // x is no initializer
  EXPECT_TRUE(refused(changes));
  changes.splits = {{"y", 2, "s", Floats({3}, 1)}};
  EXPECT_TRUE(refused(changes));
  changes.splits = {{"z", 1, "s", Floats({3}, 1)}};
  EXPECT_TRUE(refused(changes));
  changes.splits = {{"y", 1, "s", Floats({4}, 1)}};
  EXPECT_TRUE(refused(changes));
}

}  // namespace
}  // namespace onward
