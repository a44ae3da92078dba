// Reading and writing at indices. An index counts from the end where it is
// negative; outside of the extent it is an error of data.
#include <algorithm>

#include "kernels/cpu/elementwise_functors.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/reference.h"

namespace onward {
namespace {

// Index k of `indices` in [0, extent), or -1 where it is out of range.
int64_t IndexAt(const TensorView& indices, int64_t k, int64_t extent) {
  int64_t index = IntAt(indices, k);
  if (index < 0) index += extent;
  return index < 0 || index >= extent ? -1 : index;
}

absl::Status CheckIndices(const TensorView& indices, int64_t extent) {
  for (int64_t k = 0; k < indices.type.elements(); ++k) {
    if (IndexAt(indices, k, extent) < 0) return IndexError(IntAt(indices, k), extent);
  }
  return absl::OkStatus();
}

// y[outer, k, inner] = data[outer, indices[k], inner].
absl::Status Gather(const KernelCall& call, const KernelMemory& memory, const Execution&) {
  const TensorView& data = memory.inputs[0];
  const TensorView& indices = memory.inputs[1];
  const AxisView view(data.type.dims, call.attributes->Int("axis", 0));
  const absl::Status good = CheckIndices(indices, view.extent);
  if (!good.ok()) return good;
  const int64_t count = indices.type.elements();
  return ForSizeOf(data.type.dtype, [&](auto t) {
    using T = decltype(t);
    T* y = memory.outputs[0].as<T>();
    for (int64_t o = 0; o < view.outer; ++o) {
      for (int64_t k = 0; k < count; ++k) {
        const int64_t row = o * view.extent + IndexAt(indices, k, view.extent);
        for (int64_t i = 0; i < view.inner; ++i) {
          y[(o * count + k) * view.inner + i] = data.as<T>()[row * view.inner + i];
        }
      }
    }
    return absl::OkStatus();
  });
}

// The transpose of Gather: dx = 0, then dx[outer, indices[k], inner] += dy[outer, k, inner].
absl::Status GatherGradient(const KernelCall& call, const KernelMemory& memory, const Execution&) {
  const TensorView& dy = memory.inputs[0];
  const TensorView& indices = memory.inputs[1];
  const TensorView& dx = memory.outputs[0];
  const AxisView view(dx.type.dims, call.attributes->Int("axis", 0));
  const absl::Status good = CheckIndices(indices, view.extent);
  if (!good.ok()) return good;
  const int64_t count = indices.type.elements();
  return ForType(FloatTypes(), dx.type.dtype, [&](auto t) {
    using T = decltype(t);
    std::fill_n(dx.as<T>(), dx.type.elements(), T(0));
    for (int64_t o = 0; o < view.outer; ++o) {
      for (int64_t k = 0; k < count; ++k) {
        const int64_t row = o * view.extent + IndexAt(indices, k, view.extent);
        for (int64_t i = 0; i < view.inner; ++i) {
          dx.as<T>()[row * view.inner + i] += dy.as<T>()[(o * count + k) * view.inner + i];
        }
      }
    }
    return absl::OkStatus();
  });
}

// body(k, place): for each element k of `indices`, where it points to in a tensor
// of extents `dims` when it replaces the coordinate of `axis`.
template <typename Body>
absl::Status ForEachElementIndex(const TensorView& indices, const Dims& dims, int64_t axis,
                                 Body body) {
  if (axis < 0) axis += static_cast<int64_t>(dims.size());
  const absl::Status good = CheckIndices(indices, dims[axis]);
  if (!good.ok()) return good;
  const Dims strides = Strides(dims);
  Dims others = strides;
  others[axis] = 0;
  ForEachIndex<1>(indices.type.dims, {others}, [&](int64_t k, const std::array<int64_t, 1>& at) {
    body(k, at[0] + IndexAt(indices, k, dims[axis]) * strides[axis]);
  });
  return absl::OkStatus();
}

absl::Status GatherElements(const KernelCall& call, const KernelMemory& memory, const Execution&) {
  const TensorView& data = memory.inputs[0];
  return ForSizeOf(data.type.dtype, [&](auto t) {
    using T = decltype(t);
    T* y = memory.outputs[0].as<T>();
    return ForEachElementIndex(memory.inputs[1], data.type.dims, call.attributes->Int("axis", 0),
                               [&](int64_t k, int64_t at) { y[k] = data.as<T>()[at]; });
  });
}

// body(k, place): for each index tuple k of `indices` (its last axis), where the
// slice that it names starts in a tensor of extents `dims`; slices of `batch_dims`
// leading axes are told apart by k itself.
template <typename Body>
absl::Status ForEachTuple(const TensorView& indices, const Dims& dims, int64_t batch_dims,
                          Body body) {
  const int64_t depth = indices.type.dims.back();
  const Dims strides = Strides(dims);
  int64_t tuples = 1, batches = 1;
  for (size_t i = 0; i + 1 < indices.type.dims.size(); ++i) {
    tuples *= indices.type.dims[i];
    if (static_cast<int64_t>(i) < batch_dims) batches *= indices.type.dims[i];
  }
  if (tuples == 0) return absl::OkStatus();
  const int64_t per_batch = tuples / batches;
  const int64_t batch_stride = batch_dims == 0 ? 0 : strides[batch_dims - 1];
  for (int64_t k = 0; k < tuples; ++k) {
    int64_t place = k / per_batch * batch_stride;
    for (int64_t d = 0; d < depth; ++d) {
      const int64_t extent = dims[batch_dims + d];
      const int64_t index = IndexAt(indices, k * depth + d, extent);
      if (index < 0) return IndexError(IntAt(indices, k * depth + d), extent);
      place += index * strides[batch_dims + d];
    }
    body(k, place);
  }
  return absl::OkStatus();
}

// Elements of one slice that a tuple of `depth` indices names.
int64_t SliceElements(const Dims& dims, int64_t depth) {
  return Elements(absl::MakeConstSpan(dims).subspan(depth));
}

absl::Status GatherND(const KernelCall& call, const KernelMemory& memory, const Execution&) {
  const TensorView& data = memory.inputs[0];
  const TensorView& indices = memory.inputs[1];
  const int64_t batch_dims = call.attributes->Int("batch_dims", 0);
  const int64_t slice = SliceElements(data.type.dims, batch_dims + indices.type.dims.back());
  return ForSizeOf(data.type.dtype, [&](auto t) {
    using T = decltype(t);
    T* y = memory.outputs[0].as<T>();
    return ForEachTuple(indices, data.type.dims, batch_dims, [&](int64_t k, int64_t at) {
      std::copy_n(data.as<T>() + at, slice, y + k * slice);
    });
  });
}

// How what is written meets what is there.
template <typename T>
T Combine(absl::string_view reduction, T there, T update) {
  if (reduction == "add") return AddFunctor()(there, update);
  if (reduction == "mul") return MulFunctor()(there, update);
  if (reduction == "max") return MaxFunctor()(there, update);
  if (reduction == "min") return MinFunctor()(there, update);
  return update;
}

// Where nothing is combined, elements of any type are moved.
template <typename Body>
absl::Status ForScattered(absl::string_view reduction, DataType dtype, Body body) {
  return reduction == "none" ? ForSizeOf(dtype, body) : ForType(AllTypes(), dtype, body);
}

absl::Status AcceptScatter(const KernelCall& call) {
  const bool moves = StringOf(*call.attributes, "reduction", "none") == "none";
  return moves ? AcceptPlain(call) : AcceptTyped<AllTypes>(call);
}

absl::Status ScatterElements(const KernelCall& call, const KernelMemory& memory, const Execution&) {
  const TensorView& y = memory.outputs[0];
  const absl::string_view reduction = StringOf(*call.attributes, "reduction", "none");
  return ForScattered(reduction, y.type.dtype, [&](auto t) {
    using T = decltype(t);
    std::copy_n(memory.inputs[0].as<T>(), y.type.elements(), y.as<T>());
    const T* updates = memory.inputs[2].as<T>();
    return ForEachElementIndex(memory.inputs[1], y.type.dims, call.attributes->Int("axis", 0),
                               [&](int64_t k, int64_t at) {
                                 T& there = y.as<T>()[at];
                                 there = Combine<T>(reduction, there, updates[k]);
                               });
  });
}

absl::Status ScatterND(const KernelCall& call, const KernelMemory& memory, const Execution&) {
  const TensorView& y = memory.outputs[0];
  const TensorView& indices = memory.inputs[1];
  const absl::string_view reduction = StringOf(*call.attributes, "reduction", "none");
  const int64_t slice = SliceElements(y.type.dims, indices.type.dims.back());
  return ForScattered(reduction, y.type.dtype, [&](auto t) {
    using T = decltype(t);
    std::copy_n(memory.inputs[0].as<T>(), y.type.elements(), y.as<T>());
    const T* updates = memory.inputs[2].as<T>();
    return ForEachTuple(indices, y.type.dims, 0, [&](int64_t k, int64_t at) {
      for (int64_t i = 0; i < slice; ++i) {
        T& there = y.as<T>()[at + i];
        there = Combine<T>(reduction, there, updates[k * slice + i]);
      }
    });
  });
}

// y[outer, k, inner] = on where indices[outer, inner] is k, off elsewhere; an
// index out of range is nowhere, as ONNX has it.
absl::Status OneHot(const KernelCall& call, const KernelMemory& memory, const Execution&) {
  const TensorView& y = memory.outputs[0];
  const TensorView& indices = memory.inputs[0];
  const AxisView view(y.type.dims, call.attributes->Int("axis", -1));
  return ForType(NumberTypes(), indices.type.dtype, [&](auto from) {
    using I = decltype(from);
    return ForSizeOf(y.type.dtype, [&](auto t) {
      using T = decltype(t);
      const T off = memory.inputs[2].as<T>()[0], on = memory.inputs[2].as<T>()[1];
      for (int64_t o = 0; o < view.outer; ++o) {
        for (int64_t k = 0; k < view.extent; ++k) {
          for (int64_t i = 0; i < view.inner; ++i) {
            int64_t index = ConvertTo<int64_t>(indices.as<I>()[o * view.inner + i]);
            if (index < 0) index += view.extent;
            y.as<T>()[(o * view.extent + k) * view.inner + i] = index == k ? on : off;
          }
        }
      }
      return absl::OkStatus();
    });
  });
}

// Column k of y holds the coordinates of the k-th element that is not zero.
absl::Status NonZero(const KernelCall&, const KernelMemory& memory, const Execution&) {
  const TensorView& x = memory.inputs[0];
  const Dims strides = Strides(x.type.dims);
  const int64_t columns = memory.outputs[0].type.dims[1];
  return ForType(AllTypes(), x.type.dtype, [&](auto t) {
    using T = decltype(t);
    int64_t column = 0;
    for (int64_t i = 0; i < x.type.elements() && column < columns; ++i) {
      if (x.as<T>()[i] == T(0)) continue;
      for (size_t axis = 0; axis < strides.size(); ++axis) {
        memory.outputs[0].as<int64_t>()[axis * columns + column] =
            i / strides[axis] % x.type.dims[axis];
      }
      ++column;
    }
    return absl::OkStatus();
  });
}

}  // namespace

void AddIndexReference(KernelTable& table) {
  table.push_back(TypedReference<Gather, IndexTypes, 1>("Gather"));
  table.push_back(TypedReference<GatherGradient, FloatTypes>("onward.GatherGradient"));
  table.push_back(TypedReference<GatherElements, IndexTypes, 1>("GatherElements"));
  table.push_back(ReferenceKernel<GatherND>("GatherND"));
  table.push_back(ReferenceKernel<ScatterElements>("ScatterElements"));
  table.back().accepts = AcceptScatter;
  table.push_back(ReferenceKernel<ScatterND>("ScatterND"));
  table.back().accepts = AcceptScatter;
  table.push_back(TypedReference<OneHot, NumberTypes>("OneHot"));
  table.push_back(TypedReference<NonZero, AllTypes>("NonZero"));
}

}  // namespace onward
