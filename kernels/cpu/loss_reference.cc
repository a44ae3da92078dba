#include <algorithm>
#include <cmath>

#include "kernels/cpu/cross_entropy_call.h"
#include "kernels/cpu/reference.h"

namespace onward {
namespace {

// The scores of one position, as float64.
template <typename T>
std::vector<double> ScoresAt(const CrossEntropyCall& c, int64_t position) {
  std::vector<double> x(c.classes);
  const T* first = static_cast<const T*>(c.scores) + c.Offset(position);
  for (int64_t k = 0; k < c.classes; ++k) x[k] = first[k * c.inner];
  return x;
}

std::vector<double> LogSoftmax(std::vector<double> x) {
  double most = x.empty() ? 0 : x[0];
  for (const double v : x) most = std::max(most, v);
  double sum = 0;
  for (const double v : x) sum += std::exp(v - most);
  for (double& v : x) v = v - most - std::log(sum);
  return x;
}

template <typename T>
double ClassWeight(const CrossEntropyCall& c, int64_t k) {
  return c.weights == nullptr ? 1 : static_cast<const T*>(c.weights)[k];
}

// Scores are logits or, with kLogProbabilities, log-probabilities already.
template <typename T, bool kLogProbabilities>
absl::Status Forward(const CrossEntropyCall& c, T* loss, T* weight) {
  for (int64_t i = 0; i < c.positions(); ++i) {
    const int64_t label = c.Label(i);
    if (c.Ignored(label)) {
      loss[i] = 0;
      if (weight != nullptr) weight[i] = 0;
      continue;
    }
    if (!c.Valid(label)) return c.BadLabel(i);
    std::vector<double> log_p = ScoresAt<T>(c, i);
    if (!kLogProbabilities) log_p = LogSoftmax(std::move(log_p));
    const double own = ClassWeight<T>(c, label);
    double sum = -(1 - c.smoothing) * own * log_p[label];
    for (int64_t k = 0; c.smoothing != 0 && k < c.classes; ++k) {
      sum -= c.smoothing / static_cast<double>(c.classes) * ClassWeight<T>(c, k) * log_p[k];
    }
    loss[i] = static_cast<T>(sum);
    if (weight != nullptr) weight[i] = static_cast<T>(own);
  }
  return absl::OkStatus();
}

template <bool kLogProbabilities>
absl::Status ForwardKernel(const KernelCall& call, const KernelMemory& memory, const Execution&) {
  const CrossEntropyCall c(call, memory, 0);
  const bool wants_weight = call.has_output(1);
  if (memory.inputs[0].type.dtype == DataType::kFloat32) {
    return Forward<float, kLogProbabilities>(
        c, memory.outputs[0].as<float>(), wants_weight ? memory.outputs[1].as<float>() : nullptr);
  }
  if (memory.inputs[0].type.dtype == DataType::kFloat64) {
    return Forward<double, kLogProbabilities>(
        c, memory.outputs[0].as<double>(), wants_weight ? memory.outputs[1].as<double>() : nullptr);
  }
  return absl::UnimplementedError("float32 and float64 only");
}

template <typename T>
absl::Status Gradient(const CrossEntropyCall& c, const T* dloss, T* dx) {
  double weight_sum = 0;
  for (int64_t k = 0; k < c.classes; ++k) weight_sum += ClassWeight<T>(c, k);
  const double share = c.smoothing / static_cast<double>(c.classes);
  for (int64_t i = 0; i < c.positions(); ++i) {
    T* out = dx + c.Offset(i);
    const int64_t label = c.Label(i);
    if (!c.Ignored(label) && !c.Valid(label)) return c.BadLabel(i);
    const std::vector<double> log_p = LogSoftmax(ScoresAt<T>(c, i));
    for (int64_t k = 0; k < c.classes; ++k) {
      if (c.Ignored(label)) {
        out[k * c.inner] = 0;
        continue;
      }
      const double p = std::exp(log_p[k]);
      const double own = ClassWeight<T>(c, label);
      const double d = (1 - c.smoothing) * own * (p - (k == label ? 1 : 0)) +
                       share * (weight_sum * p - ClassWeight<T>(c, k));
      out[k * c.inner] = static_cast<T>(static_cast<double>(dloss[i]) * d);
    }
  }
  return absl::OkStatus();
}

absl::Status GradientKernel(const KernelCall& call, const KernelMemory& memory, const Execution&) {
  const CrossEntropyCall c(call, memory, 1);
  if (memory.inputs[0].type.dtype == DataType::kFloat32) {
    return Gradient(c, memory.inputs[0].as<float>(), memory.outputs[0].as<float>());
  }
  if (memory.inputs[0].type.dtype == DataType::kFloat64) {
    return Gradient(c, memory.inputs[0].as<double>(), memory.outputs[0].as<double>());
  }
  return absl::UnimplementedError("float32 and float64 only");
}

// Target probabilities instead of labels: [n, classes, inner].
template <typename T>
void Dense(const TensorView& x, const T* t, const T* dloss, T* y) {
  int64_t n = x.type.dims[0], classes = x.type.dims[1], inner = 1;
  for (size_t i = 2; i < x.type.dims.size(); ++i) inner *= x.type.dims[i];
  for (int64_t i = 0; i < n * inner; ++i) {
    const int64_t first = i / inner * classes * inner + i % inner;
    std::vector<double> log_p(classes);
    for (int64_t k = 0; k < classes; ++k) log_p[k] = x.as<T>()[first + k * inner];
    log_p = LogSoftmax(std::move(log_p));
    double loss = 0, total = 0;
    for (int64_t k = 0; k < classes; ++k) {
      loss -= t[first + k * inner] * log_p[k];
      total += t[first + k * inner];
    }
    if (dloss == nullptr) y[i] = static_cast<T>(loss);
    for (int64_t k = 0; dloss != nullptr && k < classes; ++k) {
      y[first + k * inner] =
          static_cast<T>(dloss[i] * (std::exp(log_p[k]) * total - t[first + k * inner]));
    }
  }
}

absl::Status DenseKernel(const KernelCall& call, const KernelMemory& memory, const Execution&) {
  const bool gradient = call.inputs.size() == 3;
  const std::vector<TensorView>& in = memory.inputs;
  const size_t x = gradient ? 1 : 0;
  if (in[x].type.dtype == DataType::kFloat32) {
    Dense<float>(in[x], in[x + 1].as<float>(), gradient ? in[0].as<float>() : nullptr,
                 memory.outputs[0].as<float>());
  } else if (in[x].type.dtype == DataType::kFloat64) {
    Dense<double>(in[x], in[x + 1].as<double>(), gradient ? in[0].as<double>() : nullptr,
                  memory.outputs[0].as<double>());
  } else {
    return absl::UnimplementedError("float32 and float64 only");
  }
  return absl::OkStatus();
}

template <typename T>
void Sigmoid(const T* x, const T* t, const T* k, int64_t weights, int64_t count, T* loss) {
  for (int64_t i = 0; i < count; ++i) {
    const double score = x[i], target = t[i];
    const double positive = k == nullptr ? 1 : k[i % weights];
    const double softplus = std::log1p(std::exp(-std::fabs(score))) + std::max(-score, 0.0);
    loss[i] = static_cast<T>((1 - target) * score + (1 + (positive - 1) * target) * softplus);
  }
}

absl::Status SigmoidKernel(const KernelCall& call, const KernelMemory& memory, const Execution&) {
  const TensorView& x = memory.inputs[0];
  const bool weighted = call.has_input(2);
  const int64_t weights = weighted ? memory.inputs[2].type.elements() : 1;
  if (x.type.dtype == DataType::kFloat32) {
    Sigmoid(x.as<float>(), memory.inputs[1].as<float>(),
            weighted ? memory.inputs[2].as<float>() : nullptr, weights, x.type.elements(),
            memory.outputs[0].as<float>());
  } else if (x.type.dtype == DataType::kFloat64) {
    Sigmoid(x.as<double>(), memory.inputs[1].as<double>(),
            weighted ? memory.inputs[2].as<double>() : nullptr, weights, x.type.elements(),
            memory.outputs[0].as<double>());
  } else {
    return absl::UnimplementedError("float32 and float64 only");
  }
  return absl::OkStatus();
}

}  // namespace

void AddLossReference(KernelTable& table) {
  table.push_back(ReferenceKernel<ForwardKernel<false>>("onward.SoftmaxCrossEntropy"));
  table.push_back(ReferenceKernel<GradientKernel>("onward.SoftmaxCrossEntropyGradient"));
  table.push_back(ReferenceKernel<ForwardKernel<true>>("onward.NegativeLogLikelihood"));
  table.push_back(ReferenceKernel<DenseKernel>("onward.SoftmaxCrossEntropyDense"));
  table.push_back(ReferenceKernel<DenseKernel>("onward.SoftmaxCrossEntropyDenseGradient"));
  table.push_back(ReferenceKernel<SigmoidKernel>("onward.SigmoidCrossEntropy"));
}

}  // namespace onward
