// Operators that only move elements, and those that make tensors from shapes.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "graph/base/tensor.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/reference.h"

namespace onward {
namespace {

// Reshape and its like: the same elements in the same order.
absl::Status Copy(const KernelCall&, const KernelMemory& memory, const Execution&) {
  const TensorView& y = memory.outputs[0];
  const void* x = memory.inputs[0].data;
  if (y.data != x && y.type.bytes() > 0) std::memcpy(y.data, x, y.type.bytes());
  return absl::OkStatus();
}

// Nothing is left to do where the result may lie in its input's memory.
KernelNeeds WantSameMemory(const KernelCall& call) {
  KernelNeeds needs = WantPlain(call);
  needs.aliases = {{0, 0}};
  return needs;
}

// y[i] = x[start + index of i times strides], in elements of x.
void CopyStrided(const TensorView& x, const TensorView& y, int64_t start, const Dims& strides) {
  (void)ForSizeOf(y.type.dtype, [&](auto t) {
    using T = decltype(t);
    const T* from = x.as<T>();
    T* to = y.as<T>();
    ForEachIndex<1>(y.type.dims, {strides}, [&](int64_t i, const std::array<int64_t, 1>& at) {
      to[i] = from[start + at[0]];
    });
    return absl::OkStatus();
  });
}

// The other way round: y[start + index of i times strides] = x[i].
void ScatterStrided(const TensorView& x, const TensorView& y, int64_t start, const Dims& strides) {
  (void)ForSizeOf(x.type.dtype, [&](auto t) {
    using T = decltype(t);
    const T* from = x.as<T>();
    T* to = y.as<T>();
    ForEachIndex<1>(x.type.dims, {strides}, [&](int64_t i, const std::array<int64_t, 1>& at) {
      to[start + at[0]] = from[i];
    });
    return absl::OkStatus();
  });
}

absl::Status Transpose(const KernelCall& call, const KernelMemory& memory, const Execution&) {
  const Dims own = Strides(memory.inputs[0].type.dims);
  const absl::Span<const int64_t> perm = IntsOf(*call.attributes, "perm");
  Dims strides(own.size(), 0);
  for (size_t i = 0; i < own.size(); ++i) {
    strides[i] = own[perm.empty() ? own.size() - 1 - i : perm[i]];
  }
  CopyStrided(memory.inputs[0], memory.outputs[0], 0, strides);
  return absl::OkStatus();
}

absl::Status Expand(const KernelCall&, const KernelMemory& memory, const Execution&) {
  CopyStrided(memory.inputs[0], memory.outputs[0], 0,
              RepeatingStrides(memory.inputs[0].type.dims, memory.outputs[0].type.dims));
  return absl::OkStatus();
}

// Starts, ends, axes and steps, the last two optional. The extents of the result
// say how far a step goes; only the first element must be found.
absl::Status Slice(const KernelCall&, const KernelMemory& memory, const Execution&) {
  const Dims& dims = memory.inputs[0].type.dims;
  const int64_t rank = static_cast<int64_t>(dims.size());
  Dims strides = Strides(dims);
  const Dims starts = IntsAt(memory, 1), axes = IntsAt(memory, 3), steps = IntsAt(memory, 4);
  int64_t first = 0;
  for (size_t k = 0; k < starts.size(); ++k) {
    int64_t axis = axes.empty() ? static_cast<int64_t>(k) : axes[k];
    if (axis < 0) axis += rank;
    const int64_t step = steps.empty() ? 1 : steps[k];
    int64_t start = starts[k] < 0 ? starts[k] + dims[axis] : starts[k];
    start = std::min(std::max<int64_t>(start, 0), step > 0 ? dims[axis] : dims[axis] - 1);
    first += start * strides[axis];
    strides[axis] *= step;
  }
  CopyStrided(memory.inputs[0], memory.outputs[0], first, strides);
  return absl::OkStatus();
}

absl::Status Concat(const KernelCall& call, const KernelMemory& memory, const Execution&) {
  const TensorView& y = memory.outputs[0];
  int64_t axis = call.attributes->Int("axis", 0);
  if (axis < 0) axis += static_cast<int64_t>(y.type.dims.size());
  const Dims strides = Strides(y.type.dims);
  int64_t start = 0;
  for (const TensorView& x : memory.inputs) {
    ScatterStrided(x, y, start * strides[axis], strides);
    start += x.type.dims[axis];
  }
  return absl::OkStatus();
}

absl::Status Split(const KernelCall& call, const KernelMemory& memory, const Execution&) {
  const TensorView& x = memory.inputs[0];
  int64_t axis = call.attributes->Int("axis", 0);
  if (axis < 0) axis += static_cast<int64_t>(x.type.dims.size());
  const Dims strides = Strides(x.type.dims);
  const Dims sizes = IntsAt(memory, 1);
  // Without sizes, all parts are equal but a smaller last one.
  const int64_t parts = static_cast<int64_t>(memory.outputs.size());
  const int64_t equal = (x.type.dims[axis] + parts - 1) / parts;
  int64_t start = 0;
  for (int64_t k = 0; k < parts; ++k) {
    if (memory.outputs[k].data != nullptr) {
      CopyStrided(x, memory.outputs[k], start * strides[axis], strides);
    }
    start += sizes.empty() ? equal : sizes[k];
  }
  return absl::OkStatus();
}

absl::Status Tile(const KernelCall&, const KernelMemory& memory, const Execution&) {
  // y seen as [repeats, extent] per axis: the repeats have stride 0.
  const Dims& dims = memory.inputs[0].type.dims;
  const Dims own = Strides(dims), repeats = IntsAt(memory, 1);
  TensorView y = memory.outputs[0];
  Dims pairs, strides;
  for (size_t i = 0; i < dims.size(); ++i) {
    pairs.push_back(repeats[i]);
    pairs.push_back(dims[i]);
    strides.push_back(0);
    strides.push_back(own[i]);
  }
  y.type.dims = pairs;
  CopyStrided(memory.inputs[0], y, 0, strides);
  return absl::OkStatus();
}

// One axis of Pad: which entry of the input stands at entry i of the result; -1
// for the constant. Negative pads crop first, and the modes see what is left.
class PaddedAxis {
 public:
  PaddedAxis(int64_t extent, int64_t before, int64_t after)
      : first_(std::max<int64_t>(-before, 0)),
        extent_(extent - first_ - std::max<int64_t>(-after, 0)),
        before_(std::max<int64_t>(before, 0)) {}

