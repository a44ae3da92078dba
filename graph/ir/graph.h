// The program language of Onward: a pure graph of operators over values, and
// states as pairs.
//
// A Graph is one step of training (or of evaluation) of one replica, and after a
// strategy has run, of all replicas of this process. It has no assignment and no
// in-place operator. What survives a step is a State{current, next}: after the
// step, the value of `next` becomes that of `current`.
//
// Invariants, held after every edit (graph/ir/verifier.h checks them):
//   - nodes() is a topological order: a node's inputs come from graph inputs,
//     constants, states, or nodes before it;
//   - every value has its element type and extents;
//   - every use of a value is listed in the value, and only those.
//
// A Graph is single-threaded and movable; Node* and Value* stay valid until the
// node is removed. Names are for people: no code reads meaning out of a name.
#ifndef ONWARD_GRAPH_IR_GRAPH_H_
#define ONWARD_GRAPH_IR_GRAPH_H_

#include <cstdint>
#include <deque>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "graph/base/attribute.h"
#include "graph/base/device.h"
#include "graph/base/tensor.h"

namespace onward {

class Graph;
class Node;
struct Operator;
struct State;
struct Value;

// A place where a value is read: input `index` of `node`; or, where node is null,
// the graph's output `index` or the `next` of its state `index`.
struct Use {
  enum class Kind { kNode, kOutput, kState };
  Kind kind = Kind::kNode;
  Node* node = nullptr;
  int index = 0;
};

// One tensor of the program. Owned by its node or by the graph.
struct Value {
  enum class Kind { kInput, kConstant, kState, kResult };
  Kind kind = Kind::kResult;
  std::string name;                  // unique in the graph
  TensorType type;                   // layout is plain in graphs: plans decide layouts
  std::vector<std::string> symbols;  // per axis: the file's name of the extent, or ""; may be empty
  std::shared_ptr<const Tensor> constant;  // kConstant only
  bool initializer = false;  // kConstant: the file's own, not one that a node or a pass made
  State* state = nullptr;    // kState only
  Node* producer = nullptr;  // kResult only
  int output_index = 0;      // kResult only
  Device device;             // kInput, kConstant and kState: set by a strategy

  // kInput: the name under which it is fed, which the replicas share; empty: its own.
  std::string feed;
  // kInput of the part of a step behind a crossing of shards: which crossing value it is.
  int crossing = -1;

  const std::vector<Use>& uses() const { return uses_; }
  const Dims& dims() const { return type.dims; }
  DataType dtype() const { return type.dtype; }
  int rank() const { return static_cast<int>(type.dims.size()); }

 private:
  friend class Graph;
  friend class Node;
  std::vector<Use> uses_;
};

// What survives a step.
struct State {
  enum class Kind {
    kParameter,  // trained: the optimizer gives its `next`
    kFrozen,     // a parameter that is not trained; next == current
    kStatistic,  // running mean and variance of normalisations
    kMoment,     // of an optimizer
    kCounter,    // step counts, seeds, loss scale
  };
  Kind kind = Kind::kParameter;
  std::string name;  // logical: the same on every replica, written in checkpoints
  Value* current = nullptr;
  Value* next =
      nullptr;  // null until given; a state whose next is null or its own current keeps its value
  std::shared_ptr<const Tensor> initial;  // null: every element is `fill`
  double fill = 0;
  int replica = 0;
};

// Which part of a step a node belongs to: for people, reports and schedules.
enum class Phase { kForward, kLoss, kBackward, kReduce, kUpdate, kMetric };
const char* Name(Phase phase);

// The use of an operator.
class Node {
 public:
  const Operator& op() const { return *op_; }
  std::string name;
  Attributes attributes;
  Phase phase = Phase::kForward;
  Device device;
  // Number of the node in the imported file, the key of its random numbers; -1
  // for nodes that passes make.
  int64_t ordinal = -1;
  // Which file node this one comes from, for messages; may be empty.
  std::string source;
  // Bodies of If, Loop and Scan, by attribute name.
  std::vector<std::pair<std::string, std::unique_ptr<Graph>>> bodies;

  int num_inputs() const { return static_cast<int>(inputs_.size()); }
  int num_outputs() const { return static_cast<int>(outputs_.size()); }
  // Null where an optional input is absent.
  Value* input(int i) const { return i < num_inputs() ? inputs_[i].value : nullptr; }
  // Null where an optional output is not asked for.
  Value* output(int i = 0) const { return i < num_outputs() ? outputs_[i].get() : nullptr; }

  Node* next() const { return next_; }
  Node* previous() const { return previous_; }
  Graph* graph() const { return graph_; }

