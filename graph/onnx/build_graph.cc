// From a checked proto in the canonical opset to a Graph with bound extents.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "graph/base/errors.h"
#include "graph/base/status_macros.h"
#include "graph/ir/builder.h"
#include "graph/onnx/import.h"
#include "graph/onnx/proto.h"
#include "graph/onnx/schema.h"

namespace onward {
namespace {

std::string DomainOf(const onnx::NodeProto& node) {
  return node.domain() == "ai.onnx" ? "" : node.domain();
}

constexpr int64_t kMostFoldedElements = 1 << 20;
constexpr int64_t kMostAxes = 4;  // in one part of a list of scales
constexpr double kMostFoldedBytes = 256e6;
constexpr double kMostFoldedWork = 1e9;

class GraphReader {
 public:
  GraphReader(const OperatorSet& operators, Evaluator* evaluator, const Binding& binding, int opset)
      : operators_(operators),
        evaluator_(evaluator),
        binding_(binding),
        opset_(opset),
        graph_(std::make_unique<Graph>()),
        builder_(graph_.get(), &operators) {}

  absl::Status Inputs(const std::vector<ModelInput>& inputs) {
    for (const ModelInput& input : inputs) {
      ASSIGN_OR_RETURN(Dims dims, Bind(input));
      // Of what nodes make, Builder sees to it.
      const absl::Status fits = CheckedElements(dims).status();
      if (!fits.ok()) return Annotate(fits, absl::StrCat("input '", input.name, "'"));
      std::vector<std::string> symbols;
      for (const Extent& e : input.extents) symbols.push_back(e.symbol);
      values_[input.name] =
          graph_->AddInput(input.name, {input.dtype, std::move(dims), {}}, std::move(symbols));
    }
    return absl::OkStatus();
  }

  absl::Status Initializers(
      const onnx::GraphProto& proto,
      const absl::flat_hash_map<std::string, std::shared_ptr<const Tensor>>& stored) {
    for (const onnx::TensorProto& t : proto.initializer()) {
      const auto it = stored.find(t.name());
      std::shared_ptr<const Tensor> tensor;
      if (it != stored.end()) {
        tensor = it->second;
      } else {
        ASSIGN_OR_RETURN(Tensor own, TensorFromProto(t));
        tensor = std::make_shared<const Tensor>(std::move(own));
      }
      Value* constant = graph_->AddConstant(std::move(tensor), t.name());
      constant->initializer = true;
      values_[t.name()] = constant;
    }
    return absl::OkStatus();
  }

  absl::Status Nodes(const onnx::GraphProto& proto) {
    for (const onnx::NodeProto& node : proto.node()) {
      for (const std::string& name : node.input()) ++readers_[name];
    }
    for (const onnx::ValueInfoProto& output : proto.output()) ++readers_[output.name()];
    int64_t ordinal = 0;
    for (const onnx::NodeProto& node : proto.node()) {
      RETURN_IF_ERROR(
          WithExitCode(Annotate(Add(node, ordinal++), Where(node)), ExitCode::kUntrainable));
    }
    return absl::OkStatus();
  }

  absl::Status Outputs(const onnx::GraphProto& proto) {
    for (const onnx::ValueInfoProto& output : proto.output()) {
      const auto it = values_.find(output.name());
      if (it == values_.end()) {
        return absl::InvalidArgumentError(
            absl::StrCat("output '", output.name(), "' is made by no node"));
      }
      graph_->AddOutput(output.name(), it->second);
    }
    return absl::OkStatus();
  }

  std::unique_ptr<Graph> Take() {
    graph_->RemoveUnusedConstants();
    return std::move(graph_);
  }

 private:
  std::string Where(const onnx::NodeProto& node) const {
    const std::string name = node.name().empty()
                                 ? (node.output_size() > 0 ? node.output(0) : std::string())
                                 : node.name();
    return absl::StrCat("node '", name, "' (", node.op_type(), ", opset ", opset_, ")");
  }

