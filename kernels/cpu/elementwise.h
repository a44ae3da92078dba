// Elementwise programs in one pass over memory.
#ifndef ONWARD_KERNELS_CPU_ELEMENTWISE_H_
#define ONWARD_KERNELS_CPU_ELEMENTWISE_H_

#include "kernels/kernel.h"

namespace onward {

// Rows "cpu.elementwise" for onward.Elementwise and for every operator of ONNX that is
// an elementwise program (graph/base/expression.h). They take broadcast inputs, any one
// layout that all operands of full size share (padding stays zero), and outputs in
// the memory of inputs; the result does not depend on the number of threads.
void AddElementwiseKernels(KernelTable& table);

}  // namespace onward

#endif  // ONWARD_KERNELS_CPU_ELEMENTWISE_H_
