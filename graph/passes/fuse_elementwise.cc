#include "graph/passes/fuse_elementwise.h"

#include <algorithm>
#include <cmath>
#include <queue>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "graph/base/expression.h"
#include "graph/base/status_macros.h"
#include "graph/ir/builder.h"
#include "graph/passes/simplify.h"

namespace onward {
namespace {

bool HasRegisterType(const Value* value) {
  switch (value->dtype()) {
    case DataType::kFloat32:
    case DataType::kFloat64:
    case DataType::kInt32:
    case DataType::kInt64:
    case DataType::kBool:
    case DataType::kUint8:
    case DataType::kInt8:
      return true;
    default:
      return false;
  }
}

// One node as an instruction of a program of its own: tells whether it can be one.
bool IsProgrammable(const Node& node) {
  if (!node.op().domain.empty() || node.num_outputs() != 1 || node.output() == nullptr) {
    return false;
  }
  for (int64_t d : node.output()->dims()) {
    if (d == kDynamic) return false;
  }
  ElementwiseProgram trial;
  std::vector<int> operands;
  for (int i = 0; i < node.num_inputs(); ++i) {
    const Value* x = node.input(i);
    if (x != nullptr && !HasRegisterType(x)) return false;
    operands.push_back(x == nullptr ? -1 : static_cast<int>(trial.inputs.size()));
    if (x != nullptr) trial.inputs.push_back(x->dtype());
  }
  return AppendOperator(&trial, node.op().name, node.attributes, operands, node.output()->dtype())
      .ok();
}

// A constant of one element that a program can hold as a number.
bool IsNumber(const Value* value) {
  if (value->kind != Value::Kind::kConstant || value->constant->elements() != 1) return false;
  const double number = value->constant->At(0);
  return HasRegisterType(value) && (!IsInteger(value->dtype()) || std::fabs(number) < 0x1p53);
}

// ---- Grouping.

// Nodes that are computed together, by their positions in the graph.
struct Unit {
  std::vector<int> nodes;  // ascending
  bool fusable = false;
};

class Grouping {
 public:
  Grouping(const Graph& graph, const ElementwiseFusion& fusion) : fusion_(fusion) {
    absl::flat_hash_map<const Node*, int> position;
    for (Node* node : graph.nodes()) {
      position[node] = static_cast<int>(nodes_.size());
      nodes_.push_back(node);
    }
    successors_.resize(nodes_.size());
    int collective = -1;  // the last one so far
    for (int n = 0; n < static_cast<int>(nodes_.size()); ++n) {
      for (int i = 0; i < nodes_[n]->num_inputs(); ++i) AddEdge(position, nodes_[n]->input(i), n);
      for (const auto& body : nodes_[n]->bodies) AddBodyEdges(position, *body.second, n);
      units_.push_back({{n}, IsProgrammable(*nodes_[n])});
      if (!nodes_[n]->op().collective) continue;
      // Collectives keep their order.
      if (collective >= 0) successors_[collective].push_back(n);
      collective = n;
    }
  }

  const std::vector<Node*>& nodes() const { return nodes_; }
  const std::vector<Unit>& units() const { return units_; }

