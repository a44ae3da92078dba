#include "graph/onnx/export.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/io/zero_copy_stream_impl.h"
#include "graph/base/atomic_file.h"
#include "graph/base/errors.h"
#include "graph/base/status_macros.h"
#include "graph/onnx/canonical.h"
#include "graph/onnx/inference_form.h"
#include "graph/onnx/proto.h"
#include "onnx/inliner/inliner.h"

namespace onward {
namespace {

using SharedTensor = std::shared_ptr<const Tensor>;

// Since IR version 4, an initializer need not be an input too.
constexpr int kInitializersAreNoInputs = 4;
// Data outside begins at multiples of this, so that it can be mapped.
constexpr int64_t kSmallAlignment = 64;
constexpr int64_t kPage = 4096;
constexpr int64_t kLargeTensor = int64_t{1} << 20;

bool SameBytes(const Tensor& a, const Tensor& b) {
  return a.type() == b.type() &&
         (a.bytes() == 0 || std::memcmp(a.data(), b.data(), a.bytes()) == 0);
}

// All names of values in a graph and its subgraphs.
void AddNames(const onnx::GraphProto& graph, absl::flat_hash_set<std::string>* names) {
  for (const auto& v : graph.input()) names->insert(v.name());
  for (const auto& t : graph.initializer()) names->insert(t.name());
  for (const auto& node : graph.node()) {
    names->insert(node.input().begin(), node.input().end());
    names->insert(node.output().begin(), node.output().end());
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g()) AddNames(attribute.g(), names);
      for (const auto& g : attribute.graphs()) AddNames(g, names);
    }
  }
}

// Does a tensor in a node refer to a file? Such files are the reader's only for
// initializers of the graph.
bool HasDataOutside(const onnx::GraphProto& graph, bool with_initializers) {
  for (const auto& t : graph.initializer()) {
    if (with_initializers && t.data_location() == onnx::TensorProto::EXTERNAL) return true;
  }
  for (const auto& node : graph.node()) {
    for (const auto& attribute : node.attribute()) {
      if (attribute.t().data_location() == onnx::TensorProto::EXTERNAL) return true;
      if (HasDataOutside(attribute.g(), true)) return true;
      for (const auto& g : attribute.graphs()) {
        if (HasDataOutside(g, true)) return true;
      }
    }
  }
  return false;
}

// The edits of one export, on a copy of the file without its data.
class Edits {
 public:
  explicit Edits(const OnnxModel& model) : proto_(model.original()) {
    for (const auto& [name, tensor] : model.initializers()) original_[name] = tensor;
    Index();
    for (const auto& t : proto_.graph().initializer()) {
      if (RefersToData(t)) data_[t.name()] = original_.at(t.name());
    }
  }

  absl::Status Apply(const ExportChanges& changes) {
    RETURN_IF_ERROR(InlineWhereNeeded(changes));
    const absl::flat_hash_set<std::string> read = NamesRead(proto_.graph());
    RETURN_IF_ERROR(SetValues(changes));
    for (const auto& [name, tensor] : changes.restored) RETURN_IF_ERROR(Restore(name, tensor));
    RETURN_IF_ERROR(Split(changes.splits));
    for (const RestoredBias& bias : changes.biases) RETURN_IF_ERROR(AddBias(bias));
    for (const auto& [key, value] : changes.metadata) SetMetadata(key, value);
    if (changes.inference_form) ToInferenceForm(&proto_, &lines_);
    LeaveOutUnread(read);
    return absl::OkStatus();
  }

  onnx::ModelProto& proto() { return proto_; }
  // Data of the initializers that refer to it.
  const absl::flat_hash_map<std::string, SharedTensor>& data() const { return data_; }
  std::vector<std::string> TakeLines() { return std::move(lines_); }

 private:
  onnx::GraphProto& graph() { return *proto_.mutable_graph(); }

  void Index() {
    names_.clear();
    AddNames(proto_.graph(), &names_);
  }

