// From a checked proto in the canonical opset to a Graph with bound extents.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/base/errors.h"
#include "graph/base/status_macros.h"
#include "graph/onnx/graph_reader.h"
#include "graph/onnx/proto.h"
#include "graph/onnx/schema.h"

namespace onward {
namespace {

constexpr int64_t kMostFoldedElements = 1 << 20;
constexpr int64_t kMostAxes = 4;  // in one part of a list of scales

std::string DomainOf(const onnx::NodeProto& node) {
  return node.domain() == "ai.onnx" ? "" : node.domain();
}

void CountReaders(const onnx::GraphProto& proto, absl::flat_hash_map<std::string, int>* readers) {
  for (const onnx::NodeProto& node : proto.node()) {
    for (const std::string& name : node.input()) ++(*readers)[name];
    for (const onnx::AttributeProto& a : node.attribute()) {
      if (a.has_g()) CountReaders(a.g(), readers);
    }
  }
  for (const onnx::ValueInfoProto& output : proto.output()) ++(*readers)[output.name()];
}

bool IsShapeOf(const Operator& op) {
  return op.domain.empty() && (op.name == "Shape" || op.name == "Size");
}

bool IsDeferred(const ItemRef& item) {
  return item != nullptr && item->kind == Item::Kind::kDeferred;
}

bool AllNumbers(const TensorType& type) {
  return std::none_of(type.dims.begin(), type.dims.end(), [](int64_t d) { return d == kDynamic; });
}

Tensor ShapeOf(const Operator& op, const Attributes& attributes, const Dims& dims) {
  if (op.name == "Size") return Tensor::Scalar<int64_t>(Elements(dims));
  const int64_t rank = static_cast<int64_t>(dims.size());
  const auto clamp = [&](int64_t i) {
    if (i < 0) i += rank;
    return std::min(std::max<int64_t>(i, 0), rank);
  };
  const int64_t start = clamp(attributes.Int("start", 0));
  const int64_t end = std::max(start, clamp(attributes.Int("end", rank)));
  return Tensor::Of<int64_t>({end - start},
                             absl::Span<const int64_t>(dims.data() + start, end - start));
}

// Scales that an exporter writes as a Concat of Constants, those of images and the rest.
bool IsPartOfList(const Operator& op, const Item& item) {
  return op.id() == "Concat" && item.type().dims.size() == 1 && item.type().dims[0] <= kMostAxes &&
         !item.initializer();
}

}  // namespace

// Shapes are small: what a small file could make grow here is left to the plan, which
// knows what memory and time there is.
bool ReadingBudget::Compute(const Operator& op, absl::Span<const TensorType* const> inputs,
                            absl::Span<const TensorType> outputs) {
  if (!limited_) return true;
  double product = 1;  // of all extents: a matrix product works at its square root
  for (const TensorType* type : inputs) {
    if (type == nullptr) continue;
    const auto elements = static_cast<double>(type->elements());
    product *= std::max(elements, 1.0);
    work_ -= elements;
  }
  for (const TensorType& type : outputs) {
    if (type.dtype == DataType::kUndefined) continue;
    product *= std::max(static_cast<double>(type.elements()), 1.0);
    bytes_ -= static_cast<double>(type.bytes());
  }
  if (!op.elementwise) work_ -= std::sqrt(product);
  return bytes_ >= 0 && work_ >= 0;
}

absl::Status ReadingBudget::Unroll(int64_t count) {
  constexpr int64_t kMostAtOnce = 1 << 24;  // of entries without elements there is no end
  if (limited_ ? count <= nodes_ : count <= kMostAtOnce) {
    nodes_ -= count;
    return absl::OkStatus();
  }
  return absl::UnimplementedError("the loops of the model, unrolled, are more than 200000 nodes");
}

GraphReader::GraphReader(const OperatorSet& operators, Evaluator* evaluator, const Binding& binding,
                         int opset, Reading reading)
    : operators_(operators),
      evaluator_(evaluator),
      binding_(binding),
      opset_(opset),
      reading_(reading),
      graph_(std::make_unique<Graph>()),
      builder_(graph_.get(), &operators),
      scopes_(1) {
  if (inputs_known()) budget_.Lift();
}

absl::Status GraphReader::Inputs(const std::vector<ModelInput>& inputs) {
  for (const ModelInput& input : inputs) {
    if (!input.is_tensor) {
      return absl::UnimplementedError(
          absl::StrCat("input '", input.name, "' is a sequence or an optional"));
    }
    if (input.any_rank && !binding_.inputs.contains(input.name)) {
      return absl::InvalidArgumentError(absl::StrCat("input '", input.name, "' has no shape"));
    }
    ASSIGN_OR_RETURN(Dims dims, Bind(input));
    // Of what nodes make, Builder sees to it.
    const absl::Status fits = CheckedElements(dims).status();
    if (!fits.ok()) return Annotate(fits, absl::StrCat("input '", input.name, "'"));
    std::vector<std::string> symbols;
    for (size_t i = 0; i < input.extents.size(); ++i) {
      symbols.push_back(input.extents[i].symbol);
      if (!symbols.back().empty()) bound_[symbols.back()] = dims[i];
    }
    auto item = std::make_shared<Item>();
    item->value =
        graph_->AddInput(input.name, {input.dtype, std::move(dims), {}}, std::move(symbols));
    Set(input.name, std::move(item));
  }
  return absl::OkStatus();
}

namespace {

ItemRef ItemOf(const ModelValue& value, const std::string& name) {
  auto item = std::make_shared<Item>();
  item->name = name;
  switch (value.kind) {
    case ModelValue::Kind::kTensor:
      item->known = value.tensor;
      break;
    case ModelValue::Kind::kSequence:
      item->kind = Item::Kind::kSequence;
      for (const ModelValue& element : value.elements) {
        item->elements.push_back(ItemOf(element, name));
      }
      break;
    case ModelValue::Kind::kNothing:
      item->kind = Item::Kind::kNothing;
      break;
  }
  return item;
}

absl::Status CheckFits(const ModelInput& input, const Tensor& tensor) {
  bool fits = input.dtype == tensor.dtype() &&
              (input.any_rank || input.extents.size() == tensor.dims().size());
  for (size_t i = 0; fits && i < input.extents.size(); ++i) {
    fits = input.extents[i].size == kDynamic || input.extents[i].size == tensor.dims()[i];
  }
  if (fits) return absl::OkStatus();
  std::vector<std::string> extents;
  for (const Extent& e : input.extents) {
    extents.push_back(e.size != kDynamic ? absl::StrCat(e.size) : "?");
  }
  return absl::InvalidArgumentError(
      absl::StrCat("input '", input.name, "' is ", ToString(tensor.type()), ", expected ",
                   Name(input.dtype), "[", absl::StrJoin(extents, ", "), "]"));
}

}  // namespace

absl::Status GraphReader::KnownInputs(const std::vector<ModelInput>& inputs,
                                      const std::vector<ModelValue>& values) {
  if (inputs.size() != values.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(values.size(), " inputs are given, expected ", inputs.size()));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].is_tensor) {
      if (values[i].kind != ModelValue::Kind::kTensor) {
        return absl::InvalidArgumentError(
            absl::StrCat("input '", inputs[i].name, "' is no tensor"));
      }
      RETURN_IF_ERROR(CheckFits(inputs[i], *values[i].tensor));
    }
    ItemRef item = ItemOf(values[i], inputs[i].name);
    if (reading_ == Reading::kTraced && item->kind == Item::Kind::kTensor) {
      const bool floating = IsFloating(item->known->dtype());
      Value* input = graph_->AddInput(inputs[i].name, item->known->type());
      if (floating) item->value = input;
    }
    Set(inputs[i].name, std::move(item));
  }
  return absl::OkStatus();
}

