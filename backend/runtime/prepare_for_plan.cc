#include "backend/runtime/prepare_for_plan.h"

#include "graph/base/status_macros.h"
#include "graph/passes/fuse_elementwise.h"
#include "graph/passes/fuse_products.h"
#include "graph/passes/simplify.h"
#include "graph/passes/widen.h"
#include "graph/plan/legalize.h"

namespace onward {
namespace {

// (Reference loops are not asked whether they take small types: many find out when they
// run, and none is faster for them.)
bool HasOwnKernel(const KernelOracle& oracle, const KernelCall& call) {
  const auto choice = oracle.Choose(Device{}, call);
  return choice.ok() && (!choice->reference || call.op == "Cast");
}

}  // namespace

absl::Status PrepareForPlan(Graph* graph, const OperatorSet& operators, Evaluator* evaluator,
                            const KernelOracle& oracle, const Device& device, int threads,
                            const GraphObserver& observe) {
  const HasKernel has_kernel = [&](const KernelCall& call) { return HasOwnKernel(oracle, call); };
  // Before lowering, so that one of halves rounds once; and after it, what lowering has made.
  RETURN_IF_ERROR(Widen(graph, operators, has_kernel).status());
  RETURN_IF_ERROR(Simplify(graph, operators, evaluator));
  ASSIGN_OR_RETURN(const bool widened, Widen(graph, operators, has_kernel));
  if (widened) RETURN_IF_ERROR(Simplify(graph, operators, evaluator));
  if (observe) RETURN_IF_ERROR(observe("simplified", *graph));
  ASSIGN_OR_RETURN(const bool lowered, Legalize(graph, operators, oracle, device, threads));
  if (lowered) RETURN_IF_ERROR(Simplify(graph, operators, evaluator));
  RETURN_IF_ERROR(FuseProducts(graph, operators).status());
  RETURN_IF_ERROR(FuseElementwise(graph, operators).status());
  if (observe) RETURN_IF_ERROR(observe("fused", *graph));
  return absl::OkStatus();
}

}  // namespace onward
