#include "graph/onnx/upgrade.h"

#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "graph/base/status_macros.h"
#include "graph/onnx/inference_form.h"
#include "graph/onnx/proto.h"

namespace onward {
namespace {

using Nodes = std::vector<onnx::NodeProto>;

onnx::AttributeProto* Mutable(onnx::NodeProto* node, const std::string& name) {
  for (auto& a : *node->mutable_attribute()) {
    if (a.name() == name) return &a;
  }
  return nullptr;
}

onnx::AttributeProto* Attribute(onnx::NodeProto* node, const std::string& name) {
  onnx::AttributeProto* a = Mutable(node, name);
  if (a == nullptr) a = node->add_attribute();
  a->Clear();
  a->set_name(name);
  return a;
}

void SetInt(onnx::NodeProto* node, const std::string& name, int64_t value) {
  onnx::AttributeProto* a = Attribute(node, name);
  a->set_type(onnx::AttributeProto::INT);
  a->set_i(value);
}

void SetString(onnx::NodeProto* node, const std::string& name, const std::string& value) {
  onnx::AttributeProto* a = Attribute(node, name);
  a->set_type(onnx::AttributeProto::STRING);
  a->set_s(value);
}

// As a tensor of int64.
void SetInts(onnx::NodeProto* node, const std::string& name, const std::vector<int64_t>& values) {
  onnx::AttributeProto* a = Attribute(node, name);
  a->set_type(onnx::AttributeProto::TENSOR);
  a->mutable_t()->set_data_type(onnx::TensorProto::INT64);
  a->mutable_t()->add_dims(static_cast<int64_t>(values.size()));
  for (int64_t v : values) a->mutable_t()->add_int64_data(v);
}

onnx::NodeProto Make(const std::string& op, const std::vector<std::string>& inputs,
                     const std::string& output) {
  onnx::NodeProto node;
  node.set_op_type(op);
  for (const std::string& input : inputs) node.add_input(input);
  node.add_output(output);
  return node;
}

void Put(Nodes nodes, onnx::GraphProto* graph) {
  graph->clear_node();
  for (onnx::NodeProto& node : nodes) *graph->add_node() = std::move(node);
}

bool HasInput(const onnx::NodeProto& node, int i) {
  return i < node.input_size() && !node.input(i).empty();
}

}  // namespace

absl::Status Upgrade::Refuse(const onnx::NodeProto& node, const std::string& what) const {
  const std::string& name =
      node.name().empty() && node.output_size() > 0 ? node.output(0) : node.name();
  return absl::UnimplementedError(
      absl::StrCat("node '", name, "' (", node.op_type(), ", opset ", opset_, "): ", what));
}

std::string Upgrade::NewName(const std::string& of) {
  return absl::StrCat(of, "/upgrade", names_++);
}

// ---- Rows of what is done before.

// BatchNormalization below opset 14: in training form it has five outputs and no attribute
// that says so, which the converter refuses. The further outputs are set aside, and given
// back after. Below 9, spatial=0 means a mean for every element of a sample.
absl::Status Upgrade::BatchNormalization(onnx::NodeProto* node, Nodes* out) {
  if (opset_ >= 14) return absl::OkStatus();
  if (IntAttribute(*node, "spatial", 1) == 0) {
    return Refuse(*node, "spatial=0 is not supported; export with opset 9 or newer");
  }
  if (node->output_size() < 2 || node->input_size() < 5) return absl::OkStatus();
  TrainingNorm norm{node->output(0), node->output(1),
                    node->output_size() > 2 ? node->output(2) : ""};
  while (node->output_size() > 1) node->mutable_output()->RemoveLast();
  // What reads them must find them meanwhile.
  if (!norm.mean.empty()) out->push_back(Make("Identity", {node->input(3)}, norm.mean));
  if (!norm.var.empty()) out->push_back(Make("Identity", {node->input(4)}, norm.var));
  training_norms_.push_back(std::move(norm));
  return absl::OkStatus();
}

// Hardmax below opset 13 sees a matrix: what is before `axis` is its rows, the rest its
// columns. The converter leaves it as it is; of Softmax and LogSoftmax it takes care.
//   y = Reshape(Hardmax(Flatten(x, axis)), Shape(x))
void Upgrade::Hardmax(onnx::NodeProto node, Nodes* out) {
  const int64_t axis = IntAttribute(node, "axis", 1);
  SetInt(&node, "axis", -1);
  if (axis != -1) {
    const std::string x = node.input(0), y = node.output(0);
    const std::string flat = NewName(y), rows = NewName(y), shape = NewName(y);
    out->push_back(Make("Shape", {x}, shape));
    out->push_back(Make("Flatten", {x}, flat));
    SetInt(&out->back(), "axis", axis);
    node.set_input(0, flat);
    node.set_output(0, rows);
    // Two axes: negative ones are not known below opset 11.
    SetInt(&node, "axis", 1);
    out->push_back(std::move(node));
    out->push_back(Make("Reshape", {rows, shape}, y));
    return;
  }
  out->push_back(std::move(node));
}

absl::Status Upgrade::BeforeNode(onnx::NodeProto node, Nodes* out) {
  for (auto& attribute : *node.mutable_attribute()) {
    if (attribute.has_g()) RETURN_IF_ERROR(Before(attribute.mutable_g()));
    for (auto& g : *attribute.mutable_graphs()) RETURN_IF_ERROR(Before(&g));
  }
  if (IsOnnx(node, "BatchNormalization")) RETURN_IF_ERROR(BatchNormalization(&node, out));
  if (IsOnnx(node, "Scan") && opset_ < 9) {
    // It had a batch axis, which the converter strips from the model's own inputs.
    return Refuse(node, "Scan of opset 8 is not supported; export with opset 9 or newer");
  }
  if (IsOnnx(node, "Constant") && FindAttribute(node, "sparse_value") != nullptr) {
    return Refuse(node, "sparse constants are not supported");
  }
  if (IsOnnx(node, "Hardmax") && opset_ < 13 && HasInput(node, 0)) {
    Hardmax(std::move(node), out);
  } else {
    out->push_back(std::move(node));
  }
  return absl::OkStatus();
}

absl::Status Upgrade::Before(onnx::GraphProto* graph) {
  Nodes out;
  for (onnx::NodeProto& node : *graph->mutable_node()) {
    RETURN_IF_ERROR(BeforeNode(std::move(node), &out));
  }
  Put(std::move(out), graph);
  return absl::OkStatus();
}

// ---- Rows of what is done after.

void Upgrade::AfterNode(onnx::NodeProto node, Nodes* out) const {
  // Resize below opset 11, and Upsample, have one way of finding coordinates.
  if (IsOnnx(node, "Resize") && opset_ < 11) {
    SetString(&node, "coordinate_transformation_mode", "asymmetric");
    SetString(&node, "nearest_mode", "floor");
  }
  // The slopes of PRelu below opset 7 are those of the channels, now they are broadcast:
  //   slope = Reshape(slope, [-1, 1, .. 1]), with a 1 for every axis behind the channels
  if (IsOnnx(node, "PRelu") && opset_ < 7 && HasInput(node, 1)) {
    const std::string y = node.output(0);
    const auto name = [&](const char* of) { return absl::StrCat(y, "/upgrade_", of); };
    out->push_back(Make("Shape", {node.input(0)}, name("behind")));
    SetInt(&out->back(), "start", 2);
    out->push_back(Make("Shape", {name("behind")}, name("axes")));
    out->push_back(Make("ConstantOfShape", {name("axes")}, name("ones")));
    SetInts(&out->back(), "value", {1});
    out->push_back(Make("Constant", {}, name("rest")));
    SetInts(&out->back(), "value", {-1});
    out->push_back(Make("Concat", {name("rest"), name("ones")}, name("shape")));
    SetInt(&out->back(), "axis", 0);
    out->push_back(Make("Reshape", {node.input(1), name("shape")}, name("slope")));
    node.set_input(1, name("slope"));
  }
  // The mask of Dropout below opset 10 has the data's type; now it is bool.
  const bool float_mask =
      IsOnnx(node, "Dropout") && opset_ < 10 && node.output_size() > 1 && !node.output(1).empty();
  if (float_mask) {
    const std::string mask = node.output(1);
    node.set_output(1, absl::StrCat(mask, "/upgrade_bool"));
    const onnx::NodeProto cast = Make("CastLike", {node.output(1), node.input(0)}, mask);
    out->push_back(std::move(node));
    out->push_back(cast);
    return;
  }
  out->push_back(std::move(node));
}

void Upgrade::After(onnx::GraphProto* graph) const {
  // Clip and Pad below opset 11 keep their bounds in float attributes, which the converter
  // turns into float32 constants whatever the data's type. Such a constant gets a CastLike
  // to the data.
  absl::flat_hash_set<std::string> made_float;
  absl::flat_hash_set<std::string> aside;
  for (const TrainingNorm& norm : training_norms_) {
    aside.insert(norm.mean);
    aside.insert(norm.var);
  }
  Nodes out;
  int number = 0;
  for (onnx::NodeProto& node : *graph->mutable_node()) {
    for (auto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) After(attribute.mutable_g());
      for (auto& g : *attribute.mutable_graphs()) After(&g);
    }
    if (IsOnnx(node, "Identity") && aside.contains(node.output(0))) continue;
    for (const TrainingNorm& norm : training_norms_) {
      if (node.output_size() != 1 || node.output(0) != norm.y) continue;
      node.add_output(norm.mean);
      node.add_output(norm.var);
      SetInt(&node, "training_mode", 1);
    }
    const onnx::AttributeProto* value =
        IsOnnx(node, "Constant") ? FindAttribute(node, "value") : nullptr;
    if (value != nullptr && value->t().data_type() == onnx::TensorProto::FLOAT &&
        value->t().dims_size() == 0 && node.output_size() == 1) {
      made_float.insert(node.output(0));
    }
    const bool clip = IsOnnx(node, "Clip");
    for (int i = clip ? 1 : 2; (clip || IsOnnx(node, "Pad")) && i < node.input_size() && i < 3;
         ++i) {
      if (opset_ >= 11 || !made_float.contains(node.input(i))) continue;
      const std::string bound = absl::StrCat(node.output(0), "/bound", number++);
      out.push_back(Make("CastLike", {node.input(i), node.input(0)}, bound));
      node.set_input(i, bound);
    }
    AfterNode(std::move(node), &out);
  }
  Put(std::move(out), graph);
}

}  // namespace onward
