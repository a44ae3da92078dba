// Optimizer updates with the vectors of the processor: one pass over memory, in
// place where the plan says so, any layout that all tensors share. The formulas
// stand in graph/ops/optimizer.cc; here divisions by scalars are multiplications.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/optimizer_call.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vector_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/optimizer.cc"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"

#ifndef ONWARD_KERNELS_CPU_OPTIMIZER_ONCE
#define ONWARD_KERNELS_CPU_OPTIMIZER_ONCE

namespace onward {

// Everything that one update of one parameter needs, for every rule.
struct UpdateArguments {
  UpdateScalars scalars;
  double lr = 0;            // the rate that the formula ends with
  double mu = 0;            // momentum
  double fresh = 1;         // 1 - dampening; of the first moment: 1 - beta1
  double rho = 0;           // of the squares
  double fresh_square = 1;  // 1 - rho or 1 - beta2
  double epsilon = 0;
  double root_scale = 1;  // 1 / sqrt(1 - beta2^t) in Adam of PyTorch
  bool nesterov = false;
  bool replace = false;  // the first moment becomes the gradient
  const void* p = nullptr;
  const void* g = nullptr;
  const void* moment[3] = {};
  void* new_p = nullptr;
  void* new_moment[3] = {};
};

}  // namespace onward

#endif  // ONWARD_KERNELS_CPU_OPTIMIZER_ONCE

HWY_BEFORE_NAMESPACE();
namespace onward {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// What every rule does first: the gradient that it uses, and decoupled decay.
template <class D>
struct Common {
  using T = hn::TFromD<D>;
  using V = hn::Vec<D>;
  D d;
  V factor, most, least, keep, decay;
  bool zero, clip;

  explicit Common(const UpdateScalars& s)
      : factor(hn::Set(d, static_cast<T>(s.factor))),
        most(hn::Set(d, static_cast<T>(s.clip_value))),
        least(hn::Set(d, static_cast<T>(-s.clip_value))),
        keep(hn::Set(d, static_cast<T>(s.keep))),
        decay(hn::Set(d, static_cast<T>(s.decay))),
        zero(s.zero_gradient),
        clip(s.clip_value > 0) {}

  HWY_INLINE void operator()(V& p, V& g) const {
    g = zero ? hn::Zero(d) : hn::Mul(g, factor);
    // Comparisons, because the minimum of vectors does not let every NaN through.
    if (clip) {
      g = hn::IfThenElse(hn::Gt(g, most), most, hn::IfThenElse(hn::Lt(g, least), least, g));
    }
    p = hn::Mul(p, keep);
    g = hn::MulAdd(p, decay, g);
  }
};

// A rule: given parameter, gradient and up to three moments, makes the new ones.
// Moments that the call does not have are zero, and what becomes of them is dropped.
template <class D>
struct Sgd {
  using T = hn::TFromD<D>;
  using V = hn::Vec<D>;
  D d;
  V lr, mu, fresh;
  bool keras, nesterov, replace, momentum;

  explicit Sgd(const UpdateArguments& a)
      : lr(hn::Set(d, static_cast<T>(a.lr))),
        mu(hn::Set(d, static_cast<T>(a.mu))),
        fresh(hn::Set(d, static_cast<T>(a.fresh))),
        keras(a.scalars.keras),
        nesterov(a.nesterov),
        replace(a.replace),
        momentum(a.moment[0] != nullptr) {}

  HWY_INLINE V operator()(V p, V g, V& m, V&, V&) const {
    if (!momentum) return hn::NegMulAdd(lr, g, p);
    if (keras) {
      const V step = hn::Mul(lr, g);
      m = hn::MulSub(mu, m, step);
      return nesterov ? hn::Sub(hn::MulAdd(mu, m, p), step) : hn::Add(p, m);
    }
    m = replace ? g : hn::MulAdd(mu, m, hn::Mul(fresh, g));
    return hn::NegMulAdd(lr, nesterov ? hn::MulAdd(mu, m, g) : m, p);
  }
};

template <class D>
struct Adam {
  using T = hn::TFromD<D>;
  using V = hn::Vec<D>;
  D d;
  V lr, fresh, fresh_square, root_scale, epsilon;
  bool amsgrad;

  explicit Adam(const UpdateArguments& a)
      : lr(hn::Set(d, static_cast<T>(a.lr))),
        fresh(hn::Set(d, static_cast<T>(a.fresh))),
        fresh_square(hn::Set(d, static_cast<T>(a.fresh_square))),
        root_scale(hn::Set(d, static_cast<T>(a.root_scale))),
        epsilon(hn::Set(d, static_cast<T>(a.epsilon))),
        amsgrad(a.moment[2] != nullptr) {}