absl::Status GraphReader::Initializers(
    const onnx::GraphProto& proto,
    const absl::flat_hash_map<std::string, std::shared_ptr<const Tensor>>& stored) {
  for (const onnx::TensorProto& t : proto.initializer()) {
    const auto it = stored.find(t.name());
    auto item = std::make_shared<Item>();
    if (it != stored.end()) {
      item->known = it->second;
    } else {
      ASSIGN_OR_RETURN(Tensor own, TensorFromProto(t));
      item->known = std::make_shared<const Tensor>(std::move(own));
    }
    item->value = graph_->AddConstant(item->known, t.name());
    item->value->initializer = true;
    Set(t.name(), std::move(item));
  }
  return absl::OkStatus();
}

absl::Status GraphReader::Nodes(const onnx::GraphProto& proto) {
  CountReaders(proto, &readers_);
  file_graph_ = &proto;
  int64_t ordinal = 0;
  next_ordinal_ = proto.node_size();
  for (const onnx::NodeProto& node : proto.node()) {
    RETURN_IF_ERROR(
        WithExitCode(Annotate(Add(node, ordinal++), Where(node)), ExitCode::kUntrainable));
  }
  return absl::OkStatus();
}

absl::Status GraphReader::Outputs(const onnx::GraphProto& proto) {
  for (const onnx::ValueInfoProto& output : proto.output()) {
    const ItemRef item = Find(output.name());
    if (item == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("output '", output.name(), "' is made by no node"));
    }
    if (item->kind == Item::Kind::kDeferred) {
      return absl::UnimplementedError(absl::StrCat("the shape of output '", output.name(),
                                                   "' depends on data, from ", FirstDeferred(item),
                                                   " on"));
    }
    if (item->kind != Item::Kind::kTensor) {
      return absl::UnimplementedError(
          absl::StrCat("output '", output.name(), "' is a sequence or an optional"));
    }
    graph_->AddOutput(output.name(), ValueOf(item));
  }
  return absl::OkStatus();
}

