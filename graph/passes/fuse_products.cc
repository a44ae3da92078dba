#include "graph/passes/fuse_products.h"

#include <utility>
#include <vector>

#include "graph/base/status_macros.h"
#include "graph/ir/builder.h"

namespace onward {
namespace {

// The only reader of a value, if it is a node of that operator.
Node* OnlyReader(const Value& value, absl::string_view op) {
  if (value.uses().size() != 1 || value.uses()[0].kind != Use::Kind::kNode) return nullptr;
  Node* node = value.uses()[0].node;
  return node->op().domain.empty() && node->op().name == std::string(op) ? node : nullptr;
}

// What the fused node will be.
struct Fused {
  const char* op = nullptr;
  std::vector<Value*> inputs;
  Attributes attributes;
  std::vector<Node*> nodes;  // that it replaces, the last one's output it makes
};

bool IsRowOf(const Value& bias, const Value& result) {
  return bias.rank() == 1 && bias.dims()[0] == result.dims().back();
}

// MatMul, with the Add of a row behind it where there is one.
bool MatchMatMul(Node* node, Fused* fused) {
  const Value* a = node->input(0);
  const Value* b = node->input(1);
  if (a->rank() < 2 || b->rank() < 2) return false;
  fused->op = "FusedMatMul";
  fused->inputs = {node->input(0), node->input(1)};
  fused->nodes = {node};
  Node* add = OnlyReader(*node->output(0), "Add");
  if (add == nullptr) return true;
  Value* bias = add->input(add->input(0) == node->output(0) ? 1 : 0);
  const bool before = bias->producer == nullptr;  // its place in the order is no question
  if (before && IsRowOf(*bias, *node->output(0)) && add->output(0)->type == node->output(0)->type) {
    fused->inputs.push_back(bias);
    fused->nodes.push_back(add);
  }
  return true;
}

bool MatchGemm(Node* node, Fused* fused) {
  const Attributes& attributes = node->attributes;
  if (attributes.Float("alpha", 1) != 1 || attributes.Float("beta", 1) != 1) return false;
  fused->op = "FusedMatMul";
  fused->inputs = {node->input(0), node->input(1)};
  if (node->input(2) != nullptr) {
    if (!IsRowOf(*node->input(2), *node->output(0))) return false;
    fused->inputs.push_back(node->input(2));
  }
  for (const char* name : {"transA", "transB"}) {
    if (attributes.Int(name, 0) != 0) fused->attributes.Set(name, int64_t{1});
  }
  fused->nodes = {node};
  return true;
}

bool MatchConv(Node* node, Fused* fused) {
  fused->op = "FusedConv";
  for (int i = 0; i < node->num_inputs(); ++i) fused->inputs.push_back(node->input(i));
  fused->attributes = node->attributes;
  fused->nodes = {node};
  return true;
}

bool Match(Node* node, Fused* fused) {
  if (!node->op().domain.empty() || !IsFloating(node->output(0)->dtype())) return false;
  bool matched = false;
  if (node->op().name == "MatMul") matched = MatchMatMul(node, fused);
  if (node->op().name == "Gemm") matched = MatchGemm(node, fused);
  if (node->op().name == "Conv") matched = MatchConv(node, fused);
  if (!matched) return false;
  Node* relu = OnlyReader(*fused->nodes.back()->output(0), "Relu");
  if (relu != nullptr) {
    fused->attributes.Set("activation", std::string("Relu"));
    fused->nodes.push_back(relu);
  }
  return fused->nodes.size() > 1;
}

}  // namespace

absl::StatusOr<bool> FuseProducts(Graph* graph, const OperatorSet& operators) {
  bool changed = false;
  for (Node* node = graph->first(); node != nullptr;) {
    Fused fused;
    if (!Match(node, &fused)) {
      node = node->next();
      continue;
    }
    Builder b(graph, &operators);
    b.InsertBefore(node);
    b.SetPhase(node->phase);
    const Operator* op = operators.Find(kOnward, fused.op);
    ASSIGN_OR_RETURN(Node * made, b.AddNode(op, fused.inputs, std::move(fused.attributes)));
    made->name = node->name;
    made->source = node->source;
    made->device = node->device;
    graph->ReplaceUses(fused.nodes.back()->output(0), made->output(0));
    for (size_t i = fused.nodes.size(); i-- > 0;) graph->Remove(fused.nodes[i]);
    changed = true;
    node = made->next();
  }
  return changed;
}

}  // namespace onward