  // Orders the units topologically, each time the first (last, if `reversed`) of those
  // that are ready, and draws into a unit whatever becomes ready through it and fits. A
  // unit is thus contiguous in a valid order, which is what makes it convex.
  void Sweep(bool reversed, bool join) {
    std::vector<int> unit_of(nodes_.size());
    for (int u = 0; u < static_cast<int>(units_.size()); ++u) {
      for (int n : units_[u].nodes) unit_of[n] = u;
    }
    std::vector<std::vector<int>> next(units_.size());
    std::vector<int> waits(units_.size(), 0);
    for (int n = 0; n < static_cast<int>(nodes_.size()); ++n) {
      for (int m : successors_[n]) {
        const int from = reversed ? unit_of[m] : unit_of[n];
        const int to = reversed ? unit_of[n] : unit_of[m];
        if (from == to) continue;
        next[from].push_back(to);
        ++waits[to];
      }
    }
    // The first node decides going forward, the last going back.
    const auto place = [&](int u) {
      return reversed ? -units_[u].nodes.back() : units_[u].nodes.front();
    };
    using Ready = std::pair<int, int>;
    std::priority_queue<Ready, std::vector<Ready>, std::greater<Ready>> ready;
    for (int u = 0; u < static_cast<int>(units_.size()); ++u) {
      if (waits[u] == 0) ready.push({place(u), u});
    }
    std::vector<Unit> out;
    while (!ready.empty()) {
      std::vector<int> members = {ready.top().second};
      ready.pop();
      Unit group = units_[members[0]];
      for (size_t k = 0; k < members.size(); ++k) {
        for (int to : next[members[k]]) {
          if (--waits[to] > 0) continue;
          if (join && Fits(group, units_[to])) {
            members.push_back(to);
            group.nodes.insert(group.nodes.end(), units_[to].nodes.begin(), units_[to].nodes.end());
          } else {
            ready.push({place(to), to});
          }
        }
      }
      std::sort(group.nodes.begin(), group.nodes.end());
      out.push_back(std::move(group));
    }
    if (reversed) std::reverse(out.begin(), out.end());
    units_ = std::move(out);
  }

 private:
  void AddEdge(const absl::flat_hash_map<const Node*, int>& position, const Value* value, int to) {
    if (value == nullptr || value->producer == nullptr) return;
    const auto from = position.find(value->producer);
    if (from != position.end()) successors_[from->second].push_back(to);
  }
  // Bodies may read values of the graph around them.
  void AddBodyEdges(const absl::flat_hash_map<const Node*, int>& position, const Graph& body,
                    int to) {
    for (const Node* node : body.nodes()) {
      for (int i = 0; i < node->num_inputs(); ++i) AddEdge(position, node->input(i), to);
      for (const auto& inner : node->bodies) AddBodyEdges(position, *inner.second, to);
    }
  }

  bool Fits(const Unit& a, const Unit& b) const {
    if (!a.fusable || !b.fusable) return false;
    if (static_cast<int>(a.nodes.size() + b.nodes.size()) > fusion_.most_nodes) return false;
    const Node& x = *nodes_[a.nodes[0]];
    const Node& y = *nodes_[b.nodes[0]];
    return x.output()->dims() == y.output()->dims() && x.device == y.device &&
           (fusion_.across_phases || x.phase == y.phase);
  }

