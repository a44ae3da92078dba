// If, Loop, Scan and SequenceMap: what is known when the file is read takes them away.
#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "graph/base/status_macros.h"
#include "graph/onnx/graph_reader.h"
#include "graph/onnx/proto.h"

namespace onward {
namespace {

absl::StatusOr<const onnx::GraphProto*> BodyOf(const onnx::NodeProto& node,
                                               absl::string_view name) {
  const onnx::AttributeProto* body = FindAttribute(node, name);
  if (body != nullptr && body->has_g()) return &body->g();
  return absl::InvalidArgumentError(absl::StrCat("has no body '", name, "'"));
}

// As many zeros where there is none.
std::vector<int64_t> IntsOf(const onnx::NodeProto& node, absl::string_view name, size_t size) {
  const onnx::AttributeProto* a = FindAttribute(node, name);
  if (a == nullptr) return std::vector<int64_t>(size, 0);
  return {a->ints().begin(), a->ints().end()};
}

absl::StatusOr<bool> Condition(const ItemRef& item, absl::string_view what) {
  ASSIGN_OR_RETURN(const Tensor* known, KnownTensor(item, what));
  if (known->dtype() != DataType::kBool || known->elements() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " is ", ToString(known->type()), ", expected one bool"));
  }
  return known->IntAt(0) != 0;
}

}  // namespace

absl::StatusOr<const Tensor*> KnownTensor(const ItemRef& item, absl::string_view what) {
  if (item != nullptr && item->kind == Item::Kind::kDeferred) return DependsOnData(what);
  if (item == nullptr || item->kind != Item::Kind::kTensor) {
    return absl::InvalidArgumentError(absl::StrCat(what, " is no tensor"));
  }
  if (item->known == nullptr) return DependsOnData(what);
  return item->known.get();
}

absl::Status CheckSequence(const ItemRef& item, absl::string_view what) {
  if (item != nullptr && item->kind == Item::Kind::kSequence) return absl::OkStatus();
  if (item != nullptr && item->kind == Item::Kind::kDeferred) return DependsOnData(what);
  return absl::InvalidArgumentError(absl::StrCat(what, " is no sequence"));
}

GraphReader::Handler GraphReader::HandlerOf(const std::string& op) {
  static const auto* const handlers = new absl::flat_hash_map<std::string, Handler>{
      {"If", &GraphReader::ReadIf},
      {"Loop", &GraphReader::ReadLoop},
      {"Scan", &GraphReader::ReadScan},
      {"SequenceMap", &GraphReader::ReadSequenceMap},
      {"SequenceEmpty", &GraphReader::ReadSequenceEmpty},
      {"SequenceConstruct", &GraphReader::ReadSequenceConstruct},
      {"SequenceInsert", &GraphReader::ReadSequenceInsert},
      {"SequenceErase", &GraphReader::ReadSequenceErase},
      {"SequenceAt", &GraphReader::ReadSequenceAt},
      {"SequenceLength", &GraphReader::ReadSequenceLength},
      {"SplitToSequence", &GraphReader::ReadSplitToSequence},
      {"ConcatFromSequence", &GraphReader::ReadConcatFromSequence},
      {"Optional", &GraphReader::ReadOptional},
      {"OptionalHasElement", &GraphReader::ReadOptionalHasElement},
      {"OptionalGetElement", &GraphReader::ReadOptionalGetElement},
  };
  const auto it = handlers->find(op);
  return it == handlers->end() ? nullptr : it->second;
}

bool ReadAtImport(absl::string_view op) { return GraphReader::Handles(std::string(op)); }

