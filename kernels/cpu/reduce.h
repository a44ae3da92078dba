// Vectorised reductions.
#ifndef ONWARD_KERNELS_CPU_REDUCE_H_
#define ONWARD_KERNELS_CPU_REDUCE_H_

#include "kernels/kernel.h"

namespace onward {

// Rows "cpu.reduce" for ReduceSum, ReduceMean, ReduceMax, ReduceMin, ReduceSumSquare,
// ReduceL1, ReduceL2 and ReduceLogSum with axes that are known when the plan is made:
// trailing, leading (a bias gradient) and middle ones (per channel), on plain and on
// permuted layouts whose kept axes are in order.
//
// The order of additions is fixed by the extents alone: blocks of a fixed number of
// elements, their results combined along a binary tree over block numbers. So the bits
// do not depend on the number of threads, and a float32 sum of n elements is off by
// about the square root of (a block's chain of additions + log n) roundings.
void AddReduceKernels(KernelTable& table);

}  // namespace onward

#endif  // ONWARD_KERNELS_CPU_REDUCE_H_