  absl::StatusOr<Dims> Bind(const ModelInput& input) const {
    const auto whole = binding_.inputs.find(input.name);
    if (whole != binding_.inputs.end()) {
      if (whole->second.size() != input.extents.size()) {
        return absl::InvalidArgumentError(absl::StrCat("input '", input.name, "' has rank ",
                                                       input.extents.size(), ", but the data is ",
                                                       ToString(whole->second)));
      }
      for (size_t i = 0; i < input.extents.size(); ++i) {
        const int64_t fixed = input.extents[i].size;
        if (fixed != kDynamic && fixed != whole->second[i]) {
          return absl::InvalidArgumentError(
              absl::StrCat("input '", input.name, "': axis ", i, " is fixed to ", fixed,
                           " in the file, but ", whole->second[i], " is wanted"));
        }
      }
      return whole->second;
    }
    Dims dims;
    for (size_t i = 0; i < input.extents.size(); ++i) {
      const Extent& e = input.extents[i];
      const auto symbol = binding_.symbols.find(e.symbol);
      if (e.size != kDynamic) {
        dims.push_back(e.size);
      } else if (!e.symbol.empty() && symbol != binding_.symbols.end()) {
        dims.push_back(symbol->second);
      } else if (i == 0 && binding_.batch != kDynamic) {
        dims.push_back(binding_.batch);
      } else {
        return WithExitCode(
            absl::InvalidArgumentError(absl::StrCat(
                "input '", input.name, "': axis ", i, " has no size; give --dim ",
                e.symbol.empty() ? absl::StrCat(input.name, ".", i) : e.symbol, "=SIZE")),
            ExitCode::kUsage);
      }
    }
    return dims;
  }

  absl::Status Add(const onnx::NodeProto& node, int64_t ordinal) {
    const Operator* op = operators_.Find(DomainOf(node), node.op_type());
    if (op == nullptr) {
      const std::string domain = DomainOf(node);
      if (!OnnxHas(domain, node.op_type())) return NoSuchOperator(domain, node.op_type());
      return absl::UnimplementedError(absl::StrCat("Onward cannot run operator ", domain,
                                                   domain.empty() ? "" : ".", node.op_type(),
                                                   " yet"));
    }
    std::vector<Value*> inputs;
    for (const std::string& name : node.input()) {
      if (name.empty()) {
        inputs.push_back(nullptr);
        continue;
      }
      const auto it = values_.find(name);
      if (it == values_.end()) {
        return absl::InvalidArgumentError(
            absl::StrCat("reads '", name, "', which no node before it makes"));
      }
      inputs.push_back(it->second);
    }
    while (!inputs.empty() && inputs.back() == nullptr) inputs.pop_back();
    Attributes attributes;
    for (const onnx::AttributeProto& a : node.attribute()) {
      ASSIGN_OR_RETURN(AttributeValue value, AttributeFromProto(a));
      attributes.Set(a.name(), std::move(value));
    }
    std::vector<std::string> names(node.output().begin(), node.output().end());
    ASSIGN_OR_RETURN(Node * made, builder_.AddNode(op, inputs, std::move(attributes),
                                                   node.output_size(), names));
    made->name = node.name();
    made->source = node.name().empty() && !names.empty() ? names[0] : node.name();
    made->ordinal = ordinal;
    for (int i = 0; i < made->num_outputs(); ++i) {
      if (made->output(i) != nullptr) values_[names[i]] = made->output(i);
    }
    return Fold(made, node, names);
  }

  // An Identity of a constant, or a Cast to the type that it has.
  static bool IsCopyOfConstant(const Node& node) {
    const std::string id = node.op().id();
    if (id != "Identity" && id != "Cast") return false;
    return node.input(0)->kind == Value::Kind::kConstant &&
           node.input(0)->type == node.output(0)->type;
  }

  // PyTorch merges equal initializers and leaves an Identity with the name of each that is
  // lost: they were parameters of their own. Any other copy is another name for the constant.
  absl::Status FoldCopy(Node* node, const onnx::NodeProto& proto,
                        const std::vector<std::string>& names) {
    Value* constant = node->input(0);
    const bool merged =
        node->op().id() == "Identity" && constant->initializer && readers_[proto.input(0)] > 1;
    graph_->Remove(node);  // before its name is given to another
    if (merged) {
      constant = graph_->AddConstant(constant->constant, names[0]);
      constant->initializer = true;
    }
    values_[names[0]] = constant;
    return absl::OkStatus();
  }

  // Scales that an exporter writes as a Concat of Constants, those of images and the rest.
  static bool IsPartOfList(const Node& node, const Value& v) {
    return node.op().id() == "Concat" && v.rank() == 1 && v.dims()[0] <= kMostAxes &&
           !v.initializer;
  }

