// What only data decides: such nodes are deferred, until a value behind them has a type that is
// known; that value comes out of a region (graph/onnx/region.h).
#include <algorithm>
#include <map>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/base/errors.h"
#include "graph/base/status_macros.h"
#include "graph/ir/depends_on_data.h"
#include "graph/onnx/graph_reader.h"
#include "graph/onnx/proto.h"
#include "graph/onnx/region.h"
#include "graph/onnx/schema.h"

namespace onward {
namespace {

constexpr int64_t kMostEmbedded = 4096;  // elements of a constant that is part of a region

// Names that a body reads from outside.
void FreeNames(const onnx::GraphProto& body, absl::flat_hash_set<std::string> own,
               std::vector<std::string>* names) {
  for (const auto& input : body.input()) own.insert(input.name());
  for (const auto& t : body.initializer()) own.insert(t.name());
  const auto read = [&](const std::string& name) {
    if (!name.empty() && !own.contains(name)) names->push_back(name);
  };
  for (const onnx::NodeProto& node : body.node()) {
    for (const std::string& name : node.input()) read(name);
    for (const auto& a : node.attribute()) {
      if (a.has_g()) FreeNames(a.g(), own, names);
    }
    for (const std::string& name : node.output()) own.insert(name);
  }
  for (const auto& output : body.output()) read(output.name());
}

using Renames = absl::flat_hash_map<std::string, std::string>;

void RenameFree(onnx::GraphProto* body, Renames renames) {
  for (const auto& input : body->input()) renames.erase(input.name());
  for (const auto& t : body->initializer()) renames.erase(t.name());
  const auto renamed = [&](const std::string& name) {
    const auto it = renames.find(name);
    return it == renames.end() ? name : it->second;
  };
  for (onnx::NodeProto& node : *body->mutable_node()) {
    for (std::string& name : *node.mutable_input()) name = renamed(name);
    for (auto& a : *node.mutable_attribute()) {
      if (a.has_g()) RenameFree(a.mutable_g(), renames);
    }
    for (const std::string& name : node.output()) renames.erase(name);
  }
  for (auto& output : *body->mutable_output()) output.set_name(renamed(output.name()));
}

PartialType PartialOf(const ItemRef& item) {
  if (item == nullptr) return {};
  switch (item->kind) {
    case Item::Kind::kTensor:
      return {item->type().dtype, true, item->type().dims};
    case Item::Kind::kDeferred:
      return item->partial;
    default:
      return {};
  }
}

ItemRef BodyInput(PartialType type) {
  auto item = std::make_shared<Item>();
  item->kind = Item::Kind::kDeferred;
  item->partial = std::move(type);
  return item;
}

// What both are.
PartialType Meet(const PartialType& a, const PartialType& b) {
  if (a.dtype != b.dtype) return {};
  PartialType out{a.dtype, a.ranked && b.ranked && a.dims.size() == b.dims.size(), {}};
  for (size_t i = 0; out.ranked && i < a.dims.size(); ++i) {
    out.dims.push_back(a.dims[i] == b.dims[i] ? a.dims[i] : kDynamic);
  }
  return out;
}

// Gathers the nodes of a region and names what goes into it.
class RegionMaker {
 public:
  // Without recursion: chains of deferred nodes are as long as a file wants them.
  absl::Status Add(const ItemRef& item) {
    RETURN_IF_ERROR(Enter(item));
    while (!visits_.empty()) {
      Visit& top = visits_.back();
      const Item& parent = *top.item;
      const bool deferred = parent.kind == Item::Kind::kDeferred;
      const size_t parts = deferred ? parent.made_by->reads.size() : parent.elements.size();
      if (top.next == parts) {
        order_.push_back(top.item);
        visits_.pop_back();
        continue;
      }
      const size_t part = top.next++;
      const ItemRef& read = deferred ? parent.made_by->reads[part].second : parent.elements[part];
      if (read != nullptr) RETURN_IF_ERROR(Enter(read));
    }
    return absl::OkStatus();
  }

  // After all were added. `inputs` becomes what goes in, in the order of the body's inputs.
  onnx::GraphProto Body(const std::vector<ItemRef>& outputs, std::vector<ItemRef>* inputs) {
    onnx::GraphProto body;
    for (const ItemRef& item : order_) Name(item, &body, inputs);
    for (const auto& [order, deferred] : nodes_) {
      onnx::NodeProto* node = body.add_node();
      *node = deferred->node;
      Renames renames;
      for (const auto& [name, item] : deferred->reads) {
        if (item != nullptr) renames[name] = names_[item.get()];
      }
      for (std::string& name : *node->mutable_input()) {
        if (!name.empty()) name = renames[name];
      }
      for (auto& a : *node->mutable_attribute()) {
        if (a.has_g()) RenameFree(a.mutable_g(), renames);
      }
    }
    for (const ItemRef& item : outputs) body.add_output()->set_name(names_[item.get()]);
    return body;
  }