std::unique_ptr<Graph> GraphReader::Take() {
  graph_->RemoveUnusedConstants();
  return std::move(graph_);
}

absl::StatusOr<ModelValue> GraphReader::KnownValue(const ItemRef& item) const {
  ModelValue value;
  switch (item->kind) {
    case Item::Kind::kTensor:
      if (item->known == nullptr) {
        return Annotate(absl::UnimplementedError("no kernel computes it"),
                        item->value->producer != nullptr ? Describe(*item->value->producer)
                                                         : item->value->name);
      }
      value.tensor = item->known;
      break;
    case Item::Kind::kSequence:
      value.kind = ModelValue::Kind::kSequence;
      for (const ItemRef& element : item->elements) {
        ASSIGN_OR_RETURN(ModelValue known, KnownValue(element));
        value.elements.push_back(std::move(known));
      }
      break;
    case Item::Kind::kNothing:
      value.kind = ModelValue::Kind::kNothing;
      break;
    case Item::Kind::kDeferred:
      return absl::InternalError("nothing is deferred where all is known");
  }
  return value;
}

absl::StatusOr<std::vector<ModelValue>> GraphReader::KnownOutputs(const onnx::GraphProto& proto) {
  std::vector<ModelValue> values;
  for (const onnx::ValueInfoProto& output : proto.output()) {
    const ItemRef item = Find(output.name());
    if (item == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("output '", output.name(), "' is made by no node"));
    }
    ASSIGN_OR_RETURN(ModelValue value, KnownValue(item));
    values.push_back(std::move(value));
  }
  return values;
}

std::vector<Value*> GraphReader::TracedOutputs(const onnx::GraphProto& proto) const {
  std::vector<Value*> values;
  for (const onnx::ValueInfoProto& output : proto.output()) {
    const ItemRef item = Find(output.name());
    values.push_back(item == nullptr ? nullptr : item->value);
  }
  return values;
}

std::string GraphReader::Where(const onnx::NodeProto& node) const {
  const std::string name =
      node.name().empty() ? (node.output_size() > 0 ? node.output(0) : std::string()) : node.name();
  return absl::StrCat("node '", name, "' (", node.op_type(), ", opset ", opset_, ")");
}

