#include "graph/ir/graph.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "graph/base/status_macros.h"

namespace onward {

const char* Name(Phase phase) {
  switch (phase) {
    case Phase::kForward:
      return "forward";
    case Phase::kLoss:
      return "loss";
    case Phase::kBackward:
      return "backward";
    case Phase::kReduce:
      return "reduce";
    case Phase::kUpdate:
      return "update";
    case Phase::kMetric:
      return "metric";
  }
  return "";
}

Graph::~Graph() {
  for (Node* node = first_; node != nullptr;) {
    Node* next = node->next_;
    delete node;
    node = next;
  }
}

std::string Graph::UniqueName(const std::string& wish) {
  const std::string base = wish.empty() ? "v" : wish;
  auto [it, fresh] = names_.try_emplace(base, 1);
  if (fresh) return base;
  for (;;) {
    std::string candidate = absl::StrCat(base, "_", names_[base]++);
    if (names_.try_emplace(candidate, 1).second) return candidate;
  }
}

void Graph::AddUse(Value* value, Use use, size_t* position) {
  if (position != nullptr) *position = value->uses_.size();
  value->uses_.push_back(use);
}

void Graph::DropUse(Value* value, size_t position) {
  std::vector<Use>& uses = value->uses_;
  const Use moved = uses.back();
  uses[position] = moved;
  uses.pop_back();
  if (position < uses.size() && moved.kind == Use::Kind::kNode) {
    moved.node->inputs_[moved.index].use = position;
  }
}

size_t Graph::FindUse(const Value* value, Use::Kind kind, int index) const {
  for (size_t i = 0; i < value->uses_.size(); ++i) {
    if (value->uses_[i].kind == kind && value->uses_[i].index == index) return i;
  }
  ONWARD_CHECK(false);
  return 0;
}

Value* Graph::AddInput(const std::string& name, TensorType type, std::vector<std::string> symbols) {
  auto value = std::make_unique<Value>();
  value->kind = Value::Kind::kInput;
  value->name = UniqueName(name);
  value->type = std::move(type);
  value->symbols = std::move(symbols);
  inputs_.push_back(std::move(value));
  return inputs_.back().get();
}

Value* Graph::AddConstant(std::shared_ptr<const Tensor> tensor, const std::string& name) {
  auto value = std::make_unique<Value>();
  value->kind = Value::Kind::kConstant;
  value->name = UniqueName(name.empty() ? "c" : name);
  value->type = tensor->type();
  value->constant = std::move(tensor);
  constants_.push_back(std::move(value));
  return constants_.back().get();
}

State* Graph::AddState(State::Kind kind, const std::string& name, TensorType type,
                       std::shared_ptr<const Tensor> initial, double fill) {
  auto value = std::make_unique<Value>();
  value->kind = Value::Kind::kState;
  value->name = UniqueName(name);
  value->type = std::move(type);
  auto state = std::make_unique<State>();
  state->kind = kind;
  state->name = name;
  state->current = value.get();
  state->initial = std::move(initial);
  state->fill = fill;
  value->state = state.get();
  state_values_.push_back(std::move(value));
  states_.push_back(std::move(state));
  return states_.back().get();
}

void Graph::SetNext(State* state, Value* next) {
  int index = 0;
  while (states_[index].get() != state) ++index;
  if (state->next != nullptr) DropUse(state->next, FindUse(state->next, Use::Kind::kState, index));
  state->next = next;
  if (next != nullptr) AddUse(next, {Use::Kind::kState, nullptr, index}, nullptr);
}

void Graph::AddOutput(const std::string& name, Value* value, int crossing) {
  AddUse(value, {Use::Kind::kOutput, nullptr, static_cast<int>(outputs_.size())}, nullptr);
  outputs_.push_back({name, value, crossing});
}

void Graph::SetOutput(int index, Value* value) {
  DropUse(outputs_[index].value, FindUse(outputs_[index].value, Use::Kind::kOutput, index));
  outputs_[index].value = value;
  AddUse(value, {Use::Kind::kOutput, nullptr, index}, nullptr);
}

void Graph::ClearOutputs() {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    Value* value = outputs_[i].value;
    DropUse(value, FindUse(value, Use::Kind::kOutput, static_cast<int>(i)));
  }
  outputs_.clear();
}