  static onnx::NodeProto* MakerIn(onnx::GraphProto* graph, const std::string& name) {
    for (onnx::NodeProto& node : *graph->mutable_node()) {
      for (const std::string& output : node.output()) {
        if (output == name) return &node;
      }
      for (auto& attribute : *node.mutable_attribute()) {
        onnx::NodeProto* inner = attribute.has_g() ? MakerIn(attribute.mutable_g(), name) : nullptr;
        for (int i = 0; inner == nullptr && i < attribute.graphs_size(); ++i) {
          inner = MakerIn(attribute.mutable_graphs(i), name);
        }
        if (inner != nullptr) return inner;
      }
    }
    return nullptr;
  }
  onnx::NodeProto* Maker(const std::string& name) { return MakerIn(&graph(), name); }

  onnx::TensorProto* Initializer(const std::string& name) {
    for (onnx::TensorProto& t : *graph().mutable_initializer()) {
      if (t.name() == name) return &t;
    }
    return nullptr;
  }

  absl::Status InlineWhereNeeded(const ExportChanges& changes) {
    if (proto_.functions_size() == 0) return absl::OkStatus();
    bool needed = false;
    for (const auto& [name, tensor] : changes.values) {
      needed = needed || (Initializer(name) == nullptr && Maker(name) == nullptr);
    }
    for (const auto& [name, tensor] : changes.restored) needed = needed || Maker(name) == nullptr;
    for (const auto& split : changes.splits) {
      // The call of a function may have the result's name: what reads the initializer
      // there lies in the function.
      needed = needed || IsCall(Maker(split.node_output));
    }
    for (const auto& bias : changes.biases) needed = needed || IsCall(Maker(bias.node_output));
    if (!needed) return absl::OkStatus();
    RETURN_IF_ERROR(
        CatchOnnx([&] { onnx::inliner::InlineLocalFunctions(proto_, /*convert_version=*/true); }));
    Index();
    lines_.push_back("functions are written out in place: a change lies in one");
    return absl::OkStatus();
  }

  bool IsCall(const onnx::NodeProto* node) const {
    if (node == nullptr) return true;
    for (const auto& function : proto_.functions()) {
      if (function.name() == node->op_type() && function.domain() == node->domain()) return true;
    }
    return false;
  }

  absl::Status SetValues(const ExportChanges& changes) {
    int changed = 0;
    for (const auto& [name, tensor] : changes.values) {
      if (onnx::TensorProto* t = Initializer(name)) {
        const Tensor& before = *original_.at(name);
        if (before.type() != tensor->type()) {
          return absl::InvalidArgumentError(
              absl::StrCat("export: initializer '", name, "' is ", ToString(before.type()),
                           ", its new value ", ToString(tensor->type())));
        }
        if (SameBytes(before, *tensor)) continue;
        ReferToData(t);
        data_[name] = tensor;
      } else {
        ASSIGN_OR_RETURN(const bool differs, SetConstant(name, *tensor));
        if (!differs) continue;
      }
      ++changed;
    }
    lines_.push_back(absl::StrCat(changed, " of ", changes.values.size(),
                                  " trained initializers have new values"));
    return absl::OkStatus();
  }

  // A weight that is the result of a Constant node.
  absl::StatusOr<bool> SetConstant(const std::string& name, const Tensor& tensor) {
    onnx::NodeProto* node = Maker(name);
    if (node == nullptr || !IsOnnx(*node, "Constant") || node->attribute_size() != 1 ||
        node->attribute(0).name() != "value") {
      return absl::InvalidArgumentError(
          absl::StrCat("export: the model has no initializer or constant '", name, "'"));
    }
    onnx::TensorProto* t = node->mutable_attribute(0)->mutable_t();
    ASSIGN_OR_RETURN(const Tensor before, TensorFromProto(*t));
    if (before.type() != tensor.type()) {
      return absl::InvalidArgumentError(absl::StrCat("export: constant '", name, "' is ",
                                                     ToString(before.type()), ", its new value ",
                                                     ToString(tensor.type())));
    }
    if (SameBytes(before, tensor)) return false;
    ClearData(t);
    t->set_raw_data(tensor.data(), tensor.bytes());
    return true;
  }

