#include "graph/passes/simplify.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "graph/base/errors.h"
#include "graph/base/status_macros.h"
#include "graph/ir/builder.h"

namespace onward {
namespace {

bool IsUsed(const Node& node) {
  for (int i = 0; i < node.num_outputs(); ++i) {
    if (node.output(i) != nullptr && !node.output(i)->uses().empty()) return true;
  }
  return false;
}

// Every element of the constant equals `number`.
bool IsAll(const Value* value, double number) {
  if (value == nullptr || value->constant == nullptr || value->constant->elements() > 64)
    return false;
  for (int64_t i = 0; i < value->constant->elements(); ++i) {
    if (value->constant->At(i) != number) return false;
  }
  return value->constant->elements() > 0;
}

// The input that the node's only output equals; null where there is none.
Value* EqualInput(const Node& node) {
  const std::string& op = node.op().name;
  if (!node.op().domain.empty() || node.num_outputs() != 1) return nullptr;
  const TensorType& type = node.output(0)->type;
  const auto keeps_type = [&](int i) {
    return node.input(i) != nullptr && node.input(i)->type == type;
  };
  if (op == "Identity") return node.input(0);
  if ((op == "Reshape" || op == "Cast" || op == "CastLike" || op == "Expand" || op == "Flatten" ||
       op == "Squeeze" || op == "Unsqueeze") &&
      keeps_type(0)) {
    return node.input(0);
  }
  if (op == "Add" || op == "Mul") {
    const double neutral = op == "Add" ? 0 : 1;
    if (IsAll(node.input(1), neutral) && keeps_type(0)) return node.input(0);
    if (IsAll(node.input(0), neutral) && keeps_type(1)) return node.input(1);
  }
  if ((op == "Sub" && IsAll(node.input(1), 0)) || (op == "Div" && IsAll(node.input(1), 1))) {
    return keeps_type(0) ? node.input(0) : nullptr;
  }
  return nullptr;
}

std::string KeyOf(const Node& node) {
  std::string key = node.op().id();
  for (int i = 0; i < node.num_inputs(); ++i) {
    absl::StrAppend(&key, ",", node.input(i) == nullptr ? "" : node.input(i)->name);
  }
  absl::StrAppend(&key, "|", ToString(node.device), "|");
  for (int i = 0; i < node.num_outputs(); ++i) {
    absl::StrAppend(&key, node.output(i) == nullptr ? "-" : "+");
  }
  return key;
}

bool JoinConstants(Graph* graph) {
  bool changed = false;
  absl::flat_hash_map<std::string, Value*> known;
  for (const auto& value : graph->constants()) {
    const Tensor& t = *value->constant;
    if (value->initializer || t.elements() > 64) continue;
    const std::string key = absl::StrCat(
        ToString(t.type()), ":", absl::string_view(static_cast<const char*>(t.data()), t.bytes()));
    const auto [it, fresh] = known.try_emplace(key, value.get());
    if (fresh || value->uses().empty()) continue;
    graph->ReplaceUses(value.get(), it->second);
    changed = true;
  }
  return changed;
}

}  // namespace

bool RemoveDeadCode(Graph* graph) {
  bool changed = false;
  for (Node* node = graph->last(); node != nullptr;) {
    Node* previous = node->previous();
    if (!node->op().collective && !IsUsed(*node)) {
      graph->Remove(node);
      changed = true;
    }
    node = previous;
  }
  graph->RemoveUnusedConstants();
  return changed;
}

bool RemoveIdentities(Graph* graph) {
  bool changed = false;
  for (Node* node = graph->first(); node != nullptr;) {
    Node* next = node->next();
    Value* equal = EqualInput(*node);
    if (equal != nullptr) {
      graph->ReplaceUses(node->output(0), equal);
      graph->Remove(node);
      changed = true;
    }
    node = next;
  }
  return changed;
}

bool JoinCommonCode(Graph* graph) {
  bool changed = JoinConstants(graph);
  absl::flat_hash_map<std::string, std::vector<Node*>> known;
  for (Node* node = graph->first(); node != nullptr;) {
    Node* next = node->next();
    if (!node->op().random && !node->op().collective && node->bodies.empty()) {
      std::vector<Node*>& same = known[KeyOf(*node)];
      Node* twin = nullptr;
      for (Node* other : same) {
        if (SameAttributes(other->attributes, node->attributes)) twin = other;
      }
      if (twin == nullptr) {
        same.push_back(node);
      } else {
        for (int i = 0; i < node->num_outputs(); ++i) {
          if (node->output(i) != nullptr) graph->ReplaceUses(node->output(i), twin->output(i));
        }
        graph->Remove(node);
        changed = true;
      }
    }
    node = next;
  }
  return changed;
}

absl::StatusOr<bool> FoldConstants(Graph* graph, Evaluator* evaluator) {
  constexpr int64_t kMost = int64_t{1} << 22;
  constexpr double kMostWork = 5e8;
  double work = 0;
  bool changed = false;
  for (Node* node = graph->first(); node != nullptr;) {
    Node* current = node;
    node = node->next();
    if (current->op().random || current->op().collective || !current->bodies.empty()) continue;
    std::vector<const Tensor*> inputs;
    int64_t read = 0;
    double product = 1;  // of all extents: a matrix product works at its square root
    bool constant = true;
    for (int i = 0; i < current->num_inputs(); ++i) {
      const Value* v = current->input(i);
      constant &= v == nullptr || v->constant != nullptr;
      inputs.push_back(v == nullptr ? nullptr : v->constant.get());
      if (inputs.back() == nullptr) continue;
      read += inputs.back()->elements();
      product *= std::max(static_cast<double>(inputs.back()->elements()), 1.0);
    }
    if (!constant) continue;
    std::vector<TensorType> types;
    int64_t made = 0;
    bool fixed = true;
    for (int i = 0; i < current->num_outputs(); ++i) {
      const Value* v = current->output(i);
      types.push_back(v == nullptr ? TensorType{} : v->type);
      for (int64_t d : types.back().dims) fixed &= d != kDynamic;
      if (v != nullptr && fixed) made += Elements(v->dims());
    }
    // Broadcast constants (gradients' seeds) stay small: the kernels broadcast.
    if (!fixed || (made > read && made > 4096) || made > kMost) continue;
    // What a small file could make long stays a node of the plan, which knows what it takes.
    const double cost =
        current->op().elementwise ? 0 : std::sqrt(product * static_cast<double>(made));
    if (work + cost > kMostWork) continue;
    work += cost;
    absl::StatusOr<std::vector<Tensor>> results =
        evaluator->Evaluate(current->op(), current->attributes, inputs, types);
    if (!results.ok()) {
      if (absl::IsUnimplemented(results.status())) continue;
      return Annotate(results.status(), Describe(*current));
    }
    for (int i = 0; i < current->num_outputs(); ++i) {
      if (current->output(i) == nullptr) continue;
      Value* value = graph->AddConstant(std::make_shared<const Tensor>(std::move((*results)[i])),
                                        current->output(i)->name);
      graph->ReplaceUses(current->output(i), value);
    }
    graph->Remove(current);
    changed = true;
  }
  return changed;
}

absl::StatusOr<bool> LowerNodes(Graph* graph, const OperatorSet& operators,
                                const std::function<bool(const Node&)>& which) {
  constexpr int kDeepest = 32;  // lowerings of lowerings
  bool changed = false;
  for (int round = 0; round < kDeepest; ++round) {
    bool again = false;
    for (Node* node = graph->first(); node != nullptr;) {
      Node* next = node->next();
      if (which(*node)) {
        RETURN_IF_ERROR(LowerNode(graph, &operators, node));
        again = true;
      }
      node = next;
    }
    if (!again) return changed;
    changed = true;
  }
  return absl::InternalError("lowerings do not end");
}

absl::StatusOr<bool> LowerOperators(Graph* graph, const OperatorSet& operators) {
  return LowerNodes(graph, operators, [](const Node& node) { return node.op().always_lower; });
}

absl::Status Simplify(Graph* graph, const OperatorSet& operators, Evaluator* evaluator) {
  for (int round = 0; round < 16; ++round) {
    bool changed = RemoveIdentities(graph);
    changed |= JoinCommonCode(graph);
    ASSIGN_OR_RETURN(const bool lowered, LowerOperators(graph, operators));
    ASSIGN_OR_RETURN(const bool folded, FoldConstants(graph, evaluator));
    changed |= lowered | folded;
    changed |= RemoveDeadCode(graph);
    if (!changed) return absl::OkStatus();
  }
  return absl::OkStatus();
}

}  // namespace onward
