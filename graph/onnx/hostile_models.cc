#include "graph/onnx/hostile_models.h"

#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/base/status_macros.h"
#include "onnx/defs/parser.h"
#include "onnx/onnx_pb.h"

namespace onward {
namespace {

onnx::ModelProto Parsed(const std::string& text) {
  onnx::ModelProto model;
  const auto status = onnx::OnnxParser::Parse(model, text.c_str());
  if (!status.IsOK()) std::fprintf(stderr, "%s\n", status.ErrorMessage().c_str());
  ONWARD_CHECK(status.IsOK());
  return model;
}

onnx::ModelProto Sound() {
  return Parsed(R"(<ir_version: 8, opset_import: ["" : 17]>
      net (float[N, 4] x) => (float[N, 3] y)
      <float[4, 3] w = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 1.5, 2.5, 3.5},
       float[3] b = {0.1, 0.2, 0.3}>
      { h = MatMul(x, w) y = Add(h, b) })");
}

std::string Bytes(const onnx::ModelProto& model) { return model.SerializeAsString(); }

// Collects the models; each starts from a sound one.
class Collection {
 public:
  void Edit(const std::string& name, const std::string& says,
            const std::function<void(onnx::ModelProto*)>& edit) {
    onnx::ModelProto model = Sound();
    edit(&model);
    list.push_back({name, Bytes(model), says});
  }
  void Graph(const std::string& name, const std::string& says,
             const std::function<void(onnx::GraphProto*)>& edit) {
    Edit(name, says, [&](onnx::ModelProto* model) { edit(model->mutable_graph()); });
  }
  void Weight(const std::string& name, const std::string& says,
              const std::function<void(onnx::TensorProto*)>& edit) {
    Graph(name, says, [&](onnx::GraphProto* graph) { edit(graph->mutable_initializer(0)); });
  }
  void Text(const std::string& name, const std::string& says, const std::string& text) {
    list.push_back({name, Bytes(Parsed(text)), says});
  }
  void Raw(const std::string& name, std::string bytes, const std::string& says) {
    list.push_back({name, std::move(bytes), says});
  }