  absl::Status Restore(const std::string& name, const SharedTensor& tensor) {
    auto* nodes = graph().mutable_node();
    for (int i = 0; i < nodes->size(); ++i) {
      const onnx::NodeProto& node = nodes->Get(i);
      if (node.output_size() != 1 || node.output(0) != name) continue;
      for (const std::string& input : node.input()) {
        if (!input.empty() && Initializer(input) == nullptr) {
          return absl::InvalidArgumentError(absl::StrCat("export: '", name, "' is computed from '",
                                                         input,
                                                         "', which is no initializer of the file"));
        }
      }
      lines_.push_back(absl::StrCat("initializer '", name, "' is itself again, not ",
                                    node.op_type(), " of '", absl::StrJoin(node.input(), "', '"),
                                    "'"));
      nodes->DeleteSubrange(i, 1);
      AddInitializer(name, tensor);
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat("export: no node makes '", name, "'"));
  }

  // The type of an initializer or constant, also by the name of an Identity of it.
  std::optional<TensorType> StoredType(std::string name) {
    for (int steps = 0; steps < 100; ++steps) {
      if (Initializer(name) != nullptr) return original_.at(name)->type();
      const onnx::NodeProto* node = Maker(name);
      if (node == nullptr) return std::nullopt;
      if (IsOnnx(*node, "Constant") && node->attribute_size() == 1 && node->attribute(0).has_t()) {
        const onnx::TensorProto& t = node->attribute(0).t();
        return TensorType{static_cast<DataType>(t.data_type()),
                          Dims(t.dims().begin(), t.dims().end()), Layout()};
      }
      if (!IsOnnx(*node, "Identity")) return std::nullopt;
      name = node->input(0);
    }
    return std::nullopt;
  }

  absl::Status Split(const std::vector<SplitInitializer>& splits) {
    absl::flat_hash_map<std::string, std::string> given;  // name asked for, name in the file
    std::vector<std::pair<std::string, std::vector<std::string>>> by_old;
    for (const SplitInitializer& split : splits) {
      onnx::NodeProto* node = Maker(split.node_output);
      const bool has_input =
          node != nullptr && split.input >= 0 && split.input < node->input_size();
      const std::string old = has_input ? node->input(split.input) : std::string();
      const std::optional<TensorType> type = StoredType(old);
      if (!type.has_value()) {
        return absl::InvalidArgumentError(absl::StrCat("export: input ", split.input,
                                                       " of the node of '", split.node_output,
                                                       "' is no initializer of the file"));
      }
      if (*type != split.value->type()) {
        return absl::InvalidArgumentError(absl::StrCat("export: initializer '", old, "' is ",
                                                       ToString(*type), ", '", split.name, "' ",
                                                       ToString(split.value->type())));
      }
      auto [it, fresh] = given.emplace(split.name, "");
      if (fresh) {
        it->second = NewName(split.name);
        AddInitializer(it->second, split.value);
      }
      node->set_input(split.input, it->second);
      if (by_old.empty() || by_old.back().first != old) by_old.push_back({old, {}});
      by_old.back().second.push_back(it->second);
    }
    for (const auto& [old, names] : by_old) {
      lines_.push_back(absl::StrCat("initializer '", old, "', which stood for several, gives ",
                                    absl::StrJoin(names, ", ")));
    }
    return absl::OkStatus();
  }