void Graph::Link(Node* node, Node* before) {
  Node* after = before == nullptr ? last_ : before->previous_;
  node->previous_ = after;
  node->next_ = before;
  (after == nullptr ? first_ : after->next_) = node;
  (before == nullptr ? last_ : before->previous_) = node;
  ++num_nodes_;
}

void Graph::Unlink(Node* node) {
  (node->previous_ == nullptr ? first_ : node->previous_->next_) = node->next_;
  (node->next_ == nullptr ? last_ : node->next_->previous_) = node->previous_;
  --num_nodes_;
}

Node* Graph::AddNode(Node* before, const Operator* op, absl::Span<Value* const> inputs,
                     absl::Span<const TensorType> outputs,
                     absl::Span<const std::string> output_names, Attributes attributes) {
  Node* node = new Node;
  node->graph_ = this;
  node->op_ = op;
  node->attributes = std::move(attributes);
  node->inputs_.resize(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    node->inputs_[i].value = inputs[i];
    if (inputs[i] != nullptr) {
      AddUse(inputs[i], {Use::Kind::kNode, node, static_cast<int>(i)}, &node->inputs_[i].use);
    }
  }
  node->outputs_.resize(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].dtype == DataType::kUndefined) continue;
    auto value = std::make_unique<Value>();
    value->kind = Value::Kind::kResult;
    value->name = UniqueName(i < output_names.size() ? output_names[i] : "");
    value->type = outputs[i];
    value->producer = node;
    value->output_index = static_cast<int>(i);
    node->outputs_[i] = std::move(value);
  }
  Link(node, before);
  return node;
}

void Graph::SetInput(Node* node, int index, Value* value) {
  while (node->num_inputs() <= index) node->inputs_.emplace_back();
  Node::Input& input = node->inputs_[index];
  if (input.value != nullptr) DropUse(input.value, input.use);
  input.value = value;
  if (value != nullptr) AddUse(value, {Use::Kind::kNode, node, index}, &input.use);
}

void Graph::ReplaceUses(Value* from, Value* to) {
  if (from == to) return;
  std::vector<Use> uses = std::move(from->uses_);
  from->uses_.clear();
  for (const Use& use : uses) {
    switch (use.kind) {
      case Use::Kind::kNode:
        use.node->inputs_[use.index].value = to;
        AddUse(to, use, &use.node->inputs_[use.index].use);
        break;
      case Use::Kind::kOutput:
        outputs_[use.index].value = to;
        AddUse(to, use, nullptr);
        break;
      case Use::Kind::kState:
        states_[use.index]->next = to;
        AddUse(to, use, nullptr);
        break;
    }
  }
}

void Graph::Remove(Node* node) {
  for (const auto& output : node->outputs_) {
    ONWARD_CHECK(output == nullptr || output->uses_.empty());
    if (output != nullptr) names_.erase(output->name);
  }
  for (Node::Input& input : node->inputs_) {
    if (input.value != nullptr) DropUse(input.value, input.use);
  }
  Unlink(node);
  delete node;
}

void Graph::Move(Node* node, Node* before) {
  if (node == before) return;
  Unlink(node);
  Link(node, before);
}

void Graph::RemoveConstant(Value* value) {
  ONWARD_CHECK(value->uses_.empty());
  for (auto it = constants_.begin(); it != constants_.end(); ++it) {
    if (it->get() == value) {
      names_.erase(value->name);
      constants_.erase(it);
      return;
    }
  }
}

