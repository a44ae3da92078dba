#include "graph/onnx/canonical.h"

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "graph/base/status_macros.h"
#include "graph/onnx/proto.h"
#include "graph/onnx/schema.h"
#include "onnx/checker.h"
#include "onnx/inliner/inliner.h"
#include "onnx/version_converter/convert.h"

namespace onward {
namespace {

constexpr int kCanonicalIr = 10;

const onnx::AttributeProto* FindAttribute(const onnx::NodeProto& node, absl::string_view name) {
  for (const auto& a : node.attribute()) {
    if (a.name() == std::string(name)) return &a;
  }
  return nullptr;
}

int64_t IntAttribute(const onnx::NodeProto& node, absl::string_view name, int64_t otherwise) {
  const onnx::AttributeProto* a = FindAttribute(node, name);
  return a == nullptr ? otherwise : a->i();
}

// Up to opset 13, BatchNormalization in training form had five outputs and no
// attribute that said so. The converter refuses it: its further outputs are set
// aside before and given back after.
struct TrainingNorm {
  std::string y, mean, var;
};

absl::StatusOr<std::vector<TrainingNorm>> SetAsideTrainingNorms(onnx::GraphProto* graph,
                                                                int opset) {
  std::vector<TrainingNorm> out;
  if (opset >= 14) return out;
  for (onnx::NodeProto& node : *graph->mutable_node()) {
    if (node.op_type() != "BatchNormalization") continue;
    if (IntAttribute(node, "spatial", 1) == 0) {
      return absl::UnimplementedError(
          absl::StrCat("node '", node.name(), "' (BatchNormalization): spatial=0"));
    }
    if (node.output_size() < 2) continue;
    TrainingNorm norm{node.output(0), node.output(1), node.output_size() > 2 ? node.output(2) : ""};
    while (node.output_size() > 1) node.mutable_output()->RemoveLast();
    out.push_back(std::move(norm));
  }
  return out;
}

void GiveBackTrainingNorms(const std::vector<TrainingNorm>& norms, onnx::GraphProto* graph) {
  for (const TrainingNorm& norm : norms) {
    for (onnx::NodeProto& node : *graph->mutable_node()) {
      if (node.output_size() != 1 || node.output(0) != norm.y) continue;
      node.add_output(norm.mean);
      node.add_output(norm.var);
      auto* a = node.add_attribute();
      a->set_name("training_mode");
      a->set_type(onnx::AttributeProto::INT);
      a->set_i(1);
    }
  }
}

// Clip and Pad up to opset 10 keep their bounds in float attributes, which the
// converter turns into float32 constants whatever the data's type. After it,
// such a constant gets a CastLike to the data.
void CastConstantsLikeData(onnx::GraphProto* graph) {
  absl::flat_hash_set<std::string> made_float;
  for (const auto& node : graph->node()) {
    if (node.op_type() != "Constant" || node.output_size() != 1) continue;
    const onnx::AttributeProto* value = FindAttribute(node, "value");
    if (value != nullptr && value->t().data_type() == onnx::TensorProto::FLOAT &&
        value->t().dims_size() == 0) {
      made_float.insert(node.output(0));
    }
  }
  onnx::GraphProto out;
  int number = 0;
  for (onnx::NodeProto& node : *graph->mutable_node()) {
    const bool clip = node.op_type() == "Clip";
    const bool pad = node.op_type() == "Pad";
    for (int i = clip ? 1 : 2; (clip || pad) && i < node.input_size() && i < 3; ++i) {
      if (!made_float.contains(node.input(i))) continue;
      onnx::NodeProto* cast = out.add_node();
      cast->set_op_type("CastLike");
      cast->add_input(node.input(i));
      cast->add_input(node.input(0));
      cast->add_output(absl::StrCat(node.output(0), "/bound", number++));
      node.set_input(i, cast->output(0));
    }
    *out.add_node() = std::move(node);
  }
  graph->mutable_node()->Swap(out.mutable_node());
}

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

// Brings old and unusual ways of saying things to the usual one. The opset of the model.
int Normalize(onnx::ModelProto* model) {
  int opset = 0;
  for (auto& import : *model->mutable_opset_import()) {
    if (import.domain() == "ai.onnx") import.clear_domain();
    if (import.domain().empty()) opset = static_cast<int>(import.version());
  }
  ForgetInitializerInputs(model);
  return opset;
}

}  // namespace

absl::Status CheckModel(onnx::ModelProto model) {
  Normalize(&model);
  return Check(std::move(model));
}

absl::StatusOr<std::unique_ptr<onnx::ModelProto>> ToCanonicalOpset(const onnx::ModelProto& model) {
  auto out = std::make_unique<onnx::ModelProto>(model);
  const int opset = Normalize(out.get());
  RETURN_IF_ERROR(Check(*out));
  if (out->functions_size() > 0) {
    RETURN_IF_ERROR(Annotate(
        CatchOnnx([&] { onnx::inliner::InlineLocalFunctions(*out, /*convert_version=*/true); }),
        "inlining functions"));
  }
  if (opset == kCanonicalOpset) return out;
  ASSIGN_OR_RETURN(const std::vector<TrainingNorm> norms,
                   SetAsideTrainingNorms(out->mutable_graph(), opset));
  RETURN_IF_ERROR(Annotate(
      CatchOnnx([&] { *out = onnx::version_conversion::ConvertVersion(*out, kCanonicalOpset); }),
      absl::StrCat("converting opset ", opset, " to ", kCanonicalOpset)));
  GiveBackTrainingNorms(norms, out->mutable_graph());
  if (opset < 11) CastConstantsLikeData(out->mutable_graph());
  return out;
}

}  // namespace onward