absl::StatusOr<GraphReader::Items> GraphReader::ReadBody(const onnx::GraphProto& body,
                                                         const Items& inputs) {
  if (static_cast<int>(inputs.size()) != body.input_size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("its body has ", body.input_size(), " inputs, expected ", inputs.size()));
  }
  auto constants = body_initializers_.find(&body);
  scopes_.emplace_back();
  if (constants == body_initializers_.end()) {
    RETURN_IF_ERROR(Initializers(body, {}));
    constants = body_initializers_.emplace(&body, scopes_.back()).first;
  }
  scopes_.back() = constants->second;
  for (int i = 0; i < body.input_size(); ++i) Set(body.input(i).name(), inputs[i]);
  for (const onnx::NodeProto& node : body.node()) {
    RETURN_IF_ERROR(budget_.Unroll());
    RETURN_IF_ERROR(Annotate(Add(node, next_ordinal_++), Where(node)));
  }
  Items outputs;
  for (const onnx::ValueInfoProto& output : body.output()) {
    outputs.push_back(Find(output.name()));
    if (outputs.back() == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("output '", output.name(), "' of its body is made by no node"));
    }
  }
  scopes_.pop_back();
  return outputs;
}

absl::StatusOr<GraphReader::Items> GraphReader::ReadIf(const onnx::NodeProto& node,
                                                       const Items& inputs) {
  if (inputs.empty()) return absl::InvalidArgumentError("has no condition");
  ASSIGN_OR_RETURN(const bool condition, Condition(inputs[0], "the condition"));
  ASSIGN_OR_RETURN(const onnx::GraphProto* branch,
                   BodyOf(node, condition ? "then_branch" : "else_branch"));
  return ReadBody(*branch, {});
}

// Inputs: the number of iterations, a condition, and what an iteration hands to the next;
// each of the first two may be absent. The body gives the condition, what it hands on, and
// an entry of each stacked output.
absl::StatusOr<GraphReader::Items> GraphReader::ReadLoop(const onnx::NodeProto& node,
                                                         const Items& inputs) {
  ASSIGN_OR_RETURN(const onnx::GraphProto* body, BodyOf(node, "body"));
  int64_t trips = std::numeric_limits<int64_t>::max();
  bool goes_on = true;
  const bool has_condition = inputs.size() > 1 && inputs[1] != nullptr;
  if (!inputs.empty() && inputs[0] != nullptr) {
    ASSIGN_OR_RETURN(const Tensor* known, KnownTensor(inputs[0], "the number of iterations"));
    if (known->dtype() != DataType::kInt64 || known->elements() != 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the number of iterations is ", ToString(known->type()), ", expected one int64"));
    }
    trips = known->IntAt(0);
  }
  if (has_condition) {
    ASSIGN_OR_RETURN(goes_on, Condition(inputs[1], "the condition"));
  }
  Items carried(inputs.begin() + std::min<size_t>(2, inputs.size()), inputs.end());
  const int stacked = body->output_size() - 1 - static_cast<int>(carried.size());
  if (stacked < 0) return absl::InvalidArgumentError("its body has too few outputs");
  std::vector<Items> entries(stacked);
  for (int64_t i = 0; i < trips && goes_on; ++i) {
    RETURN_IF_ERROR(budget_.Unroll());
    Items given = {Known(Tensor::Scalar<int64_t>(i)), Known(Tensor::Scalar<bool>(true))};
    given.insert(given.end(), carried.begin(), carried.end());
    ASSIGN_OR_RETURN(Items made, ReadBody(*body, given));
    // Without a condition it is a loop that counts, and what the body says is not asked.
    if (has_condition || trips == std::numeric_limits<int64_t>::max()) {
      ASSIGN_OR_RETURN(goes_on, Condition(made[0], "the condition that its body gives"));
    }
    for (int s = 0; s < stacked; ++s) entries[s].push_back(made[1 + carried.size() + s]);
    std::move(made.begin() + 1, made.begin() + 1 + carried.size(), carried.begin());
  }
  Items outputs = std::move(carried);
  const int first = body->output_size() - stacked;
  for (int s = 0; s < stacked; ++s) {
    ASSIGN_OR_RETURN(ItemRef stack, Stack(entries[s], 0, body->output(first + s)));
    outputs.push_back(std::move(stack));
  }
  return outputs;
}