  HWY_INLINE V operator()(V p, V g, V& m, V& v, V& largest) const {
    m = hn::MulAdd(hn::Sub(g, m), fresh, m);
    v = hn::MulAdd(hn::Sub(hn::Mul(g, g), v), fresh_square, v);
    if (amsgrad) largest = hn::Max(largest, v);
    const V root = hn::Sqrt(amsgrad ? largest : v);
    return hn::Sub(p, hn::Div(hn::Mul(m, lr), hn::MulAdd(root, root_scale, epsilon)));
  }
};

template <class D>
struct RmsProp {
  using T = hn::TFromD<D>;
  using V = hn::Vec<D>;
  D d;
  V lr, mu, rho, fresh_square, epsilon;
  bool keras, momentum, centered;

  explicit RmsProp(const UpdateArguments& a)
      : lr(hn::Set(d, static_cast<T>(a.lr))),
        mu(hn::Set(d, static_cast<T>(a.mu))),
        rho(hn::Set(d, static_cast<T>(a.rho))),
        fresh_square(hn::Set(d, static_cast<T>(a.fresh_square))),
        epsilon(hn::Set(d, static_cast<T>(a.epsilon))),
        keras(a.scalars.keras),
        momentum(a.moment[1] != nullptr),
        centered(a.moment[2] != nullptr) {}

  HWY_INLINE V operator()(V p, V g, V& v, V& m, V& average) const {
    v = hn::MulAdd(rho, v, hn::Mul(hn::Mul(fresh_square, g), g));
    V spread = v;
    if (centered) {
      average = hn::MulAdd(hn::Sub(g, average), fresh_square, average);
      spread = hn::NegMulAdd(average, average, v);
    }
    V step = keras ? hn::Div(hn::Mul(lr, g), hn::Sqrt(hn::Add(spread, epsilon)))
                   : hn::Div(g, hn::Add(hn::Sqrt(spread), epsilon));
    if (momentum) step = m = hn::MulAdd(mu, m, step);
    return keras ? hn::Sub(p, step) : hn::NegMulAdd(lr, step, p);
  }
};

template <class D>
struct Adagrad {
  using T = hn::TFromD<D>;
  using V = hn::Vec<D>;
  D d;
  V lr, epsilon;
  bool keras;

  explicit Adagrad(const UpdateArguments& a)
      : lr(hn::Set(d, static_cast<T>(a.lr))),
        epsilon(hn::Set(d, static_cast<T>(a.epsilon))),
        keras(a.scalars.keras) {}

