// Small parts of which reference kernels are made: a walk over the indices of a
// tensor, a choice of C++ type by data type, attributes read without copies.
// Nothing here allocates for tensors of rank 6 or less.
#ifndef ONWARD_KERNELS_CPU_LOOPS_H_
#define ONWARD_KERNELS_CPU_LOOPS_H_

#include <array>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "graph/base/errors.h"
#include "graph/base/shape.h"
#include "kernels/kernel.h"

namespace onward {

// Visits every index of `dims` in row-major order. For each of N operands with
// strides of its own, body(i, offsets) is told where its element lies: i counts
// visits from 0, offsets[k] = start + sum over axes of index * strides[k].
template <size_t N, typename Body>
void ForEachIndex(const Dims& dims, const std::array<Dims, N>& strides, Body body) {
  const int64_t count = Elements(dims);
  const size_t rank = dims.size();
  Dims index(rank, 0);
  std::array<int64_t, N> offsets{};
  for (int64_t i = 0; i < count; ++i) {
    body(i, offsets);
    for (size_t axis = rank; axis-- > 0;) {
      for (size_t k = 0; k < N; ++k) offsets[k] += strides[k][axis];
      if (++index[axis] < dims[axis]) break;
      for (size_t k = 0; k < N; ++k) offsets[k] -= strides[k][axis] * dims[axis];
      index[axis] = 0;
    }
  }
}

// Strides of a tensor of extents `from` that is read as if it had been broadcast
// to `to`: 0 along the axes that are repeated. REQUIRES: it broadcasts.
inline Dims BroadcastStrides(const Dims& from, const Dims& to) {
  const Dims own = Strides(from);
  Dims strides(to.size(), 0);
  const size_t extra = to.size() - from.size();
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] != 1) strides[extra + i] = own[i];
  }
  return strides;
}

// The extents before, at and behind an axis: the view [outer, extent, inner] of
// a plain tensor.
struct AxisView {
  int64_t outer = 1;
  int64_t extent = 1;
  int64_t inner = 1;
  AxisView(const Dims& dims, int64_t axis) {
    const int64_t rank = static_cast<int64_t>(dims.size());
    if (axis < 0) axis += rank;
    for (int64_t i = 0; i < rank; ++i) {
      (i < axis ? outer : i == axis ? extent : inner) *= dims[i];
    }
  }
};

// ---- Choice of the C++ type.

template <typename... T>
struct TypeList {};

using FloatTypes = TypeList<float, double>;
using IntegerTypes =
    TypeList<int64_t, int32_t, int16_t, int8_t, uint64_t, uint32_t, uint16_t, uint8_t>;
using NumberTypes = TypeList<float, double, int64_t, int32_t, int16_t, int8_t, uint64_t, uint32_t,
                             uint16_t, uint8_t>;
using AllTypes = TypeList<float, double, int64_t, int32_t, int16_t, int8_t, uint64_t, uint32_t,
                          uint16_t, uint8_t, bool>;
using BoolTypes = TypeList<bool>;
using IndexTypes = TypeList<int64_t, int32_t>;

template <typename... T>
bool Contains(TypeList<T...>, DataType dtype) {
  return ((DataTypeOf<T>::value == dtype) || ...);
}

// body(T()) with the T of `dtype`; its status. Unimplemented for a type that is
// not in the list.
template <typename... T, typename Body>
absl::Status ForType(TypeList<T...>, DataType dtype, Body body) {
  absl::Status status =
      absl::UnimplementedError(absl::StrCat("not for ", std::string(Name(dtype))));
  (void)((DataTypeOf<T>::value == dtype && (status = body(T()), true)) || ...);
  return status;
}

// For kernels that only move elements: body of an unsigned type of as many bytes.
template <typename Body>
absl::Status ForSizeOf(DataType dtype, Body body) {
  switch (SizeOf(dtype)) {
    case 1:
      return body(uint8_t());
    case 2:
      return body(uint16_t());
    case 4:
      return body(uint32_t());
    case 8:
      return body(uint64_t());
    default:
      return absl::UnimplementedError(absl::StrCat("not for ", std::string(Name(dtype))));
  }
}

// Ok if the type of input `kInput` is in the list.
template <typename List, int kInput = 0>
absl::Status AcceptTyped(const KernelCall& call) {
  const DataType dtype = call.has_input(kInput) ? call.inputs[kInput]->dtype : DataType::kUndefined;
  if (!Contains(List(), dtype)) {
    return absl::UnimplementedError(
        absl::StrCat("input ", kInput, " is ", std::string(Name(dtype))));
  }
  return AcceptPlain(call);
}

// A reference row for inputs of some types only.
template <KernelFunction kFunction, typename List, int kInput = 0>
Kernel TypedReference(std::string op) {
  Kernel row = ReferenceKernel<kFunction>(std::move(op));
  row.accepts = AcceptTyped<List, kInput>;
  return row;
}

// ---- Attributes and small inputs, without a copy.

// Empty where the attribute is absent.
inline absl::Span<const int64_t> IntsOf(const Attributes& attributes, absl::string_view name) {
  const AttributeValue* value = attributes.Find(name);
  const auto* ints = value == nullptr ? nullptr : std::get_if<std::vector<int64_t>>(value);
  return ints == nullptr ? absl::Span<const int64_t>() : absl::MakeConstSpan(*ints);
}

inline absl::string_view StringOf(const Attributes& attributes, absl::string_view name,
                                  absl::string_view otherwise) {
  const AttributeValue* value = attributes.Find(name);
  const auto* text = value == nullptr ? nullptr : std::get_if<std::string>(value);
  return text == nullptr ? otherwise : absl::string_view(text->data(), text->size());
}

// Element i of an int32 or int64 tensor.
inline int64_t IntAt(const TensorView& view, int64_t i) {
  return view.type.dtype == DataType::kInt32 ? view.as<int32_t>()[i] : view.as<int64_t>()[i];
}

// The elements of input i, an int32 or int64 tensor; none where it is absent.
inline Dims IntsAt(const KernelMemory& memory, size_t i) {
  Dims out;
  if (i >= memory.inputs.size() || memory.inputs[i].data == nullptr) return out;
  const TensorView& view = memory.inputs[i];
  for (int64_t k = 0; k < view.type.elements(); ++k) out.push_back(IntAt(view, k));
  return out;
}

inline bool IsPresent(const KernelMemory& memory, size_t i) {
  return i < memory.inputs.size() && memory.inputs[i].data != nullptr;
}

// InvalidArgument of data: what was found and what was expected.
inline absl::Status IndexError(int64_t index, int64_t extent) {
  return WithExitCode(
      absl::InvalidArgumentError(absl::StrCat("index ", index, " is out of range, expected -",
                                              extent, " to ", extent - 1)),
      ExitCode::kData);
}

}  // namespace onward

#endif  // ONWARD_KERNELS_CPU_LOOPS_H_
