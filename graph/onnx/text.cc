#include "graph/onnx/text.h"

#include "absl/strings/str_cat.h"
#include "graph/base/atomic_file.h"
#include "graph/base/status_macros.h"
#include "graph/onnx/import.h"
#include "graph/onnx/proto.h"
#include "graph/onnx/schema.h"
#include "onnx/defs/parser.h"
#include "onnx/defs/printer.h"

namespace onward {
namespace {

std::vector<ModelInput> InputsOf(const onnx::GraphProto& graph) {
  std::vector<ModelInput> out;
  for (const auto& input : graph.input()) {
    ModelInput in;
    in.name = input.name();
    in.dtype = static_cast<DataType>(input.type().tensor_type().elem_type());
    for (const auto& d : input.type().tensor_type().shape().dim()) {
      in.extents.push_back({d.has_dim_value() ? d.dim_value() : kDynamic, d.dim_param()});
    }
    out.push_back(std::move(in));
  }
  return out;
}

void AddValueInfo(const std::string& name, const TensorType& type, onnx::ValueInfoProto* info) {
  info->set_name(name);
  TypeToProto(type, info->mutable_type());
}

onnx::GraphProto ToProto(const Graph& graph, int64_t most_elements, bool with_devices) {
  onnx::GraphProto out;
  out.set_name(graph.name.empty() ? "step" : graph.name);
  for (const auto& v : graph.inputs()) AddValueInfo(v->name, v->type, out.add_input());
  for (const auto& s : graph.states()) {
    AddValueInfo(s->current->name, s->current->type, out.add_input());
  }
  for (const auto& v : graph.constants()) {
    if (v->constant->elements() <= most_elements) {
      TensorToProto(*v->constant, v->name, out.add_initializer());
    } else {
      AddValueInfo(v->name, v->type, out.add_input());
    }
  }
  for (const Node* n : graph.nodes()) {
    onnx::NodeProto* node = out.add_node();
    node->set_name(n->name);
    node->set_op_type(n->op().name);
    node->set_domain(n->op().domain);
    for (int i = 0; i < n->num_inputs(); ++i) {
      node->add_input(n->input(i) == nullptr ? "" : n->input(i)->name);
    }
    for (int i = 0; i < n->num_outputs(); ++i) {
      node->add_output(n->output(i) == nullptr ? "" : n->output(i)->name);
      if (n->output(i) != nullptr) {
        AddValueInfo(n->output(i)->name, n->output(i)->type, out.add_value_info());
      }
    }
    for (const auto& [name, value] : n->attributes.list()) {
      AttributeToProto(name, value, node->add_attribute());
    }
    if (with_devices) AttributeToProto("__device", ToString(n->device), node->add_attribute());
    for (const auto& [name, body] : n->bodies) {
      auto* a = node->add_attribute();
      a->set_name(name);
      a->set_type(onnx::AttributeProto::GRAPH);
      *a->mutable_g() = ToProto(*body, most_elements, with_devices);
    }
  }
  // An output that is an input, a state or an output already gets a node of its own.
  absl::flat_hash_map<std::string, int> taken;
  const auto add_output = [&](const std::string& name, const Value* value) {
    if (name != value->name || taken[name]++ > 0) {
      onnx::NodeProto* node = out.add_node();
      node->set_op_type("Identity");
      node->add_input(value->name);
      node->add_output(name);
    }
    AddValueInfo(name, value->type, out.add_output());
  };
  for (const auto& o : graph.outputs()) add_output(o.name, o.value);
  for (const auto& s : graph.states()) {
    if (s->next != nullptr && s->next != s->current) {
      add_output(absl::StrCat(s->current->name, "/next"), s->next);
    }
  }
  return out;
}

onnx::ModelProto ToModel(const Graph& graph, int64_t most_elements, bool with_devices) {
  onnx::ModelProto model;
  model.set_ir_version(10);
  model.set_producer_name("onward");
  auto* import = model.add_opset_import();
  import->set_domain("");
  import->set_version(kCanonicalOpset);
  import = model.add_opset_import();
  import->set_domain(kOnward);
  import->set_version(1);
  import = model.add_opset_import();
  import->set_domain("ai.onnx.ml");
  import->set_version(5);
  *model.mutable_graph() = ToProto(graph, most_elements, with_devices);
  return model;
}

absl::StatusOr<onnx::ModelProto> ParseModel(const std::string& text) {
  onnx::ModelProto model;
  std::string problem;
  RETURN_IF_ERROR(CatchOnnx([&] {
    const auto status = onnx::OnnxParser::Parse(model, text.c_str());
    if (!status.IsOK()) problem = status.ErrorMessage();
  }));
  if (!problem.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("ONNX text: ", OneLine(problem), ": ", text));
  }
  return model;
}

bool HasDevices(const Graph& graph) {
  for (const Node* n : graph.nodes()) {
    if (n->device != Device{}) return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Graph>> ParseGraph(const std::string& text,
                                                  const OperatorSet& operators,
                                                  Evaluator* evaluator) {
  const std::string whole =
      absl::StrCat("<ir_version: 10, opset_import: [\"\" : ", kCanonicalOpset,
                   ", \"onward\" : 1, \"com.microsoft\" : 1, \"ai.onnx.ml\" : 5, "
                   "\"ai.onnx.preview.training\" : 1]>\n",
                   text);
  ASSIGN_OR_RETURN(const onnx::ModelProto model, ParseModel(whole));
  absl::StatusOr<std::unique_ptr<Graph>> graph = BuildGraph(
      model.graph(), InputsOf(model.graph()), {}, operators, evaluator, Binding{}, kCanonicalOpset);
  return graph;
}

absl::StatusOr<std::string> ModelFromText(const std::string& text) {
  ASSIGN_OR_RETURN(const onnx::ModelProto model, ParseModel(text));
  return model.SerializeAsString();
}

std::string ToText(const Graph& graph) {
  const onnx::ModelProto model = ToModel(graph, 16, HasDevices(graph));
  return onnx::ProtoToString(model.graph());
}

absl::Status WriteOnnx(const Graph& graph, const std::string& path) {
  return WriteFileAtomically(path, ToModel(graph, 4096, HasDevices(graph)).SerializeAsString());
}

}  // namespace onward
