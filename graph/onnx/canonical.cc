#include "graph/onnx/canonical.h"

#include <algorithm>
#include <climits>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "graph/base/status_macros.h"
#include "graph/onnx/proto.h"
#include "graph/onnx/schema.h"
#include "graph/onnx/upgrade.h"
#include "onnx/checker.h"
#include "onnx/defs/schema.h"
#include "onnx/inliner/inliner.h"
#include "onnx/version_converter/convert.h"

namespace onward {
namespace {

constexpr int kCanonicalIr = 10;

bool IsOwn(const std::string& domain) { return domain.empty() || domain == "ai.onnx"; }

// Initializers are no inputs: since IR version 4 they need not be, and the
// converter goes by the version that it is told.
void ForgetInitializerInputs(onnx::ModelProto* model) {
  absl::flat_hash_set<std::string> names;
  for (const auto& t : model->graph().initializer()) names.insert(t.name());
  google::protobuf::RepeatedPtrField<onnx::ValueInfoProto> inputs;
  for (auto& input : *model->mutable_graph()->mutable_input()) {
    if (!names.contains(input.name())) *inputs.Add() = std::move(input);
  }
  model->mutable_graph()->mutable_input()->Swap(&inputs);
  if (model->ir_version() < kCanonicalIr) model->set_ir_version(kCanonicalIr);
}

// An operator that the file's opset does not have is told with advice: the checker only
// names it. Functions of the file may be called like one.
class OperatorCheck {
 public:
  OperatorCheck(const onnx::ModelProto& model, int opset) : model_(model), opset_(opset) {
    for (const onnx::FunctionProto& f : model.functions()) {
      if (IsOwn(f.domain())) functions_.insert(f.name());
    }
  }