  const ElementwiseFusion fusion_;
  std::vector<Node*> nodes_;
  std::vector<std::vector<int>> successors_;
  std::vector<Unit> units_;
};

// ---- Programs.

struct Fused {
  ElementwiseProgram program;
  std::vector<Value*> inputs;
  std::vector<Value*> outputs;  // of the old nodes, in the order of the program's
};

bool ReadOutside(const Value& value, const absl::flat_hash_set<const Node*>& group) {
  for (const Use& use : value.uses()) {
    if (use.node == nullptr || !group.contains(use.node)) return true;
  }
  return false;
}

// With `numbers`, scalar constants become instructions; without, they stay inputs.
absl::StatusOr<Fused> MakeProgram(const std::vector<Node*>& nodes, bool numbers) {
  Fused out;
  absl::flat_hash_set<const Node*> group(nodes.begin(), nodes.end());
  absl::flat_hash_map<const Value*, int> registers;
  for (Node* node : nodes) {
    for (int i = 0; i < node->num_inputs(); ++i) {
      Value* x = node->input(i);
      if (x == nullptr || (x->producer != nullptr && group.contains(x->producer))) continue;
      if ((numbers && IsNumber(x)) || registers.contains(x)) continue;
      registers[x] = static_cast<int>(out.inputs.size());
      out.inputs.push_back(x);
      out.program.inputs.push_back(x->dtype());
    }
  }
  for (Node* node : nodes) {
    std::vector<int> operands;
    for (int i = 0; i < node->num_inputs(); ++i) {
      const Value* x = node->input(i);
      if (x == nullptr) {
        operands.push_back(-1);
      } else if (registers.contains(x)) {
        operands.push_back(registers[x]);
      } else {
        operands.push_back(out.program.AppendConstant(x->dtype(), x->constant->At(0)));
      }
    }
    ASSIGN_OR_RETURN(registers[node->output()],
                     AppendOperator(&out.program, node->op().name, node->attributes, operands,
                                    node->output()->dtype()));
    if (!ReadOutside(*node->output(), group)) continue;
    out.program.outputs.push_back(registers[node->output()]);
    out.outputs.push_back(node->output());
  }
  return out;
}

absl::StatusOr<Dims> Extents(const std::vector<Value*>& inputs) {
  Dims dims;
  for (const Value* x : inputs) {
    ASSIGN_OR_RETURN(dims, Broadcast(dims, x->dims()));
  }
  return dims;
}

absl::Status Replace(Graph* graph, const OperatorSet& operators, const std::vector<Node*>& nodes) {
  const Dims& dims = nodes[0]->output()->dims();
  ASSIGN_OR_RETURN(Fused fused, MakeProgram(nodes, /*numbers=*/true));
  if (fused.outputs.empty()) {  // nobody reads any of it
    for (size_t k = nodes.size(); k-- > 0;) graph->Remove(nodes[k]);
    return absl::OkStatus();
  }
  const auto extents = Extents(fused.inputs);
  // A scalar constant with extents of 1 may be what gives the result its rank.
  if (!extents.ok() || *extents != dims) {
    ASSIGN_OR_RETURN(fused, MakeProgram(nodes, /*numbers=*/false));
  }
  const Node* last = nodes.back();
  const Operator* op = operators.Find(kOnward, "Elementwise");
  if (op == nullptr) return absl::InternalError("onward.Elementwise is not in the operator list");
  Builder builder(graph, &operators);
  builder.InsertBefore(nodes[0]);
  builder.SetPhase(last->phase);
  builder.SetSource(absl::StrCat(last->name.empty() ? last->source : last->name));
  std::vector<std::string> names;
  for (const Value* v : fused.outputs) names.push_back(v->name);
  ASSIGN_OR_RETURN(Node * made,
                   builder.AddNode(op, fused.inputs, {{"program", ToString(fused.program)}},
                                   static_cast<int>(fused.outputs.size()), names));
  made->device = last->device;
  for (int o = 0; o < static_cast<int>(fused.outputs.size()); ++o) {
    if (made->output(o)->type != fused.outputs[o]->type) {
      return absl::InternalError(
          absl::StrCat(Describe(*last), ": fused, it gives ", ToString(made->output(o)->type)));
    }
    std::swap(made->output(o)->name, fused.outputs[o]->name);  // the old one goes
    made->output(o)->symbols = fused.outputs[o]->symbols;
    graph->ReplaceUses(fused.outputs[o], made->output(o));
  }
  for (size_t k = nodes.size(); k-- > 0;) graph->Remove(nodes[k]);
  return absl::OkStatus();
}

// ---- Masks.

bool IsComparison(const Node& node) {
  const std::string& name = node.op().name;
  return node.op().domain.empty() && node.num_inputs() == 2 &&
         (name == "Greater" || name == "GreaterOrEqual" || name == "Less" ||
          name == "LessOrEqual" || name == "Equal") &&
         (IsNumber(node.input(0)) || IsNumber(node.input(1)));
}

// Makes the mask again before `reader`.
absl::Status RepeatMask(Graph* graph, const OperatorSet& operators, Node* mask, const Use& use) {
  Builder builder(graph, &operators);
  builder.InsertBefore(use.node);
  builder.SetPhase(use.node->phase);
  builder.SetSource(mask->name.empty() ? mask->source : mask->name);
  Value* inputs[] = {mask->input(0), mask->input(1)};
  ASSIGN_OR_RETURN(Node * made, builder.AddNode(&mask->op(), inputs, mask->attributes));
  made->device = use.node->device;
  graph->SetInput(use.node, use.index, made->output());
  return absl::OkStatus();
}

// A mask that several nodes read, or one of another phase, is cheaper made anew before
// each of them than stored; twice in one program it is one again.
absl::StatusOr<bool> RepeatMasks(Graph* graph, const OperatorSet& operators,
                                 const ElementwiseFusion& fusion) {
  bool changed = false;
  for (Node* node = graph->first(); node != nullptr;) {
    Node* const following = node->next();
    if (IsComparison(*node) && node->output() != nullptr) {
      const std::vector<Use> uses(node->output()->uses().begin(), node->output()->uses().end());
      for (const Use& use : uses) {
        Node* reader = use.node;
        if (reader == nullptr || reader->graph() != graph || !IsProgrammable(*reader) ||
            reader->output()->dims() != node->output()->dims() ||
            (uses.size() == 1 && (fusion.across_phases || reader->phase == node->phase))) {
          continue;
        }
        RETURN_IF_ERROR(RepeatMask(graph, operators, node, use));
        changed = true;
      }
      if (!uses.empty() && node->output()->uses().empty()) graph->Remove(node);
    }
    node = following;
  }
  return changed;
}

// Programs broadcast as they go: an Expand before one is left out where another input
// has the extents of the result.
bool DropExpansions(Graph* graph) {
  bool changed = false;
  for (Node* node : graph->nodes()) {
    if (!IsProgrammable(*node)) continue;
    const auto expanded = [&](int i) {
      const Value* x = node->input(i);
      return x != nullptr && x->producer != nullptr && x->producer->op().domain.empty() &&
             x->producer->op().name == "Expand";
    };
    bool full = false;
    for (int i = 0; i < node->num_inputs(); ++i) {
      const Value* x = node->input(i);
      full |= x != nullptr && !expanded(i) && x->dims() == node->output()->dims();
    }
    for (int i = 0; i < node->num_inputs() && full; ++i) {
      if (!expanded(i)) continue;
      graph->SetInput(node, i, node->input(i)->producer->input(0));
      changed = true;
    }
  }
  if (changed) RemoveDeadCode(graph);
  return changed;
}

}  // namespace

absl::StatusOr<bool> FuseElementwise(Graph* graph, const OperatorSet& operators,
                                     const ElementwiseFusion& fusion) {
  bool changed = DropExpansions(graph);
  ASSIGN_OR_RETURN(const bool repeated, RepeatMasks(graph, operators, fusion));
  changed |= repeated;
  Grouping grouping(*graph, fusion);
  // Forward a group takes what follows from it alone, backward what serves it alone.
  grouping.Sweep(/*reversed=*/false, /*join=*/true);
  grouping.Sweep(/*reversed=*/true, /*join=*/true);
  grouping.Sweep(/*reversed=*/false, /*join=*/false);
  const std::vector<Unit>& units = grouping.units();
  const bool found =
      std::any_of(units.begin(), units.end(), [](const Unit& u) { return u.nodes.size() > 1; });
  if (!found) return changed;
  for (const Unit& unit : units) {
    for (int n : unit.nodes) graph->Move(grouping.nodes()[n], nullptr);
  }
  for (const Unit& unit : units) {
    if (unit.nodes.size() < 2) continue;
    std::vector<Node*> nodes;
    for (int n : unit.nodes) nodes.push_back(grouping.nodes()[n]);
    RETURN_IF_ERROR(Replace(graph, operators, nodes));
  }
  return true;
}

}  // namespace onward
