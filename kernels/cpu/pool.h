// Pooling kernels of our own.
#ifndef ONWARD_KERNELS_CPU_POOL_H_
#define ONWARD_KERNELS_CPU_POOL_H_

#include "kernels/kernel.h"

namespace onward {

// onward.MaxPoolGradient in float32: reads x once, finds the first largest element of
// every window and writes dx, in whatever layout x has.
void AddPoolKernels(KernelTable& table);

}  // namespace onward

#endif  // ONWARD_KERNELS_CPU_POOL_H_
