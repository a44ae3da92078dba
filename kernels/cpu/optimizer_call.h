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

// The scalars of one update, formed in float64.
struct UpdateScalars {
  bool keras = false;
  bool decoupled = false;      // weight decay scales the parameter, not the gradient
  bool zero_gradient = false;  // the denominator is 0
  double factor = 1;           // of the gradient
  double clip_value = 0;       // 0: none
  double decay = 0;            // added to the gradient, times the parameter
  double keep = 1;             // the parameter's factor before the update
  double lr = 0;
  double step = 0;  // 0 where not given

  UpdateScalars(const KernelCall& call, const KernelMemory& memory) {
    const Attributes& a = *call.attributes;
    const int first = 2 + MomentsOf(call.op);
    const auto has = [&](int i) { return call.has_input(first + i); };
    keras = a.String("variant", "torch") == "keras";
    decoupled = keras || a.Int("decoupled", 0) != 0;
    lr = ReadScalar(memory.inputs[first]);
    if (has(1)) step = static_cast<double>(*memory.inputs[first + 1].as<int64_t>());
    const double denominator = has(2) ? ReadScalar(memory.inputs[first + 2]) : 1;
    zero_gradient = denominator == 0;
    factor =
        (has(3) ? ReadScalar(memory.inputs[first + 3]) : 1) / (zero_gradient ? 1 : denominator);
    clip_value = a.Float("clip_value", 0);
    const double weight_decay = a.Float("weight_decay", 0);
    (decoupled ? keep : decay) = decoupled ? 1 - lr * weight_decay : weight_decay;
  }
};

// Attributes whose default the variant decides.
inline double EpsilonOf(const KernelCall& call, bool keras) {
  return call.attributes->Float("epsilon", keras                               ? 1e-7
                                           : call.op == "onward.AdagradUpdate" ? 1e-10
                                                                               : 1e-8);
}
inline double RhoOf(const KernelCall& call, bool keras) {
  return call.attributes->Float("rho", keras ? 0.9 : 0.99);
}

}  // namespace onward

#endif  // ONWARD_KERNELS_CPU_OPTIMIZER_CALL_H_
