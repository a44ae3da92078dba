// Building graphs, and the contexts in which gradient rules and lowerings are written.
#ifndef ONWARD_GRAPH_IR_BUILDER_H_
#define ONWARD_GRAPH_IR_BUILDER_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "graph/ir/graph.h"
#include "graph/ir/operator.h"

namespace onward {

class Builder;

// A value under construction, so that rules read like formulas: dy * (1 - y * y).
// Empty after an error: the builder keeps the first one, and everything built
// from an empty Expr is empty.
class Expr {
 public:
  Expr() = default;
  Expr(Builder* builder, Value* value) : builder_(builder), value_(value) {}
  Value* value() const { return value_; }
  explicit operator bool() const { return value_ != nullptr; }
  Builder* builder() const { return builder_; }
  // REQUIRES: not empty.
  const Dims& dims() const { return value_->type.dims; }
  DataType dtype() const { return value_->type.dtype; }
  int rank() const { return value_->rank(); }

 private:
  Builder* builder_ = nullptr;
  Value* value_ = nullptr;
};

// Numbers take the data type of the other side.
Expr operator+(Expr a, Expr b);
Expr operator-(Expr a, Expr b);
Expr operator*(Expr a, Expr b);
Expr operator/(Expr a, Expr b);
Expr operator-(Expr a);
Expr operator+(Expr a, double b);
Expr operator+(double a, Expr b);
Expr operator-(Expr a, double b);
Expr operator-(double a, Expr b);
Expr operator*(Expr a, double b);
Expr operator*(double a, Expr b);
Expr operator/(Expr a, double b);
Expr operator/(double a, Expr b);

// The types of the outputs of a call, by the operator's rule. An output whose name is there
// and empty is not wanted: its type is undefined. Absent inputs are null; `constants` holds
// the values of those that are known. InvalidArgument where the operator refuses the inputs.
absl::StatusOr<std::vector<TensorType>> InferOutputs(const Operator& op,
                                                     const Attributes& attributes,
                                                     absl::Span<const TensorType* const> inputs,
                                                     absl::Span<const Tensor* const> constants,
                                                     int num_outputs,
                                                     absl::Span<const std::string> names);

// Adds nodes at one place of a graph, infers their types, and remembers the first error.
class Builder {
 public:
  // Both must outlive the builder.
  Builder(Graph* graph, const OperatorSet* operators) : graph_(graph), operators_(operators) {}

  Graph* graph() const { return graph_; }
  const OperatorSet* operators() const { return operators_; }

  // New nodes go before `node` (null: at the end) and are of `phase`.
  void InsertBefore(Node* node) { before_ = node; }
  Node* before() const { return before_; }
  void SetPhase(Phase phase) { phase_ = phase; }
  // New nodes say in messages that they come from there.
  void SetSource(std::string source) { source_ = std::move(source); }
  // Prefix of the names of new values.
  void SetScope(std::string scope) { scope_ = std::move(scope); }

  // The first error since the start; ok where there was none.
  const absl::Status& status() const { return status_; }
  // Records an error unless there is one already.
  void Fail(absl::Status status);

  // ---- Full form. InvalidArgument where the operator refuses the inputs.
  // Absent optional inputs are null. `num_outputs` < 0: one.
  absl::StatusOr<Node*> AddNode(const Operator* op, absl::Span<Value* const> inputs,
                                Attributes attributes = {}, int num_outputs = 1,
                                absl::Span<const std::string> output_names = {});

  // ---- Short forms.
  Expr Wrap(Value* value) { return Expr(this, value); }
  // An operator of ONNX, or of Onward with "onward." before its name.
  Expr Op(absl::string_view name, const std::vector<Expr>& inputs, Attributes attributes = {});
  std::vector<Expr> Ops(absl::string_view name, const std::vector<Expr>& inputs,
                        Attributes attributes, int num_outputs);
  Expr Constant(Tensor tensor);
  Expr Scalar(DataType dtype, double number);
  // A one-dimensional int64 tensor.
  Expr Ints(const std::vector<int64_t>& values);
  Expr Ints(absl::Span<const int64_t> values) {
    return Ints(std::vector<int64_t>(values.begin(), values.end()));
  }
  // The scalar `number` in the type of `like`.
  Expr Like(Expr like, double number);