  absl::Status AddBias(const RestoredBias& bias) {
    auto* nodes = graph().mutable_node();
    int at = 0;
    while (at < nodes->size() &&
           (nodes->Get(at).output_size() == 0 || nodes->Get(at).output(0) != bias.node_output)) {
      ++at;
    }
    if (at == nodes->size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("export: no node makes '", bias.node_output, "'"));
    }
    const std::string name = NewName(bias.name);
    AddInitializer(name, bias.value);
    onnx::NodeProto* node = nodes->Mutable(at);
    if (IsOnnx(*node, "Gemm") || IsOnnx(*node, "Conv") || IsOnnx(*node, "ConvTranspose")) {
      if (node->input_size() > 2 && !node->input(2).empty()) {
        return absl::InvalidArgumentError(
            absl::StrCat("export: the node of '", bias.node_output, "' has a bias"));
      }
      while (node->input_size() < 3) node->add_input("");
      node->set_input(2, name);
    } else {
      node->set_output(0, NewName(absl::StrCat(bias.node_output, "/without_bias")));
      onnx::NodeProto add;
      add.set_op_type("Add");
      add.set_name(NewName(absl::StrCat(bias.node_output, "/bias")));
      add.add_input(node->output(0));
      add.add_input(name);
      add.add_output(bias.node_output);
      *nodes->Add() = std::move(add);
      for (int i = nodes->size() - 1; i > at + 1; --i) nodes->SwapElements(i, i - 1);
    }
    lines_.push_back(absl::StrCat("bias '", name, "' of '", bias.node_output, "' is back"));
    return absl::OkStatus();
  }

  void SetMetadata(const std::string& key, const std::string& value) {
    onnx::StringStringEntryProto* entry = nullptr;
    for (auto& known : *proto_.mutable_metadata_props()) {
      if (known.key() == key) entry = &known;
    }
    if (entry == nullptr) entry = proto_.add_metadata_props();
    if (entry->value() == value && !entry->key().empty()) return;
    entry->set_key(key);
    entry->set_value(value);
    lines_.push_back(absl::StrCat("metadata '", key, "' is set"));
  }

  void AddInitializer(const std::string& name, const SharedTensor& tensor) {
    onnx::TensorProto* t = graph().add_initializer();
    t->set_name(name);
    t->set_data_type(static_cast<int>(tensor->dtype()));
    for (const int64_t d : tensor->dims()) t->add_dims(d);
    ReferToData(t);
    data_[name] = tensor;
    original_[name] = tensor;
    if (proto_.ir_version() >= kInitializersAreNoInputs) return;
    onnx::ValueInfoProto* input = graph().add_input();
    input->set_name(name);
    TypeToProto(tensor->type(), input->mutable_type());
  }

  std::string NewName(const std::string& wish) {
    std::string name = wish;
    for (int i = 2; name.empty() || !names_.insert(name).second; ++i) {
      name = absl::StrCat(wish, "_", i);
    }
    return name;
  }

  // What was read before the changes and is not now.
  void LeaveOutUnread(const absl::flat_hash_set<std::string>& before) {
    absl::flat_hash_set<std::string> now;
    const auto gone = [&](const std::string& name) {
      return before.contains(name) && !now.contains(name);
    };
    int nodes_before = 0;
    do {
      now = NamesRead(proto_.graph());
      nodes_before = graph().node_size();
      google::protobuf::RepeatedPtrField<onnx::NodeProto> nodes;
      for (auto& node : *graph().mutable_node()) {
        const bool stored = IsOnnx(node, "Constant") || IsOnnx(node, "Identity");
        if (!stored || !gone(node.output(0))) *nodes.Add() = std::move(node);
      }
      graph().mutable_node()->Swap(&nodes);
    } while (graph().node_size() < nodes_before);

    absl::flat_hash_set<std::string> initializers;
    google::protobuf::RepeatedPtrField<onnx::TensorProto> kept;
    for (auto& t : *graph().mutable_initializer()) {
      if (!gone(t.name())) {
        *kept.Add() = std::move(t);
        continue;
      }
      initializers.insert(t.name());
      lines_.push_back(absl::StrCat("initializer '", t.name(), "' is read no more and left out"));
    }
    graph().mutable_initializer()->Swap(&kept);
    google::protobuf::RepeatedPtrField<onnx::ValueInfoProto> inputs;
    for (auto& input : *graph().mutable_input()) {
      if (!initializers.contains(input.name())) *inputs.Add() = std::move(input);
    }
    graph().mutable_input()->Swap(&inputs);
  }

  onnx::ModelProto proto_;
  absl::flat_hash_map<std::string, SharedTensor> original_;  // and of added initializers
  absl::flat_hash_map<std::string, SharedTensor> data_;
  absl::flat_hash_set<std::string> names_;
  std::vector<std::string> lines_;
};

bool SameFile(const std::string& a, const std::string& b) {
  struct stat x, y;
  return stat(a.c_str(), &x) == 0 && stat(b.c_str(), &y) == 0 && x.st_dev == y.st_dev &&
         x.st_ino == y.st_ino;
}

absl::Status CheckNotInput(const OnnxModel& model, const std::string& path) {
  std::vector<std::string> inputs = model.external_files();
  inputs.push_back(model.path());
  for (const std::string& input : inputs) {
    if (!SameFile(input, path)) continue;
    return WithExitCode(
        absl::InvalidArgumentError(absl::StrCat(
            path,
            ": the model was read from this file, which is never written to; give another "
            "name for the output")),
        ExitCode::kUsage);
  }
  return absl::OkStatus();
}