  // Arithmetic on shapes is done here, so that shapes are numbers everywhere
  // else: a node is computed now if all it reads is constant and what it makes
  // is not floating (those wait until it is known which of them are trained).
  absl::Status Fold(Node* node, const onnx::NodeProto& proto,
                    const std::vector<std::string>& names) {
    if (IsCopyOfConstant(*node)) return FoldCopy(node, proto, names);
    if (node->op().random || evaluator_ == nullptr || node->bodies.size() > 0) {
      return absl::OkStatus();
    }
    const std::string& op = node->op().name;
    const bool shape_of = op == "Shape" || op == "Size";
    bool scalars = true;  // none of which are ever trained
    std::vector<const Tensor*> inputs;
    for (int i = 0; i < node->num_inputs(); ++i) {
      const Value* v = node->input(i);
      scalars = scalars && v != nullptr && (v->rank() == 0 || IsPartOfList(*node, *v));
      if (v != nullptr && v->kind != Value::Kind::kConstant && !shape_of) return absl::OkStatus();
      inputs.push_back(v == nullptr ? nullptr : v->constant.get());
    }
    const bool makes_constant = op == "Constant" || op == "ConstantOfShape";
    std::vector<TensorType> types;
    for (int i = 0; i < node->num_outputs(); ++i) {
      const Value* v = node->output(i);
      types.push_back(v == nullptr ? TensorType{} : v->type);
      if (v == nullptr) continue;
      if (IsFloating(v->dtype()) && !makes_constant && !scalars) return absl::OkStatus();
      for (int64_t d : v->dims()) {
        if (d == kDynamic) return absl::OkStatus();
      }
      if (Elements(v->dims()) > kMostFoldedElements) return absl::OkStatus();
    }
    if (!shape_of && !Affordable(*node)) return absl::OkStatus();
    std::vector<Tensor> results;
    if (shape_of) {
      results.push_back(ShapeOf(*node));
    } else {
      absl::StatusOr<std::vector<Tensor>> computed =
          evaluator_->Evaluate(node->op(), node->attributes, inputs, types);
      if (!computed.ok()) {
        // Without a kernel the node stays; a real mistake in the file is told.
        if (absl::IsUnimplemented(computed.status())) return absl::OkStatus();
        return computed.status();
      }
      results = *std::move(computed);
    }
    std::vector<bool> made;
    for (int i = 0; i < node->num_outputs(); ++i) made.push_back(node->output(i) != nullptr);
    graph_->Remove(node);  // before its names are given to others
    for (size_t i = 0; i < made.size(); ++i) {
      if (!made[i]) continue;
      values_[names[i]] =
          graph_->AddConstant(std::make_shared<const Tensor>(std::move(results[i])), names[i]);
    }
    return absl::OkStatus();
  }

  // Shapes are small: what a small file could make grow here is left to the plan, which
  // knows what memory and time there is.
  bool Affordable(const Node& node) {
    double product = 1;  // of all extents: a matrix product works at its square root
    for (int i = 0; i < node.num_inputs(); ++i) {
      if (node.input(i) == nullptr) continue;
      const auto elements = static_cast<double>(Elements(node.input(i)->dims()));
      product *= std::max(elements, 1.0);
      folded_work_ += elements;
    }
    for (int i = 0; i < node.num_outputs(); ++i) {
      if (node.output(i) == nullptr) continue;
      product *= std::max(static_cast<double>(Elements(node.output(i)->dims())), 1.0);
      folded_bytes_ += static_cast<double>(node.output(i)->type.bytes());
    }
    if (!node.op().elementwise) folded_work_ += std::sqrt(product);
    return folded_bytes_ <= kMostFoldedBytes && folded_work_ <= kMostFoldedWork;
  }

  static Tensor ShapeOf(const Node& node) {
    const Dims& dims = node.input(0)->dims();
    if (node.op().name == "Size") return Tensor::Scalar<int64_t>(Elements(dims));
    const int64_t rank = static_cast<int64_t>(dims.size());
    const auto clamp = [&](int64_t i) {
      if (i < 0) i += rank;
      return std::min(std::max<int64_t>(i, 0), rank);
    };
    const int64_t start = clamp(node.attributes.Int("start", 0));
    const int64_t end = std::max(start, clamp(node.attributes.Int("end", rank)));
    return Tensor::Of<int64_t>({end - start},
                               absl::Span<const int64_t>(dims.data() + start, end - start));
  }

  const OperatorSet& operators_;
  Evaluator* evaluator_;
  const Binding& binding_;
  int opset_;
  std::unique_ptr<Graph> graph_;
  Builder builder_;
  absl::flat_hash_map<std::string, Value*> values_;
  absl::flat_hash_map<std::string, int> readers_;  // of each name: nodes and outputs
  double folded_bytes_ = 0;
  double folded_work_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Graph>> BuildGraph(
    const onnx::GraphProto& proto, const std::vector<ModelInput>& inputs,
    const absl::flat_hash_map<std::string, std::shared_ptr<const Tensor>>& initializers,
    const OperatorSet& operators, Evaluator* evaluator, const Binding& binding, int opset) {
  GraphReader reader(operators, evaluator, binding, opset);
  RETURN_IF_ERROR(reader.Inputs(inputs));
  RETURN_IF_ERROR(reader.Initializers(proto, initializers));
  RETURN_IF_ERROR(reader.Nodes(proto));
  RETURN_IF_ERROR(reader.Outputs(proto));
  return reader.Take();
}

}  // namespace onward
