#include "graph/onnx/disguise.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "graph/base/status_macros.h"
#include "graph/onnx/proto.h"
#include "onnx/shape_inference/implementation.h"

namespace onward {
namespace {

// The rest of the work is on one of these.
class Tailor {
 public:
  Tailor(onnx::ModelProto model, const DisguiseOptions& options)
      : model_(std::move(model)),
        graph_(*model_.mutable_graph()),
        options_(options),
        state_(options.seed * 0x9E3779B97F4A7C15u + 1) {}

  absl::StatusOr<Disguised> Run() {
    RETURN_IF_ERROR(CatchOnnx([this] { onnx::shape_inference::InferShapes(model_); }));
    TakeTypes();
    graph_.clear_value_info();
    if (options_.identities) Insert(&Tailor::AddIdentity);
    if (options_.casts) Insert(&Tailor::AddCasts);
    if (options_.transposes) Insert(&Tailor::AddTransposes);
    if (options_.reorder) Reorder();
    if (options_.rename) Rename();
    out_.bytes = model_.SerializeAsString();
    return std::move(out_);
  }

 private:
  struct Type {
    int32_t element = 0;  // 0: unknown
    int rank = -1;
  };

  uint64_t Draw(uint64_t below) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return (state_ >> 33) % below;
  }

  void TakeTypes() {
    const auto take = [this](const onnx::ValueInfoProto& info) {
      const auto& tensor = info.type().tensor_type();
      types_[info.name()] = {tensor.elem_type(),
                             tensor.has_shape() ? tensor.shape().dim_size() : -1};
    };
    for (const auto& info : graph_.value_info()) take(info);
    for (const auto& info : graph_.input()) take(info);
    for (const auto& info : graph_.output()) take(info);
    for (const auto& tensor : graph_.initializer()) {
      types_[tensor.name()] = {tensor.data_type(), tensor.dims_size()};
    }
  }

  Type TypeOf(const std::string& name) const {
    const auto it = types_.find(name);
    return it == types_.end() ? Type{} : it->second;
  }

  // Half of the values that nodes of the graph read, in their order.
  std::vector<std::string> SomeValues() {
    std::vector<std::string> all;
    absl::flat_hash_set<std::string> seen;
    for (const auto& node : graph_.node()) {
      for (const auto& name : node.input()) {
        if (!name.empty() && seen.insert(name).second) all.push_back(name);
      }
    }
    std::vector<std::string> some;
    for (const std::string& name : all) {
      if (Draw(2) == 0) some.push_back(name);
    }
    return some;
  }

  // Calls `f` with every name that the bodies of a node take from outside them.
  template <typename F>
  static void Captured(onnx::NodeProto* node, const absl::flat_hash_set<std::string>& inner, F f) {
    for (auto& attribute : *node->mutable_attribute()) {
      if (!attribute.has_g()) continue;
      onnx::GraphProto* body = attribute.mutable_g();
      absl::flat_hash_set<std::string> own = inner;
      for (const auto& info : body->input()) own.insert(info.name());
      for (const auto& tensor : body->initializer()) own.insert(tensor.name());
      for (const auto& made : body->node()) own.insert(made.output().begin(), made.output().end());
      for (auto& reader : *body->mutable_node()) {
        for (auto& name : *reader.mutable_input()) {
          if (!name.empty() && !own.contains(name)) f(&name);
        }
        Captured(&reader, own, f);
      }
      for (auto& info : *body->mutable_output()) {
        if (!own.contains(info.name())) f(info.mutable_name());
      }
    }
  }

  static std::vector<std::string> ReadBy(const onnx::NodeProto& node) {
    std::vector<std::string> names(node.input().begin(), node.input().end());
    onnx::NodeProto copy = node;
    Captured(&copy, {}, [&names](const std::string* name) { names.push_back(*name); });
    return names;
  }

  // Adds nodes that read a value and gives the value that they make; empty: none.
  using Step = std::string (Tailor::*)(const std::string& from);

  // All readers of half of the values read what `step` makes of them.
  void Insert(Step step) {
    for (const std::string& from : SomeValues()) {
      const int before = graph_.node_size();
      const std::string to = (this->*step)(from);
      if (to.empty()) continue;
      for (int n = 0; n < before; ++n) {
        for (auto& name : *graph_.mutable_node(n)->mutable_input()) {
          if (name == from) name = to;
        }
        Captured(graph_.mutable_node(n), {}, [&](std::string* name) {
          if (*name == from) *name = to;
        });
      }
    }
    Sort([](size_t) { return size_t{0}; });
  }

  onnx::NodeProto* AddNode(const std::string& op, const std::string& from) {
    onnx::NodeProto* node = graph_.add_node();
    node->set_op_type(op);
    node->set_name(absl::StrCat("disguise_", ++added_));
    node->add_input(from);
    node->add_output(absl::StrCat(from, "_", op, added_));
    types_[node->output(0)] = TypeOf(from);
    return node;
  }

  std::string AddIdentity(const std::string& from) { return AddNode("Identity", from)->output(0); }

  std::string AddCasts(const std::string& from) {
    const Type type = TypeOf(from);
    if (type.element != onnx::TensorProto::FLOAT) return "";
    std::string at = from;
    for (int32_t to : {int32_t{onnx::TensorProto::DOUBLE}, type.element}) {
      onnx::NodeProto* cast = AddNode("Cast", at);
      onnx::AttributeProto* attribute = cast->add_attribute();
      attribute->set_name("to");
      attribute->set_type(onnx::AttributeProto::INT);
      attribute->set_i(to);
      at = cast->output(0);
      types_[at].element = to;
    }
    return at;
  }

