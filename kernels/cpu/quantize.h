// Rounding to what a type of quantised numbers can hold.
#ifndef ONWARD_KERNELS_CPU_QUANTIZE_H_
#define ONWARD_KERNELS_CPU_QUANTIZE_H_

#include "kernels/kernel.h"

namespace onward {

// Row "cpu.round_through" on plain memory: onward.RoundThrough of float32 and float64.
void AddQuantizeKernels(KernelTable& table);

}  // namespace onward

#endif  // ONWARD_KERNELS_CPU_QUANTIZE_H_