  std::vector<HostileModel> list;
};

void SetDims(onnx::TensorProto* t, const std::vector<int64_t>& dims) {
  t->clear_dims();
  for (int64_t d : dims) t->add_dims(d);
}

void AddBytes(Collection* out) {
  const std::string sound = SoundModel();
  out->Raw("an empty file", "", "not an ONNX model");
  out->Raw("a text", "onward trains ONNX models\n", "not an ONNX model");
  out->Raw("zeros", std::string(4096, '\0'), "not an ONNX model");
  out->Raw("no graph", std::string("\x08\x08", 2), "holds no graph");
  // A length of 2 GB and one of nearly 2^64 in front of nothing.
  out->Raw("a field of 2 GB", std::string("\x3a\xff\xff\xff\xff\x07", 6), "not an ONNX model");
  out->Raw("a field of 2^64", std::string("\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11),
           "not an ONNX model");
  for (size_t cut = 1; cut < sound.size(); cut += cut < 32 ? 1 : 7) {
    out->Raw(absl::StrCat("cut after ", cut, " bytes"), sound.substr(0, cut), "");
  }
  for (size_t bit = 0; bit < sound.size() * 8; bit += 5) {
    std::string flipped = sound;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    out->Raw(absl::StrCat("bit ", bit, " flipped"), std::move(flipped), "");
  }
}

void AddTensors(Collection* out) {
  out->Weight("a huge extent", "holds", [](auto* t) { SetDims(t, {1 << 30, 1 << 17}); });
  out->Weight("2 GB declared", "holds", [](auto* t) { SetDims(t, {1 << 29}); });
  out->Weight("extents that overflow", "2^48 elements", [](auto* t) {
    SetDims(t, {int64_t{1} << 32, int64_t{1} << 32, 3});
  });
  out->Weight("a negative extent", "negative", [](auto* t) { SetDims(t, {-4, -3}); });
  out->Weight("an extent of INT64_MIN", "negative", [](auto* t) { SetDims(t, {INT64_MIN, 1}); });
  out->Weight("too few extents", "holds", [](auto* t) { SetDims(t, {4}); });
  out->Weight("a thousand extents", "", [](auto* t) {
    SetDims(t, std::vector<int64_t>(1000, 1));
    t->clear_float_data();
    t->add_float_data(1);
  });
  out->Weight("elements that are missing", "holds", [](auto* t) { t->clear_float_data(); });
  out->Weight("elements too many", "holds", [](auto* t) { t->add_float_data(1); });
  for (const int bytes : {0, 47, 49, 4}) {
    out->Weight(absl::StrCat(bytes, " raw bytes for 48"), "expected 48", [&](auto* t) {
      t->clear_float_data();
      t->set_raw_data(std::string(bytes, 'x'));
    });
  }
  out->Weight("strings", "is string", [](auto* t) {
    t->set_data_type(onnx::TensorProto::STRING);
    t->clear_float_data();
    for (int i = 0; i < 12; ++i) t->add_string_data("word");
  });
  out->Weight("an unknown data type", "data type 99", [](auto* t) { t->set_data_type(99); });
  out->Weight("data type -1", "data type", [](auto* t) { t->set_data_type(-1); });
  out->Weight("elements in the wrong field", "", [](auto* t) {
    t->clear_float_data();
    for (int i = 0; i < 12; ++i) t->add_int64_data(i);
  });
  out->Weight("integers as a weight", "node", [](auto* t) {
    t->set_data_type(onnx::TensorProto::INT64);
    t->clear_float_data();
    for (int i = 0; i < 12; ++i) t->add_int64_data(i);
  });
  out->Weight("not-a-number", "", [](auto* t) {
    t->clear_float_data();
    t->set_raw_data(std::string(48, '\xff'));
  });
  out->Graph("a sparse initializer", "sparse",
             [](auto* graph) { graph->add_sparse_initializer(); });
  out->Weight("a segment", "", [](auto* t) { t->mutable_segment()->set_begin(-7); });
}

void AddGraphs(Collection* out) {
  out->Graph("an absent input", "nothing",
             [](auto* g) { g->mutable_node(0)->set_input(1, "nothing"); });
  out->Graph("an input without a name", "", [](auto* g) { g->mutable_node(0)->set_input(0, ""); });
  out->Graph("no inputs", "", [](auto* g) { g->clear_input(); });
  out->Graph("no outputs", "has no output", [](auto* g) { g->clear_output(); });
  out->Graph("no nodes", "", [](auto* g) { g->clear_node(); });
  out->Graph("an output that is made nowhere", "z",
             [](auto* g) { g->mutable_output(0)->set_name("z"); });
  out->Graph("an output twice", "", [](auto* g) { *g->add_output() = g->output(0); });
  out->Graph("an input twice", "x", [](auto* g) { *g->add_input() = g->input(0); });
  out->Graph("an initializer twice", "twice",
             [](auto* g) { *g->add_initializer() = g->initializer(0); });
  out->Graph("an initializer without a name", "",
             [](auto* g) { g->mutable_initializer(0)->set_name(""); });
  out->Graph("a node's result made twice", "h", [](auto* g) { *g->add_node() = g->node(0); });
  out->Graph("a result with the name of an input", "x",
             [](auto* g) { g->mutable_node(0)->set_output(0, "x"); });
  out->Graph("nodes that read one another", "",
             [](auto* g) { g->mutable_node(0)->set_input(0, "y"); });
  out->Graph("a node that reads itself", "h",
             [](auto* g) { g->mutable_node(0)->set_input(0, "h"); });
  out->Graph("nodes in the wrong order", "h",
             [](auto* g) { g->mutable_node()->SwapElements(0, 1); });
  out->Graph("an unknown operator", "Frobnicate",
             [](auto* g) { g->mutable_node(0)->set_op_type("Frobnicate"); });
  out->Graph("an operator without a name", "",
             [](auto* g) { g->mutable_node(0)->set_op_type(""); });
  out->Graph("an unknown domain", "com.example",
             [](auto* g) { g->mutable_node(0)->set_domain("com.example"); });
  out->Edit("an imported unknown domain", "com.example", [](onnx::ModelProto* m) {
    m->mutable_graph()->mutable_node(0)->set_domain("com.example");
    auto* import = m->add_opset_import();
    import->set_domain("com.example");
    import->set_version(1);
  });
  out->Edit("the domain of what only Onward makes", "onward", [](onnx::ModelProto* m) {
    onnx::NodeProto* node = m->mutable_graph()->mutable_node(0);
    node->set_domain("onward");
    node->set_op_type("ConvFilterGradient");
    auto* import = m->add_opset_import();
    import->set_domain("onward");
    import->set_version(1);
  });
  out->Graph("too many inputs", "input", [](auto* g) { g->mutable_node(0)->add_input("b"); });
  out->Graph("too few inputs", "",
             [](auto* g) { g->mutable_node(0)->mutable_input()->RemoveLast(); });
  out->Graph("too many outputs", "", [](auto* g) { g->mutable_node(0)->add_output("more"); });
  out->Graph("no outputs of a node", "", [](auto* g) { g->mutable_node(0)->clear_output(); });
  out->Graph("ten thousand inputs", "", [](auto* g) {
    g->mutable_node(1)->set_op_type("Sum");
    for (int i = 0; i < 10000; ++i) g->mutable_node(1)->add_input("h");
  });
  out->Graph("an input of rank unknown", "shape", [](auto* g) {
    g->mutable_input(0)->mutable_type()->mutable_tensor_type()->clear_shape();
  });
  out->Graph("an input without a type", "", [](auto* g) { g->mutable_input(0)->clear_type(); });
  out->Graph("an input of strings", "is string", [](auto* g) {
    g->mutable_input(0)->mutable_type()->mutable_tensor_type()->set_elem_type(
        onnx::TensorProto::STRING);
  });
  out->Graph("an input with an extent of 2^62", "input 'x': shape", [](auto* g) {
    auto* shape = g->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
    shape->mutable_dim(1)->set_dim_value(int64_t{1} << 62);
  });
  out->Text("an input with an extent of 2^63 - 1 that nothing trains", "2^48 elements", R"(
      <ir_version: 8, opset_import: ["" : 17]>
      g (int64[N, 9223372036854775807] x) => (int64[N, 1] y)
      { y = ReduceProd <axes = [1]> (x) })");
  out->Text("an axis that is 0 in 32 bits", "expected a number of 32 bits", R"(
      <ir_version: 8, opset_import: ["" : 17]>
      g (float[N, 2] x) => (float[N, 4] y)
      { y = Concat <axis = 4294967296> (x, x) })");
  out->Text("a reshape to more elements", "do not fit", R"(
      <ir_version: 8, opset_import: ["" : 17]>
      g (float[N, 2] x) => (float[N, 8] y)
      { s = Constant <value = int64[2] {0, 8}> () y = Reshape (x, s) })");
  out->Graph("an input that is a sequence", "", [](auto* g) {
    auto* sequence = g->mutable_input(0)->mutable_type()->mutable_sequence_type();
    sequence->mutable_elem_type()->mutable_tensor_type()->set_elem_type(1);
  });
  out->Graph("a shape that does not fit", "node", [](auto* g) {
    auto* shape = g->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
    shape->mutable_dim(1)->set_dim_value(5);
  });
}

void AddAttributes(Collection* out) {
  const auto transpose = [&](const std::string& name, const std::string& says,
                             const std::function<void(onnx::AttributeProto*)>& edit) {
    out->Graph(name, says, [&](onnx::GraphProto* g) {
      onnx::NodeProto* node = g->mutable_node(1);
      node->set_op_type("Transpose");
      node->mutable_input()->RemoveLast();
      onnx::AttributeProto* a = node->add_attribute();
      a->set_name("perm");
      a->set_type(onnx::AttributeProto::INTS);
      edit(a);
    });
  };
  transpose("an attribute of the wrong type", "perm", [](auto* a) {
    a->set_type(onnx::AttributeProto::FLOAT);
    a->set_f(1);
  });
  transpose("an attribute of no type", "", [](auto* a) { a->clear_type(); });
  transpose("a sparse attribute", "",
            [](auto* a) { a->set_type(static_cast<onnx::AttributeProto::AttributeType>(11)); });
  transpose("a permutation out of range", "perm", [](auto* a) {
    a->add_ints(7);
    a->add_ints(INT64_MIN);
  });
  transpose("a permutation with one axis twice", "perm", [](auto* a) {
    a->add_ints(0);
    a->add_ints(0);
  });
  transpose("a permutation that is too short", "perm", [](auto* a) { a->add_ints(0); });
  transpose("an attribute of another name", "colour", [](auto* a) { a->set_name("colour"); });
  transpose("a reference to an attribute", "", [](auto* a) { a->set_ref_attr_name("perm"); });
  out->Graph("an attribute twice", "", [](onnx::GraphProto* g) {
    for (int i = 0; i < 2; ++i) {
      onnx::AttributeProto* a = g->mutable_node(1)->add_attribute();
      a->set_name("axis");
      a->set_type(onnx::AttributeProto::INT);
    }
  });
  out->Graph("a sparse constant", "sparse constants are not supported", [](onnx::GraphProto* g) {
    onnx::NodeProto* node = g->add_node();
    node->set_op_type("Constant");
    node->add_output("c");
    onnx::AttributeProto* a = node->add_attribute();
    a->set_name("sparse_value");
    a->set_type(onnx::AttributeProto::SPARSE_TENSOR);
    onnx::SparseTensorProto* sparse = a->mutable_sparse_tensor();
    sparse->add_dims(4);
    sparse->mutable_values()->set_name("v");
    sparse->mutable_values()->set_data_type(onnx::TensorProto::FLOAT);
    sparse->mutable_values()->add_dims(1);
    sparse->mutable_values()->add_float_data(2);
    sparse->mutable_indices()->set_data_type(onnx::TensorProto::INT64);
    sparse->mutable_indices()->add_dims(1);
    sparse->mutable_indices()->add_int64_data(3);
  });
  const std::string head = R"(<ir_version: 8, opset_import: ["" : 17]> g )";
  for (const char* graph : {
           "(float[3, 4] x, int64[3, 3, 7] i) => (float[A, B] y) "
           "{ y = GatherElements <axis = 1>(x, i) }",
           "(float[3, 4] x, int64[3, 5] i) => (float[A, B] y) { y = GatherElements(x, i) }",
           "(float[3, 4] x, int64[3, 2] i, float[3, 1] u) => (float[3, 4] y) "
           "{ y = ScatterElements <axis = 1>(x, i, u) }",
           "(float[3, 4] x) => (float[A, B] y) "
           "{ i = Constant <value = int64[2, 1] {0, 1}> () y = GatherND <batch_dims = 1>(x, i) }",
           "(float[3, 4] x, int64[3, 1] i) => (float[A, B] y) "
           "{ y = GatherND <batch_dims = -1>(x, i) }",
           "(float[5, 4] x, int64[5, 1000] i, float[5, 2] u) => (float[5, 4] y) "
           "{ y = ScatterND(x, i, u) }",
           "(float[5, 4] x, int64[5, 1] i, float[5, 3] u) => (float[5, 4] y) "
           "{ y = ScatterND(x, i, u) }",
       }) {
    out->Text(absl::StrCat("indices that do not fit: ", graph), "do not fit", head + graph);
  }
  out->Text("a convolution with a stride of 0", "strides", R"(
      <ir_version: 8, opset_import: ["" : 17]>
      g (float[1, 1, 5, 5] x, float[1, 1, 3, 3] w) => (float[1, 1, 3, 3] y)
      { y = Conv <strides = [0, 0]> (x, w) })");
  out->Text("a convolution in no groups", "", R"(
      <ir_version: 8, opset_import: ["" : 17]>
      g (float[1, 1, 5, 5] x, float[1, 1, 3, 3] w) => (float[1, 1, 3, 3] y)
      { y = Conv <group = 0> (x, w) })");
  out->Text("a convolution with padding of 2^40", "", R"(
      <ir_version: 8, opset_import: ["" : 17]>
      g (float[1, 1, 5, 5] x, float[1, 1, 3, 3] w) => (float[A, B, C, D] y)
      { y = Conv <pads = [1099511627776, 1099511627776, 1099511627776, 1099511627776]> (x, w) })");
  out->Text("a pool with a negative kernel", "", R"(
      <ir_version: 8, opset_import: ["" : 17]>
      g (float[1, 1, 5, 5] x) => (float[A, B, C, D] y)
      { y = MaxPool <kernel_shape = [-3, 0]> (x) })");
  out->Text("an axis out of range", "", R"(
      <ir_version: 8, opset_import: ["" : 17]>
      g (float[2, 3] x) => (float[A, B] y) { y = Softmax <axis = 9223372036854775807> (x) })");
}

// What a small file makes the reader do.
void AddBombs(Collection* out) {
  const std::string head = R"(<ir_version: 8, opset_import: ["" : 17]>)";
  out->Text("an expansion to 2^60 elements", "", head + R"(
      g (float[2, 3] x) => (float[A, B] y)
      { n = Constant <value_ints = [1073741824, 1073741824, 1, 1]> ()
        y = Expand(x, n) })");
  out->Text("a constant of 2^40 elements", "", head + R"(
      g (float[2, 3] x) => (float[A, B] y)
      { n = Constant <value_ints = [1048576, 1048576]> ()
        c = ConstantOfShape(n)  y = Add(x, c) })");
  out->Text("a shape of negative extents", "", head + R"(
      g (float[2, 3] x) => (float[A, B] y)
      { n = Constant <value_ints = [-5, 3]> ()  y = Reshape(x, n) })");
  out->Text("a range of 10^18 numbers", "", head + R"(
      g (float[2, 3] x) => (int64[A] y)
      { a = Constant <value_int = 0> ()  b = Constant <value_int = 1000000000000000000> ()
        s = Constant <value_int = 1> ()  y = Range(a, b, s) })");
  out->Text("a range without a step", "", head + R"(
      g (float[2, 3] x) => (int64[A] y)
      { a = Constant <value_int = 0> ()  b = Constant <value_int = 9> ()
        s = Constant <value_int = 0> ()  y = Range(a, b, s) })");
  out->Text("tiles of tiles", "", head + R"(
      g (float[2, 3] x) => (float[A, B] y)
      { n = Constant <value_ints = [1000000, 1000000]> ()
        a = Tile(x, n) b = Tile(a, n) y = Tile(b, n) })");
  // Padding by reflection is undone through a list of where each entry came from.
  out->Text("a batch of 2^31 that is padded by reflection", "the extents are too large", head + R"(
      g (float[2147483647, 4] x) => (float[A, B] y) <float[4] w = {1.0, 2.0, 3.0, 4.0}>
      { h = Mul(x, w) p = Constant <value_ints = [1, 1, 1, 1]> ()
        y = Pad <mode = "reflect"> (h, p) })");
  std::string pads = head + "g (float[2, 3] x) => (float[A, B] y) {";
  absl::StrAppend(&pads, "n = Constant <value_ints = [1000, 1000]> () c0 = ConstantOfShape(n)");
  // A thousand constants of a million elements: 8 GB from a file of 40 kB.
  for (int i = 0; i < 1000; ++i) {
    absl::StrAppend(&pads, " s", i, " = Constant <value_ints = [", 1000 + i % 3, ", 1000]> () k", i,
                    " = ConstantOfShape(s", i, ")");
  }
  out->Text("a thousand constants of a million elements", "", pads + " y = Add(x, c0) }");
  std::string big = head + "g (float[2, 3] x) => (int64[A, B] y) {";
  absl::StrAppend(&big, "n = Constant <value_ints = [1000, 1000]> ()",
                  "m0 = ConstantOfShape <value = int64[1] {1}> (n)");
  for (int i = 0; i < 200; ++i) {
    absl::StrAppend(&big, " m", i + 1, " = MatMul(m", i, ", m", i, ")");
  }
  out->Text("two hundred products of constants", "", big + " y = Identity(m200) }");

  std::string functions = R"(<ir_version: 8, opset_import: ["" : 17, "f" : 1]>
      g (float[2, 3] x) => (float[2, 3] y) { y = f.f40(x) }
      <opset_import: ["" : 17], domain: "f"> f0 (a) => (b) { b = Neg(a) })";
  for (int i = 1; i <= 40; ++i) {
    absl::StrAppend(&functions, R"(<opset_import: ["" : 17, "f" : 1], domain: "f"> f)", i,
                    " (a) => (b) { c = f.f", i - 1, "(a) b = f.f", i - 1, "(c) }");
  }
  out->Text("functions that double forty times", "nodes", functions);
  onnx::ModelProto empty = Parsed(functions);
  empty.mutable_functions(15)->clear_node();
  out->Raw("functions that double down to an empty one", Bytes(empty), "nodes");
  out->Text("a function that calls itself", "recursive", R"(
      <ir_version: 8, opset_import: ["" : 17, "f" : 1]>
      g (float[2, 3] x) => (float[2, 3] y) { y = f.f(x) }
      <opset_import: ["" : 17, "f" : 1], domain: "f"> f (a) => (b) { b = f.f(a) })");
  out->Text("functions that call one another", "recursive", R"(
      <ir_version: 8, opset_import: ["" : 17, "f" : 1]>
      g (float[2, 3] x) => (float[2, 3] y) { y = f.f(x) }
      <opset_import: ["" : 17, "f" : 1], domain: "f"> f (a) => (b) { b = f.h(a) }
      <opset_import: ["" : 17, "f" : 1], domain: "f"> h (a) => (b) { b = f.f(a) })");
  out->Text("a function that lacks an operator", "Frob", R"(
      <ir_version: 8, opset_import: ["" : 17, "f" : 1]>
      g (float[2, 3] x) => (float[2, 3] y) { y = f.f(x) }
      <opset_import: ["" : 17], domain: "f"> f (a) => (b) { b = Frob(a) })");
  out->Text("a function that is called with an attribute of the wrong type", "perm", R"(
      <ir_version: 8, opset_import: ["" : 17, "f" : 1]>
      g (float[2, 3] x) => (float[3, 2] y) { y = f.f <perm = 1.5> (x) }
      <opset_import: ["" : 17], domain: "f"> f <perm> (a) => (b)
      { b = Transpose <perm: ints = @perm> (a) })");
  for (const int depth : {5, 30, 60, 2000}) {
    out->Graph(absl::StrCat(depth, " subgraphs in one another"), "", [&](onnx::GraphProto* g) {
      for (int i = 0; i < depth; ++i) {
        onnx::NodeProto* node = g->add_node();
        node->set_op_type("If");
        node->add_input("x");
        node->add_output(absl::StrCat("i", i));
        onnx::AttributeProto* a = node->add_attribute();
        a->set_name("then_branch");
        a->set_type(onnx::AttributeProto::GRAPH);
        g = a->mutable_g();
        g->set_name("body");
      }
    });
  }
  out->Graph("a chain of 5000 nodes", "", [](onnx::GraphProto* g) {
    std::string last = "y";
    for (int i = 0; i < 5000; ++i) {
      onnx::NodeProto* node = g->add_node();
      node->set_op_type("Neg");
      node->add_input(last);
      last = absl::StrCat("n", i);
      node->add_output(last);
    }
    g->mutable_output(0)->set_name(last);
  });
}

void AddVersions(Collection* out) {
  for (const int64_t version : {int64_t{0}, int64_t{1}, int64_t{6}, int64_t{29}, int64_t{9999},
                                int64_t{-1}, (int64_t{1} << 32) + 17, INT64_MIN, INT64_MAX}) {
    out->Edit(absl::StrCat("opset ", version), absl::StrCat("opset ", version),
              [&](auto* m) { m->mutable_opset_import(0)->set_version(version); });
  }
  out->Text("a Scan with the batch axis of opset 8", "Scan of opset 8 is not supported", R"(
      <ir_version: 8, opset_import: ["" : 8]>
      g (float[2] s, float[2, 3, 2] x) => (float[1, 2] z, float[1, 3, 2] y)
      { z, y = Scan <num_scan_inputs = 1, body = b (float[2] i, float[2] e) =>
          (float[2] o, float[2] p) { o = Add(i, e) p = Identity(o) }> ("", s, x) })");
  out->Edit("an operator that came later", "Gelu is no operator of opset 17",
            [](auto* m) { m->mutable_graph()->mutable_node(1)->set_op_type("Gelu"); });
  out->Edit("no opset", "opset", [](auto* m) { m->clear_opset_import(); });
  out->Edit("two opsets", "opset", [](auto* m) { m->add_opset_import()->set_version(13); });
  for (const int64_t version : {int64_t{0}, int64_t{-3}, int64_t{99}, INT64_MAX}) {
    out->Edit(absl::StrCat("IR version ", version), "",
              [&](auto* m) { m->set_ir_version(version); });
  }
  out->Edit("no IR version", "", [](auto* m) { m->clear_ir_version(); });
}

}  // namespace

