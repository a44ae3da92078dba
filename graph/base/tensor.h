// Tensors: a type, and a type with memory.
#ifndef ONWARD_GRAPH_BASE_TENSOR_H_
#define ONWARD_GRAPH_BASE_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "graph/base/data_type.h"
#include "graph/base/layout.h"
#include "graph/base/shape.h"
#include "graph/base/small_float.h"

namespace onward {

// What a value is: element type, extents, and (in plans) the order in memory.
struct TensorType {
  DataType dtype = DataType::kUndefined;
  Dims dims;
  Layout layout;

  int64_t elements() const { return Elements(dims); }
  // Bytes of memory, the padding of a blocked layout included.
  int64_t bytes() const {
    return PaddedElements(dims, layout) * static_cast<int64_t>(SizeOf(dtype));
  }
  bool operator==(const TensorType& o) const {
    return dtype == o.dtype && dims == o.dims && layout == o.layout;
  }
  bool operator!=(const TensorType& o) const { return !(*this == o); }
};

// "float32[2, 3]", with the layout behind it where it is not plain.
std::string ToString(const TensorType& type);

// A type and memory that somebody else owns: what a kernel reads or writes.
struct TensorView {
  TensorType type;
  void* data = nullptr;

  template <typename T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

// A tensor on the host that owns its memory (64-byte aligned, plain layout) or
// keeps alive what it looks into (a mapped file). Movable, not copyable: a copy
// is asked for by Clone().
class Tensor {
 public:
  Tensor() = default;
  // Zeroed.
  Tensor(DataType dtype, Dims dims);
  // Memory of another, kept until `release` has been destroyed. It must stay
  // valid and is never written to.
  Tensor(DataType dtype, Dims dims, const void* data, std::function<void()> release);

  // ResourceExhausted where the memory is not to be had.
  static absl::StatusOr<Tensor> Allocate(DataType dtype, Dims dims);

  template <typename T>
  static Tensor Of(Dims dims, absl::Span<const T> values) {
    Tensor t(DataTypeOf<T>::value, std::move(dims));
    if (!values.empty()) std::memcpy(t.data(), values.data(), values.size() * sizeof(T));
    return t;
  }
  template <typename T>
  static Tensor Scalar(T value) {
    return Of<T>({}, absl::Span<const T>(&value, 1));
  }
  // A tensor of `dtype` all of whose elements are `value`, rounded to the type (integers
  // of less than a byte keep their lowest bits). Strings: empty, whatever the value.
  static Tensor Full(DataType dtype, Dims dims, double value);

  Tensor(Tensor&&) = default;
  Tensor& operator=(Tensor&&) = default;
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;

  Tensor Clone() const;

  DataType dtype() const { return type_.dtype; }
  const Dims& dims() const { return type_.dims; }
  const TensorType& type() const { return type_; }
  int64_t elements() const { return type_.elements(); }
  int64_t bytes() const { return type_.bytes(); }

  // REQUIRES: not a view of a mapped file for the writable forms.
  void* data() { return const_cast<void*>(data_); }
  const void* data() const { return data_; }
  template <typename T>
  absl::Span<T> mutable_values() {
    return absl::Span<T>(static_cast<T*>(data()), elements());
  }
  template <typename T>
  absl::Span<const T> values() const {
    return absl::Span<const T>(static_cast<const T*>(data_), elements());
  }
  // Element i of a numeric tensor of any type, as a double (integers over 2^53
  // lose their last bits) or an int64; 0 for strings.
  double At(int64_t i) const;
  int64_t IntAt(int64_t i) const;

  TensorView view() const { return {type_, const_cast<void*>(data_)}; }

  // The same memory with other extents. REQUIRES: as many elements.
  void Reshape(Dims dims) { type_.dims = std::move(dims); }

 private:
  struct Deleter {
    std::function<void()> release;  // empty: memory of our own
    int64_t bytes;                  // of that
    void operator()(const void* p) const;
  };
  TensorType type_;
  const void* data_ = nullptr;
  std::unique_ptr<const void, Deleter> owner_;
};

// Copies between any two layouts of the same extents and type, one element after the
// other. The padding of blocks is filled with zeros.
void ConvertLayout(const TensorView& from, const TensorView& to);

}  // namespace onward

#endif  // ONWARD_GRAPH_BASE_TENSOR_H_
