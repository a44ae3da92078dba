#include "kernels/cpu/reference.h"

namespace onward {
namespace {

absl::Status Reorder(const KernelCall& call, const KernelMemory& memory, const Execution&) {
  ConvertLayout(memory.inputs[0], memory.outputs[0]);
  return absl::OkStatus();
}

}  // namespace

void AddLayoutReference(KernelTable& table) {
  // Any layouts, as they are.
  Kernel row = ReferenceKernel<Reorder>("onward.Reorder");
  row.accepts = [](const KernelCall&) { return absl::OkStatus(); };
  row.describe = nullptr;
  table.push_back(std::move(row));
}

}  // namespace onward
