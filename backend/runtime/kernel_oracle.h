// Answers the planner from a kernel table.
#ifndef ONWARD_BACKEND_RUNTIME_KERNEL_ORACLE_H_
#define ONWARD_BACKEND_RUNTIME_KERNEL_ORACLE_H_

#include <string>

#include "absl/container/flat_hash_map.h"
#include "graph/plan/planner.h"
#include "kernels/kernel.h"

namespace onward {

// The first row of the table that accepts a call. The table must outlive it.
class TableOracle : public KernelOracle {
 public:
  explicit TableOracle(const KernelTable* table);
  absl::StatusOr<KernelChoice> Choose(const Device& device, const KernelCall& call) const override;

 private:
  absl::flat_hash_map<std::string, std::vector<const Kernel*>> rows_;
};

}  // namespace onward

#endif  // ONWARD_BACKEND_RUNTIME_KERNEL_ORACLE_H_
