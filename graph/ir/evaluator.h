// How the graph side computes constants without knowing kernels, and gradients without
// knowing passes.
#ifndef ONWARD_GRAPH_IR_EVALUATOR_H_
#define ONWARD_GRAPH_IR_EVALUATOR_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "graph/base/attribute.h"
#include "graph/base/tensor.h"
#include "graph/ir/operator.h"

namespace onward {

class Graph;
struct Value;

// Handed in by the backend, which computes with the reference kernels of the CPU.
class Evaluator {
 public:
  virtual ~Evaluator() = default;
  // The outputs of one operator. `inputs` holds null where an optional input is
  // absent; `outputs` says which outputs are wanted, and their types. Unimplemented
  // where there is no kernel.
  virtual absl::StatusOr<std::vector<Tensor>> Evaluate(const Operator& op,
                                                       const Attributes& attributes,
                                                       absl::Span<const Tensor* const> inputs,
                                                       absl::Span<const TensorType> outputs) = 0;

  // Appends to `graph` the gradients of the sum of y's elements with respect to xs, and
  // returns them; null for those that y does not depend on. Default: Unimplemented.
  virtual absl::StatusOr<std::vector<Value*>> Differentiate(Graph* graph,
                                                            const OperatorSet& operators, Value* y,
                                                            absl::Span<Value* const> xs);
};

inline absl::StatusOr<std::vector<Value*>> Evaluator::Differentiate(Graph*, const OperatorSet&,
                                                                    Value*,
                                                                    absl::Span<Value* const>) {
  return absl::UnimplementedError("nothing here can differentiate");
}

}  // namespace onward

#endif  // ONWARD_GRAPH_IR_EVALUATOR_H_
