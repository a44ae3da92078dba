#include "graph/passes/restore_biases.h"

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph/base/status_macros.h"
#include "graph/ir/builder.h"

namespace onward {
namespace {

// How many numbers the node's bias has; 0 where it takes none.
int64_t BiasElements(const Node& node) {
  if (!node.op().domain.empty() || node.num_inputs() != 2 || node.num_outputs() != 1) return 0;
  const std::string& op = node.op().name;
  const Value* weight = node.input(1);
  if (weight == nullptr || weight->constant == nullptr || !IsFloating(weight->dtype())) return 0;
  const Dims& w = weight->dims();
  if (op == "Conv") return w[0];
  if (op == "ConvTranspose") return w[1] * node.attributes.Int("group", 1);
  if (op == "Gemm") return node.attributes.Int("transB", 0) != 0 ? w[0] : w[1];
  if (op == "MatMul" && w.size() == 2 && node.input(0)->constant == nullptr) return w[1];
  return 0;
}

// What reads the result has or needs no bias.
bool HasItsShift(const Value& result) {
  bool only_normalized = !result.uses().empty();
  for (const Use& use : result.uses()) {
    if (use.kind != Use::Kind::kNode || use.node->op().name != "BatchNormalization") {
      only_normalized = false;
    }
    if (use.kind != Use::Kind::kNode || use.node->op().name != "Add") continue;
    const Value* other = use.node->input(1 - use.index);
    if (other != nullptr && other->constant != nullptr) return true;
  }
  return only_normalized;
}

absl::Status AddBias(Builder* b, Node* node, Value* bias) {
  Graph* graph = b->graph();
  Value* result = node->output(0);
  if (node->op().name == "MatMul") {
    b->InsertBefore(node->next());
    Expr sum = b->Wrap(result) + b->Wrap(bias);
    RETURN_IF_ERROR(b->status());
    graph->ReplaceUses(result, sum.value());
    graph->SetInput(sum.value()->producer, 0, result);  // that use was replaced too
    return absl::OkStatus();
  }
  b->InsertBefore(node);
  ASSIGN_OR_RETURN(Node * made, b->AddNode(&node->op(), {node->input(0), node->input(1), bias},
                                           node->attributes));
  made->name = node->name;
  made->source = node->source;
  made->ordinal = node->ordinal;
  graph->ReplaceUses(result, made->output(0));
  graph->Remove(node);
  return absl::OkStatus();
}

// What the exporter tells of the modules that nodes come from.
class ModuleRecord {
 public:
  explicit ModuleRecord(const OnnxModel& model) : modules_(model.ModulesOfNodes()) {
    absl::flat_hash_set<std::string> names;
    for (const auto& [name, tensor] : model.initializers()) names.insert(name);
    for (const std::string& parameter : model.SignatureParameters()) {
      known_ = true;
      const size_t dot = parameter.rfind('.');
      const std::string own = dot == std::string::npos ? parameter : parameter.substr(dot + 1);
      if (!absl::StrContains(own, "bias") || names.contains(parameter)) continue;
      lost_.insert(dot == std::string::npos ? "" : parameter.substr(0, dot));
    }
  }

  // May the node's module have had a bias that is not in the file? A convolution into which
  // a BatchNormalization was folded counts as that.
  bool MayHaveLostBias(const Node& node) const {
    const auto it = modules_.find(node.output()->name);
    return !known_ || it == modules_.end() || lost_.contains(it->second);
  }

 private:
  absl::flat_hash_map<std::string, std::string> modules_;
  absl::flat_hash_set<std::string> lost_;  // modules with biases that are not in the file
  bool known_ = false;
};

}  // namespace

absl::StatusOr<std::vector<DroppedBias>> RestoreBiases(const OnnxModel& model, Graph* graph,
                                                       const OperatorSet& operators) {
  std::vector<DroppedBias> restored;
  const ModuleRecord record(model);
  for (Node* node = graph->first(); node != nullptr;) {
    Node* next = node->next();
    const int64_t elements = BiasElements(*node);
    if (elements > 0 && !HasItsShift(*node->output(0)) && record.MayHaveLostBias(*node)) {
      const std::string place = node->name.empty() ? node->source : node->name;
      Value* bias = graph->AddConstant(
          std::make_shared<const Tensor>(Tensor::Full(node->input(1)->dtype(), {elements}, 0)),
          absl::StrCat(place, ".bias"));
      bias->initializer = true;
      restored.push_back({bias->name, node->ordinal});
      Builder b(graph, &operators);
      b.SetSource(place);
      b.SetScope(place);
      RETURN_IF_ERROR(Annotate(AddBias(&b, node, bias), place));
    }
    node = next;
  }
  return restored;
}

}  // namespace onward
