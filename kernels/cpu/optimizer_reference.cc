#include <algorithm>
#include <cmath>

#include "kernels/cpu/optimizer_call.h"
#include "kernels/cpu/reference.h"

namespace onward {
namespace {

// The gradient that the update uses, and the parameter after decoupled decay.
template <typename T>
struct Element {
  T p, g;
  Element(const UpdateScalars& s, T parameter, T gradient) : p(parameter), g(gradient) {
    g = s.zero_gradient ? T(0) : g * static_cast<T>(s.factor);
    const T most = static_cast<T>(s.clip_value);
    if (most > 0) g = g > most ? most : g < -most ? -most : g;
    p = p * static_cast<T>(s.keep);
    g = g + p * static_cast<T>(s.decay);
  }
};

// Memory of a call: moments are null where absent.
template <typename T>
struct Operands {
  int64_t count;
  const T* p;
  const T* g;
  const T* moment[3] = {};
  T* new_p;
  T* new_moment[3] = {};

  Operands(const KernelCall& call, const KernelMemory& memory)
      : count(memory.inputs[0].type.elements()),
        p(memory.inputs[0].as<T>()),
        g(memory.inputs[1].as<T>()),
        new_p(memory.outputs[0].as<T>()) {
    for (int i = 0; i < MomentsOf(call.op); ++i) {
      if (!call.has_input(2 + i)) continue;
      moment[i] = memory.inputs[2 + i].as<T>();
      new_moment[i] = memory.outputs[1 + i].as<T>();
    }
  }
};

template <typename T>
void Sgd(const UpdateRule& r, const UpdateScalars& s, const Operands<T>& x) {
  const T lr = static_cast<T>(s.lr);
  const T mu = static_cast<T>(r.momentum);
  const T dampening = static_cast<T>(r.dampening);
  const bool nesterov = r.nesterov;
  for (int64_t i = 0; i < x.count; ++i) {
    const Element<T> e(s, x.p[i], x.g[i]);
    if (x.moment[0] == nullptr) {
      x.new_p[i] = e.p - lr * e.g;
    } else if (s.keras) {
      const T m = mu * x.moment[0][i] - lr * e.g;
      x.new_moment[0][i] = m;
      x.new_p[i] = nesterov ? e.p + mu * m - lr * e.g : e.p + m;
    } else {
      const bool first = dampening != 0 && s.step == 1;
      const T m = first ? e.g : mu * x.moment[0][i] + (1 - dampening) * e.g;
      x.new_moment[0][i] = m;
      x.new_p[i] = e.p - lr * (nesterov ? e.g + mu * m : m);
    }
  }
}

template <typename T>
void Adam(const UpdateRule& r, const UpdateScalars& s, const Operands<T>& x) {
  const double beta1 = r.beta1;
  const double beta2 = r.beta2;
  const T epsilon = static_cast<T>(r.epsilon);
  const double rate = s.lr / (1 - std::pow(beta1, s.step));
  const double root2 = std::sqrt(1 - std::pow(beta2, s.step));
  for (int64_t i = 0; i < x.count; ++i) {
    const Element<T> e(s, x.p[i], x.g[i]);
    const T m = x.moment[0][i] + (e.g - x.moment[0][i]) * static_cast<T>(1 - beta1);
    const T v = x.moment[1][i] + (e.g * e.g - x.moment[1][i]) * static_cast<T>(1 - beta2);
    x.new_moment[0][i] = m;
    x.new_moment[1][i] = v;
    T root = std::sqrt(v);
    if (x.moment[2] != nullptr) {  // amsgrad
      x.new_moment[2][i] = std::max(x.moment[2][i], v);
      root = std::sqrt(x.new_moment[2][i]);
    }
    if (s.keras) {
      x.new_p[i] = e.p - m * static_cast<T>(rate * root2) / (root + epsilon);
    } else {
      x.new_p[i] = e.p - m * static_cast<T>(rate) / (root / static_cast<T>(root2) + epsilon);
    }
  }
}

template <typename T>
void RmsProp(const UpdateRule& r, const UpdateScalars& s, const Operands<T>& x) {
  const T lr = static_cast<T>(s.lr);
  const double rho = r.rho;
  const T epsilon = static_cast<T>(r.epsilon);
  const T mu = static_cast<T>(r.momentum);
  for (int64_t i = 0; i < x.count; ++i) {
    const Element<T> e(s, x.p[i], x.g[i]);
    const T v = static_cast<T>(rho) * x.moment[0][i] + static_cast<T>(1 - rho) * e.g * e.g;
    x.new_moment[0][i] = v;
    T spread = v;
    if (x.moment[2] != nullptr) {
      const T average = x.moment[2][i] + (e.g - x.moment[2][i]) * static_cast<T>(1 - rho);
      x.new_moment[2][i] = average;
      spread = v - average * average;
    }
    T d = s.keras ? lr * e.g / std::sqrt(spread + epsilon) : e.g / (std::sqrt(spread) + epsilon);
    if (x.moment[1] != nullptr) {
      d = mu * x.moment[1][i] + d;
      x.new_moment[1][i] = d;
    }
    x.new_p[i] = s.keras ? e.p - d : e.p - lr * d;
  }
}

template <typename T>
void Adagrad(const UpdateRule& r, const UpdateScalars& s, const Operands<T>& x) {
  const double decay = r.learning_rate_decay;
  const T rate = static_cast<T>(decay == 0 ? s.lr : s.lr / (1 + (s.step - 1) * decay));
  const T epsilon = static_cast<T>(r.epsilon);
  for (int64_t i = 0; i < x.count; ++i) {
    const Element<T> e(s, x.p[i], x.g[i]);
    const T sum = x.moment[0][i] + e.g * e.g;
    x.new_moment[0][i] = sum;
    x.new_p[i] = e.p - rate * e.g / (s.keras ? std::sqrt(sum + epsilon) : std::sqrt(sum) + epsilon);
  }
}

template <void (*kFloat)(const UpdateRule&, const UpdateScalars&, const Operands<float>&),
          void (*kDouble)(const UpdateRule&, const UpdateScalars&, const Operands<double>&)>
absl::Status Run(const KernelCall& call, const KernelMemory& memory, const Execution&) {
  const UpdateRule rule(call, memory);
  const UpdateScalars scalars(rule);
  if (memory.inputs[0].type.dtype == DataType::kFloat32) {
    kFloat(rule, scalars, Operands<float>(call, memory));
  } else if (memory.inputs[0].type.dtype == DataType::kFloat64) {
    kDouble(rule, scalars, Operands<double>(call, memory));
  } else {
    return absl::UnimplementedError("parameters are float32 or float64");
  }
  return absl::OkStatus();
}

}  // namespace

void AddOptimizerReference(KernelTable& table) {
  table.push_back(ReferenceKernel<Run<Sgd<float>, Sgd<double>>>("onward.SgdUpdate"));
  table.push_back(ReferenceKernel<Run<Adam<float>, Adam<double>>>("onward.AdamUpdate"));
  table.push_back(ReferenceKernel<Run<RmsProp<float>, RmsProp<double>>>("onward.RmsPropUpdate"));
  table.push_back(ReferenceKernel<Run<Adagrad<float>, Adagrad<double>>>("onward.AdagradUpdate"));
}

}  // namespace onward
