#include "backend/runtime/kernel_oracle.h"

#include "absl/strings/str_cat.h"
#include "kernels/threads/team.h"

namespace onward {

TableOracle::TableOracle(const KernelTable* table) {
  for (const Kernel& kernel : *table) rows_[kernel.op].push_back(&kernel);
}

absl::StatusOr<KernelChoice> TableOracle::Choose(const Device& device,
                                                 const KernelCall& call) const {
  if (device.kind != Device::Kind::kCpu) {
    return absl::UnimplementedError(absl::StrCat("no kernels for ", ToString(device)));
  }
  const auto it = rows_.find(call.op);
  if (it == rows_.end()) {
    return absl::UnimplementedError(absl::StrCat("no kernel for operator ", call.op));
  }
  // oneDNN partitions work by the threads that there are when it is asked.
  const TeamSizeScope size(call.threads);
  std::string reasons;
  absl::StatusOr<KernelChoice> choice = absl::UnimplementedError("");
  for (const Kernel* kernel : it->second) {
    const absl::Status accepted = kernel->accepts(call);
    if (accepted.ok()) {
      choice = KernelChoice{kernel->name, kernel->reference,
                            kernel->describe == nullptr ? KernelNeeds{} : kernel->describe(call)};
      break;
    }
    absl::StrAppend(&reasons, reasons.empty() ? "" : "; ", kernel->name, ": ", accepted.message());
  }
  if (!choice.ok()) {
    return absl::UnimplementedError(
        absl::StrCat("no kernel accepts ", call.op, " (", reasons, ")"));
  }
  return choice;
}

}  // namespace onward
