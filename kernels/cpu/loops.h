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

// Walks the indices of `dims` in row-major order, one line along the last axis at a
// time, and keeps for each operand where its element lies. For ForEachIndex below.
class IndexWalk {
 public:
  // `strides` holds one Dims per operand, `offsets` one number; both outlive the walk.
  IndexWalk(const Dims& dims, const Dims* strides, size_t operands, int64_t* offsets);
  bool more() const { return lines_ > 0; }
  int64_t line() const { return line_; }
  // REQUIRES: the offsets stand behind the last element of the line.
  void NextLine();

 private:
  Dims dims_, index_;
  const Dims* strides_;
  size_t operands_;
  int64_t* offsets_;
  int64_t line_, lines_;
};

// Visits every index of `dims` in row-major order. For each of N operands with
// strides of its own, body(i, offsets) is told where its element lies: i counts
// visits from 0, offsets[k] = sum over axes of index * strides[k].
template <size_t N, typename Body>
void ForEachIndex(const Dims& dims, const std::array<Dims, N>& strides, Body body) {
  std::array<int64_t, N> offsets, steps;
  IndexWalk walk(dims, strides.data(), N, offsets.data());
  for (size_t k = 0; k < N; ++k) steps[k] = dims.empty() ? 0 : strides[k].back();
  for (int64_t i = 0; walk.more(); walk.NextLine()) {
    for (int64_t end = i + walk.line(); i < end; ++i) {
      body(i, offsets);
      for (size_t k = 0; k < N; ++k) offsets[k] += steps[k];
    }
  }
}

// Strides of a tensor of extents `from` that is read as if it had been broadcast
// to `to`: 0 along the axes that are repeated. REQUIRES: it broadcasts.
Dims RepeatingStrides(const Dims& from, const Dims& to);

// The extents before, at and behind an axis: the view [outer, extent, inner] of
// a plain tensor.
struct AxisView {
  int64_t outer = 1;
  int64_t extent = 1;
  int64_t inner = 1;
  AxisView(const Dims& dims, int64_t axis);
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

// Unimplemented: no loop for this type.
absl::Status NotForType(DataType dtype);

// body(T()) with the T of `dtype`; its status. Unimplemented for a type that is
// not in the list.
template <typename... T, typename Body>
absl::Status ForType(TypeList<T...>, DataType dtype, Body body) {
  absl::Status status;
  const bool found = ((DataTypeOf<T>::value == dtype && (status = body(T()), true)) || ...);
  return found ? status : NotForType(dtype);
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
      return NotForType(dtype);
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
absl::Span<const int64_t> IntsOf(const Attributes& attributes, absl::string_view name);
absl::string_view StringOf(const Attributes& attributes, absl::string_view name,
                           absl::string_view otherwise);

inline bool IsPresent(const KernelMemory& memory, size_t i) {
  return i < memory.inputs.size() && memory.inputs[i].data != nullptr;
}

// Element i of an int32 or int64 tensor.
inline int64_t IntAt(const TensorView& view, int64_t i) {
  return view.type.dtype == DataType::kInt32 ? view.as<int32_t>()[i] : view.as<int64_t>()[i];
}

// The elements of input i, an int32 or int64 tensor; none where it is absent.
Dims IntsAt(const KernelMemory& memory, size_t i);

// InvalidArgument of data: what was found and what was expected.
absl::Status IndexError(int64_t index, int64_t extent);

}  // namespace onward

#endif  // ONWARD_KERNELS_CPU_LOOPS_H_