  absl::Status Check() const {
    RETURN_IF_ERROR(Check(model_.graph().node(), opset_));
    for (const onnx::FunctionProto& f : model_.functions()) {
      int opset = opset_;
      for (const auto& import : f.opset_import()) {
        if (IsOwn(import.domain())) opset = static_cast<int>(import.version());
      }
      RETURN_IF_ERROR(Annotate(Check(f.node(), opset), absl::StrCat("function '", f.name(), "'")));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Check(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes,
                     int opset) const {
    for (const onnx::NodeProto& node : nodes) {
      for (const auto& attribute : node.attribute()) {
        if (attribute.has_g()) RETURN_IF_ERROR(Check(attribute.g().node(), opset));
        for (const auto& g : attribute.graphs()) RETURN_IF_ERROR(Check(g.node(), opset));
      }
      RETURN_IF_ERROR(Check(node, opset));
    }
    return absl::OkStatus();
  }

  absl::Status Check(const onnx::NodeProto& node, int opset) const {
    const std::string& op = node.op_type();
    if (!IsOwn(node.domain()) || functions_.contains(op)) return absl::OkStatus();
    if (onnx::OpSchemaRegistry::Schema(op, opset, "") != nullptr) return absl::OkStatus();
    const onnx::OpSchema* newest = onnx::OpSchemaRegistry::Schema(op, INT_MAX, "");
    if (newest == nullptr) {
      return Annotate(NoSuchOperator("", op), absl::StrCat("node '", node.name(), "'"));
    }
    return absl::InvalidArgumentError(
        absl::StrCat("node '", node.name(), "': ", op, " is no operator of opset ", opset,
                     ", which the file says it is of; export again with a newer opset"));
  }

  const onnx::ModelProto& model_;
  int opset_;
  absl::flat_hash_set<std::string> functions_;  // of ONNX's own domain
};

// What the checker leaves out: names used twice, and nodes that read what comes
// later, are its business; that every name is read after it is made is BuildGraph's.
absl::Status Check(onnx::ModelProto light) {
  // The checker wants to open external data: the data is in memory already.
  for (onnx::TensorProto& t : *light.mutable_graph()->mutable_initializer()) {
    if (t.data_location() != onnx::TensorProto::EXTERNAL) continue;
    t.clear_data_location();
    t.clear_external_data();
    t.clear_dims();
    t.add_dims(0);
    t.set_raw_data("");
  }
  return CatchOnnx([&] { onnx::checker::check_model(light); });
}

// What inlining would make of the model, before it is done: functions that call
// functions can grow without bound. The checker has refused recursive ones.
class Growth {
 public:
  explicit Growth(const onnx::ModelProto& model) : file_bytes_(model.ByteSizeLong()) {
    for (const onnx::FunctionProto& f : model.functions()) {
      functions_[absl::StrCat(f.domain(), "\n", f.name(), "\n", f.overload())] = &f;
    }
  }

  absl::Status Check(const onnx::ModelProto& model) {
    const Size whole = Of(model.graph().node());
    if (whole.nodes > kMostNodes || whole.bytes > 4.0 * file_bytes_ + kMostBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("inlining functions: they grow to ", whole.nodes, " nodes of ", whole.bytes,
                       " bytes, expected at most ", kMostNodes, " nodes"));
    }
    return absl::OkStatus();
  }

 private:
  struct Size {
    double nodes = 0;  // as doubles: forty doublings must not overflow
    double bytes = 0;
  };
  using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

  static constexpr double kMostNodes = 2e5;
  static constexpr double kMostBytes = 256e6;

  Size Of(const Nodes& nodes) {
    Size sum;
    for (const onnx::NodeProto& node : nodes) {
      Add(OfCall(node), &sum);
      for (const auto& attribute : node.attribute()) {
        if (attribute.has_g()) Add(Of(attribute.g().node()), &sum);
        for (const auto& g : attribute.graphs()) Add(Of(g.node()), &sum);
      }
    }
    return sum;
  }

  Size OfCall(const onnx::NodeProto& node) {
    const std::string id = absl::StrCat(node.domain(), "\n", node.op_type(), "\n", node.overload());
    const auto function = functions_.find(id);
    if (function == functions_.end()) return {1, static_cast<double>(node.ByteSizeLong())};
    const auto known = sizes_.find(id);
    if (known != sizes_.end()) return known->second;
    Size size = Of(function->second->node());
    ++size.nodes;  // the call: also one of an empty function is work
    sizes_[id] = size;
    return size;
  }

  static void Add(const Size& more, Size* sum) {
    sum->nodes += more.nodes;
    sum->bytes += more.bytes;
  }

  double file_bytes_;
  absl::flat_hash_map<std::string, const onnx::FunctionProto*> functions_;
  absl::flat_hash_map<std::string, Size> sizes_;
};

// onnxruntime keeps this one in ONNX's own domain, which has no such operator.
constexpr char kMisplaced[] = "SimplifiedLayerNormalization";
constexpr char kItsDomain[] = "com.microsoft";

// Gives the nodes that are misplaced their domain; were there any?
bool PutInDomain(google::protobuf::RepeatedPtrField<onnx::NodeProto>* nodes) {
  bool found = false;
  for (onnx::NodeProto& node : *nodes) {
    for (onnx::AttributeProto& a : *node.mutable_attribute()) {
      if (a.has_g()) found |= PutInDomain(a.mutable_g()->mutable_node());
      for (onnx::GraphProto& g : *a.mutable_graphs()) found |= PutInDomain(g.mutable_node());
    }
    if (!IsOwn(node.domain()) || node.op_type() != kMisplaced) continue;
    node.set_domain(kItsDomain);
    found = true;
  }
  return found;
}

template <typename Proto>
void ImportItsDomain(Proto* proto) {
  for (const auto& import : proto->opset_import()) {
    if (import.domain() == kItsDomain) return;
  }
  auto* import = proto->add_opset_import();
  import->set_domain(kItsDomain);
  import->set_version(1);
}

void PutInDomain(onnx::ModelProto* model) {
  for (const onnx::FunctionProto& f : model->functions()) {
    if (f.name() == kMisplaced && f.domain() != kItsDomain) return;  // the file's own
  }
  if (PutInDomain(model->mutable_graph()->mutable_node())) ImportItsDomain(model);
  for (onnx::FunctionProto& f : *model->mutable_functions()) {
    if (!PutInDomain(f.mutable_node())) continue;
    ImportItsDomain(&f);
    ImportItsDomain(model);
  }
}

// Of a model of an opset below the oldest that is converted: whether each of its operators is
// still the same in that one.
bool Unchanged(const onnx::GraphProto& graph, int opset) {
  for (const onnx::NodeProto& node : graph.node()) {
    if (!IsOwn(node.domain())) continue;
    const onnx::OpSchema* then = onnx::OpSchemaRegistry::Schema(node.op_type(), opset, "");
    const onnx::OpSchema* later = onnx::OpSchemaRegistry::Schema(node.op_type(), kOldestOpset, "");
    if (then != later) return false;
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g() && !Unchanged(attribute.g(), opset)) return false;
    }
  }
  return true;
}

// Brings old and unusual ways of saying things to the usual one. The opset of the model.
int Normalize(onnx::ModelProto* model) {
  PutInDomain(model);
  onnx::OperatorSetIdProto* own = nullptr;
  for (auto& import : *model->mutable_opset_import()) {
    if (import.domain() == "ai.onnx") import.clear_domain();
    if (import.domain().empty()) own = &import;
  }
  if (own == nullptr) {
    own = model->add_opset_import();
    own->set_version(kCanonicalOpset);
  }
  const int opset = static_cast<int>(own->version());
  if (opset < kOldestOpset && Unchanged(model->graph(), opset)) own->set_version(kOldestOpset);
  ForgetInitializerInputs(model);
  return static_cast<int>(own->version());
}

// Operators that are functions of ONNX without a kernel anywhere: their bodies take their
// place, with the graphs that they are given as attributes.
absl::Status InlinePreviewFunctions(onnx::ModelProto* model) {
  constexpr char kDomain[] = "ai.onnx.preview";
  const bool used = std::any_of(model->opset_import().begin(), model->opset_import().end(),
                                [&](const auto& import) { return import.domain() == kDomain; });
  if (!used) return absl::OkStatus();
  const auto functions =
      onnx::inliner::FunctionIdSet::Create({onnx::inliner::FunctionId{kDomain, "FlexAttention"}});
  return Annotate(CatchOnnx([&] {
                    onnx::inliner::InlineSelectedFunctions(*model, *functions,
                                                           onnx::OpSchemaRegistry::Instance());
                  }),
                  "inlining functions");
}

}  // namespace

