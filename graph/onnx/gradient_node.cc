// ai.onnx.preview.training.Gradient: what autodiff makes of the nodes between its inputs
// and y, in place of the node.
#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "graph/base/status_macros.h"
#include "graph/onnx/graph_reader.h"

namespace onward {
namespace {

std::vector<std::string> Names(const onnx::NodeProto& node, const std::string& attribute) {
  for (const onnx::AttributeProto& a : node.attribute()) {
    if (a.name() != attribute) continue;
    if (a.type() == onnx::AttributeProto::STRING) return {a.s()};
    return {a.strings().begin(), a.strings().end()};
  }
  return {};
}

// The nodes before `end` on which `y` depends, in order, up to the names that are given.
std::vector<const onnx::NodeProto*> NodesFor(const onnx::GraphProto& graph,
                                             const onnx::NodeProto& end, const std::string& y,
                                             const std::vector<std::string>& given) {
  int count = 0;
  while (count < graph.node_size() && &graph.node(count) != &end) ++count;
  const absl::flat_hash_set<std::string> stop(given.begin(), given.end());
  absl::flat_hash_set<std::string> wanted = {y};
  std::vector<const onnx::NodeProto*> nodes;
  for (int i = count - 1; i >= 0; --i) {
    const onnx::NodeProto& node = graph.node(i);
    bool needed = false;
    for (const std::string& name : node.output()) needed |= wanted.contains(name);
    if (!needed) continue;
    nodes.push_back(&node);
    for (const std::string& name : node.input()) {
      if (!stop.contains(name)) wanted.insert(name);
    }
  }
  std::reverse(nodes.begin(), nodes.end());
  return nodes;
}

}  // namespace

// The nodes are read again into a graph of their own, whose inputs are the tensors that
// the node is given for xs and zs (not those of these names in the file, which need not be
// the same); gradients are appended to it; and all of it is read into ours.
absl::StatusOr<GraphReader::Items> GraphReader::ReadGradient(const onnx::NodeProto& node,
                                                             const Items& inputs) {
  const std::vector<std::string> xs = Names(node, "xs"), y = Names(node, "y");
  std::vector<std::string> given = xs;
  for (const std::string& z : Names(node, "zs")) given.push_back(z);
  if (y.size() != 1 || xs.empty() || inputs.size() != given.size() || file_graph_ == nullptr ||
      scopes_.size() != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "has ", inputs.size(), " inputs for ", given.size(),
        " names in xs and zs, expected as many, y, and to be a node of the main graph"));
  }
  const std::vector<const onnx::NodeProto*> nodes = NodesFor(*file_graph_, node, y[0], given);
  GraphReader sub(operators_, evaluator_, binding_, opset_, Reading::kOpen);
  sub.file_graph_ = file_graph_;  // for a gradient of a gradient
  absl::flat_hash_map<const Value*, ItemRef> ours;
  const auto enter = [&](const std::string& name, const ItemRef& item) {
    auto entered = std::make_shared<Item>();
    entered->value = sub.graph_->AddInput(name, item->type());
    ours[entered->value] = item;
    sub.Set(name, std::move(entered));
  };
  for (size_t i = 0; i < given.size(); ++i) {
    if (inputs[i] == nullptr || inputs[i]->kind != Item::Kind::kTensor) {
      return absl::InvalidArgumentError(absl::StrCat("'", given[i], "' is not a tensor"));
    }
    enter(given[i], inputs[i]);
  }
  for (const onnx::NodeProto* n : nodes) {
    for (const std::string& name : n->input()) {
      if (name.empty() || sub.Find(name) != nullptr) continue;
      const ItemRef outside = Find(name);
      if (outside == nullptr) continue;  // Add tells
      if (outside->kind == Item::Kind::kTensor && outside->known == nullptr) {
        enter(name, outside);
      } else {
        auto known = std::make_shared<Item>(*outside);
        known->value = nullptr;
        known->name = name;
        sub.Set(name, std::move(known));
      }
    }
    RETURN_IF_ERROR(Annotate(sub.Add(*n, 0), Where(*n)));
  }
  const ItemRef result = sub.Find(y[0]);
  if (result == nullptr || result->kind != Item::Kind::kTensor) {
    return absl::InvalidArgumentError(absl::StrCat("'", y[0], "', its y, is made by no node"));
  }
  std::vector<Value*> targets;
  for (const std::string& x : xs) targets.push_back(sub.ValueOf(sub.Find(x)));
  Value* const top = sub.ValueOf(result);
  if (evaluator_ == nullptr) return absl::UnimplementedError("nothing here can differentiate");
  ASSIGN_OR_RETURN(const std::vector<Value*> gradients,
                   evaluator_->Differentiate(sub.graph_.get(), operators_, top, targets));
  RETURN_IF_ERROR(ReadGraph(*sub.graph_, node, &ours));
  Items outputs;
  for (size_t i = 0; i < xs.size(); ++i) {
    outputs.push_back(gradients[i] != nullptr
                          ? ours.at(gradients[i])
                          : Known(Tensor(targets[i]->dtype(), targets[i]->dims())));
  }
  return outputs;
}

// The nodes of another graph; `ours` says what its inputs are here, and then all else.
absl::Status GraphReader::ReadGraph(const Graph& graph, const onnx::NodeProto& origin,
                                    absl::flat_hash_map<const Value*, ItemRef>* ours) {
  for (const auto& constant : graph.constants()) {
    auto item = std::make_shared<Item>();
    item->known = constant->constant;
    (*ours)[constant.get()] = std::move(item);
  }
  const std::string name =
      origin.name().empty() && origin.output_size() > 0 ? origin.output(0) : origin.name();
  for (const Node* node : graph.nodes()) {
    Items inputs;
    for (int i = 0; i < node->num_inputs(); ++i) {
      inputs.push_back(node->input(i) == nullptr ? nullptr : ours->at(node->input(i)));
    }
    std::vector<std::string> names;
    for (int i = 0; i < node->num_outputs(); ++i) {
      names.push_back(node->output(i) == nullptr ? ""
                                                 : absl::StrCat(name, "/", node->output(i)->name));
    }
    ASSIGN_OR_RETURN(const Items outputs,
                     Apply(node->op(), inputs, node->attributes, node->num_outputs(), names,
                           Origin{nullptr, "", name, -1}));
    for (int i = 0; i < node->num_outputs(); ++i) {
      if (node->output(i) != nullptr) (*ours)[node->output(i)] = outputs[i];
    }
  }
  return absl::OkStatus();
}

}  // namespace onward
