#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/base/shape.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/reference.h"

namespace onward {
namespace {

// A product of matrices as plain memory: strides in elements, 0 along axes that
// are broadcast.
struct Product {
  Dims batch;  // extents of the batch axes of the result
  Dims a_batch, b_batch, bias_batch;
  int64_t m = 0, n = 0, k = 0;
  int64_t a_row = 0, a_column = 0, b_row = 0, b_column = 0, bias_row = 0, bias_column = 0;
  double alpha = 1, beta = 1;
  bool relu = false;
};

// Strides of `dims` (batch axes, then two) where it is broadcast to `batch`.
Dims BatchStrides(const Dims& dims, const Dims& batch) {
  const Dims strides = Strides(dims);
  const int axes = static_cast<int>(batch.size()), own = static_cast<int>(dims.size()) - 2;
  Dims out(axes, 0);
  for (int i = 0; i < axes; ++i) {
    const int at = i - (axes - own);
    if (at >= 0 && dims[at] != 1) out[i] = strides[at];
  }
  return out;
}

Product Describe(const KernelCall& call) {
  const Attributes& attributes = *call.attributes;
  Dims a = call.inputs[0]->dims, b = call.inputs[1]->dims, y = call.outputs[0]->dims;
  // Vectors (MatMul only): a row on the left, a column on the right.
  if (b.size() == 1) {
    b.push_back(1);
    y.push_back(1);
  }
  if (a.size() == 1) {
    a.insert(a.begin(), 1);
    y.insert(y.end() - 1, 1);
  }
  Product p;
  p.batch.assign(y.begin(), y.end() - 2);
  p.m = y[y.size() - 2];
  p.n = y.back();
  const int64_t a_last = a.back(), b_last = b.back();
  const bool trans_a = attributes.Int("transA", 0) != 0, trans_b = attributes.Int("transB", 0) != 0;
  p.k = trans_a ? a[a.size() - 2] : a_last;
  p.a_row = trans_a ? 1 : a_last;
  p.a_column = trans_a ? a_last : 1;
  p.b_row = trans_b ? 1 : b_last;
  p.b_column = trans_b ? b_last : 1;
  p.a_batch = BatchStrides(a, p.batch);
  p.b_batch = BatchStrides(b, p.batch);
  p.bias_batch.assign(p.batch.size(), 0);
  if (call.has_input(2)) {
    Dims bias = call.inputs[2]->dims;
    while (bias.size() < 2) bias.insert(bias.begin(), 1);
    p.bias_batch = BatchStrides(bias, p.batch);
    p.bias_column = bias.back() == 1 ? 0 : 1;
    p.bias_row = bias[bias.size() - 2] == 1 ? 0 : bias.back();
  }
  p.alpha = attributes.Float("alpha", 1);
  p.beta = attributes.Float("beta", 1);
  p.relu = attributes.String("activation", "") == "Relu";
  return p;
}

template <typename T>
void Multiply(const Product& p, const T* a, const T* b, const T* bias, T* y) {
  // float32 is summed in double: the reference is the oracle.
  using Sum = std::conditional_t<std::is_floating_point_v<T>, double, T>;
  Dims index(p.batch.size(), 0);
  const int64_t batches = Elements(p.batch);
  for (int64_t i = 0; i < batches; ++i) {
    int64_t at_a = 0, at_b = 0, at_bias = 0;
    for (size_t d = 0; d < index.size(); ++d) {
      at_a += index[d] * p.a_batch[d];
      at_b += index[d] * p.b_batch[d];
      at_bias += index[d] * p.bias_batch[d];
    }
    for (int64_t r = 0; r < p.m; ++r) {
      for (int64_t c = 0; c < p.n; ++c) {
        Sum sum = 0;
        for (int64_t k = 0; k < p.k; ++k) {
          sum += static_cast<Sum>(a[at_a + r * p.a_row + k * p.a_column]) *
                 static_cast<Sum>(b[at_b + k * p.b_row + c * p.b_column]);
        }
        if (p.alpha != 1) sum = static_cast<Sum>(p.alpha * sum);
        if (bias != nullptr) {
          const Sum add = bias[at_bias + r * p.bias_row + c * p.bias_column];
          sum += p.beta == 1 ? add : static_cast<Sum>(p.beta * add);
        }
        if (p.relu) sum = std::max<Sum>(sum, 0);
        *y++ = static_cast<T>(sum);
      }
    }
    for (size_t d = index.size(); d-- > 0;) {
      if (++index[d] < p.batch[d]) break;
      index[d] = 0;
    }
  }
}

template <typename T>
absl::Status Run(const KernelCall& call, const KernelMemory& memory) {
  Multiply(Describe(call), memory.inputs[0].as<T>(), memory.inputs[1].as<T>(),
           call.has_input(2) ? memory.inputs[2].as<T>() : nullptr, memory.outputs[0].as<T>());
  return absl::OkStatus();
}

absl::Status MatrixProduct(const KernelCall& call, const KernelMemory& memory, const Execution&) {
  switch (call.inputs[0]->dtype) {
    case DataType::kFloat32:
      return Run<float>(call, memory);
    case DataType::kFloat64:
      return Run<double>(call, memory);
    case DataType::kInt32:
      return Run<int32_t>(call, memory);
    case DataType::kInt64:
      return Run<int64_t>(call, memory);
    case DataType::kUint32:
      return Run<uint32_t>(call, memory);
    case DataType::kUint64:
      return Run<uint64_t>(call, memory);
    default:
      return absl::UnimplementedError(
          absl::StrCat("no product of matrices of ", std::string(Name(call.inputs[0]->dtype))));
  }
}

// The product of the pivots of Gauss' elimination, rows exchanged for the largest one.
double Determinant(std::vector<double> a, int64_t n) {
  double det = 1;
  for (int64_t k = 0; k < n; ++k) {
    int64_t best = k;
    for (int64_t r = k + 1; r < n; ++r) {
      if (std::abs(a[r * n + k]) > std::abs(a[best * n + k])) best = r;
    }
    const double pivot = a[best * n + k];
    det *= best == k ? pivot : -pivot;
    if (pivot == 0) return 0;
    for (int64_t c = k; c < n; ++c) std::swap(a[k * n + c], a[best * n + c]);
    for (int64_t r = k + 1; r < n; ++r) {
      const double factor = a[r * n + k] / pivot;
      for (int64_t c = k; c < n; ++c) a[r * n + c] -= factor * a[k * n + c];
    }
  }
  return det;
}

absl::Status Det(const KernelCall& call, const KernelMemory& memory, const Execution&) {
  const int64_t n = call.inputs[0]->dims.back();
  const int64_t count = call.outputs[0]->elements();
  return ForType(FloatTypes(), call.inputs[0]->dtype, [&](auto t) {
    using T = decltype(t);
    const T* x = memory.inputs[0].as<T>();
    for (int64_t i = 0; i < count; ++i, x += n * n) {
      memory.outputs[0].as<T>()[i] =
          static_cast<T>(Determinant(std::vector<double>(x, x + n * n), n));
    }
    return absl::OkStatus();
  });
}

}  // namespace

void AddLinearReference(KernelTable& table) {
  table.push_back(ReferenceKernel<MatrixProduct>("MatMul"));
  table.push_back(ReferenceKernel<MatrixProduct>("Gemm"));
  table.push_back(ReferenceKernel<MatrixProduct>("onward.FusedMatMul"));
  table.push_back(TypedReference<Det, FloatTypes>("Det"));
}

}  // namespace onward