void Graph::RemoveUnusedConstants() {
  constants_.erase(std::remove_if(constants_.begin(), constants_.end(),
                                  [this](const std::unique_ptr<Value>& v) {
                                    if (!v->uses_.empty()) return false;
                                    names_.erase(v->name);
                                    return true;
                                  }),
                   constants_.end());
}

void Graph::RemoveState(State* state) {
  ONWARD_CHECK(state->current->uses_.empty() && state->next == nullptr);
  size_t index = 0;
  while (states_[index].get() != state) ++index;
  names_.erase(state->current->name);
  states_.erase(states_.begin() + index);
  state_values_.erase(state_values_.begin() + index);
  for (size_t i = index; i < states_.size(); ++i) {
    if (states_[i]->next == nullptr) continue;
    const size_t at = FindUse(states_[i]->next, Use::Kind::kState, static_cast<int>(i) + 1);
    states_[i]->next->uses_[at].index = static_cast<int>(i);
  }
}

Value* Graph::FindInput(absl::string_view name) const {
  for (const auto& value : inputs_) {
    if ((value->feed.empty() ? value->name : value->feed) == name) return value.get();
  }
  return nullptr;
}

Value* Graph::FindOutput(absl::string_view name) const {
  for (const Output& output : outputs_) {
    if (output.name == name) return output.value;
  }
  return nullptr;
}

State* Graph::FindState(absl::string_view name) const {
  for (const auto& state : states_) {
    if (state->name == name) return state.get();
  }
  return nullptr;
}

std::unique_ptr<Graph> Graph::Clone(absl::flat_hash_map<const Value*, Value*>* map) const {
  absl::flat_hash_map<const Value*, Value*> local;
  absl::flat_hash_map<const Value*, Value*>& copy = map == nullptr ? local : *map;
  auto out = std::make_unique<Graph>();
  out->name = name;
  for (const auto& v : inputs_) {
    Value* w = out->AddInput(v->name, v->type, v->symbols);
    w->device = v->device;
    w->feed = v->feed;
    w->crossing = v->crossing;
    copy[v.get()] = w;
  }
  for (const auto& v : constants_) {
    Value* w = out->AddConstant(v->constant, v->name);
    w->device = v->device;
    w->initializer = v->initializer;
    copy[v.get()] = w;
  }
  for (const auto& s : states_) {
    State* t = out->AddState(s->kind, s->name, s->current->type, s->initial, s->fill);
    t->replica = s->replica;
    t->current->device = s->current->device;
    copy[s->current] = t->current;
  }
  for (Node* n : nodes()) {
    std::vector<Value*> inputs;
    for (const Node::Input& i : n->inputs_) {
      inputs.push_back(i.value == nullptr ? nullptr : copy.at(i.value));
    }
    std::vector<TensorType> types;
    std::vector<std::string> names;
    for (const auto& o : n->outputs_) {
      types.push_back(o == nullptr ? TensorType{} : o->type);
      names.push_back(o == nullptr ? "" : o->name);
    }
    Node* m = out->AddNode(nullptr, n->op_, inputs, types, names, n->attributes);
    m->name = n->name;
    m->phase = n->phase;
    m->device = n->device;
    m->ordinal = n->ordinal;
    m->source = n->source;
    for (const auto& [key, body] : n->bodies) m->bodies.emplace_back(key, body->Clone());
    for (size_t i = 0; i < n->outputs_.size(); ++i) {
      if (n->outputs_[i] == nullptr) continue;
      m->outputs_[i]->symbols = n->outputs_[i]->symbols;
      copy[n->outputs_[i].get()] = m->outputs_[i].get();
    }
  }
  for (size_t i = 0; i < states_.size(); ++i) {
    if (states_[i]->next != nullptr) out->SetNext(out->states_[i].get(), copy.at(states_[i]->next));
  }
  for (const Output& o : outputs_) out->AddOutput(o.name, copy.at(o.value), o.crossing);
  return out;
}

}  // namespace onward