std::string SoundModel() { return Bytes(Sound()); }

std::vector<HostileModel> HostileModels() {
  Collection out;
  AddBytes(&out);
  AddTensors(&out);
  AddGraphs(&out);
  AddAttributes(&out);
  AddBombs(&out);
  AddVersions(&out);
  return std::move(out.list);
}

std::string ModelWithExternalData(const std::string& location, const std::string& offset,
                                  const std::string& length, int64_t rows) {
  onnx::ModelProto model = Sound();
  onnx::TensorProto* t = model.mutable_graph()->mutable_initializer(0);
  SetDims(t, {rows, 3});
  t->clear_float_data();
  t->set_data_location(onnx::TensorProto::EXTERNAL);
  const auto add = [&](const char* key, const std::string& value) {
    if (value.empty()) return;
    auto* entry = t->add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  };
  add("location", location);
  add("offset", offset);
  add("length", length);
  return Bytes(model);
}

std::string ModelOfRows(int64_t rows) {
  onnx::ModelProto model = Sound();
  onnx::TensorProto* t = model.mutable_graph()->mutable_initializer(0);
  SetDims(t, {rows, 3});
  t->clear_float_data();
  t->set_raw_data(std::string(static_cast<size_t>(rows) * 3 * sizeof(float), 'w'));
  return Bytes(model);
}

