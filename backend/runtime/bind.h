// From a step of a plan and its memory to a kernel that only has to be called.
#ifndef ONWARD_BACKEND_RUNTIME_BIND_H_
#define ONWARD_BACKEND_RUNTIME_BIND_H_

#include <memory>

#include "absl/status/statusor.h"
#include "graph/plan/plan.h"
#include "kernels/kernel.h"

namespace onward {

// The kernel that the step names, on `threads` threads; where the step is one of several
// parts, on its part of the memory. `memory` has what the whole tensors have.
// `step` outlives what is returned. Internal where the table has no such kernel.
absl::StatusOr<std::unique_ptr<BoundKernel>> BindKernel(const KernelTable& kernels,
                                                        const PlanStep& step, KernelMemory memory,
                                                        int threads);

}  // namespace onward

#endif  // ONWARD_BACKEND_RUNTIME_BIND_H_