 private:
  friend class Graph;
  struct Input {
    Value* value = nullptr;
    size_t use = 0;  // where value->uses_ lists this input
  };
  Graph* graph_ = nullptr;
  const Operator* op_ = nullptr;
  std::vector<Input> inputs_;
  std::vector<std::unique_ptr<Value>> outputs_;
  Node* previous_ = nullptr;
  Node* next_ = nullptr;
};

class Graph {
 public:
  Graph() = default;
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  std::string name;

  // ---- Building. `name` is made unique by a suffix where it is taken or empty.
  Value* AddInput(const std::string& name, TensorType type, std::vector<std::string> symbols = {});
  Value* AddConstant(std::shared_ptr<const Tensor> tensor, const std::string& name = "");
  State* AddState(State::Kind kind, const std::string& name, TensorType type,
                  std::shared_ptr<const Tensor> initial, double fill = 0);
  void SetNext(State* state, Value* next);
  void AddOutput(const std::string& name, Value* value, int crossing = -1);
  void SetOutput(int index, Value* value);
  void ClearOutputs();

  // Appends before `before` (null: at the end). Types and the absence of an
  // output (kUndefined) are the caller's: use Builder, which infers them.
  Node* AddNode(Node* before, const Operator* op, absl::Span<Value* const> inputs,
                absl::Span<const TensorType> outputs, absl::Span<const std::string> output_names,
                Attributes attributes);

  // ---- Editing.
  void SetInput(Node* node, int index, Value* value);
  // Every use of `from` becomes one of `to`, graph outputs and states included.
  void ReplaceUses(Value* from, Value* to);
  // REQUIRES: none of its outputs is used.
  void Remove(Node* node);
  // Moves `node` before `before` (null: the end). The caller keeps the order topological.
  void Move(Node* node, Node* before);
  // REQUIRES: unused.
  void RemoveConstant(Value* value);
  void RemoveState(State* state);
  // Drops constants that nothing reads.
  void RemoveUnusedConstants();

  // ---- Reading.
  Node* first() const { return first_; }
  Node* last() const { return last_; }
  int num_nodes() const { return num_nodes_; }

  class NodeIterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = Node*;
    using difference_type = std::ptrdiff_t;
    using pointer = Node**;
    using reference = Node*;
    explicit NodeIterator(Node* node) : node_(node) {}
    Node* operator*() const { return node_; }
    NodeIterator& operator++() {
      node_ = node_->next();
      return *this;
    }
    bool operator!=(const NodeIterator& o) const { return node_ != o.node_; }
    bool operator==(const NodeIterator& o) const { return node_ == o.node_; }

   private:
    Node* node_;
  };
  struct NodeRange {
    Node* first;
    NodeIterator begin() const { return NodeIterator(first); }
    NodeIterator end() const { return NodeIterator(nullptr); }
  };
  // In topological order. The loop may remove the current node only after it
  // has taken the next (see for_each_safe use in passes: `Node* next = n->next()`).
  NodeRange nodes() const { return {first_}; }

  const std::vector<std::unique_ptr<Value>>& inputs() const { return inputs_; }
  const std::vector<std::unique_ptr<Value>>& constants() const { return constants_; }
  const std::vector<std::unique_ptr<State>>& states() const { return states_; }
  struct Output {
    std::string name;  // replicas have outputs of the same name
    Value* value = nullptr;
    int crossing = -1;  // number of the value that crosses shards here
  };
  const std::vector<Output>& outputs() const { return outputs_; }

  // Null where there is none of that name. An input goes by the name under which it is fed.
  Value* FindInput(absl::string_view name) const;
  Value* FindOutput(absl::string_view name) const;
  State* FindState(absl::string_view name) const;

  // A copy; `map`, if given, tells which value of the copy stands for which of
  // this graph. Constants share their tensors.
  std::unique_ptr<Graph> Clone(absl::flat_hash_map<const Value*, Value*>* map = nullptr) const;

  // A name that no value of the graph has, made from `wish`.
  std::string UniqueName(const std::string& wish);

 private:
  void AddUse(Value* value, Use use, size_t* position);
  void DropUse(Value* value, size_t position);
  size_t FindUse(const Value* value, Use::Kind kind, int index) const;
  void Link(Node* node, Node* before);
  void Unlink(Node* node);

  Node* first_ = nullptr;
  Node* last_ = nullptr;
  int num_nodes_ = 0;
  std::vector<std::unique_ptr<Value>> inputs_;
  std::vector<std::unique_ptr<Value>> constants_;
  std::vector<std::unique_ptr<State>> states_;
  std::vector<std::unique_ptr<Value>> state_values_;
  std::vector<Output> outputs_;
  absl::flat_hash_map<std::string, int> names_;  // taken names, and the next suffix to try
};

}  // namespace onward

#endif  // ONWARD_GRAPH_IR_GRAPH_H_