absl::StatusOr<Dims> GraphReader::Bind(const ModelInput& input) const {
  const auto whole = binding_.inputs.find(input.name);
  if (whole != binding_.inputs.end()) {
    if (input.any_rank) return whole->second;
    if (whole->second.size() != input.extents.size()) {
      return absl::InvalidArgumentError(absl::StrCat("input '", input.name, "' has rank ",
                                                     input.extents.size(), ", but the data is ",
                                                     ToString(whole->second)));
    }
    for (size_t i = 0; i < input.extents.size(); ++i) {
      const int64_t fixed = input.extents[i].size;
      if (fixed != kDynamic && fixed != whole->second[i]) {
        return absl::InvalidArgumentError(absl::StrCat("input '", input.name, "': axis ", i,
                                                       " is fixed to ", fixed, " in the file, but ",
                                                       whole->second[i], " is wanted"));
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

ItemRef GraphReader::Find(const std::string& name) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    const auto it = scope->find(name);
    if (it != scope->end()) return it->second;
  }
  return nullptr;
}

void GraphReader::Set(const std::string& name, ItemRef item) {
  scopes_.back()[name] = std::move(item);
}

absl::StatusOr<GraphReader::Items> GraphReader::ReadInputs(const onnx::NodeProto& node) const {
  Items inputs;
  for (const std::string& name : node.input()) {
    inputs.push_back(name.empty() ? nullptr : Find(name));
    if (!name.empty() && inputs.back() == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("reads '", name, "', which no node before it makes"));
    }
  }
  while (!inputs.empty() && inputs.back() == nullptr) inputs.pop_back();
  return inputs;
}

absl::Status GraphReader::Add(const onnx::NodeProto& node, int64_t ordinal) {
  ASSIGN_OR_RETURN(const Items inputs, ReadInputs(node));
  const std::vector<std::string> names(node.output().begin(), node.output().end());
  Items outputs;
  const std::string domain = DomainOf(node);
  Handler handler = domain.empty() ? HandlerOf(node.op_type()) : nullptr;
  if (domain == "ai.onnx.preview.training" && node.op_type() == "Gradient") {
    handler = &GraphReader::ReadGradient;
  }
  const bool copies = domain.empty() && node.op_type() == "Identity" && inputs.size() == 1 &&
                      inputs[0]->kind != Item::Kind::kTensor;
  if (copies) {
    outputs = inputs;
  } else if (handler != nullptr) {
    const bool waits = std::any_of(inputs.begin(), inputs.end(), IsDeferred);
    absl::StatusOr<Items> read = waits ? DependsOnData("an input") : (this->*handler)(node, inputs);
    if (!read.ok() && Defers() && IsDependsOnData(read.status())) read = Defer(node);
    ASSIGN_OR_RETURN(outputs, std::move(read));
  } else {
    const Operator* op = operators_.Find(domain, node.op_type());
    if (op == nullptr) {
      if (!OnnxHas(domain, node.op_type())) return NoSuchOperator(domain, node.op_type());
      return absl::UnimplementedError(absl::StrCat("Onward cannot run operator ", domain,
                                                   domain.empty() ? "" : ".", node.op_type(),
                                                   " yet"));
    }
    ASSIGN_OR_RETURN(Attributes attributes, AttributesFromProto(node));
    const Origin origin{&node, node.name(),
                        node.name().empty() && !names.empty() ? names[0] : node.name(), ordinal};
    absl::StatusOr<Items> applied = DependsOnData("an input");
    if (std::none_of(inputs.begin(), inputs.end(), IsDeferred)) {
      applied = Apply(*op, inputs, std::move(attributes), node.output_size(), names, origin);
    }
    if (!applied.ok() && Defers() && IsDependsOnData(applied.status())) applied = Defer(node);
    ASSIGN_OR_RETURN(outputs, std::move(applied));
  }
  if (outputs.size() < names.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", names.size(), " outputs, expected ", outputs.size()));
  }
  for (size_t i = 0; i < names.size(); ++i) {
    if (!names[i].empty() && outputs[i] != nullptr) Set(names[i], std::move(outputs[i]));
  }
  return absl::OkStatus();
}

absl::StatusOr<GraphReader::Items> GraphReader::Apply(const Operator& op, const Items& inputs,
                                                      Attributes attributes, int num_outputs,
                                                      const std::vector<std::string>& names,
                                                      const Origin& origin) {
  bool known = true;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] == nullptr) continue;
    if (inputs[i]->kind != Item::Kind::kTensor) {
      return absl::InvalidArgumentError(
          absl::StrCat("input ", i, " is a sequence or an optional without a value, which ",
                       op.name, " does not take"));
    }
    known &= inputs[i]->known != nullptr;
  }
  if (reading_ == Reading::kTraced) {
    return Trace(op, inputs, std::move(attributes), num_outputs, names, origin);
  }
  if (evaluator_ != nullptr && (known || IsShapeOf(op))) {
    if (op.random) {
      if (inputs_known())
        return Draw(op, inputs, std::move(attributes), num_outputs, names, origin);
    } else {
      ASSIGN_OR_RETURN(Items folded, Fold(op, inputs, attributes, num_outputs, names, origin));
      if (!folded.empty()) return folded;
    }
  }
  return AddToGraph(op, inputs, std::move(attributes), num_outputs, names, origin);
}