  int64_t Source(int64_t i, absl::string_view mode) const {
    int64_t k = i - before_;
    if (k < 0 || k >= extent_) {
      if (mode == "constant" || extent_ <= 0) return -1;
      if (mode == "edge") k = std::min(std::max<int64_t>(k, 0), extent_ - 1);
      if (mode == "wrap") k = ((k % extent_) + extent_) % extent_;
      if (mode == "reflect") {
        const int64_t period = std::max<int64_t>(2 * (extent_ - 1), 1);
        k = ((k % period) + period) % period;
        if (k >= extent_) k = period - k;
      }
    }
    return first_ + k;
  }

 private:
  int64_t first_;
  int64_t extent_;
  int64_t before_;
};

absl::Status Pad(const KernelCall& call, const KernelMemory& memory, const Execution&) {
  const TensorView& x = memory.inputs[0];
  const TensorView& y = memory.outputs[0];
  const absl::string_view mode = StringOf(*call.attributes, "mode", "constant");
  const size_t rank = x.type.dims.size();
  const Dims pads = IntsAt(memory, 1), axes = IntsAt(memory, 3);
  Dims before(rank, 0), after(rank, 0);
  const size_t count = pads.size() / 2;
  for (size_t k = 0; k < count; ++k) {
    int64_t axis = axes.empty() ? static_cast<int64_t>(k) : axes[k];
    if (axis < 0) axis += static_cast<int64_t>(rank);
    before[axis] = pads[k];
    after[axis] = pads[count + k];
  }
  const Dims strides = Strides(x.type.dims), places = Strides(y.type.dims);
  return ForSizeOf(y.type.dtype, [&](auto t) {
    using T = decltype(t);
    const T* from = x.as<T>();
    T* to = y.as<T>();
    const T filler = IsPresent(memory, 2) ? memory.inputs[2].as<T>()[0] : T(0);
    for (int64_t i = 0; i < y.type.elements(); ++i) {
      int64_t source = 0;
      for (size_t axis = 0; axis < rank && source >= 0; ++axis) {
        const PaddedAxis padded(x.type.dims[axis], before[axis], after[axis]);
        const int64_t k = padded.Source(i / places[axis] % y.type.dims[axis], mode);
        source = k < 0 ? -1 : source + k * strides[axis];
      }
      to[i] = source < 0 ? filler : from[source];
    }
    return absl::OkStatus();
  });
}

absl::Status Trilu(const KernelCall& call, const KernelMemory& memory, const Execution&) {
  const TensorView& x = memory.inputs[0];
  const bool upper = call.attributes->Int("upper", 1) != 0;
  const int64_t k = IsPresent(memory, 1) ? IntAt(memory.inputs[1], 0) : 0;
  const size_t rank = x.type.dims.size();
  const int64_t rows = x.type.dims[rank - 2], columns = x.type.dims[rank - 1];
  return ForSizeOf(x.type.dtype, [&](auto t) {
    using T = decltype(t);
    for (int64_t i = 0; i < x.type.elements(); ++i) {
      const int64_t column = i % columns, row = i / columns % rows;
      const bool kept = upper ? column - row >= k : column - row <= k;
      memory.outputs[0].as<T>()[i] = kept ? x.as<T>()[i] : T(0);
    }
    return absl::OkStatus();
  });
}

absl::Status EyeLike(const KernelCall& call, const KernelMemory& memory, const Execution&) {
  const TensorView& y = memory.outputs[0];
  const int64_t k = call.attributes->Int("k", 0), columns = y.type.dims[1];
  return ForType(AllTypes(), y.type.dtype, [&](auto t) {
    using T = decltype(t);
    for (int64_t i = 0; i < y.type.elements(); ++i) {
      y.as<T>()[i] = i % columns - i / columns == k ? T(1) : T(0);
    }
    return absl::OkStatus();
  });
}

absl::Status Shape(const KernelCall& call, const KernelMemory& memory, const Execution&) {
  const Dims& dims = memory.inputs[0].type.dims;
  const int64_t rank = static_cast<int64_t>(dims.size());
  int64_t start = call.attributes->Int("start", 0);
  if (start < 0) start += rank;
  start = std::min(std::max<int64_t>(start, 0), rank);
  for (int64_t i = 0; i < memory.outputs[0].type.elements(); ++i) {
    memory.outputs[0].as<int64_t>()[i] = dims[start + i];
  }
  return absl::OkStatus();
}

absl::Status Size(const KernelCall&, const KernelMemory& memory, const Execution&) {
  memory.outputs[0].as<int64_t>()[0] = memory.inputs[0].type.elements();
  return absl::OkStatus();
}

absl::Status ConstantOfShape(const KernelCall& call, const KernelMemory& memory, const Execution&) {
  const Tensor* value = call.attributes->TensorOrNull("value");
  return ForSizeOf(memory.outputs[0].type.dtype, [&](auto t) {
    using T = decltype(t);
    const T filler = value == nullptr ? T(0) : value->view().as<T>()[0];
    std::fill_n(memory.outputs[0].as<T>(), memory.outputs[0].type.elements(), filler);
    return absl::OkStatus();
  });
}

// A number or a list of numbers that an attribute holds.
template <typename T, typename V>
void Fill(const TensorView& y, const V& values) {
  for (int64_t i = 0; i < y.type.elements(); ++i) y.as<T>()[i] = static_cast<T>(values[i]);
}

absl::Status Constant(const KernelCall& call, const KernelMemory& memory, const Execution&) {
  const TensorView& y = memory.outputs[0];
  const Attributes& attributes = *call.attributes;
  if (const Tensor* value = attributes.TensorOrNull("value")) {
    if (y.type.bytes() > 0) std::memcpy(y.data, value->data(), y.type.bytes());
    return absl::OkStatus();
  }
  if (attributes.Has("value_float")) y.as<float>()[0] = attributes.Float("value_float", 0);
  if (attributes.Has("value_int")) y.as<int64_t>()[0] = attributes.Int("value_int", 0);
  if (attributes.Has("value_floats")) Fill<float>(y, attributes.Floats("value_floats"));
  if (attributes.Has("value_ints")) Fill<int64_t>(y, attributes.Ints("value_ints"));
  if (attributes.Has("value_string")) {
    y.as<StringRef>()[0] = StringRef::Of(attributes.String("value_string", ""));
  }
  if (attributes.Has("value_strings")) {
    const std::vector<std::string> texts = attributes.Strings("value_strings");
    for (size_t i = 0; i < texts.size(); ++i) y.as<StringRef>()[i] = StringRef::Of(texts[i]);
  }
  return absl::OkStatus();
}

absl::Status AcceptConstant(const KernelCall& call) {
  if (call.attributes->Has("sparse_value")) return absl::UnimplementedError("it is sparse");
  return AcceptPlain(call);
}

absl::Status Range(const KernelCall&, const KernelMemory& memory, const Execution&) {
  using Types = TypeList<float, double, int16_t, int32_t, int64_t>;
  return ForType(Types(), memory.outputs[0].type.dtype, [&](auto t) {
    using T = decltype(t);
    const T start = memory.inputs[0].as<T>()[0], delta = memory.inputs[2].as<T>()[0];
    for (int64_t i = 0; i < memory.outputs[0].type.elements(); ++i) {
      memory.outputs[0].as<T>()[i] = static_cast<T>(start + static_cast<T>(i) * delta);
    }
    return absl::OkStatus();
  });
}

}  // namespace

void AddShapeReference(KernelTable& table) {
  for (const char* op : {"Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze"}) {
    table.push_back(ReferenceKernel<Copy>(op));
    table.back().describe = WantSameMemory;
  }
  table.push_back(ReferenceKernel<Transpose>("Transpose"));
  table.push_back(ReferenceKernel<Expand>("Expand"));
  table.push_back(ReferenceKernel<Slice>("Slice"));
  table.push_back(ReferenceKernel<Concat>("Concat"));
  table.push_back(ReferenceKernel<Split>("Split"));
  table.push_back(ReferenceKernel<Tile>("Tile"));
  table.push_back(ReferenceKernel<Pad>("Pad"));
  table.push_back(ReferenceKernel<Trilu>("Trilu"));
  table.push_back(ReferenceKernel<EyeLike>("EyeLike"));
  table.push_back(ReferenceKernel<Shape>("Shape"));
  table.push_back(ReferenceKernel<Size>("Size"));
  table.push_back(ReferenceKernel<ConstantOfShape>("ConstantOfShape"));
  Kernel constant = ReferenceKernel<Constant>("Constant");
  constant.accepts = AcceptConstant;
  table.push_back(constant);
  table.push_back(ReferenceKernel<Range>("Range"));
}

}  // namespace onward
