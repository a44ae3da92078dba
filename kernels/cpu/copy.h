// Operators that only move elements.
#ifndef ONWARD_KERNELS_CPU_COPY_H_
#define ONWARD_KERNELS_CPU_COPY_H_

#include "kernels/kernel.h"

namespace onward {

// Rows "cpu.copy" on plain memory: Reshape, Flatten, Squeeze and Unsqueeze (which may
// lie in their input's memory and are then nothing), Transpose, Expand, Tile, Slice,
// Split, Concat, Pad with a constant, and Gather.
void AddCopyKernels(KernelTable& table);

}  // namespace onward

#endif  // ONWARD_KERNELS_CPU_COPY_H_