// Writes the data of all initializers that refer to it, and where it lies.
absl::Status WriteData(const absl::flat_hash_map<std::string, SharedTensor>& data,
                       const std::string& location, AtomicFile* file, onnx::GraphProto* graph) {
  const std::string zeros(kPage, '\0');
  int64_t end = 0;
  for (onnx::TensorProto& t : *graph->mutable_initializer()) {
    if (!RefersToData(t)) continue;
    const Tensor& tensor = *data.at(t.name());
    const int64_t alignment = tensor.bytes() < kLargeTensor ? kSmallAlignment : kPage;
    const int64_t padding = (alignment - end % alignment) % alignment;
    RETURN_IF_ERROR(file->Append(zeros.data(), padding));
    RETURN_IF_ERROR(file->Append(tensor.data(), tensor.bytes()));
    const int64_t offset = end + padding;
    end = offset + tensor.bytes();
    t.clear_external_data();
    const std::pair<const char*, std::string> entries[] = {
        {"location", location},
        {"offset", absl::StrCat(offset)},
        {"length", absl::StrCat(tensor.bytes())}};
    for (const auto& [key, value] : entries) {
      onnx::StringStringEntryProto* entry = t.add_external_data();
      entry->set_key(key);
      entry->set_value(value);
    }
  }
  return absl::OkStatus();
}

void EmbedData(const absl::flat_hash_map<std::string, SharedTensor>& data, int64_t at_most,
               onnx::GraphProto* graph) {
  for (onnx::TensorProto& t : *graph->mutable_initializer()) {
    if (!RefersToData(t)) continue;
    const Tensor& tensor = *data.at(t.name());
    if (tensor.bytes() > at_most) continue;
    ClearData(&t);
    t.set_raw_data(tensor.data(), tensor.bytes());
  }
}

absl::Status WriteModel(const onnx::ModelProto& proto, const std::string& path, AtomicFile* file) {
  google::protobuf::io::FileOutputStream stream(file->descriptor());
  if (!proto.SerializeToZeroCopyStream(&stream) || !stream.Flush()) {
    return OutputError(path, "written", stream.GetErrno() == 0 ? EIO : stream.GetErrno());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ExportModel(const OnnxModel& model,
                                                     const ExportChanges& changes,
                                                     const std::string& path) {
  constexpr int64_t kSmallBytes = 256;  // stay in the model in any case
  const std::string data_path = absl::StrCat(path, ".data");
  RETURN_IF_ERROR(CheckNotInput(model, path));
  Edits edits(model);
  RETURN_IF_ERROR(edits.Apply(changes));
  onnx::ModelProto& proto = edits.proto();
  if (HasDataOutside(proto.graph(), false)) {
    return WithExitCode(absl::UnimplementedError(absl::StrCat(
                            model.path(),
                            ": a constant in a node has its data outside the model: only that of "
                            "initializers may be there")),
                        ExitCode::kUntrainable);
  }
  RETURN_IF_ERROR(Annotate(CheckModel(proto), "export: the changed model"));

  EmbedData(edits.data(), kSmallBytes, proto.mutable_graph());
  int64_t bytes = static_cast<int64_t>(proto.ByteSizeLong());
  bool large = false;
  for (const onnx::TensorProto& t : proto.graph().initializer()) {
    if (!RefersToData(t)) continue;
    large = true;
    bytes += edits.data().at(t.name())->bytes();
  }
  const bool outside = large && (!model.external_files().empty() || bytes >= changes.embed_below);
  ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  std::optional<AtomicFile> data_file;
  if (outside) {
    RETURN_IF_ERROR(CheckNotInput(model, data_path));
    ASSIGN_OR_RETURN(AtomicFile created, AtomicFile::Create(data_path));
    data_file.emplace(std::move(created));
    RETURN_IF_ERROR(WriteData(edits.data(), std::filesystem::path(data_path).filename().string(),
                              &*data_file, proto.mutable_graph()));
  } else {
    EmbedData(edits.data(), INT64_MAX, proto.mutable_graph());
  }
  RETURN_IF_ERROR(WriteModel(proto, path, &file));
  if (data_file.has_value()) RETURN_IF_ERROR(data_file->Commit());
  RETURN_IF_ERROR(file.Commit());
  return edits.TakeLines();
}

}  // namespace onward