  HWY_INLINE V operator()(V p, V g, V& s, V&, V&) const {
    s = hn::MulAdd(g, g, s);
    const V root = keras ? hn::Sqrt(hn::Add(s, epsilon)) : hn::Add(hn::Sqrt(s), epsilon);
    return hn::Sub(p, hn::Div(hn::Mul(lr, g), root));
  }
};

// Elements [begin, end). The last ones, too few for a vector, go through the same
// code in a buffer, so an element's bits do not depend on where it lies.
template <template <class> class Rule, typename T>
void Update(const UpdateArguments& a, int64_t begin, int64_t end) {
  const hn::ScalableTag<T> d;
  using D = hn::ScalableTag<T>;
  const int64_t lanes = hn::Lanes(d);
  const Common<D> common(a.scalars);
  const Rule<D> rule(a);
  const auto* p = static_cast<const T*>(a.p);
  const auto* g = static_cast<const T*>(a.g);
  auto* new_p = static_cast<T*>(a.new_p);
  const T* moment[3];
  T* new_moment[3];
  for (int k = 0; k < 3; ++k) {
    moment[k] = static_cast<const T*>(a.moment[k]);
    new_moment[k] = static_cast<T*>(a.new_moment[k]);
  }
  const auto zero = hn::Zero(d);
  int64_t i = begin;
  for (; i + lanes <= end; i += lanes) {
    auto vp = hn::LoadU(d, p + i);
    auto vg = hn::LoadU(d, g + i);
    auto m0 = moment[0] != nullptr ? hn::LoadU(d, moment[0] + i) : zero;
    auto m1 = moment[1] != nullptr ? hn::LoadU(d, moment[1] + i) : zero;
    auto m2 = moment[2] != nullptr ? hn::LoadU(d, moment[2] + i) : zero;
    common(vp, vg);
    const auto made = rule(vp, vg, m0, m1, m2);
    hn::StoreU(made, d, new_p + i);
    if (new_moment[0] != nullptr) hn::StoreU(m0, d, new_moment[0] + i);
    if (new_moment[1] != nullptr) hn::StoreU(m1, d, new_moment[1] + i);
    if (new_moment[2] != nullptr) hn::StoreU(m2, d, new_moment[2] + i);
  }
  if (i == end) return;
  const size_t bytes = (end - i) * sizeof(T);
  HWY_ALIGN T buffer[5][HWY_MAX_BYTES / sizeof(T)] = {};
  std::memcpy(buffer[0], p + i, bytes);
  std::memcpy(buffer[1], g + i, bytes);
  UpdateArguments rest = a;
  rest.p = rest.new_p = buffer[0];
  rest.g = buffer[1];
  for (int k = 0; k < 3; ++k) {
    if (moment[k] == nullptr) continue;
    std::memcpy(buffer[2 + k], moment[k] + i, bytes);
    rest.moment[k] = rest.new_moment[k] = buffer[2 + k];
  }
  Update<Rule, T>(rest, 0, lanes);
  std::memcpy(new_p + i, buffer[0], bytes);
  for (int k = 0; k < 3; ++k) {
    if (new_moment[k] != nullptr) std::memcpy(new_moment[k] + i, buffer[2 + k], bytes);
  }
}

void SgdFloat(const UpdateArguments& a, int64_t b, int64_t e) { Update<Sgd, float>(a, b, e); }
void SgdDouble(const UpdateArguments& a, int64_t b, int64_t e) { Update<Sgd, double>(a, b, e); }
void AdamFloat(const UpdateArguments& a, int64_t b, int64_t e) { Update<Adam, float>(a, b, e); }
void AdamDouble(const UpdateArguments& a, int64_t b, int64_t e) { Update<Adam, double>(a, b, e); }
void RmsPropFloat(const UpdateArguments& a, int64_t b, int64_t e) {
  Update<RmsProp, float>(a, b, e);
}
void RmsPropDouble(const UpdateArguments& a, int64_t b, int64_t e) {
  Update<RmsProp, double>(a, b, e);
}
void AdagradFloat(const UpdateArguments& a, int64_t b, int64_t e) {
  Update<Adagrad, float>(a, b, e);
}
void AdagradDouble(const UpdateArguments& a, int64_t b, int64_t e) {
  Update<Adagrad, double>(a, b, e);
}

}  // namespace HWY_NAMESPACE
}  // namespace onward
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace onward {
namespace {

HWY_EXPORT(SgdFloat);
HWY_EXPORT(SgdDouble);
HWY_EXPORT(AdamFloat);
HWY_EXPORT(AdamDouble);
HWY_EXPORT(RmsPropFloat);
HWY_EXPORT(RmsPropDouble);
HWY_EXPORT(AdagradFloat);
HWY_EXPORT(AdagradDouble);

UpdateArguments Arguments(const UpdateRule& rule, const KernelCall& call,
                          const KernelMemory& memory) {
  UpdateArguments a{UpdateScalars(rule)};
  a.mu = rule.momentum;
  a.nesterov = rule.nesterov;
  a.epsilon = rule.epsilon;
  a.p = memory.inputs[0].data;
  a.g = memory.inputs[1].data;
  a.new_p = memory.outputs[0].data;
  for (int i = 0; i < MomentsOf(call.op); ++i) {
    if (!call.has_input(2 + i)) continue;
    a.moment[i] = memory.inputs[2 + i].data;
    a.new_moment[i] = call.has_output(1 + i) ? memory.outputs[1 + i].data : nullptr;
  }
  return a;
}

// What a rule makes of the scalars of a step.
using StepFunction = void (*)(const UpdateRule& rule, UpdateArguments* a);
using UpdateFunction = void (*)(const UpdateArguments&, int64_t, int64_t);

// Shares the elements of memory, padding included, among the threads. Padding is
// zero in every operand, and every rule makes zeros of zeros.
std::unique_ptr<BoundKernel> BindUpdate(StepFunction step, UpdateFunction update,
                                        const KernelCall& call, const KernelMemory& memory,
                                        const Execution& execution) {
  const UpdateRule rule(call, memory);
  const TensorType& type = memory.inputs[0].type;
  return BoundTo([=, bound = Arguments(rule, call, memory), threads = execution.threads,
                  elements = PaddedElements(type.dims, type.layout)] {
    UpdateArguments a = bound;
    a.scalars = UpdateScalars(rule);
    a.lr = a.scalars.lr;
    step(rule, &a);
    ParallelFor(elements, 16384, threads,
                [&](int64_t begin, int64_t end) { update(a, begin, end); });
    return absl::OkStatus();
  });
}

void SgdStep(const UpdateRule& rule, UpdateArguments* a) {
  a->fresh = 1 - rule.dampening;
  a->replace = rule.dampening != 0 && a->scalars.step == 1;
}

void AdamStep(const UpdateRule& rule, UpdateArguments* a) {
  const double root2 = std::sqrt(1 - std::pow(rule.beta2, a->scalars.step));
  a->fresh = 1 - rule.beta1;
  a->fresh_square = 1 - rule.beta2;
  a->lr /= 1 - std::pow(rule.beta1, a->scalars.step);
  if (rule.keras) {
    a->lr *= root2;
  } else {
    a->root_scale = 1 / root2;
  }
}

void RmsPropStep(const UpdateRule& rule, UpdateArguments* a) {
  a->rho = rule.rho;
  a->fresh_square = 1 - rule.rho;
}

void AdagradStep(const UpdateRule& rule, UpdateArguments* a) {
  const double decay = rule.learning_rate_decay;
  if (decay != 0) a->lr /= 1 + (a->scalars.step - 1) * decay;
}

// Is input i the parameter, the gradient or a moment?
bool IsTensor(const KernelCall& call, int i) {
  return i < 2 + MomentsOf(call.op) && call.has_input(i);
}

// The layout of all tensors of the call: that of one which cannot change any more,
// else the parameter's. Null where two that cannot change differ.
const Layout* SharedLayout(const KernelCall& call) {
  const Layout* shared = nullptr;
  bool agree = true;
  const auto look = [&](const TensorType& type, uint64_t open, int i) {
    if ((open >> i) & 1) return;
    if (shared == nullptr) shared = &type.layout;
    agree &= *shared == type.layout;
  };
  for (int i = 0; i < 2 + MomentsOf(call.op); ++i) {
    if (IsTensor(call, i)) look(*call.inputs[i], call.open_inputs, i);
    if (i > 0 && call.has_output(i - 1)) look(*call.outputs[i - 1], call.open_outputs, i - 1);
  }
  if (!agree) return nullptr;
  return shared != nullptr ? shared : &call.inputs[0]->layout;
}

absl::Status AcceptUpdate(const KernelCall& call) {
  const DataType dtype = call.inputs[0]->dtype;
  if (dtype != DataType::kFloat32 && dtype != DataType::kFloat64) {
    return absl::UnimplementedError("float32 and float64 only");
  }
  const Layout* layout = SharedLayout(call);
  if (layout == nullptr) {
    return absl::UnimplementedError("parameter, gradient and moments differ in layout");
  }
  const bool padded = PaddedElements(call.inputs[0]->dims, *layout) != call.inputs[0]->elements();
  if (padded && call.attributes->Float("epsilon", 1) == 0) {
    return absl::UnimplementedError("with epsilon 0, zeros of padding would not stay zero");
  }
  return absl::OkStatus();
}

KernelNeeds DescribeUpdate(const KernelCall& call) {
  KernelNeeds needs = WantPlain(call);
  const Layout layout = *SharedLayout(call);
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (IsTensor(call, static_cast<int>(i))) needs.input_layouts[i] = layout;
  }
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    if (call.has_output(static_cast<int>(i))) needs.output_layouts[i] = layout;
  }
  // The new parameter in the parameter's memory or the gradient's, new moments in
  // their own.
  needs.aliases = {{0, 0}, {0, 1}};
  for (int i = 0; i < MomentsOf(call.op); ++i) {
    if (call.has_input(2 + i) && call.has_output(1 + i)) needs.aliases.push_back({1 + i, 2 + i});
  }
  return needs;
}

