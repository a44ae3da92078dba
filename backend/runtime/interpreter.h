// Runs operators and graphs one node at a time, with fresh memory for each result:
// for constants, oracles and tests. Training runs plans (backend/runtime/executor.h).
#ifndef ONWARD_BACKEND_RUNTIME_INTERPRETER_H_
#define ONWARD_BACKEND_RUNTIME_INTERPRETER_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "graph/ir/evaluator.h"
#include "graph/ir/graph.h"
#include "graph/ops/widening.h"
#include "kernels/kernel.h"

namespace onward {

// Which rows of the kernel table an interpreter takes.
enum class KernelRows { kReference, kBest };

// Computes single operators on the calling thread. An operator without a kernel is
// computed through its lowering; one without a kernel for its types in wider ones, and
// rounded once: float16 and bfloat16 in float32, integers in int64 or, where those have
// no kernel either and all numbers are exact there, in float64.
class Interpreter : public Evaluator {
 public:
  // Both must outlive it.
  Interpreter(const OperatorSet* operators, const KernelTable* kernels,
              KernelRows choice = KernelRows::kReference)
      : operators_(operators), kernels_(kernels), choice_(choice) {}

  absl::StatusOr<std::vector<Tensor>> Evaluate(const Operator& op, const Attributes& attributes,
                                               absl::Span<const Tensor* const> inputs,
                                               absl::Span<const TensorType> outputs) override;

  absl::StatusOr<std::vector<Value*>> Differentiate(Graph* graph, const OperatorSet& operators,
                                                    Value* y, absl::Span<Value* const> xs) override;

  // The values of all outputs of `graph`, then the next of every state, in order.
  // `feeds` are its inputs in order, `states` the current of its states.
  absl::StatusOr<std::vector<Tensor>> Run(const Graph& graph, absl::Span<const Tensor* const> feeds,
                                          absl::Span<const Tensor* const> states = {});

 private:
  absl::StatusOr<std::vector<Tensor>> ByKernels(const Operator& op, const Attributes& attributes,
                                                absl::Span<const Tensor* const> inputs,
                                                absl::Span<const TensorType> outputs);
  absl::StatusOr<std::vector<Tensor>> Widened(const Widening& widening, const Operator& op,
                                              const Attributes& attributes,
                                              absl::Span<const Tensor* const> inputs,
                                              absl::Span<const TensorType> outputs);
  absl::StatusOr<Tensor> Converted(const Tensor& from, DataType to);
  absl::StatusOr<std::vector<Tensor>> ThroughLowering(const Operator& op,
                                                      const Attributes& attributes,
                                                      absl::Span<const Tensor* const> inputs,
                                                      absl::Span<const TensorType> outputs);

  const OperatorSet* operators_;
  const KernelTable* kernels_;
  KernelRows choice_;
};

// Runs one row on plain tensors, converting to and from the layouts that it wants.
// `guard` bytes around every buffer are checked after the run: Internal where the
// kernel wrote outside.
absl::StatusOr<std::vector<Tensor>> RunKernel(const Kernel& kernel, const Attributes& attributes,
                                              absl::Span<const Tensor* const> inputs,
                                              absl::Span<const TensorType> outputs, int threads,
                                              int guard = 0);

}  // namespace onward

#endif  // ONWARD_BACKEND_RUNTIME_INTERPRETER_H_