std::string WithParameters(const std::string& bytes) {
  onnx::ModelProto model;
  ONWARD_CHECK(model.ParseFromString(bytes));
  onnx::GraphProto* graph = model.mutable_graph();
  google::protobuf::RepeatedPtrField<onnx::NodeProto> nodes;
  for (const onnx::ValueInfoProto& input : graph->input()) {
    const onnx::TypeProto::Tensor& type = input.type().tensor_type();
    const bool floating = type.elem_type() == onnx::TensorProto::FLOAT ||
                          type.elem_type() == onnx::TensorProto::DOUBLE;
    if (!floating || type.shape().dim_size() < 2) continue;
    std::vector<int64_t> dims;
    int64_t elements = 1;
    for (int i = 1; i < type.shape().dim_size(); ++i) {
      dims.push_back(type.shape().dim(i).dim_value());
      elements *= dims.back();
    }
    for (onnx::NodeProto& node : *graph->mutable_node()) {
      for (std::string& name : *node.mutable_input()) {
        if (name == input.name()) name = input.name() + "*";
      }
    }
    onnx::NodeProto* product = nodes.Add();
    product->set_op_type("Mul");
    product->add_input(input.name());
    product->add_input(input.name() + "/w");
    product->add_output(input.name() + "*");
    onnx::TensorProto* weight = graph->add_initializer();
    weight->set_name(input.name() + "/w");
    weight->set_data_type(type.elem_type());
    SetDims(weight, dims);
    for (int64_t i = 0; i < elements; ++i) {
      const double value = 0.5 + static_cast<double>(i % 3);
      if (type.elem_type() == onnx::TensorProto::FLOAT) {
        weight->add_float_data(static_cast<float>(value));
      } else {
        weight->add_double_data(value);
      }
    }
  }
  nodes.MergeFrom(graph->node());
  graph->mutable_node()->Swap(&nodes);
  return Bytes(model);
}

}  // namespace onward