 private:
  struct Visit {
    ItemRef item;
    size_t next = 0;  // which of what it is made of
  };

  absl::Status Enter(const ItemRef& item) {
    if (!seen_.insert(item.get()).second) return absl::OkStatus();
    if (item->kind == Item::Kind::kDeferred) {
      if (item->made_by == nullptr) return DependsOnData("an input of a body");
      nodes_.emplace(item->made_by->order, item->made_by);
    }
    visits_.push_back({item});
    return absl::OkStatus();
  }

  void Name(const ItemRef& item, onnx::GraphProto* body, std::vector<ItemRef>* inputs) {
    std::string& name = names_[item.get()];
    if (item->kind == Item::Kind::kDeferred) {
      name = item->name;
      return;
    }
    name = absl::StrCat("onward/given", names_.size());
    if (item->kind == Item::Kind::kTensor) {
      // What may be trained must come from outside.
      const bool embedded = item->known != nullptr && !item->initializer() &&
                            item->known->elements() <= kMostEmbedded;
      if (embedded) {
        TensorToProto(*item->known, name, body->add_initializer());
        return;
      }
      body->add_input()->set_name(name);
      inputs->push_back(item);
      return;
    }
    onnx::NodeProto* made = body->add_node();
    made->add_output(name);
    if (item->kind == Item::Kind::kNothing) {
      made->set_op_type("Optional");
    } else {
      made->set_op_type(item->elements.empty() ? "SequenceEmpty" : "SequenceConstruct");
      for (const ItemRef& element : item->elements) made->add_input(names_[element.get()]);
    }
  }

  std::vector<Visit> visits_;
  absl::flat_hash_set<const Item*> seen_;
  std::vector<ItemRef> order_;  // an item behind those that it is made of
  std::map<int64_t, const Deferred*> nodes_;
  absl::flat_hash_map<const Item*, std::string> names_;
};

}  // namespace

bool PartialType::whole() const {
  return dtype != DataType::kUndefined && ranked &&
         std::find(dims.begin(), dims.end(), kDynamic) == dims.end();
}

std::string FirstDeferred(const ItemRef& item) {
  const Deferred* first = item->made_by;
  for (bool earlier = true; earlier;) {
    earlier = false;
    for (const auto& [name, read] : first->reads) {
      if (read == nullptr || read->made_by == nullptr) continue;
      first = read->made_by;
      earlier = true;
      break;
    }
  }
  return first->where;
}

void GraphReader::Declarations(const onnx::GraphProto& proto) {
  const auto declare = [&](const onnx::ValueInfoProto& info) {
    if (!info.type().has_tensor_type() || !info.type().tensor_type().has_shape()) return;
    Dims dims;
    for (const auto& d : info.type().tensor_type().shape().dim()) {
      const auto symbol = bound_.find(d.dim_param());
      if (d.has_dim_value()) {
        dims.push_back(d.dim_value());
      } else if (d.has_dim_param() && symbol != bound_.end()) {
        dims.push_back(symbol->second);
      } else {
        return;
      }
    }
    declared_[info.name()] = {static_cast<DataType>(info.type().tensor_type().elem_type()), true,
                              std::move(dims)};
  };
  for (const auto& info : proto.value_info()) declare(info);
  for (const auto& info : proto.output()) declare(info);
}

absl::StatusOr<GraphReader::Items> GraphReader::Defer(onnx::NodeProto node) {
  std::vector<std::string> names(node.input().begin(), node.input().end());
  for (const auto& a : node.attribute()) {
    if (a.has_g()) FreeNames(a.g(), {}, &names);
  }
  std::vector<std::pair<std::string, ItemRef>> reads;
  absl::flat_hash_set<std::string> seen;
  for (const std::string& name : names) {
    if (name.empty() || !seen.insert(name).second) continue;
    reads.emplace_back(name, Find(name));
    if (reads.back().second == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("reads '", name, "', which no node before it makes"));
    }
  }
  return DeferReading(std::move(node), std::move(reads));
}

absl::StatusOr<GraphReader::Items> GraphReader::DeferMade(const Operator& op, const Items& inputs,
                                                          const Attributes& attributes,
                                                          int num_outputs) {
  onnx::NodeProto node;
  node.set_op_type(op.name);
  std::vector<std::pair<std::string, ItemRef>> reads;
  for (const ItemRef& item : inputs) {
    node.add_input(item == nullptr ? "" : absl::StrCat("read", reads.size()));
    if (item != nullptr) reads.emplace_back(node.input(node.input_size() - 1), item);
  }
  for (const auto& [name, value] : attributes.list()) {
    AttributeToProto(name, value, node.add_attribute());
  }
  for (int i = 0; i < num_outputs; ++i) node.add_output(absl::StrCat("made", i));
  return DeferReading(std::move(node), std::move(reads));
}