absl::Status CheckModel(onnx::ModelProto model) {
  Normalize(&model);
  return Check(std::move(model));
}

absl::StatusOr<std::unique_ptr<onnx::ModelProto>> ToCanonicalOpset(const onnx::ModelProto& model) {
  auto out = std::make_unique<onnx::ModelProto>(model);
  const int opset = Normalize(out.get());
  if (opset < kOldestOpset) {
    return absl::InvalidArgumentError(absl::StrCat("is of opset ", opset, ", expected ",
                                                   kOldestOpset, " to ", kCanonicalOpset,
                                                   ", and its operators have changed since"));
  }
  RETURN_IF_ERROR(OperatorCheck(*out, opset).Check());
  RETURN_IF_ERROR(Check(*out));
  if (out->functions_size() > 0) {
    RETURN_IF_ERROR(Growth(*out).Check(*out));
    RETURN_IF_ERROR(Annotate(
        CatchOnnx([&] { onnx::inliner::InlineLocalFunctions(*out, /*convert_version=*/true); }),
        "inlining functions"));
  }
  RETURN_IF_ERROR(InlinePreviewFunctions(out.get()));
  if (opset == kCanonicalOpset) return out;
  Upgrade upgrade(opset);
  RETURN_IF_ERROR(upgrade.Before(out->mutable_graph()));
  RETURN_IF_ERROR(Annotate(
      CatchOnnx([&] { *out = onnx::version_conversion::ConvertVersion(*out, kCanonicalOpset); }),
      absl::StrCat("converting opset ", opset, " to ", kCanonicalOpset)));
  upgrade.After(out->mutable_graph());
  return out;
}

}  // namespace onward
