// Reductions of short runs of memory, compiled for several instruction sets.
#ifndef ONWARD_KERNELS_CPU_VECTOR_REDUCE_H_
#define ONWARD_KERNELS_CPU_VECTOR_REDUCE_H_

#include <cstdint>

#include "graph/base/data_type.h"

namespace onward {

// What is folded. Squares and magnitudes are taken before they are added. Max and Min
// keep NaN.
enum class Fold { kSum, kSumAbs, kSumSquare, kMax, kMin };

// Each does its work in one order that depends on its arguments only.
struct ReduceFunctions {
  // *result = fold over `rows` rows of n elements, `stride` elements apart.
  void (*rows)(const void* x, int64_t rows, int64_t stride, int64_t n, void* result) = nullptr;
  // result[i] = fold over the rows' elements i < n.
  void (*columns)(const void* x, int64_t rows, int64_t stride, int64_t n, void* result) = nullptr;
  // a[i] = a[i] with b[i], of results.
  void (*merge)(void* a, const void* b, int64_t n) = nullptr;
};

// For the best instruction set of this processor. Null functions where there are none:
// float32 and float64 have all folds, int32 and int64 kSum, kMax and kMin.
ReduceFunctions FindReduce(Fold fold, DataType type);

}  // namespace onward

#endif  // ONWARD_KERNELS_CPU_VECTOR_REDUCE_H_