absl::StatusOr<GraphReader::Items> GraphReader::DeferReading(
    onnx::NodeProto node, std::vector<std::pair<std::string, ItemRef>> reads) {
  Items inputs;
  for (const std::string& name : node.input()) {
    const auto it = std::find_if(reads.begin(), reads.end(),
                                 [&](const auto& read) { return read.first == name; });
    inputs.push_back(it == reads.end() ? nullptr : it->second);
  }
  std::vector<PartialType> types = TypesOf(node, inputs);
  types.resize(node.output_size());
  deferred_.push_back(std::make_unique<Deferred>());
  Deferred* const deferred = deferred_.back().get();
  deferred->order = static_cast<int64_t>(deferred_.size()) - 1;
  deferred->where = Where(node);
  Items outputs;
  bool whole = false;
  for (int i = 0; i < node.output_size(); ++i) {
    outputs.push_back(nullptr);
    if (node.output(i).empty()) continue;
    const auto declared = declared_.find(node.output(i));
    // What the file says is believed where nothing else tells: every step looks.
    if (scopes_.size() == 1 && !types[i].whole() && declared != declared_.end()) {
      types[i] = declared->second;
    }
    auto item = std::make_shared<Item>();
    item->kind = Item::Kind::kDeferred;
    item->made_by = deferred;
    item->partial = types[i];
    item->name = absl::StrCat("onward/deferred", deferred->order, "_", i);
    node.set_output(i, item->name);
    whole |= types[i].whole();
    outputs.back() = std::move(item);
  }
  deferred->node = std::move(node);
  deferred->reads = std::move(reads);
  return whole ? Close(outputs) : outputs;
}

// As far as they can be told; what the tries leave in the graph nothing reads.
std::vector<PartialType> GraphReader::TypesOf(const onnx::NodeProto& node, const Items& inputs) {
  if (HandlerOf(node.op_type()) != nullptr && node.domain().empty()) {
    return TypesOfBody(node, inputs);
  }
  const Operator* op = operators_.Find(node.domain(), node.op_type());
  if (op == nullptr) return {};
  const absl::StatusOr<Attributes> attributes = AttributesFromProto(node);
  if (!attributes.ok()) return {};
  std::vector<PartialType> types;
  std::vector<const Tensor*> constants;
  for (const ItemRef& item : inputs) {
    types.push_back(PartialOf(item));
    constants.push_back(item == nullptr ? nullptr : item->known.get());
  }
  const auto inferred = InferPartially(*op, *attributes, types, constants, node.output_size());
  return inferred.ok() ? *inferred : std::vector<PartialType>{};
}

std::vector<PartialType> GraphReader::TypesOfBody(const onnx::NodeProto& node,
                                                  const Items& inputs) {
  const auto body = [&](const char* name) -> const onnx::GraphProto* {
    const onnx::AttributeProto* a = FindAttribute(node, name);
    return a != nullptr && a->has_g() ? &a->g() : nullptr;
  };
  const auto read = [&](const onnx::GraphProto* g, const Items& given) -> std::vector<PartialType> {
    if (g == nullptr) return {};
    const size_t scopes = scopes_.size();
    const absl::StatusOr<Items> outputs = ReadBody(*g, given);
    scopes_.resize(scopes);  // an error leaves them
    std::vector<PartialType> types;
    if (outputs.ok()) {
      for (const ItemRef& item : *outputs) types.push_back(PartialOf(item));
    }
    return types;
  };
  if (node.op_type() == "If") {
    const std::vector<PartialType> a = read(body("then_branch"), {}),
                                   b = read(body("else_branch"), {});
    std::vector<PartialType> types;
    for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) types.push_back(Meet(a[i], b[i]));
    return types;
  }
  if (node.op_type() != "Loop" || inputs.size() < 2) return {};
  Items given = {BodyInput({DataType::kInt64, true, {}}), BodyInput({DataType::kBool, true, {}})};
  for (size_t i = 2; i < inputs.size(); ++i) given.push_back(BodyInput(PartialOf(inputs[i])));
  const std::vector<PartialType> made = read(body("body"), given);
  std::vector<PartialType> types;
  for (size_t i = 1; i < made.size(); ++i) {
    if (i + 1 < inputs.size()) {
      types.push_back(Meet(made[i], PartialOf(inputs[i + 1])));
    } else {
      types.push_back(made[i]);
      types.back().dims.insert(types.back().dims.begin(), kDynamic);
    }
  }
  return types;
}