// Computed now, and what is differentiated is in the graph too.
absl::StatusOr<GraphReader::Items> GraphReader::Trace(const Operator& op, const Items& inputs,
                                                      Attributes attributes, int num_outputs,
                                                      const std::vector<std::string>& names,
                                                      const Origin& origin) {
  if (op.random) return Draw(op, inputs, std::move(attributes), num_outputs, names, origin);
  ASSIGN_OR_RETURN(Items computed, Fold(op, inputs, attributes, num_outputs, names, origin));
  if (computed.empty()) return DependsOnData(op.name);
  // (An item that is only known has a value too, once a node of the graph has read it.)
  const auto traced = [](const ItemRef& item) {
    return item != nullptr && item->value != nullptr && item->value->kind != Value::Kind::kConstant;
  };
  const bool any = std::any_of(inputs.begin(), inputs.end(), traced);
  const bool floating = std::any_of(computed.begin(), computed.end(), [](const ItemRef& item) {
    return item != nullptr && IsFloating(item->type().dtype);
  });
  if (!any || !floating || (computed.size() == 1 && traced(computed[0]))) return computed;
  ASSIGN_OR_RETURN(const Items made,
                   AddToGraph(op, inputs, std::move(attributes), num_outputs, names, origin));
  for (size_t i = 0; i < computed.size(); ++i) {
    if (computed[i] != nullptr && IsFloating(computed[i]->type().dtype)) {
      computed[i]->value = made[i]->value;
    }
  }
  return computed;
}

absl::StatusOr<GraphReader::Items> GraphReader::AddToGraph(const Operator& op, const Items& inputs,
                                                           Attributes attributes, int num_outputs,
                                                           const std::vector<std::string>& names,
                                                           const Origin& origin) {
  std::vector<Value*> values;
  for (const ItemRef& item : inputs) values.push_back(item == nullptr ? nullptr : ValueOf(item));
  ASSIGN_OR_RETURN(Node * made,
                   builder_.AddNode(&op, values, std::move(attributes), num_outputs, names));
  for (int i = 0; Defers() && i < num_outputs; ++i) {
    if (made->output(i) == nullptr || AllNumbers(made->output(i)->type)) continue;
    graph_->Remove(made);
    return DependsOnData("the shape of its result");
  }
  made->name = origin.name;
  made->source = origin.source;
  made->ordinal = origin.ordinal;
  Items outputs(num_outputs);
  for (int i = 0; i < num_outputs; ++i) {
    if (made->output(i) == nullptr) continue;
    outputs[i] = std::make_shared<Item>();
    outputs[i]->value = made->output(i);
  }
  return outputs;
}

