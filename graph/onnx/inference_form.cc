#include "graph/onnx/inference_form.h"

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"

namespace onward {
namespace {

using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

constexpr int kRunningMean = 3;  // input of BatchNormalization; the variance is next

void AddReads(const Nodes& nodes, absl::flat_hash_set<std::string>* read);

void AddReads(const onnx::GraphProto& graph, absl::flat_hash_set<std::string>* read) {
  AddReads(graph.node(), read);
  for (const auto& output : graph.output()) read->insert(output.name());
}

void AddReads(const Nodes& nodes, absl::flat_hash_set<std::string>* read) {
  for (const onnx::NodeProto& node : nodes) {
    read->insert(node.input().begin(), node.input().end());
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g()) AddReads(attribute.g(), read);
      for (const auto& g : attribute.graphs()) AddReads(g, read);
    }
  }
}

struct Counts {
  int norms = 0;
  int dropouts = 0;
  absl::flat_hash_set<std::string> gone;  // outputs that are made no more
};

// The nodes of one graph or function, and what is known around them.
class Scope {
 public:
  Scope(absl::flat_hash_set<std::string> read, Counts* counts)
      : read_(std::move(read)), counts_(counts) {}

  // Boolean scalars that are fixed in the file; subgraphs see those around them.
  void AddConstants(const google::protobuf::RepeatedPtrField<onnx::TensorProto>& tensors) {
    for (const auto& t : tensors) AddConstant(t.name(), t);
  }

  void Convert(Nodes* nodes) {
    Nodes out;
    for (onnx::NodeProto& node : *nodes) {
      for (auto& attribute : *node.mutable_attribute()) {
        if (attribute.has_g()) ConvertBody(attribute.mutable_g());
        for (auto& g : *attribute.mutable_graphs()) ConvertBody(&g);
        if (IsOnnx(node, "Constant") && attribute.name() == "value") {
          AddConstant(node.output(0), attribute.t());
        }
      }
      if (IsOnnx(node, "Dropout")) ConvertDropout(&node);
      std::vector<onnx::NodeProto> statistics;
      if (IsOnnx(node, "BatchNormalization")) statistics = ConvertNorm(&node);
      *out.Add() = std::move(node);
      for (onnx::NodeProto& s : statistics) *out.Add() = std::move(s);
    }
    nodes->Swap(&out);
  }

 private:
  void ConvertBody(onnx::GraphProto* body) {
    Scope scope(NamesRead(*body), counts_);
    scope.constants_ = constants_;
    scope.AddConstants(body->initializer());
    scope.Convert(body->mutable_node());
  }

  void AddConstant(const std::string& name, const onnx::TensorProto& t) {
    if (t.data_type() != onnx::TensorProto::BOOL) return;
    if (t.raw_data().size() == 1) {
      constants_[name] = t.raw_data()[0] != 0;
    } else if (t.int32_data_size() == 1) {
      constants_[name] = t.int32_data(0) != 0;
    }
  }

  void ConvertDropout(onnx::NodeProto* node) {
    if (node->input_size() < 3 || node->input(2).empty()) return;
    const auto known = constants_.find(node->input(2));
    if (known != constants_.end() && !known->second) return;
    auto* inputs = node->mutable_input();
    inputs->RemoveLast();
    while (!inputs->empty() && inputs->Get(inputs->size() - 1).empty()) inputs->RemoveLast();
    ++counts_->dropouts;
  }

  // Identities for the outputs that go and are read: in inference form the running
  // statistics stay as they were.
  std::vector<onnx::NodeProto> ConvertNorm(onnx::NodeProto* node) {
    std::vector<onnx::NodeProto> out;
    bool changed = node->output_size() > 1;
    for (int i = 1; i < node->output_size(); ++i) {
      if (node->output(i).empty()) continue;
      if (!read_.contains(node->output(i))) {
        counts_->gone.insert(node->output(i));
        continue;
      }
      onnx::NodeProto identity;
      identity.set_op_type("Identity");
      identity.add_input(node->input(kRunningMean + (i - 1) % 2));
      identity.add_output(node->output(i));
      out.push_back(std::move(identity));
    }
    while (node->output_size() > 1) node->mutable_output()->RemoveLast();
    for (auto& attribute : *node->mutable_attribute()) {
      if (attribute.name() != "training_mode") continue;
      if (attribute.i() == 0 && attribute.ref_attr_name().empty()) continue;
      attribute.clear_ref_attr_name();
      attribute.set_i(0);
      changed = true;
    }
    if (changed) ++counts_->norms;
    return out;
  }

  absl::flat_hash_set<std::string> read_;
  absl::flat_hash_map<std::string, bool> constants_;
  Counts* counts_;
};

// Types of values that are made no more.
void ForgetValues(const absl::flat_hash_set<std::string>& gone, onnx::GraphProto* graph) {
  google::protobuf::RepeatedPtrField<onnx::ValueInfoProto> kept;
  for (auto& value : *graph->mutable_value_info()) {
    if (!gone.contains(value.name())) *kept.Add() = std::move(value);
  }
  graph->mutable_value_info()->Swap(&kept);
}

}  // namespace

bool IsOnnx(const onnx::NodeProto& node, const char* op_type) {
  return node.op_type() == op_type && (node.domain().empty() || node.domain() == "ai.onnx");
}

absl::flat_hash_set<std::string> NamesRead(const onnx::GraphProto& graph) {
  absl::flat_hash_set<std::string> read;
  AddReads(graph, &read);
  return read;
}

void ToInferenceForm(onnx::ModelProto* model, std::vector<std::string>* lines) {
  Counts counts;
  Scope scope(NamesRead(model->graph()), &counts);
  scope.AddConstants(model->graph().initializer());
  scope.Convert(model->mutable_graph()->mutable_node());
  for (onnx::FunctionProto& function : *model->mutable_functions()) {
    absl::flat_hash_set<std::string> read(function.output().begin(), function.output().end());
    AddReads(function.node(), &read);
    Scope(std::move(read), &counts).Convert(function.mutable_node());
  }
  if (counts.norms > 0) {
    ForgetValues(counts.gone, model->mutable_graph());
    lines->push_back(absl::StrCat(counts.norms,
                                  " BatchNormalization in inference form: running statistics "
                                  "are used, one output"));
  }
  if (counts.dropouts > 0) {
    lines->push_back(
        absl::StrCat(counts.dropouts, " Dropout in inference form: input training_mode left out"));
  }
}

}  // namespace onward