// HWY_DYNAMIC_DISPATCH names functions, not values: hence a macro.
#define ONWARD_UPDATE_ROW(name, op, Rule)                                                      \
  {                                                                                            \
    name, op, false, AcceptUpdate, DescribeUpdate,                                             \
        [](const KernelCall& call, const KernelMemory& memory,                                 \
           const Execution& execution) -> absl::StatusOr<std::unique_ptr<BoundKernel>> {       \
          const bool single = memory.inputs[0].type.dtype == DataType::kFloat32;               \
          return BindUpdate(                                                                   \
              Rule##Step,                                                                      \
              single ? HWY_DYNAMIC_DISPATCH(Rule##Float) : HWY_DYNAMIC_DISPATCH(Rule##Double), \
              call, memory, execution);                                                        \
        }                                                                                      \
  }

}  // namespace

void AddOptimizerVector(KernelTable& table) {
  table.push_back(ONWARD_UPDATE_ROW("cpu.sgd", "onward.SgdUpdate", Sgd));
  table.push_back(ONWARD_UPDATE_ROW("cpu.adam", "onward.AdamUpdate", Adam));
  table.push_back(ONWARD_UPDATE_ROW("cpu.rmsprop", "onward.RmsPropUpdate", RmsProp));
  table.push_back(ONWARD_UPDATE_ROW("cpu.adagrad", "onward.AdagradUpdate", Adagrad));
}

}  // namespace onward

#endif  // HWY_ONCE