// An Identity of a constant, or a Cast to the type that it has; else null.
// PyTorch merges equal initializers and leaves an Identity with the name of each that is
// lost: they were parameters of their own. Any other copy is another name for the constant.
ItemRef GraphReader::FoldCopy(const Operator& op, const ItemRef& input, const TensorType& output,
                              const std::vector<std::string>& names, const Origin& origin) {
  const std::string id = op.id();
  if ((id != "Identity" && id != "Cast") || input->type() != output) return nullptr;
  const bool merged = id == "Identity" && input->initializer() && origin.proto != nullptr &&
                      readers_[origin.proto->input(0)] > 1;
  if (!merged || inputs_known()) return input;
  auto item = std::make_shared<Item>();
  item->known = input->known;
  item->value = graph_->AddConstant(input->known, names[0]);
  item->value->initializer = true;
  return item;
}

// What is floating waits until it is known which of its inputs are trained.
bool GraphReader::WaitsForParameters(const Operator& op, const Items& inputs,
                                     absl::Span<const TensorType> outputs) const {
  if (inputs_known() || op.name == "Constant" || op.name == "ConstantOfShape") return false;
  // Scalars are never trained.
  const bool scalars = std::all_of(inputs.begin(), inputs.end(), [&](const ItemRef& item) {
    return item != nullptr && (item->type().dims.empty() || IsPartOfList(op, *item));
  });
  // What quantises a weight stands before what is trained of it.
  if (op.name == "QuantizeLinear" || op.name == "DynamicQuantizeLinear") return !scalars;
  return !scalars && std::any_of(outputs.begin(), outputs.end(),
                                 [](const TensorType& type) { return IsFloating(type.dtype); });
}

// Arithmetic on shapes is done here, so that shapes are numbers everywhere else: a node is
// computed now if all it reads is known and it need not wait.
absl::StatusOr<GraphReader::Items> GraphReader::Fold(const Operator& op, const Items& inputs,
                                                     const Attributes& attributes, int num_outputs,
                                                     const std::vector<std::string>& names,
                                                     const Origin& origin) {
  std::vector<const TensorType*> input_types;
  std::vector<const Tensor*> tensors;
  for (const ItemRef& item : inputs) {
    input_types.push_back(item == nullptr ? nullptr : &item->type());
    tensors.push_back(item == nullptr ? nullptr : item->known.get());
  }
  ASSIGN_OR_RETURN(const std::vector<TensorType> types,
                   InferOutputs(op, attributes, input_types, tensors, num_outputs, names));
  if (inputs.size() == 1 && inputs[0] != nullptr && inputs[0]->known != nullptr) {
    ItemRef copy = FoldCopy(op, inputs[0], types[0], names, origin);
    if (copy != nullptr) return Items{std::move(copy)};
  }
  std::vector<Tensor> results;
  if (IsShapeOf(op) && AllNumbers(*input_types[0])) {
    results.push_back(ShapeOf(op, attributes, input_types[0]->dims));
  } else {
    if (std::find(tensors.begin(), tensors.end(), nullptr) != tensors.end() && IsShapeOf(op)) {
      return Items{};
    }
    if (WaitsForParameters(op, inputs, types)) return Items{};
    for (const TensorType& type : types) {
      if (type.dtype == DataType::kUndefined) continue;
      if (!AllNumbers(type)) return Items{};
      if (!inputs_known() && type.elements() > kMostFoldedElements) return Items{};
    }
    if (!budget_.Compute(op, input_types, types)) return Items{};
    absl::StatusOr<std::vector<Tensor>> computed =
        evaluator_->Evaluate(op, attributes, tensors, types);
    if (!computed.ok()) {
      // Without a kernel the node stays; a real mistake in the file is told.
      if (absl::IsUnimplemented(computed.status()) && !inputs_known()) return Items{};
      return computed.status();
    }
    results = *std::move(computed);
  }
  Items outputs(num_outputs);
  for (int i = 0; i < num_outputs; ++i) {
    if (types[i].dtype == DataType::kUndefined) continue;
    outputs[i] = Known(std::move(results[i]));
    if (i < static_cast<int>(names.size())) outputs[i]->name = names[i];
  }
  return outputs;
}

