#include "graph/ir/builder.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "graph/base/status_macros.h"

namespace onward {
namespace {

Expr Binary(absl::string_view op, Expr a, Expr b) {
  Builder* builder = a.builder() != nullptr ? a.builder() : b.builder();
  if (builder == nullptr || !a || !b) return Expr(builder, nullptr);
  return builder->Op(op, {a, b});
}

}  // namespace

Expr operator+(Expr a, Expr b) { return Binary("Add", a, b); }
Expr operator-(Expr a, Expr b) { return Binary("Sub", a, b); }
Expr operator*(Expr a, Expr b) { return Binary("Mul", a, b); }
Expr operator/(Expr a, Expr b) { return Binary("Div", a, b); }
Expr operator-(Expr a) { return a ? a.builder()->Op("Neg", {a}) : a; }
Expr operator+(Expr a, double b) { return a ? a + a.builder()->Like(a, b) : a; }
Expr operator+(double a, Expr b) { return b ? b.builder()->Like(b, a) + b : b; }
Expr operator-(Expr a, double b) { return a ? a - a.builder()->Like(a, b) : a; }
Expr operator-(double a, Expr b) { return b ? b.builder()->Like(b, a) - b : b; }
Expr operator*(Expr a, double b) { return a ? a * a.builder()->Like(a, b) : a; }
Expr operator*(double a, Expr b) { return b ? b.builder()->Like(b, a) * b : b; }
Expr operator/(Expr a, double b) { return a ? a / a.builder()->Like(a, b) : a; }
Expr operator/(double a, Expr b) { return b ? b.builder()->Like(b, a) / b : b; }

std::string Describe(const Node& node) {
  const std::string& name = node.name.empty() ? node.source : node.name;
  if (name.empty()) return absl::StrCat("a node of ", node.op().id());
  return absl::StrCat("node '", name, "' (", node.op().id(), ")");
}

void Builder::Fail(absl::Status status) {
  if (status_.ok()) status_ = std::move(status);
}

std::string Builder::NameFor(absl::string_view op, int output) const {
  const size_t dot = op.rfind('.');
  const absl::string_view bare = dot == absl::string_view::npos ? op : op.substr(dot + 1);
  std::string name = scope_.empty() ? std::string(bare) : absl::StrCat(scope_, "/", bare);
  if (output > 0) absl::StrAppend(&name, "_o", output);
  return name;
}

absl::StatusOr<std::vector<TensorType>> InferOutputs(const Operator& op,
                                                     const Attributes& attributes,
                                                     absl::Span<const TensorType* const> inputs,
                                                     absl::Span<const Tensor* const> constants,
                                                     int num_outputs,
                                                     absl::Span<const std::string> names) {
  InferContext context(op, attributes, inputs, constants, num_outputs);
  if (!op.infer) {
    return absl::InternalError(absl::StrCat("operator ", op.id(), " has no inference rule"));
  }
  RETURN_IF_ERROR(op.infer(context));
  std::vector<TensorType>& outputs = context.outputs();
  for (int i = 0; i < num_outputs; ++i) {
    // A product of extents that does not fit must not reach anybody.
    Dims known = outputs[i].dims;
    std::replace(known.begin(), known.end(), kDynamic, int64_t{1});
    RETURN_IF_ERROR(CheckedElements(known).status());
    // An empty name in a file means that the optional output is not wanted.
    if (i < static_cast<int>(names.size()) && names[i].empty()) {
      outputs[i].dtype = DataType::kUndefined;
    } else if (outputs[i].dtype == DataType::kUndefined) {
      return absl::InvalidArgumentError(
          absl::StrCat("the type of output ", i, " of ", op.id(), " cannot be told"));
    }
  }
  return std::move(outputs);
}

absl::StatusOr<Node*> Builder::AddNode(const Operator* op, absl::Span<Value* const> inputs,
                                       Attributes attributes, int num_outputs,
                                       absl::Span<const std::string> output_names) {
  std::vector<const TensorType*> types;
  std::vector<const Tensor*> constants;
  for (Value* input : inputs) {
    types.push_back(input == nullptr ? nullptr : &input->type);
    constants.push_back(input == nullptr ? nullptr : input->constant.get());
  }
  ASSIGN_OR_RETURN(const std::vector<TensorType> outputs,
                   InferOutputs(*op, attributes, types, constants, num_outputs, output_names));
  std::vector<std::string> names(output_names.begin(), output_names.end());
  for (int i = static_cast<int>(names.size()); i < num_outputs; ++i) {
    names.push_back(NameFor(op->name, i));
  }
  Node* node = graph_->AddNode(before_, op, inputs, outputs, names, std::move(attributes));
  node->phase = phase_;
  node->source = source_;
  return node;
}

std::vector<Expr> Builder::Ops(absl::string_view name, const std::vector<Expr>& inputs,
                               Attributes attributes, int num_outputs) {
  std::vector<Expr> out(num_outputs, Expr(this, nullptr));
  if (!status_.ok()) return out;
  absl::string_view bare = name;
  const absl::string_view domain = absl::ConsumePrefix(&bare, "onward.") ? kOnward : "";
  const Operator* op = operators_->Find(domain, bare);
  if (op == nullptr) {
    Fail(absl::InternalError(absl::StrCat("no operator is called ", name)));
    return out;
  }
  std::vector<Value*> values;
  for (const Expr& e : inputs) values.push_back(e.value());
  absl::StatusOr<Node*> node = AddNode(op, values, std::move(attributes), num_outputs);
  if (!node.ok()) {
    Fail(Annotate(node.status(), absl::StrCat("building ", name)));
    return out;
  }
  for (int i = 0; i < num_outputs; ++i) out[i] = Expr(this, (*node)->output(i));
  return out;
}

Expr Builder::Op(absl::string_view name, const std::vector<Expr>& inputs, Attributes attributes) {
  return Ops(name, inputs, std::move(attributes), 1)[0];
}

Expr Builder::Constant(Tensor tensor) {
  return Wrap(graph_->AddConstant(std::make_shared<const Tensor>(std::move(tensor))));
}

Expr Builder::Scalar(DataType dtype, double number) {
  return Constant(Tensor::Full(dtype, {}, number));
}

Expr Builder::Ints(const std::vector<int64_t>& values) {
  return Constant(Tensor::Of<int64_t>({static_cast<int64_t>(values.size())}, values));
}

Expr Builder::Like(Expr like, double number) {
  return like ? Scalar(like.dtype(), number) : Expr(this, nullptr);
}

Expr Builder::Reshape(Expr x, const Dims& dims) {
  if (!x || x.dims() == dims) return x;
  return Op("Reshape", {x, Ints(dims)}, {{"allowzero", int64_t{1}}});
}

Expr Builder::Expand(Expr x, const Dims& dims) {
  if (!x || x.dims() == dims) return x;
  return Op("Expand", {x, Ints(dims)});
}

Expr Builder::Transpose(Expr x, const std::vector<int64_t>& permutation) {
  bool identity = true;
  for (size_t i = 0; i < permutation.size(); ++i) {
    identity &= permutation[i] == static_cast<int64_t>(i);
  }
  if (!x || identity) return x;
  return Op("Transpose", {x}, {{"perm", permutation}});
}

Expr Builder::Cast(Expr x, DataType dtype) {
  if (!x || x.dtype() == dtype) return x;
  return Op("Cast", {x}, {{"to", static_cast<int64_t>(dtype)}});
}

Expr Builder::ReduceSum(Expr x, const std::vector<int64_t>& axes, bool keep) {
  if (!x || axes.empty()) return x;
  return Op("ReduceSum", {x, Ints(axes)}, {{"keepdims", int64_t{keep ? 1 : 0}}});
}

Expr Builder::SumTo(Expr x, const Dims& dims) {
  if (!x || x.dims() == dims) return x;
  const int extra = x.rank() - static_cast<int>(dims.size());
  std::vector<int64_t> axes;
  for (int i = 0; i < x.rank(); ++i) {
    if (i < extra || (dims[i - extra] == 1 && x.dims()[i] != 1)) axes.push_back(i);
  }
  return Reshape(ReduceSum(x, axes, true), dims);
}

Expr Builder::Zeros(const TensorType& type) { return Expand(Scalar(type.dtype, 0), type.dims); }

absl::Status LowerNode(Graph* graph, const OperatorSet* operators, Node* node) {
  Builder builder(graph, operators);
  builder.InsertBefore(node);
  builder.SetPhase(node->phase);
  builder.SetSource(node->name.empty() ? node->source : node->name);
  LowerContext context(&builder, node);
  const Node* previous = node->previous();
  RETURN_IF_ERROR(Annotate(node->op().lower(context), Describe(*node)));
  RETURN_IF_ERROR(Annotate(builder.status(), Describe(*node)));
  // Random operators keep their key through a lowering.
  for (Node* made = previous == nullptr ? graph->first() : previous->next(); made != node;
       made = made->next()) {
    made->device = node->device;
    if (made->op().random && made->ordinal < 0) made->ordinal = node->ordinal;
  }
  for (int i = 0; i < node->num_outputs(); ++i) {
    Value* old = node->output(i);
    if (old == nullptr || old->uses().empty()) continue;
    Value* made = context.result()[i].value();
    if (made == nullptr || made->type != old->type) {
      return absl::InternalError(absl::StrCat(Describe(*node), ": its lowering gives ",
                                              made == nullptr ? "nothing" : ToString(made->type),
                                              " for output ", i, ", expected ",
                                              ToString(old->type)));
    }
    graph->ReplaceUses(old, made);
  }
  graph->Remove(node);
  return absl::OkStatus();
}

}  // namespace onward
