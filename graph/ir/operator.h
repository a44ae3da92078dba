// Operators: what a node means, stated once.
//
// An operator is one block in graph/ops/<family>.cc. For operators of ONNX the
// schema supplies the names, types, defaults, shape inference; the block adds
// examples, a gradient or a lowering, and what the passes ask. Nothing about an
// operator is stated anywhere else, and nothing registers itself: lists are
// explicit (graph/ops/operators.h).
#ifndef ONWARD_GRAPH_IR_OPERATOR_H_
#define ONWARD_GRAPH_IR_OPERATOR_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "graph/base/attribute.h"
#include "graph/base/tensor.h"

namespace onward {

class GradientContext;
class LowerContext;
class Node;
struct Operator;

// The domain of operators that exist only inside Onward, each with a lowering
// to ONNX's own (communication apart).
inline constexpr char kOnward[] = "onward";

// What an inference rule is given: types of the inputs (null where absent), the
// values of those that are constants, attributes; it sets each output's type.
class InferContext {
 public:
  InferContext(const Operator& op, const Attributes& attributes,
               absl::Span<const TensorType* const> inputs,
               absl::Span<const Tensor* const> constants, int num_outputs)
      : op_(op),
        attributes_(attributes),
        inputs_(inputs),
        constants_(constants),
        outputs_(num_outputs) {}

  const Operator& op() const { return op_; }
  const Attributes& attributes() const { return attributes_; }
  int num_inputs() const { return static_cast<int>(inputs_.size()); }
  int num_outputs() const { return static_cast<int>(outputs_.size()); }
  bool has(int i) const { return i < num_inputs() && inputs_[i] != nullptr; }
  // REQUIRES: has(i).
  const TensorType& input(int i) const { return *inputs_[i]; }
  const Tensor* constant(int i) const {
    return i < static_cast<int>(constants_.size()) ? constants_[i] : nullptr;
  }
  void SetOutput(int i, DataType dtype, Dims dims) {
    if (i < num_outputs()) outputs_[i] = TensorType{dtype, std::move(dims), {}};
  }
  std::vector<TensorType>& outputs() { return outputs_; }

 private:
  const Operator& op_;
  const Attributes& attributes_;
  absl::Span<const TensorType* const> inputs_;
  absl::Span<const Tensor* const> constants_;
  std::vector<TensorType> outputs_;
};

using InferRule = std::function<absl::Status(InferContext&)>;
using GradientRule = std::function<absl::Status(GradientContext&)>;
using LowerRule = std::function<absl::Status(LowerContext&)>;

// Where the samples of the batch lie in a value.
struct SampleAxis {
  enum class Kind { kNone, kAxis, kMixed };
  Kind kind = Kind::kNone;
  int axis = 0;       // kAxis
  int64_t inner = 1;  // kAxis: each sample covers this many consecutive entries of the axis
  static SampleAxis None() { return {}; }
  static SampleAxis Axis(int axis, int64_t inner = 1) { return {Kind::kAxis, axis, inner}; }
  static SampleAxis Mixed() { return {Kind::kMixed, 0, 1}; }
  bool operator==(const SampleAxis& o) const {
    return kind == o.kind && axis == o.axis && inner == o.inner;
  }
};
// Sample axis of output `i` of a node, from those of its inputs. Rules are asked
// only where some input has a sample axis.
using SampleAxisRule =
    std::function<SampleAxis(const Node& node, absl::Span<const SampleAxis> inputs, int output)>;

// How many multiplications and additions one use is, whichever kernel does it (a
// function such as exp counts as ten): for reports and forecasts.
using OperationsRule = std::function<double(const Node& node)>;

// One operator. Built by chaining in its block, then never changed.
struct Operator {
  enum class Gradients { kUnstated, kRule, kNone };

  Operator(std::string domain_, std::string name_)
      : domain(std::move(domain_)), name(std::move(name_)) {}

  std::string domain;  // "" is ONNX's own
  std::string name;
  // ONNX text of small graphs with concrete shapes, together covering every
  // attribute value and optional input: they drive the generated test suites.
  std::vector<std::string> examples;
  Gradients gradients = Gradients::kUnstated;
  GradientRule gradient;
  std::string why_not_differentiable;
  LowerRule lower;            // the meaning in simpler operators
  bool always_lower = false;  // there is no kernel: lowered before autodiff
  InferRule infer;            // own operators; for ONNX's set by the operator list
  SampleAxisRule sample_axis;
  OperationsRule operations;  // default: one per element of the node's largest tensor
  bool elementwise = false;   // each output element depends on the same element of broadcast inputs
  bool random = false;        // not a function of its inputs alone until keyed
  bool collective = false;    // talks to other replicas: never removed, reordered or merged
  // The first so many inputs and all outputs are of one type, and any range of their
  // elements can be computed without the others; what follows are scalars. 0: not so.
  int range_inputs = 0;

  // ---- The words of a block.
  Operator& Example(std::string text) {
    examples.push_back(std::move(text));
    return *this;
  }
  Operator& Gradient(GradientRule rule) {
    gradients = Gradients::kRule;
    gradient = std::move(rule);
    return *this;
  }
  Operator& NotDifferentiable(std::string why) {
    gradients = Gradients::kNone;
    why_not_differentiable = std::move(why);
    return *this;
  }
  Operator& Lower(LowerRule rule) {
    lower = std::move(rule);
    return *this;
  }
  // For operators without a kernel of their own.
  Operator& AlwaysLower(LowerRule rule) {
    always_lower = true;
    return Lower(std::move(rule));
  }
  Operator& Infer(InferRule rule) {
    infer = std::move(rule);
    return *this;
  }
  Operator& Samples(SampleAxisRule rule) {
    sample_axis = std::move(rule);
    return *this;
  }
  Operator& Operations(OperationsRule rule) {
    operations = std::move(rule);
    return *this;
  }
  Operator& Elementwise() {
    elementwise = true;
    return *this;
  }
  Operator& Random() {
    random = true;
    return *this;
  }
  Operator& Collective() {
    collective = true;
    return *this;
  }

  Operator& ByRanges(int inputs) {
    range_inputs = inputs;
    return *this;
  }

  // "Conv", "onward.ConvFilterGradient".
  std::string id() const { return domain.empty() ? name : domain + "." + name; }
};

// By the operator's rule.
double Operations(const Node& node);
// Elements of the largest input or output.
int64_t LargestElements(const Node& node);

// Finds operators by domain and name.
class OperatorSet {
 public:
  virtual ~OperatorSet() = default;
  // Null where there is none.
  virtual const Operator* Find(absl::string_view domain, absl::string_view name) const = 0;
};

}  // namespace onward

#endif  // ONWARD_GRAPH_IR_OPERATOR_H_