// A random operator is computed through its lowering, which is keyed by its node.
absl::StatusOr<GraphReader::Items> GraphReader::Draw(const Operator& op, const Items& inputs,
                                                     Attributes attributes, int num_outputs,
                                                     const std::vector<std::string>& names,
                                                     const Origin& origin) {
  ASSIGN_OR_RETURN(const Items made,
                   AddToGraph(op, inputs, std::move(attributes), num_outputs, names, origin));
  Node* const drawn = graph_->last();
  Node* const before = drawn->previous();
  const size_t first_output = graph_->outputs().size();
  for (int i = 0; i < num_outputs; ++i) {
    if (drawn->output(i) != nullptr) graph_->AddOutput("", drawn->output(i));
  }
  RETURN_IF_ERROR(LowerNode(graph_.get(), &operators_, drawn));
  absl::flat_hash_map<const Value*, ItemRef> known;
  const auto item_of = [&](Value* value) -> ItemRef {
    if (value == nullptr) return nullptr;
    ItemRef& item = known[value];
    if (item == nullptr) {
      item = std::make_shared<Item>();
      item->known = value->constant;
    }
    return item;
  };
  for (Node* node = before == nullptr ? graph_->first() : before->next(); node != nullptr;
       node = node->next()) {
    Items node_inputs;
    for (int i = 0; i < node->num_inputs(); ++i) node_inputs.push_back(item_of(node->input(i)));
    ASSIGN_OR_RETURN(Items results, Fold(node->op(), node_inputs, node->attributes,
                                         node->num_outputs(), {}, Origin{}));
    for (size_t i = 0; i < results.size(); ++i) known[node->output(i)] = std::move(results[i]);
  }
  Items outputs(num_outputs);
  size_t next = first_output;
  for (int i = 0; i < num_outputs; ++i) {
    if (made[i] != nullptr) outputs[i] = item_of(graph_->outputs()[next++].value);
  }
  graph_->ClearOutputs();
  while (graph_->last() != before) graph_->Remove(graph_->last());
  return outputs;
}

absl::StatusOr<GraphReader::Items> GraphReader::ApplyMade(const Operator& op, const Items& inputs,
                                                          const Attributes& attributes,
                                                          int num_outputs) {
  if (std::none_of(inputs.begin(), inputs.end(), IsDeferred)) {
    absl::StatusOr<Items> outputs = Apply(op, inputs, attributes, num_outputs, {}, Origin{});
    if (outputs.ok() || !Defers() || !IsDependsOnData(outputs.status())) return outputs;
  }
  return DeferMade(op, inputs, attributes, num_outputs);
}

absl::StatusOr<ItemRef> GraphReader::Make(absl::string_view op, const Items& inputs,
                                          const Attributes& attributes) {
  const Operator* found = operators_.Find("", op);
  ONWARD_CHECK(found != nullptr);
  ASSIGN_OR_RETURN(Items outputs, ApplyMade(*found, inputs, attributes, 1));
  return outputs[0];
}

ItemRef GraphReader::Known(Tensor tensor) {
  auto item = std::make_shared<Item>();
  item->known = std::make_shared<const Tensor>(std::move(tensor));
  return item;
}

Value* GraphReader::ValueOf(const ItemRef& item) {
  if (item->value == nullptr) item->value = graph_->AddConstant(item->known, item->name);
  return item->value;
}

absl::StatusOr<std::unique_ptr<Graph>> BuildGraph(
    const onnx::GraphProto& proto, const std::vector<ModelInput>& inputs,
    const absl::flat_hash_map<std::string, std::shared_ptr<const Tensor>>& initializers,
    const OperatorSet& operators, Evaluator* evaluator, const Binding& binding, int opset) {
  GraphReader reader(operators, evaluator, binding, opset, Reading::kOpen);
  RETURN_IF_ERROR(reader.Inputs(inputs));
  RETURN_IF_ERROR(reader.Initializers(proto, initializers));
  reader.Declarations(proto);
  RETURN_IF_ERROR(reader.Nodes(proto));
  RETURN_IF_ERROR(reader.Outputs(proto));
  return reader.Take();
}

}  // namespace onward