// Inputs: what an iteration hands to the next, then the scanned ones.
absl::StatusOr<GraphReader::Items> GraphReader::ReadScan(const onnx::NodeProto& node,
                                                         const Items& inputs) {
  ASSIGN_OR_RETURN(const onnx::GraphProto* body, BodyOf(node, "body"));
  const int64_t scanned = IntAttribute(node, "num_scan_inputs", 0);
  if (scanned < 1 || scanned > static_cast<int64_t>(inputs.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_scan_inputs is ", scanned, ", expected 1 to ", inputs.size()));
  }
  const size_t states = inputs.size() - scanned;
  const int64_t stacked = body->output_size() - static_cast<int64_t>(states);
  if (stacked < 0) return absl::InvalidArgumentError("its body has too few outputs");
  const auto axes = IntsOf(node, "scan_input_axes", scanned);
  const auto backward = IntsOf(node, "scan_input_directions", scanned);
  const auto output_axes = IntsOf(node, "scan_output_axes", stacked);
  const auto output_backward = IntsOf(node, "scan_output_directions", stacked);
  const auto fits = [](const std::vector<int64_t>& list, int64_t size) {
    return static_cast<int64_t>(list.size()) == size;
  };
  if (!fits(axes, scanned) || !fits(backward, scanned) || !fits(output_axes, stacked) ||
      !fits(output_backward, stacked)) {
    return absl::InvalidArgumentError("axes and directions are not one for each scanned tensor");
  }
  std::vector<Items> slices;
  for (int64_t s = 0; s < scanned; ++s) {
    ASSIGN_OR_RETURN(Items entries, Unstack(inputs[states + s], axes[s]));
    if (backward[s] != 0) std::reverse(entries.begin(), entries.end());
    slices.push_back(std::move(entries));
    if (slices[s].size() != slices[0].size()) {
      return absl::InvalidArgumentError(absl::StrCat("scanned input ", s, " has ", slices[s].size(),
                                                     " entries, expected ", slices[0].size(),
                                                     " as the first"));
    }
  }
  Items carried(inputs.begin(), inputs.begin() + states);
  std::vector<Items> entries(stacked);
  for (size_t i = 0; i < slices[0].size(); ++i) {
    Items given = carried;
    for (const Items& slice : slices) given.push_back(slice[i]);
    ASSIGN_OR_RETURN(Items made, ReadBody(*body, given));
    for (int64_t s = 0; s < stacked; ++s) entries[s].push_back(made[states + s]);
    std::move(made.begin(), made.begin() + states, carried.begin());
  }
  Items outputs = std::move(carried);
  for (int64_t s = 0; s < stacked; ++s) {
    if (output_backward[s] != 0) std::reverse(entries[s].begin(), entries[s].end());
    ASSIGN_OR_RETURN(ItemRef stack,
                     Stack(entries[s], output_axes[s], body->output(static_cast<int>(states + s))));
    outputs.push_back(std::move(stack));
  }
  return outputs;
}

absl::StatusOr<GraphReader::Items> GraphReader::ReadSequenceMap(const onnx::NodeProto& node,
                                                                const Items& inputs) {
  ASSIGN_OR_RETURN(const onnx::GraphProto* body, BodyOf(node, "body"));
  RETURN_IF_ERROR(CheckSequence(inputs.empty() ? nullptr : inputs[0], "the first input"));
  Items outputs;
  for (int i = 0; i < body->output_size(); ++i) {
    outputs.push_back(std::make_shared<Item>());
    outputs.back()->kind = Item::Kind::kSequence;
  }
  for (size_t i = 0; i < inputs[0]->elements.size(); ++i) {
    RETURN_IF_ERROR(budget_.Unroll());
    Items given;
    for (const ItemRef& input : inputs) {
      const bool sequence = input != nullptr && input->kind == Item::Kind::kSequence;
      if (sequence && input->elements.size() != inputs[0]->elements.size()) {
        return absl::InvalidArgumentError("its sequences are not of one length");
      }
      given.push_back(sequence ? input->elements[i] : input);
    }
    ASSIGN_OR_RETURN(Items made, ReadBody(*body, given));
    for (size_t o = 0; o < made.size(); ++o) outputs[o]->elements.push_back(std::move(made[o]));
  }
  return outputs;
}

// By one Split, whose gradient is one Concat.
absl::StatusOr<GraphReader::Items> GraphReader::Unstack(const ItemRef& tensor, int64_t axis) {
  if (tensor == nullptr || tensor->kind != Item::Kind::kTensor) {
    return absl::InvalidArgumentError("a scanned input is no tensor");
  }
  const int64_t rank = static_cast<int64_t>(tensor->type().dims.size());
  if (axis < -rank || axis >= rank) {
    return absl::InvalidArgumentError(absl::StrCat("axis ", axis, " of a tensor of rank ", rank));
  }
  const int64_t extent = tensor->type().dims[axis < 0 ? axis + rank : axis];
  if (extent == kDynamic) {
    return DependsOnData(absl::StrCat("the extent of axis ", axis));
  }
  if (extent == 0) return Items{};
  RETURN_IF_ERROR(budget_.Unroll(extent));
  const ItemRef axes = Known(Tensor::Of<int64_t>({1}, {axis}));
  ASSIGN_OR_RETURN(Items parts, Pieces(tensor, std::vector<int64_t>(extent, 1), axis));
  for (ItemRef& part : parts) {
    ASSIGN_OR_RETURN(part, Make("Squeeze", {part, axes}));
  }
  return parts;
}

absl::StatusOr<GraphReader::Items> GraphReader::Pieces(const ItemRef& tensor,
                                                       const std::vector<int64_t>& sizes,
                                                       int64_t axis) {
  const Operator* split = operators_.Find("", "Split");
  ONWARD_CHECK(split != nullptr);
  const ItemRef list = Known(Tensor::Of<int64_t>({static_cast<int64_t>(sizes.size())}, sizes));
  return ApplyMade(*split, {tensor, list}, {{"axis", axis}}, static_cast<int>(sizes.size()));
}

absl::StatusOr<ItemRef> GraphReader::Stack(const Items& entries, int64_t axis,
                                           const onnx::ValueInfoProto& like) {
  if (!entries.empty()) return Joined(entries, axis, /*new_axis=*/true);
  // Nothing tells its type but the file.
  const auto& type = like.type().tensor_type();
  if (type.elem_type() == 0) {
    return absl::UnimplementedError(
        absl::StrCat("no iteration gives '", like.name(), "', and the file does not say its type"));
  }
  Dims dims;
  for (const auto& d : type.shape().dim()) dims.push_back(d.has_dim_value() ? d.dim_value() : 0);
  const int64_t rank = static_cast<int64_t>(dims.size()) + 1;
  if (axis < -rank || axis >= rank) {
    return absl::InvalidArgumentError(absl::StrCat("axis ", axis, " of a tensor of rank ", rank));
  }
  dims.insert(dims.begin() + (axis < 0 ? axis + rank : axis), 0);
  return Known(Tensor(static_cast<DataType>(type.elem_type()), std::move(dims)));
}

absl::StatusOr<ItemRef> GraphReader::Joined(const Items& parts, int64_t axis, bool new_axis) {
  if (!new_axis) return Make("Concat", parts, {{"axis", axis}});
  Items layers;
  const ItemRef axes = Known(Tensor::Of<int64_t>({1}, {axis}));
  for (const ItemRef& part : parts) {
    ASSIGN_OR_RETURN(ItemRef layer, Make("Unsqueeze", {part, axes}));
    layers.push_back(std::move(layer));
  }
  return Make("Concat", layers, {{"axis", axis}});
}

}  // namespace onward
