// Sequences and optionals: lists of values while a file is read, and nothing afterwards.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "graph/base/status_macros.h"
#include "graph/onnx/graph_reader.h"
#include "graph/onnx/proto.h"

namespace onward {
namespace {

ItemRef SequenceOf(std::vector<ItemRef> elements) {
  auto item = std::make_shared<Item>();
  item->kind = Item::Kind::kSequence;
  item->elements = std::move(elements);
  return item;
}

ItemRef InputOrNull(const std::vector<ItemRef>& inputs, size_t i) {
  return i < inputs.size() ? inputs[i] : nullptr;
}

// An index into `size` entries; negative ones count from the end.
absl::StatusOr<size_t> Position(const ItemRef& item, size_t size) {
  ASSIGN_OR_RETURN(const Tensor* known, KnownTensor(item, "the position"));
  if (!IsInteger(known->dtype()) || known->elements() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("the position is ", ToString(known->type()), ", expected one integer"));
  }
  const int64_t n = static_cast<int64_t>(size);
  const int64_t position = known->IntAt(0);
  if (position < -n || position >= n) {
    return absl::InvalidArgumentError(
        absl::StrCat("position ", position, " is outside of the sequence of ", n));
  }
  return static_cast<size_t>(position < 0 ? position + n : position);
}

}  // namespace

absl::StatusOr<GraphReader::Items> GraphReader::ReadSequenceEmpty(const onnx::NodeProto&,
                                                                  const Items&) {
  return Items{SequenceOf({})};
}

absl::StatusOr<GraphReader::Items> GraphReader::ReadSequenceConstruct(const onnx::NodeProto&,
                                                                      const Items& inputs) {
  for (const ItemRef& item : inputs) {
    if (item == nullptr) return absl::InvalidArgumentError("an element is absent");
  }
  return Items{SequenceOf(inputs)};
}

absl::StatusOr<GraphReader::Items> GraphReader::ReadSequenceInsert(const onnx::NodeProto&,
                                                                   const Items& inputs) {
  RETURN_IF_ERROR(CheckSequence(InputOrNull(inputs, 0), "the first input"));
  const ItemRef element = InputOrNull(inputs, 1);
  if (element == nullptr) return absl::InvalidArgumentError("nothing is given to insert");
  Items elements = inputs[0]->elements;
  size_t position = elements.size();
  if (InputOrNull(inputs, 2) != nullptr) {
    // One more than there are: also behind the last.
    ASSIGN_OR_RETURN(const Tensor* known, KnownTensor(inputs[2], "the position"));
    if (known->elements() != 1 || !IsInteger(known->dtype())) {
      return absl::InvalidArgumentError("the position is no integer");
    }
    const int64_t n = static_cast<int64_t>(elements.size());
    const int64_t at = known->IntAt(0);
    if (at < -n || at > n) {
      return absl::InvalidArgumentError(
          absl::StrCat("position ", at, " is outside of the sequence of ", n));
    }
    position = static_cast<size_t>(at < 0 ? at + n : at);
  }
  elements.insert(elements.begin() + position, element);
  return Items{SequenceOf(std::move(elements))};
}

absl::StatusOr<GraphReader::Items> GraphReader::ReadSequenceErase(const onnx::NodeProto&,
                                                                  const Items& inputs) {
  RETURN_IF_ERROR(CheckSequence(InputOrNull(inputs, 0), "the first input"));
  Items elements = inputs[0]->elements;
  if (elements.empty()) return absl::InvalidArgumentError("the sequence is empty");
  size_t position = elements.size() - 1;
  if (InputOrNull(inputs, 1) != nullptr) {
    ASSIGN_OR_RETURN(position, Position(inputs[1], elements.size()));
  }
  elements.erase(elements.begin() + position);
  return Items{SequenceOf(std::move(elements))};
}

absl::StatusOr<GraphReader::Items> GraphReader::ReadSequenceAt(const onnx::NodeProto&,
                                                               const Items& inputs) {
  RETURN_IF_ERROR(CheckSequence(InputOrNull(inputs, 0), "the first input"));
  const Items& elements = inputs[0]->elements;
  ASSIGN_OR_RETURN(const size_t position, Position(InputOrNull(inputs, 1), elements.size()));
  return Items{elements[position]};
}