  // ---- What rules need often; each is nothing where it would change nothing.
  Expr Reshape(Expr x, const Dims& dims);
  Expr Expand(Expr x, const Dims& dims);
  Expr Transpose(Expr x, const std::vector<int64_t>& permutation);
  Expr Cast(Expr x, DataType dtype);
  // Sums over `axes`; keeps them as extents of 1 if `keep`. No axes: nothing.
  Expr ReduceSum(Expr x, const std::vector<int64_t>& axes, bool keep);
  // The inverse of broadcasting: sums x down to `dims`.
  Expr SumTo(Expr x, const Dims& dims);
  Expr Zeros(const TensorType& type);
  Expr MatMul(Expr a, Expr b) { return Op("MatMul", {a, b}); }
  Expr Where(Expr condition, Expr a, Expr b) { return Op("Where", {condition, a, b}); }

 private:
  std::string NameFor(absl::string_view op, int output) const;

  Graph* graph_;
  const OperatorSet* operators_;
  Node* before_ = nullptr;
  Phase phase_ = Phase::kForward;
  std::string source_;
  std::string scope_;
  absl::Status status_;
};

// What a gradient rule is given: the node's inputs x, outputs y and the gradients
// dy of its outputs; it gives the gradients dx of those inputs that want one. The
// driver sums a gradient down to its input's shape and adds those of several
// uses, so a rule states its formula only.
class GradientContext {
 public:
  GradientContext(Builder* builder, const Node* node, std::vector<Expr> dy,
                  std::vector<bool> wanted)
      : builder_(builder),
        node_(node),
        dy_(std::move(dy)),
        wanted_(std::move(wanted)),
        dx_(node->num_inputs()) {}

  Builder& b() { return *builder_; }
  const Node& node() const { return *node_; }
  const Attributes& attributes() const { return node_->attributes; }
  int num_inputs() const { return node_->num_inputs(); }
  bool has_x(int i) const { return node_->input(i) != nullptr; }
  Expr x(int i = 0) { return builder_->Wrap(node_->input(i)); }
  Expr y(int i = 0) { return builder_->Wrap(node_->output(i)); }
  // Empty where the output is not on a way to the loss: its gradient is zero.
  Expr dy(int i = 0) { return i < static_cast<int>(dy_.size()) ? dy_[i] : Expr(); }
  // Is the gradient of input i needed? A rule may skip those that are not.
  bool wants(int i) const { return i < static_cast<int>(wanted_.size()) && wanted_[i]; }
  void dx(int i, Expr gradient) {
    if (i < static_cast<int>(dx_.size())) dx_[i] = gradient;
  }
  const std::vector<Expr>& result() const { return dx_; }

 private:
  Builder* builder_;
  const Node* node_;
  std::vector<Expr> dy_;
  std::vector<bool> wanted_;
  std::vector<Expr> dx_;
};

// What a lowering is given: the node's inputs; it gives every output that is asked for.
class LowerContext {
 public:
  LowerContext(Builder* builder, const Node* node)
      : builder_(builder), node_(node), y_(node->num_outputs()) {}

  Builder& b() { return *builder_; }
  const Node& node() const { return *node_; }
  const Attributes& attributes() const { return node_->attributes; }
  int num_inputs() const { return node_->num_inputs(); }
  bool has_x(int i) const { return node_->input(i) != nullptr; }
  Expr x(int i = 0) { return builder_->Wrap(node_->input(i)); }
  bool wants(int i) const { return node_->output(i) != nullptr; }
  void y(int i, Expr value) {
    if (i < static_cast<int>(y_.size())) y_[i] = value;
  }
  const std::vector<Expr>& result() const { return y_; }

 private:
  Builder* builder_;
  const Node* node_;
  std::vector<Expr> y_;
};

// Replaces `node` by its lowering. The rule must give every used output with the
// type it had. Internal where it does not.
absl::Status LowerNode(Graph* graph, const OperatorSet* operators, Node* node);

// "node 'conv1' (Conv)": for messages.
std::string Describe(const Node& node);

}  // namespace onward

#endif  // ONWARD_GRAPH_IR_BUILDER_H_