// Makes the region of these outputs of one deferred node; those whose types are not known
// stay deferred. Inside a try there is nothing to close: all stay.
absl::StatusOr<GraphReader::Items> GraphReader::Close(const Items& outputs) {
  RegionMaker maker;
  Items closed;
  for (const ItemRef& item : outputs) {
    if (item == nullptr || !item->partial.whole()) continue;
    const absl::Status added = maker.Add(item);
    if (IsDependsOnData(added)) return outputs;
    RETURN_IF_ERROR(added);
    closed.push_back(item);
  }
  Items given;
  const onnx::GraphProto body = maker.Body(closed, &given);
  Attributes attributes = {{"body", body.SerializeAsString()}};
  for (size_t i = 0; i < closed.size(); ++i) {
    const PartialType& type = closed[i]->partial;
    attributes.Set(absl::StrCat("type", i), static_cast<int64_t>(type.dtype));
    attributes.Set(absl::StrCat("dims", i),
                   std::vector<int64_t>(type.dims.begin(), type.dims.end()));
  }
  const Operator* region = operators_.Find(kOnward, "Region");
  ONWARD_CHECK(region != nullptr);
  ASSIGN_OR_RETURN(const Items made, AddToGraph(*region, given, std::move(attributes),
                                                static_cast<int>(closed.size()), {}, Origin{}));
  Items out = outputs;
  size_t next = 0;
  for (ItemRef& item : out) {
    if (item != nullptr && item->partial.whole()) item = made[next++];
  }
  return out;
}

// ---- Running regions.

namespace {

std::vector<ModelInput> InputsOf(const onnx::GraphProto& body,
                                 absl::Span<const std::shared_ptr<const Tensor>> tensors) {
  std::vector<ModelInput> inputs(body.input_size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    inputs[i].name = body.input(static_cast<int>(i)).name();
    inputs[i].dtype = tensors[i]->dtype();
    inputs[i].any_rank = true;
  }
  return inputs;
}

std::vector<ModelValue> ValuesOf(absl::Span<const std::shared_ptr<const Tensor>> tensors) {
  std::vector<ModelValue> values(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) values[i].tensor = tensors[i];
  return values;
}

absl::Status Read(const onnx::GraphProto& body,
                  absl::Span<const std::shared_ptr<const Tensor>> inputs, GraphReader* reader) {
  RETURN_IF_ERROR(reader->KnownInputs(InputsOf(body, inputs), ValuesOf(inputs)));
  RETURN_IF_ERROR(reader->Initializers(body, {}));
  return reader->Nodes(body);
}

}  // namespace

RegionBody::RegionBody() : body_(std::make_unique<onnx::GraphProto>()) {}
RegionBody::~RegionBody() = default;

absl::StatusOr<std::unique_ptr<RegionBody>> RegionBody::Parse(const std::string& text) {
  std::unique_ptr<RegionBody> region(new RegionBody);
  if (!region->body_->ParseFromString(text)) {
    return absl::InternalError("the body of a region cannot be read");
  }
  return region;
}

absl::StatusOr<std::vector<std::shared_ptr<const Tensor>>> RegionBody::Run(
    const OperatorSet& operators, Evaluator* evaluator,
    absl::Span<const std::shared_ptr<const Tensor>> inputs) const {
  const Binding binding;
  GraphReader reader(operators, evaluator, binding, kCanonicalOpset, Reading::kKnown);
  RETURN_IF_ERROR(Read(*body_, inputs, &reader));
  ASSIGN_OR_RETURN(const std::vector<ModelValue> values, reader.KnownOutputs(*body_));
  std::vector<std::shared_ptr<const Tensor>> outputs;
  for (const ModelValue& value : values) {
    if (value.kind != ModelValue::Kind::kTensor) {
      return absl::InternalError("a region gives no tensor");
    }
    outputs.push_back(value.tensor);
  }
  return outputs;
}

absl::StatusOr<RegionBody::Traced> RegionBody::Trace(
    const OperatorSet& operators, Evaluator* evaluator,
    absl::Span<const std::shared_ptr<const Tensor>> inputs) const {
  const Binding binding;
  GraphReader reader(operators, evaluator, binding, kCanonicalOpset, Reading::kTraced);
  RETURN_IF_ERROR(Read(*body_, inputs, &reader));
  Traced traced;
  traced.outputs = reader.TracedOutputs(*body_);
  for (size_t i = 0; i < traced.outputs.size(); ++i) {
    // Kept by an output while constants that nothing reads are dropped.
    if (traced.outputs[i] != nullptr) reader.Keep(traced.outputs[i]);
  }
  traced.graph = reader.Take();
  traced.graph->ClearOutputs();
  return traced;
}

}  // namespace onward
