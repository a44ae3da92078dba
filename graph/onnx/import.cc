#include "graph/onnx/import.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "google/protobuf/stubs/logging.h"
#include "graph/base/errors.h"
#include "graph/base/status_macros.h"
#include "graph/ir/builder.h"
#include "graph/onnx/canonical.h"
#include "graph/onnx/graph_reader.h"
#include "graph/onnx/proto.h"
#include "graph/onnx/read_file.h"
#include "graph/onnx/schema.h"
#include "onnx/checker.h"

namespace onward {
namespace {

// Initializers up to this size stay in the protos: converters read axes and
// shapes from them.
constexpr int64_t kSmallBytes = 256;

absl::Status Untrainable(absl::Status status) {
  return WithExitCode(std::move(status), ExitCode::kUntrainable);
}

std::vector<Extent> ExtentsOf(const onnx::TensorShapeProto& shape) {
  std::vector<Extent> extents;
  for (const auto& dim : shape.dim()) {
    Extent e;
    // Some exporters write an open extent as 0 or -1.
    if (dim.has_dim_value() && dim.dim_value() > 0) e.size = dim.dim_value();
    if (dim.has_dim_param()) e.symbol = dim.dim_param();
    extents.push_back(std::move(e));
  }
  return extents;
}

}  // namespace

OnnxModel::OnnxModel() = default;
OnnxModel::~OnnxModel() = default;

absl::StatusOr<std::unique_ptr<OnnxModel>> OnnxModel::Load(const std::string& path) {
  std::unique_ptr<OnnxModel> model(new OnnxModel);
  model->path_ = path;
  absl::StatusOr<ModelFile> file = ReadModelFile(path);
  if (!file.ok()) return Untrainable(Annotate(file.status(), path));
  model->original_ = std::move(file->proto);
  RETURN_IF_ERROR(Untrainable(Annotate(model->Prepare(file->raw_data), path)));
  return model;
}

absl::StatusOr<std::unique_ptr<OnnxModel>> OnnxModel::FromBytes(const std::string& bytes,
                                                                const std::string& name) {
  std::unique_ptr<OnnxModel> model(new OnnxModel);
  model->path_ = name;
  model->original_ = std::make_unique<onnx::ModelProto>();
  google::protobuf::SetLogHandler(nullptr);
  if (bytes.empty() || !model->original_->ParseFromString(bytes)) {
    return Untrainable(absl::InvalidArgumentError(absl::StrCat(name, ": is not an ONNX model")));
  }
  RETURN_IF_ERROR(Untrainable(Annotate(model->Prepare({}), name)));
  return model;
}

absl::Status OnnxModel::Prepare(const RawPlaces& raw_data) {
  if (!original_->has_graph()) return absl::InvalidArgumentError("holds no graph");
  RETURN_IF_ERROR(TakeOpset());
  producer_ = absl::StrCat(original_->producer_name(), " ", original_->producer_version());
  RETURN_IF_ERROR(TakeInitializers(raw_data));
  RETURN_IF_ERROR(TakeInputs());
  TakeOutputs();
  if (outputs_.empty()) return absl::InvalidArgumentError("has no output");
  return Canonicalize();
}

absl::Status OnnxModel::TakeOpset() {
  bool found = false;
  for (const auto& import : original_->opset_import()) {
    if (import.domain() == kOnward) {
      return absl::InvalidArgumentError(
          "uses operators of the domain 'onward', which exist only inside a plan: a dump or plan "
          "cannot be trained, its model can");
    }
    if (!import.domain().empty() && import.domain() != "ai.onnx") continue;
    // Below the oldest, what has not changed until then: ToCanonicalOpset looks.
    if (import.version() < 1 || import.version() > kCanonicalOpset) {
      return absl::InvalidArgumentError(absl::StrCat(
          "is of opset ", import.version(), ", expected ", kOldestOpset, " to ", kCanonicalOpset));
    }
    if (found) return absl::InvalidArgumentError("names its opset twice");
    found = true;
    opset_ = static_cast<int>(import.version());
  }
  if (found) return absl::OkStatus();
  if (original_->opset_import_size() == 0) {
    return absl::InvalidArgumentError("does not say of which opset it is");
  }
  opset_ = kCanonicalOpset;  // it uses operators of other domains alone
  return absl::OkStatus();
}

absl::Status OnnxModel::TakeInitializers(const RawPlaces& raw_data) {
  if (original_->graph().sparse_initializer_size() > 0) {
    return absl::UnimplementedError("sparse initializers are not supported");
  }
  for (onnx::TensorProto& t : *original_->mutable_graph()->mutable_initializer()) {
    const std::string where = absl::StrCat("initializer '", t.name(), "'");
    const auto raw = raw_data.find(static_cast<int>(initializers_.size()));
    absl::StatusOr<Tensor> tensor = raw != raw_data.end() ? ReadRawData(t, path_, raw->second)
                                    : t.data_location() == onnx::TensorProto::EXTERNAL
                                        ? ReadExternal(t, path_, &external_files_)
                                        : TensorFromProto(t);
    if (!tensor.ok()) return Annotate(tensor.status(), where);
    auto shared = std::make_shared<const Tensor>(*std::move(tensor));
    if (!by_name_.emplace(t.name(), shared).second) {
      return absl::InvalidArgumentError(absl::StrCat(where, " is there twice"));
    }
    initializers_.emplace_back(t.name(), shared);
    const bool external = t.data_location() == onnx::TensorProto::EXTERNAL;
    if (shared->bytes() > kSmallBytes) {
      // The data now lives in the tensor alone; the proto keeps a reference, which
      // ONNX's converter carries along.
      ReferToData(&t);
    } else if (external) {
      ClearData(&t);
      SetData(*shared, &t);
    }
  }
  return absl::OkStatus();
}

absl::Status OnnxModel::TakeInputs() {
  for (const onnx::ValueInfoProto& input : original_->graph().input()) {
    // Older files list every initializer as an input too.
    if (by_name_.contains(input.name())) continue;
    ModelInput out;
    out.name = input.name();
    if (!input.type().has_tensor_type()) {
      out.is_tensor = false;
      inputs_.push_back(std::move(out));
      continue;
    }
    const auto& tensor = input.type().tensor_type();
    out.dtype = static_cast<DataType>(tensor.elem_type());
    if (SizeOf(out.dtype) == 0) {
      return absl::UnimplementedError(
          absl::StrCat("input '", input.name(), "' has data type ", tensor.elem_type()));
    }
    out.any_rank = !tensor.has_shape();
    out.extents = ExtentsOf(tensor.shape());
    inputs_.push_back(std::move(out));
  }
  return absl::OkStatus();
}

void OnnxModel::TakeOutputs() {
  for (const onnx::ValueInfoProto& output : original_->graph().output()) {
    ModelOutput out;
    out.name = output.name();
    if (output.type().has_tensor_type()) {
      const auto& tensor = output.type().tensor_type();
      out.dtype = static_cast<DataType>(tensor.elem_type());
      out.extents = ExtentsOf(tensor.shape());
    }
    outputs_.push_back(std::move(out));
  }
}

absl::Status OnnxModel::Canonicalize() {
  ASSIGN_OR_RETURN(canonical_, ToCanonicalOpset(*original_));
  return absl::OkStatus();
}

namespace {

Tensor Widened(const Tensor& tensor) {
  Tensor wide(DataType::kFloat64, tensor.dims());
  double* out = static_cast<double*>(wide.data());
  for (int64_t i = 0; i < tensor.elements(); ++i) out[i] = tensor.At(i);
  return wide;
}

void SetTensor(const Tensor& tensor, absl::string_view name, onnx::AttributeProto* a) {
  a->Clear();
  a->set_name(std::string(name));
  a->set_type(onnx::AttributeProto::TENSOR);
  TensorToProto(tensor, "", a->mutable_t());
}

// Values that stay float32: the scales of Resize, which are never of another type, and
// what they are made of.
absl::flat_hash_set<std::string> Float32Values(const onnx::GraphProto& graph) {
  absl::flat_hash_set<std::string> stay;
  for (int n = graph.node_size() - 1; n >= 0; --n) {
    const onnx::NodeProto& node = graph.node(n);
    const bool whole = node.output_size() > 0 && stay.contains(node.output(0));
    for (int i = 0; i < node.input_size(); ++i) {
      if (whole || (i == 2 && node.op_type() == "Resize")) stay.insert(node.input(i));
    }
  }
  stay.erase("");
  return stay;
}

absl::Status WidenBody(onnx::GraphProto* body);

// Data types that a node names: of a Cast, of a random operator, of its constants.
absl::Status WidenNode(onnx::NodeProto* node) {
  if (node->op_type() == "ConstantOfShape" && node->attribute_size() == 0) {
    SetTensor(Tensor::Full(DataType::kFloat64, {1}, 0), "value", node->add_attribute());
  }
  for (onnx::AttributeProto& a : *node->mutable_attribute()) {
    if (a.has_g()) RETURN_IF_ERROR(WidenBody(a.mutable_g()));
    if ((a.name() == "to" || a.name() == "dtype") && a.i() == onnx::TensorProto::FLOAT) {
      a.set_i(onnx::TensorProto::DOUBLE);
    }
    if (a.name() == "value_float") {
      SetTensor(Tensor::Scalar<double>(a.f()), "value", &a);
    }
    if (a.name() == "value_floats") {
      const std::vector<double> values(a.floats().begin(), a.floats().end());
      SetTensor(Tensor::Of<double>({a.floats_size()}, values), "value", &a);
    }
    if (a.has_t() && a.t().data_type() == onnx::TensorProto::FLOAT) {
      ASSIGN_OR_RETURN(const Tensor tensor, TensorFromProto(a.t()));
      a.mutable_t()->Clear();
      TensorToProto(Widened(tensor), "", a.mutable_t());
    }
  }
  return absl::OkStatus();
}

absl::Status WidenBody(onnx::GraphProto* body) {
  for (onnx::TensorProto& t : *body->mutable_initializer()) {
    if (t.data_type() != onnx::TensorProto::FLOAT) continue;
    ASSIGN_OR_RETURN(const Tensor tensor, TensorFromProto(t));
    const std::string name = t.name();
    t.Clear();
    TensorToProto(Widened(tensor), name, &t);
  }
  for (onnx::NodeProto& node : *body->mutable_node()) RETURN_IF_ERROR(WidenNode(&node));
  return absl::OkStatus();
}

}  // namespace

absl::Status OnnxModel::WidenToFloat64() {
  for (ModelInput& input : inputs_) {
    if (input.dtype == DataType::kFloat32) input.dtype = DataType::kFloat64;
  }
  const absl::flat_hash_set<std::string> stay = Float32Values(canonical_->graph());
  // Large initializers are found by name, small ones in the proto.
  for (onnx::TensorProto& t : *canonical_->mutable_graph()->mutable_initializer()) {
    if (t.data_type() != onnx::TensorProto::FLOAT || stay.contains(t.name())) continue;
    const auto it = by_name_.find(t.name());
    if (it != by_name_.end()) {
      it->second = std::make_shared<const Tensor>(Widened(*it->second));
      continue;
    }
    ASSIGN_OR_RETURN(const Tensor tensor, TensorFromProto(t));
    const std::string name = t.name();
    t.Clear();
    TensorToProto(Widened(tensor), name, &t);
  }
  for (onnx::NodeProto& node : *canonical_->mutable_graph()->mutable_node()) {
    const bool stays = node.output_size() > 0 && stay.contains(node.output(0));
    if (!stays) RETURN_IF_ERROR(WidenNode(&node));
  }
  return absl::OkStatus();
}

std::string OnnxModel::Metadata(absl::string_view key) const {
  for (const auto& entry : original_->metadata_props()) {
    if (entry.key() == std::string(key)) return entry.value();
  }
  return "";
}

namespace {

// Passes and plans take every extent for a number.
absl::Status CheckExtents(const Graph& graph) {
  for (const Node* node : graph.nodes()) {
    for (int i = 0; i < node->num_outputs(); ++i) {
      const Value* value = node->output(i);
      if (value == nullptr || value->uses().empty()) continue;
      for (int64_t d : value->dims()) {
        if (d != kDynamic) continue;
        return absl::UnimplementedError(absl::StrCat(Describe(*node), ": the shape of '",
                                                     value->name, "', ", ToString(value->dims()),
                                                     ", depends on data: not supported yet"));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Graph>> OnnxModel::Build(const OperatorSet& operators,
                                                        Evaluator* evaluator,
                                                        const Binding& binding) const {
  absl::StatusOr<std::unique_ptr<Graph>> graph =
      BuildGraph(canonical_->graph(), inputs_, by_name_, operators, evaluator, binding, opset_);
  if (!graph.ok()) return Untrainable(Annotate(graph.status(), path_));
  RETURN_IF_ERROR(Untrainable(Annotate(CheckExtents(**graph), path_)));
  return graph;
}

absl::StatusOr<std::vector<ModelValue>> OnnxModel::Evaluate(
    const OperatorSet& operators, Evaluator* evaluator,
    const std::vector<ModelValue>& inputs) const {
  const auto read = [&]() -> absl::StatusOr<std::vector<ModelValue>> {
    const Binding binding;
    GraphReader reader(operators, evaluator, binding, opset_, Reading::kKnown);
    RETURN_IF_ERROR(reader.KnownInputs(inputs_, inputs));
    RETURN_IF_ERROR(reader.Initializers(canonical_->graph(), by_name_));
    RETURN_IF_ERROR(reader.Nodes(canonical_->graph()));
    return reader.KnownOutputs(canonical_->graph());
  };
  absl::StatusOr<std::vector<ModelValue>> values = read();
  if (!values.ok()) return Untrainable(Annotate(values.status(), path_));
  return values;
}

int64_t OnnxModel::FixedBatch(int64_t otherwise) const {
  for (const ModelInput& input : inputs_) {
    if (!input.extents.empty() && input.extents[0].size != kDynamic) return input.extents[0].size;
  }
  return otherwise;
}

absl::flat_hash_map<std::string, std::string> OnnxModel::ModulesOfNodes() const {
  absl::flat_hash_map<std::string, std::string> modules;
  for (const onnx::NodeProto& node : original_->graph().node()) {
    if (node.output_size() == 0) continue;
    for (const auto& entry : node.metadata_props()) {
      if (entry.key() != "pkg.torch.onnx.name_scopes") continue;
      // From the outermost module inwards, then the node: ['', 'fc', 'linear']
      const std::vector<absl::string_view> scopes = absl::StrSplit(entry.value(), "', '");
      if (scopes.size() > 2) modules[node.output(0)] = std::string(scopes[scopes.size() - 2]);
    }
  }
  return modules;
}

std::vector<std::string> OnnxModel::SignatureNames(absl::string_view kind) const {
  const std::string mark = absl::StrCat(": ", kind, " target='");
  std::vector<std::string> names;
  for (const auto& entry : original_->graph().metadata_props()) {
    if (entry.key() != "pkg.torch.export.ExportedProgram.graph_signature") continue;
    // Lines like: p_fc_weight: PARAMETER target='fc.weight'
    for (const absl::string_view line : absl::StrSplit(entry.value(), '\n')) {
      const size_t place = line.find(mark);
      if (place == absl::string_view::npos) continue;
      absl::string_view name = line.substr(line.find('\'') + 1);
      name = name.substr(0, name.find('\''));
      names.emplace_back(name);
    }
  }
  return names;
}

std::string OnnxModel::NodeOutput(int64_t ordinal) const {
  const onnx::GraphProto& graph = canonical_->graph();
  if (ordinal < 0 || ordinal >= graph.node_size()) return "";
  const onnx::NodeProto& node = graph.node(static_cast<int>(ordinal));
  return node.output_size() == 0 ? "" : node.output(0);
}

std::vector<std::pair<std::string, int>> OnnxModel::OperatorCounts() const {
  std::vector<std::pair<std::string, int>> counts;
  absl::flat_hash_map<std::string, size_t> place;
  for (const onnx::NodeProto& node : canonical_->graph().node()) {
    const std::string id = node.domain().empty() || node.domain() == "ai.onnx"
                               ? node.op_type()
                               : absl::StrCat(node.domain(), ".", node.op_type());
    const auto [it, fresh] = place.try_emplace(id, counts.size());
    if (fresh) counts.emplace_back(id, 0);
    ++counts[it->second].second;
  }
  return counts;
}

}  // namespace onward
