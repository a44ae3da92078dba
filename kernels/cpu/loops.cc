#include "kernels/cpu/loops.h"

namespace onward {

IndexWalk::IndexWalk(const Dims& dims, const Dims* strides, size_t operands, int64_t* offsets)
    : dims_(dims), strides_(strides), operands_(operands), offsets_(offsets) {
  for (size_t k = 0; k < operands; ++k) offsets[k] = 0;
  const int64_t count = Elements(dims);
  line_ = dims.empty() ? 1 : dims.back();
  lines_ = count == 0 ? 0 : count / line_;
  index_.resize(dims.size(), 0);
}

void IndexWalk::NextLine() {
  --lines_;
  for (size_t axis = dims_.size(); axis-- > 0;) {
    const bool last = axis + 1 == dims_.size();
    // The walk along the last axis has moved the offsets to its end.
    index_[axis] = last ? dims_[axis] : index_[axis] + 1;
    for (size_t k = 0; !last && k < operands_; ++k) offsets_[k] += strides_[k][axis];
    if (index_[axis] < dims_[axis]) return;
    for (size_t k = 0; k < operands_; ++k) offsets_[k] -= strides_[k][axis] * dims_[axis];
    index_[axis] = 0;
  }
}

Dims RepeatingStrides(const Dims& from, const Dims& to) {
  const Dims own = Strides(from);
  Dims strides(to.size(), 0);
  const size_t extra = to.size() - from.size();
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] != 1) strides[extra + i] = own[i];
  }
  return strides;
}

AxisView::AxisView(const Dims& dims, int64_t axis) {
  const int64_t rank = static_cast<int64_t>(dims.size());
  if (axis < 0) axis += rank;
  for (int64_t i = 0; i < rank; ++i) {
    (i < axis ? outer : i == axis ? extent : inner) *= dims[i];
  }
}

absl::Status NotForType(DataType dtype) {
  return absl::UnimplementedError(absl::StrCat("not for ", std::string(Name(dtype))));
}

absl::Span<const int64_t> IntsOf(const Attributes& attributes, absl::string_view name) {
  const AttributeValue* value = attributes.Find(name);
  const auto* ints = value == nullptr ? nullptr : std::get_if<std::vector<int64_t>>(value);
  return ints == nullptr ? absl::Span<const int64_t>() : absl::MakeConstSpan(*ints);
}

absl::string_view StringOf(const Attributes& attributes, absl::string_view name,
                           absl::string_view otherwise) {
  const AttributeValue* value = attributes.Find(name);
  const auto* text = value == nullptr ? nullptr : std::get_if<std::string>(value);
  return text == nullptr ? otherwise : absl::string_view(text->data(), text->size());
}

Dims IntsAt(const KernelMemory& memory, size_t i) {
  Dims out;
  if (!IsPresent(memory, i)) return out;
  const TensorView& view = memory.inputs[i];
  for (int64_t k = 0; k < view.type.elements(); ++k) out.push_back(IntAt(view, k));
  return out;
}

absl::Status IndexError(int64_t index, int64_t extent) {
  return WithExitCode(
      absl::InvalidArgumentError(absl::StrCat("index ", index, " is out of range, expected -",
                                              extent, " to ", extent - 1)),
      ExitCode::kData);
}

}  // namespace onward
