// Kernels for regions, in which data decides shapes, branches and iterations.
#ifndef ONWARD_BACKEND_RUNTIME_REGIONS_H_
#define ONWARD_BACKEND_RUNTIME_REGIONS_H_

#include "kernels/kernel.h"

namespace onward {

// CpuKernels(), and rows for onward.Region and onward.RegionGradient, which interpret what is
// inside: they take memory in every step, on the thread that runs them.
const KernelTable& HostKernels();

}  // namespace onward

#endif  // ONWARD_BACKEND_RUNTIME_REGIONS_H_
