#include "kernels/kernel.h"

#include "absl/strings/str_cat.h"

namespace onward {
namespace {

// Owns a copy of the call, whose types the caller need not keep.
class FunctionKernel : public BoundKernel {
 public:
  FunctionKernel(KernelFunction function, const KernelCall& call, KernelMemory memory,
                 Execution execution)
      : function_(function),
        call_(call),
        attributes_(*call.attributes),
        memory_(std::move(memory)),
        execution_(execution) {
    call_.attributes = &attributes_;
    for (size_t i = 0; i < call_.inputs.size(); ++i) {
      if (call_.inputs[i] != nullptr) call_.inputs[i] = &memory_.inputs[i].type;
    }
    for (size_t i = 0; i < call_.outputs.size(); ++i) {
      if (call_.outputs[i] != nullptr) call_.outputs[i] = &memory_.outputs[i].type;
    }
  }
  absl::Status Run() override { return function_(call_, memory_, execution_); }

 private:
  KernelFunction function_;
  KernelCall call_;
  Attributes attributes_;
  KernelMemory memory_;
  Execution execution_;
};

absl::Status CheckPlain(absl::Span<const TensorType* const> types, uint64_t open,
                        absl::string_view what) {
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i] != nullptr && !types[i]->layout.plain() && ((open >> i) & 1) == 0) {
      return absl::UnimplementedError(
          absl::StrCat(what, " ", i, " has layout ", ToString(types[i]->layout)));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status AcceptPlain(const KernelCall& call) {
  const absl::Status inputs = CheckPlain(call.inputs, call.open_inputs, "input");
  return inputs.ok() ? CheckPlain(call.outputs, call.open_outputs, "output") : inputs;
}

KernelNeeds WantPlain(const KernelCall& call) {
  KernelNeeds needs;
  needs.input_layouts.resize(call.inputs.size());
  needs.output_layouts.resize(call.outputs.size());
  return needs;
}

std::unique_ptr<BoundKernel> Bind(KernelFunction function, const KernelCall& call,
                                  const KernelMemory& memory, const Execution& execution) {
  return std::make_unique<FunctionKernel>(function, call, memory, execution);
}

}  // namespace onward