absl::StatusOr<GraphReader::Items> GraphReader::ReadSequenceLength(const onnx::NodeProto&,
                                                                   const Items& inputs) {
  RETURN_IF_ERROR(CheckSequence(InputOrNull(inputs, 0), "the first input"));
  return Items{Known(Tensor::Scalar<int64_t>(static_cast<int64_t>(inputs[0]->elements.size())))};
}

// `split`: the length of every part (the last may be shorter), or a list of lengths; absent:
// parts of one entry, without their axis if keepdims is 0.
absl::StatusOr<GraphReader::Items> GraphReader::ReadSplitToSequence(const onnx::NodeProto& node,
                                                                    const Items& inputs) {
  const ItemRef tensor = InputOrNull(inputs, 0);
  if (tensor == nullptr || tensor->kind != Item::Kind::kTensor) {
    return absl::InvalidArgumentError("the first input is no tensor");
  }
  const int64_t axis = IntAttribute(node, "axis", 0);
  const ItemRef split = InputOrNull(inputs, 1);
  if (split == nullptr && IntAttribute(node, "keepdims", 1) == 0) {
    ASSIGN_OR_RETURN(Items entries, Unstack(tensor, axis));
    return Items{SequenceOf(std::move(entries))};
  }
  const int64_t rank = static_cast<int64_t>(tensor->type().dims.size());
  if (axis < -rank || axis >= rank) {
    return absl::InvalidArgumentError(absl::StrCat("axis ", axis, " of a tensor of rank ", rank));
  }
  const int64_t extent = tensor->type().dims[axis < 0 ? axis + rank : axis];
  std::vector<int64_t> sizes;
  const Tensor* given = nullptr;
  if (split != nullptr) {
    ASSIGN_OR_RETURN(given, KnownTensor(split, "the lengths of the parts"));
    if (!IsInteger(given->dtype())) {
      return absl::InvalidArgumentError("the lengths of the parts are no integers");
    }
  }
  if (given != nullptr && !given->dims().empty()) {
    for (int64_t i = 0; i < given->elements(); ++i) sizes.push_back(given->IntAt(i));
  } else {
    const int64_t most = given == nullptr ? 1 : given->IntAt(0);
    if (most < 1) return absl::InvalidArgumentError(absl::StrCat("parts of ", most, " entries"));
    RETURN_IF_ERROR(budget_.Unroll(extent / most + 1));
    for (int64_t left = extent; left > 0; left -= most) {
      sizes.push_back(std::min(left, most));
    }
  }
  if (sizes.empty()) return Items{SequenceOf({})};
  ASSIGN_OR_RETURN(Items parts, Pieces(tensor, sizes, axis));
  return Items{SequenceOf(std::move(parts))};
}

absl::StatusOr<GraphReader::Items> GraphReader::ReadConcatFromSequence(const onnx::NodeProto& node,
                                                                       const Items& inputs) {
  RETURN_IF_ERROR(CheckSequence(InputOrNull(inputs, 0), "the first input"));
  if (inputs[0]->elements.empty()) return absl::InvalidArgumentError("the sequence is empty");
  if (FindAttribute(node, "axis") == nullptr) return absl::InvalidArgumentError("has no axis");
  ASSIGN_OR_RETURN(ItemRef joined, Joined(inputs[0]->elements, IntAttribute(node, "axis", 0),
                                          IntAttribute(node, "new_axis", 0) != 0));
  return Items{std::move(joined)};
}

absl::StatusOr<GraphReader::Items> GraphReader::ReadOptional(const onnx::NodeProto&,
                                                             const Items& inputs) {
  if (InputOrNull(inputs, 0) != nullptr) return Items{inputs[0]};
  auto nothing = std::make_shared<Item>();
  nothing->kind = Item::Kind::kNothing;
  return Items{std::move(nothing)};
}

absl::StatusOr<GraphReader::Items> GraphReader::ReadOptionalHasElement(const onnx::NodeProto&,
                                                                       const Items& inputs) {
  const ItemRef item = InputOrNull(inputs, 0);
  const bool has = item != nullptr && item->kind != Item::Kind::kNothing;
  return Items{Known(Tensor::Scalar<bool>(has))};
}

absl::StatusOr<GraphReader::Items> GraphReader::ReadOptionalGetElement(const onnx::NodeProto&,
                                                                       const Items& inputs) {
  const ItemRef item = InputOrNull(inputs, 0);
  if (item == nullptr || item->kind == Item::Kind::kNothing) {
    return absl::InvalidArgumentError("the optional holds nothing");
  }
  return Items{item};
}

}  // namespace onward