  // A rotation of the axes, and back.
  std::string AddTransposes(const std::string& from) {
    const Type type = TypeOf(from);
    if (type.rank < 2) return "";
    std::string at = from;
    for (int shift : {1, type.rank - 1}) {
      onnx::NodeProto* transpose = AddNode("Transpose", at);
      onnx::AttributeProto* attribute = transpose->add_attribute();
      attribute->set_name("perm");
      attribute->set_type(onnx::AttributeProto::INTS);
      for (int i = 0; i < type.rank; ++i) attribute->add_ints((i + shift) % type.rank);
      at = transpose->output(0);
    }
    return at;
  }

  // Another topological order, in which `choose` picks among so many nodes that are ready
  // (they stand in the order of the file).
  template <typename Choose>
  void Sort(Choose choose) {
    absl::flat_hash_map<std::string, int> maker;
    const int n = graph_.node_size();
    for (int i = 0; i < n; ++i) {
      for (const auto& name : graph_.node(i).output()) maker[name] = i;
    }
    std::vector<int> missing(n);
    std::vector<std::vector<int>> readers(n);
    for (int i = 0; i < n; ++i) {
      absl::flat_hash_set<int> from;
      for (const auto& name : ReadBy(graph_.node(i))) {
        const auto it = maker.find(name);
        if (it != maker.end() && from.insert(it->second).second) readers[it->second].push_back(i);
      }
      missing[i] = static_cast<int>(from.size());
    }
    std::set<int> ready;
    for (int i = 0; i < n; ++i) {
      if (missing[i] == 0) ready.insert(i);
    }
    google::protobuf::RepeatedPtrField<onnx::NodeProto> sorted;
    while (!ready.empty()) {
      const int next = *std::next(ready.begin(), static_cast<int64_t>(choose(ready.size())));
      ready.erase(next);
      *sorted.Add() = graph_.node(next);
      for (int reader : readers[next]) {
        if (--missing[reader] == 0) ready.insert(reader);
      }
    }
    *graph_.mutable_node() = std::move(sorted);
  }

  void Reorder() {
    Sort([this](size_t ready) { return static_cast<size_t>(Draw(ready)); });
  }

  // Some of the new names are what Onward calls things of its own, or look as if they were
  // the moment of another.
  std::string NewName(const std::string& old) {
    static const std::vector<std::string>* const ours = new std::vector<std::string>{
        "onward/step", "metrics", "onward/learning_rate", "onward/sample_offset",
        "labels",      "c_1",     "onward/seed",          "grad/Gemm",
        "AllReduce",   "c",       "loss/ReduceSum",       "Add"};
    if (old.empty()) return old;
    const auto [it, fresh] = new_names_.try_emplace(old);
    if (!fresh) return it->second;
    const size_t number = new_names_.size() - 1;
    if (number % 3 == 0 && number / 3 < ours->size()) {
      it->second = (*ours)[number / 3];
    } else {
      it->second = number % 3 == 2 ? absl::StrCat("/v\xC3\xA9 ", number - 1, "/momentum")
                                   : absl::StrCat("/v\xC3\xA9 ", number);
    }
    out_.names[it->second] = old;
    return it->second;
  }

  void RenameSymbols(onnx::ValueInfoProto* info) {
    if (!info->type().tensor_type().has_shape()) return;
    for (auto& dim : *info->mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim()) {
      if (dim.has_dim_param()) dim.set_dim_param(absl::StrCat(dim.dim_param(), "_renamed"));
    }
  }

  void Rename() {
    // Names of Onward's feeds are refused for inputs.
    for (auto& info : *graph_.mutable_input()) {
      const std::string name = absl::StrCat("/in.", info.name());
      new_names_[info.name()] = name;
      out_.names[name] = info.name();
    }
    // Initializers have the most to lose by a name.
    for (auto& tensor : *graph_.mutable_initializer()) tensor.set_name(NewName(tensor.name()));
    for (auto& node : *graph_.mutable_node()) {
      for (auto& name : *node.mutable_input()) name = NewName(name);
      for (auto& name : *node.mutable_output()) name = NewName(name);
      Captured(&node, {}, [this](std::string* name) { *name = NewName(*name); });
      node.set_name(absl::StrCat("node ", ++added_));
    }
    for (auto* list : {graph_.mutable_input(), graph_.mutable_output()}) {
      for (auto& info : *list) {
        info.set_name(NewName(info.name()));
        RenameSymbols(&info);
      }
    }
    graph_.clear_quantization_annotation();
  }

  onnx::ModelProto model_;
  onnx::GraphProto& graph_;
  DisguiseOptions options_;
  uint64_t state_;
  int added_ = 0;
  absl::flat_hash_map<std::string, Type> types_;
  absl::flat_hash_map<std::string, std::string> new_names_;
  Disguised out_;
};

}  // namespace

absl::StatusOr<Disguised> Disguise(const OnnxModel& model, const DisguiseOptions& options) {
  onnx::ModelProto whole = model.original();
  absl::flat_hash_map<std::string, std::shared_ptr<const Tensor>> tensors;
  for (const auto& [name, tensor] : model.initializers()) tensors[name] = tensor;
  for (auto& proto : *whole.mutable_graph()->mutable_initializer()) {
    const auto it = tensors.find(proto.name());
    if (it == tensors.end()) continue;
    const std::string name = proto.name();
    proto.Clear();
    TensorToProto(*it->second, name, &proto);
  }
  return Tailor(std::move(whole), options).Run();
}

}  // namespace onward
