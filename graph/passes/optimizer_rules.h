// Optimizers as states and one update node per parameter. The formulas stand in
// graph/ops/optimizer.cc.
#ifndef ONWARD_GRAPH_PASSES_OPTIMIZER_RULES_H_
#define ONWARD_GRAPH_PASSES_OPTIMIZER_RULES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/ir/builder.h"

namespace onward {

// Whose formula and defaults an optimizer has: they differ (graph/ops/optimizer.cc).
enum class FormulaOf { kPyTorch, kKeras };

// An optimizer and its constants; the learning rate is a value of the step.
// Numbers must be as their frameworks allow: nothing is checked here.
struct OptimizerSpec {
  enum class Rule { kSgd, kAdam, kRmsProp, kAdagrad };
  Rule rule = Rule::kSgd;
  FormulaOf formula = FormulaOf::kPyTorch;
  double momentum = 0;                // kSgd, kRmsProp
  double dampening = 0;               // kSgd of PyTorch
  bool nesterov = false;              // kSgd
  double beta1 = 0.9, beta2 = 0.999;  // kAdam
  bool amsgrad = false;               // kAdam
  bool centered = false;              // kRmsProp
  double rho = 0.9;                   // kRmsProp: the share of the old mean square
  double epsilon = 1e-7;              // all but kSgd
  double initial_accumulator = 0;     // kAdagrad
  double learning_rate_decay = 0;     // kAdagrad of PyTorch
  double weight_decay = 0;
  // The decay scales the parameter (AdamW) rather than joining the gradient. Keras'
  // formulas always do.
  bool decoupled = false;
  double clip_value = 0;  // each gradient's elements are cut to +-this; 0: off
};

// A moment that an optimizer keeps for each parameter, of the parameter's type.
struct MomentState {
  std::string suffix;  // "momentum": the state of parameter "w" is "w/momentum"
  double fill = 0;     // of every element, before the first step
};

// In the order in which AppendUpdate takes and gives them.
std::vector<MomentState> MomentsOf(const OptimizerSpec& spec);

// Does the update need the count of updates (`step`)?
bool NeedsStep(const OptimizerSpec& spec);

// What the update of one parameter reads.
struct UpdateOperands {
  Expr parameter;
  Expr gradient;              // a sum over samples
  std::vector<Expr> moments;  // as MomentsOf says
  Expr learning_rate;         // one number of either floating type
  Expr step;                  // one int64: 1 in the first update; may be empty unless NeedsStep
  Expr denominator;           // one number that the gradient is divided by, or empty
  Expr scale;                 // one number that it is multiplied by (norm clipping), or empty
};

struct UpdateResults {
  Expr parameter;
  std::vector<Expr> moments;
};

// Appends the node that makes the next parameter and moments. A denominator of 0
// makes the gradient count as 0: weight decay and momentum still act.
absl::StatusOr<UpdateResults> AppendUpdate(Builder& builder, const OptimizerSpec& spec,
                                           const UpdateOperands& operands);

}  // namespace onward

#endif  // ONWARD_GRAPH_PASSES_OPTIMIZER_RULES_H_
