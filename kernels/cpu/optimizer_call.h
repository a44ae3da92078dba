// What the reference and the vector kernels of optimizer updates have in common:
// where the operands of a call lie, and its scalars. The formulas stand in
// graph/ops/optimizer.cc.
#ifndef ONWARD_KERNELS_CPU_OPTIMIZER_CALL_H_
#define ONWARD_KERNELS_CPU_OPTIMIZER_CALL_H_

#include <cmath>

#include "kernels/kernel.h"

namespace onward {

// The number of moment inputs of an update.
inline int MomentsOf(absl::string_view op) {
  return op == "onward.AdamUpdate" || op == "onward.RmsPropUpdate" ? 3 : 1;
}

// A scalar input of either floating type, as float64.
inline double ReadScalar(const TensorView& view) {
  return view.type.dtype == DataType::kFloat64 ? *view.as<double>() : *view.as<float>();
}

// What a call says of its rule, and where it has its scalars. Defaults are those of
// graph/ops/optimizer.cc; some the variant decides.
struct UpdateRule {
  bool keras = false;
  bool decoupled = false;  // weight decay scales the parameter, not the gradient
  double clip_value = 0;   // 0: none
  double weight_decay = 0;
  double momentum = 0;
  double dampening = 0;
  bool nesterov = false;
  double beta1 = 0;
  double beta2 = 0;
  double rho = 0;
  double epsilon = 0;
  double learning_rate_decay = 0;
  TensorView lr, step, denominator, factor;  // null data where not given, but for lr

  UpdateRule(const KernelCall& call, const KernelMemory& memory) {
    const Attributes& a = *call.attributes;
    keras = a.String("variant", "torch") == "keras";
    decoupled = keras || a.Int("decoupled", 0) != 0;
    clip_value = a.Float("clip_value", 0);
    weight_decay = a.Float("weight_decay", 0);
    momentum = a.Float("momentum", 0);
    dampening = a.Float("dampening", 0);
    nesterov = a.Int("nesterov", 0) != 0;
    beta1 = a.Float("beta1", 0.9);
    beta2 = a.Float("beta2", 0.999);
    rho = a.Float("rho", keras ? 0.9 : 0.99);
    epsilon = a.Float("epsilon", keras ? 1e-7 : call.op == "onward.AdagradUpdate" ? 1e-10 : 1e-8);
    learning_rate_decay = a.Float("learning_rate_decay", 0);
    TensorView* const scalars[] = {&lr, &step, &denominator, &factor};
    for (int i = 0; i < 4; ++i) {
      const int input = 2 + MomentsOf(call.op) + i;
      if (call.has_input(input)) *scalars[i] = memory.inputs[input];
    }
  }
};

// The scalars of one update, formed in float64.
struct UpdateScalars {
  bool keras = false;
  bool decoupled = false;
  bool zero_gradient = false;  // the denominator is 0
  double factor = 1;           // of the gradient
  double clip_value = 0;
  double decay = 0;  // added to the gradient, times the parameter
  double keep = 1;   // the parameter's factor before the update
  double lr = 0;
  double step = 0;  // 0 where not given

  explicit UpdateScalars(const UpdateRule& rule)
      : keras(rule.keras), decoupled(rule.decoupled), clip_value(rule.clip_value) {
    const auto read = [](const TensorView& view) {
      return view.data == nullptr ? 1 : ReadScalar(view);
    };
    lr = ReadScalar(rule.lr);
    if (rule.step.data != nullptr) step = static_cast<double>(*rule.step.as<int64_t>());
    const double denominator = read(rule.denominator);
    zero_gradient = denominator == 0;
    factor = read(rule.factor) / (zero_gradient ? 1 : denominator);
    (decoupled ? keep : decay) = decoupled ? 1 - lr * rule.weight_decay : rule.weight_decay;
  }
};

}  // namespace onward

#endif  // ONWARD_KERNELS_CPU_OPTIMIZER_CALL_H_
