// A batch size that an exporter has written into a model is taken out of it again.
#include "absl/strings/str_cat.h"
#include "graph/base/status_macros.h"
#include "graph/onnx/import.h"
#include "graph/onnx/inference_form.h"
#include "graph/onnx/proto.h"
#include "onnx/onnx_pb.h"

namespace onward {
namespace {

// The constant vector of integers that a name stands for; empty where it is none.
std::vector<int64_t> IntsOf(
    const onnx::GraphProto& graph, const std::string& name,
    const absl::flat_hash_map<std::string, std::shared_ptr<const Tensor>>& initializers) {
  const auto values = [](const Tensor& t) {
    std::vector<int64_t> out;
    if (t.dtype() != DataType::kInt64 || t.dims().size() != 1) return out;
    for (int64_t i = 0; i < t.elements(); ++i) out.push_back(t.IntAt(i));
    return out;
  };
  const auto found = initializers.find(name);
  if (found != initializers.end()) return values(*found->second);
  for (const onnx::NodeProto& node : graph.node()) {
    if (!IsOnnx(node, "Constant") || node.output_size() != 1 || node.output(0) != name) continue;
    for (const auto& a : node.attribute()) {
      if (a.name() == "value_ints") return {a.ints().begin(), a.ints().end()};
      if (a.name() != "value") continue;
      const absl::StatusOr<Tensor> tensor = TensorFromProto(a.t());
      return tensor.ok() ? values(*tensor) : std::vector<int64_t>();
    }
  }
  return {};
}

const Value* FindResult(const Graph& graph, const std::string& name) {
  for (const Node* node : graph.nodes()) {
    for (int i = 0; i < node->num_outputs(); ++i) {
      if (node->output(i) != nullptr && node->output(i)->name == name) return node->output(i);
    }
  }
  return nullptr;
}

// The same target for any batch; empty where there is none.
std::vector<int64_t> FreeTarget(const onnx::NodeProto& node, std::vector<int64_t> target,
                                const Value& result, int64_t batch) {
  if (target.empty() || target[0] != batch || result.dims().empty()) return {};
  if (IsOnnx(node, "Expand")) {
    target[0] = 1;  // right where what is expanded has the batch already
    return target;
  }
  // What is -1 or 0 in the target is a number in the result.
  std::vector<int64_t> free = {-1};
  for (size_t i = 1; i < result.dims().size(); ++i) {
    if (result.dims()[i] < 1) return {};
    free.push_back(result.dims()[i]);
  }
  return free;
}

}  // namespace

int OnnxModel::FreeBatch(const Graph& fixed) {
  const int64_t batch = FixedBatch(kDynamic);
  kept_canonical_ = std::make_unique<onnx::ModelProto>(*canonical_);
  kept_inputs_ = inputs_;
  onnx::GraphProto* graph = canonical_->mutable_graph();
  int changed = 0;
  for (onnx::NodeProto& node : *graph->mutable_node()) {
    if ((!IsOnnx(node, "Reshape") && !IsOnnx(node, "Expand")) || node.input_size() != 2) continue;
    const Value* result = FindResult(fixed, node.output(0));
    if (result == nullptr) continue;
    const std::vector<int64_t> target =
        FreeTarget(node, IntsOf(*graph, node.input(1), by_name_), *result, batch);
    if (target.empty()) continue;
    const std::string name = absl::StrCat(node.output(0), "/free_batch");
    TensorToProto(Tensor::Of<int64_t>({static_cast<int64_t>(target.size())}, target), name,
                  graph->add_initializer());
    node.set_input(1, name);
    ++changed;
  }
  for (ModelInput& input : inputs_) {
    if (!input.extents.empty() && input.extents[0].size == batch) {
      input.extents[0] = {kDynamic, "batch"};
    }
  }
  return changed;
}

void OnnxModel::FixBatchAgain() {
  if (kept_canonical_ == nullptr) return;
  canonical_ = std::move(kept_canonical_);
  inputs_ = std::move(kept_inputs_);
}

}  // namespace onward
