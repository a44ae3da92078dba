// For tests of kernels: one row of the table on plain tensors.
#ifndef ONWARD_KERNELS_CPU_TRY_ROW_H_
#define ONWARD_KERNELS_CPU_TRY_ROW_H_

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/kernel.h"

namespace onward {

// The row of that name. A failure of the test, and some other row, where there is none.
inline const Kernel& RowNamed(absl::string_view name) {
  for (const Kernel& kernel : CpuKernels()) {
    if (kernel.name == name) return kernel;
  }
  ADD_FAILURE() << "no row is called " << name;
  return CpuKernels()[0];
}

// The outputs of a call without scratch memory; absent inputs are null. The row's
// refusal where it does not accept. Outputs have a margin, which must stay as it is.
inline absl::StatusOr<std::vector<Tensor>> TryRow(absl::string_view name,
                                                  const Attributes& attributes,
                                                  absl::Span<const Tensor* const> inputs,
                                                  absl::Span<const TensorType> outputs,
                                                  int threads = 1) {
  constexpr int64_t kMargin = 16;  // elements
  constexpr unsigned char kPattern = 0x5a;
  const Kernel& kernel = RowNamed(name);
  KernelCall call;
  KernelMemory memory;
  call.op = kernel.op;
  call.attributes = &attributes;
  for (const Tensor* t : inputs) {
    call.inputs.push_back(t == nullptr ? nullptr : &t->type());
    memory.inputs.push_back(t == nullptr ? TensorView{} : t->view());
  }
  std::vector<Tensor> wide;
  for (const TensorType& t : outputs) {
    call.outputs.push_back(&t);
    wide.emplace_back(t.dtype, Dims{t.elements() + kMargin});
    std::memset(wide.back().data(), kPattern, wide.back().bytes());
    memory.outputs.push_back({t, wide.back().data()});
  }
  const absl::Status accepted = kernel.accepts(call);
  if (!accepted.ok()) return accepted;
  absl::StatusOr<std::unique_ptr<BoundKernel>> bound =
      kernel.prepare(call, memory, Execution{threads});
  if (!bound.ok()) return bound.status();
  const absl::Status ran = (*bound)->Run();
  if (!ran.ok()) return ran;
  std::vector<Tensor> results;
  for (size_t k = 0; k < outputs.size(); ++k) {
    results.emplace_back(outputs[k].dtype, outputs[k].dims);
    std::memcpy(results[k].data(), wide[k].data(), results[k].bytes());
    const auto* bytes = static_cast<const unsigned char*>(wide[k].data());
    for (int64_t i = results[k].bytes(); i < wide[k].bytes(); ++i) {
      EXPECT_EQ(bytes[i], kPattern) << name << " wrote behind output " << k;
    }
  }
  return results;
}

}  // namespace onward

#endif  // ONWARD_KERNELS_CPU_TRY_ROW_H_
