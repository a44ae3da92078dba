// onward.RoundThrough: every element rounded to what a type can hold.
#include "kernels/cpu/quantize.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/parallel.h"

namespace onward {
namespace {

template <typename T>
void RoundRange(DataType to, bool saturate, const T* x, T* y, int64_t begin, int64_t end) {
  if (!IsSmallFloat(to)) {
    for (int64_t i = begin; i < end; ++i) y[i] = std::nearbyint(x[i]);
    return;
  }
  for (int64_t i = begin; i < end; ++i) {
    y[i] = static_cast<T>(SmallFloatToFloat(to, FloatToSmallFloat(to, x[i], saturate)));
  }
}

absl::Status Accepts(const KernelCall& call) {
  const DataType type = call.inputs[0]->dtype;
  if (type != DataType::kFloat32 && type != DataType::kFloat64) {
    return absl::UnimplementedError(absl::StrCat("input 0 is ", std::string(Name(type))));
  }
  return AcceptPlain(call);
}

KernelNeeds Describe(const KernelCall& call) {
  KernelNeeds needs = WantPlain(call);
  needs.aliases = {{0, 0}};
  return needs;
}

absl::Status Run(const KernelCall& call, const KernelMemory& memory, const Execution& execution) {
  const auto to = static_cast<DataType>(call.attributes->Int("to", 0));
  const bool saturate = call.attributes->Int("saturate", 1) != 0;
  const TensorView &x = memory.inputs[0], &y = memory.outputs[0];
  const int64_t n = y.type.elements();
  ParallelFor(n, 4096, execution.threads, [&](int64_t begin, int64_t end) {
    if (x.type.dtype == DataType::kFloat32) {
      RoundRange(to, saturate, x.as<float>(), y.as<float>(), begin, end);
    } else {
      RoundRange(to, saturate, x.as<double>(), y.as<double>(), begin, end);
    }
  });
  return absl::OkStatus();
}

}  // namespace

void AddQuantizeKernels(KernelTable& table) {
  table.push_back({"cpu.round_through", "onward.RoundThrough", false, Accepts, Describe,
                   [](const KernelCall& call, const KernelMemory& memory,
                      const Execution& execution) -> absl::StatusOr<std::unique_ptr<BoundKernel>> {
                     return Bind(Run, call, memory, execution);
                   }});
}

}  // namespace onward
