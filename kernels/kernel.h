// What a kernel is, what it is given, and the ordered table in which it stands.
//
// A kernel is the code of an operator on one kind of device. It sees types of
// tensors, attributes and memory; never a Node, Graph, Plan or pass. For each
// operator the table lists kernels from the best to the reference; the first that
// accepts a call is taken, and a refusal says why.
#ifndef ONWARD_KERNELS_KERNEL_H_
#define ONWARD_KERNELS_KERNEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "graph/base/attribute.h"
#include "graph/base/kernel_call.h"
#include "graph/base/tensor.h"

namespace onward {

// The share of a device on which a kernel runs.
struct Execution {
  int threads = 1;  // threads of this device, the calling one included
};

// A kernel with everything bound: pointers, primitives, sizes.
class BoundKernel {
 public:
  virtual ~BoundKernel() = default;
  // Allocates nothing and takes no lock. An error is one of data (an index out
  // of range), never of memory or shape.
  virtual absl::Status Run() = 0;
};

// Memory for one call: views with the layouts that the plan decided. Entries of
// absent inputs and outputs have null data. Everything outlives the bound kernel.
struct KernelMemory {
  std::vector<TensorView> inputs;
  std::vector<TensorView> outputs;
  void* scratch = nullptr;
};

// A row of the table.
struct Kernel {
  std::string name;  // "onednn.convolution", "reference.Relu": printed by plans
  std::string op;    // which operator's calls it serves
  bool reference = false;
  // Ok, or Unimplemented with the reason. With the layouts as they stand where
  // they are not open.
  absl::Status (*accepts)(const KernelCall& call);
  // REQUIRES: accepted. May be null: no wishes.
  KernelNeeds (*describe)(const KernelCall& call);
  absl::StatusOr<std::unique_ptr<BoundKernel>> (*prepare)(const KernelCall& call,
                                                          const KernelMemory& memory,
                                                          const Execution& execution);
};

// An ordered table. Rows of one operator are tried in order.
using KernelTable = std::vector<Kernel>;

// Rows for CPUs: oneDNN's, then vectorised ones, then the reference loops.
// (kernels/cpu_kernels.cc is the explicit list.)
const KernelTable& CpuKernels();

// ---- For kernels that are one function.

// A bound kernel that calls `run`, which returns a status and holds all that it needs.
template <typename Function>
std::unique_ptr<BoundKernel> BoundTo(Function run) {
  class Closure : public BoundKernel {
   public:
    explicit Closure(Function run) : run_(std::move(run)) {}
    absl::Status Run() override { return run_(); }

   private:
    Function run_;
  };
  return std::make_unique<Closure>(std::move(run));
}

// The function of a call on plain memory.
using KernelFunction = absl::Status (*)(const KernelCall& call, const KernelMemory& memory,
                                        const Execution& execution);

// Accepts every call whose layouts are plain or open (it asks for plain ones).
absl::Status AcceptPlain(const KernelCall& call);
KernelNeeds WantPlain(const KernelCall& call);

// A bound kernel that calls `function`, which reads the call's attributes every time:
// for the reference loops.
std::unique_ptr<BoundKernel> Bind(KernelFunction function, const KernelCall& call,
                                  const KernelMemory& memory, const Execution& execution);

// A reference row: plain layouts, one thread.
template <KernelFunction kFunction>
Kernel ReferenceKernel(std::string op) {
  return {"reference." + op,
          op,
          true,
          AcceptPlain,
          WantPlain,
          [](const KernelCall& call, const KernelMemory& memory,
             const Execution& execution) -> absl::StatusOr<std::unique_ptr<BoundKernel>> {
            return Bind(kFunction, call, memory, execution);
          }};
}

}  // namespace onward

#endif  // ONWARD_KERNELS_KERNEL_H_
