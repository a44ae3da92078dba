#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/loops.h"
#include "kernels/cpu/reference.h"

namespace onward {
namespace {

// Lines of elements that share statistics: line `l` holds the elements at
// Start(l) + i * outer_step + j, for i below outer and j below inner.
struct Lines {
  int64_t lines, outer, inner;
  int64_t line_step, outer_step;
  int64_t count() const { return outer * inner; }
  int64_t At(int64_t line, int64_t k) const {
    return line * line_step + k / inner * outer_step + k % inner;
  }
};

// A channel of [samples, channels, space...] is a line.
Lines ByChannel(const Dims& x) {
  const int64_t channels = x.size() < 2 ? 1 : x[1];
  const int64_t area = x.size() < 2 ? 1 : Elements(absl::MakeConstSpan(x).subspan(2));
  return {channels, x[0], area, area, channels * area};
}

// All axes from `axis` on are a line.
Lines FromAxis(const Attributes& attributes, const Dims& x) {
  int64_t axis = attributes.Int("axis", -1);
  if (axis < 0) axis += static_cast<int64_t>(x.size());
  const absl::Span<const int64_t> all(x);
  const int64_t length = Elements(all.subspan(axis));
  return {Elements(all.first(axis)), 1, length, length, 0};
}

struct Statistics {
  double mean = 0, variance = 0;
};

// Zeros for a line of none.
template <typename T>
Statistics Measure(const Lines& lines, int64_t line, const T* x) {
  Statistics s;
  const int64_t n = lines.count();
  if (n == 0) return s;
  for (int64_t k = 0; k < n; ++k) s.mean += x[lines.At(line, k)];
  s.mean /= static_cast<double>(n);
  for (int64_t k = 0; k < n; ++k) {
    const double d = x[lines.At(line, k)] - s.mean;
    s.variance += d * d;
  }
  s.variance /= static_cast<double>(n);
  return s;
}

template <typename T>
T* Output(const KernelCall& call, const KernelMemory& memory, int i) {
  return call.has_output(i) ? memory.outputs[i].as<T>() : nullptr;
}

template <typename T>
const T* Input(const KernelCall& call, const KernelMemory& memory, int i) {
  return call.has_input(i) ? memory.inputs[i].as<T>() : nullptr;
}

// Element `i` of a vector of either floating type: scale and statistics may have
// another type than x.
double Number(const KernelMemory& memory, int input, int64_t i) {
  const TensorView& view = memory.inputs[input];
  return view.type.dtype == DataType::kFloat64 ? view.as<double>()[i] : view.as<float>()[i];
}

void SetNumber(const TensorView& view, int64_t i, double value) {
  if (view.type.dtype == DataType::kFloat64) {
    view.as<double>()[i] = value;
  } else {
    view.as<float>()[i] = static_cast<float>(value);
  }
}

// BatchNormalization, in both modes.
template <typename T>
void BothModes(const KernelCall& call, const KernelMemory& memory) {
  const Lines lines = ByChannel(call.inputs[0]->dims);
  const T* x = memory.inputs[0].as<T>();
  T* y = memory.outputs[0].as<T>();
  const bool training = call.attributes->Int("training_mode", 0) != 0;
  const double epsilon = call.attributes->Float("epsilon", 1e-5f);
  const double momentum = call.attributes->Float("momentum", 0.9f);
  for (int64_t c = 0; c < lines.lines; ++c) {
    const Statistics running = {Number(memory, 3, c), Number(memory, 4, c)};
    const Statistics s = training ? Measure(lines, c, x) : running;
    const double factor = Number(memory, 1, c) / std::sqrt(s.variance + epsilon);
    for (int64_t k = 0; k < lines.count(); ++k) {
      const int64_t at = lines.At(c, k);
      y[at] = static_cast<T>((x[at] - s.mean) * factor + Number(memory, 2, c));
    }
    if (call.has_output(1)) {
      SetNumber(memory.outputs[1], c, running.mean * momentum + s.mean * (1 - momentum));
    }
    if (call.has_output(2)) {
      SetNumber(memory.outputs[2], c, running.variance * momentum + s.variance * (1 - momentum));
    }
  }
}

// y, mean and variance; scale and bias per line (`by_channel`) or per element of one.
template <typename T>
void Normalize(const KernelCall& call, const KernelMemory& memory, const Lines& lines,
               bool by_channel) {
  const T *x = memory.inputs[0].as<T>(), *scale = Input<T>(call, memory, 1),
          *bias = Input<T>(call, memory, 2);
  T *y = memory.outputs[0].as<T>(), *mean = Output<T>(call, memory, 1),
    *variance = Output<T>(call, memory, 2);
  const double epsilon = call.attributes->Float("epsilon", 1e-5f);
  for (int64_t l = 0; l < lines.lines; ++l) {
    const Statistics s = Measure(lines, l, x);
    const double inverse = 1 / std::sqrt(s.variance + epsilon);
    for (int64_t k = 0; k < lines.count(); ++k) {
      const int64_t at = lines.At(l, k), parameter = by_channel ? l : k;
      double value = (x[at] - s.mean) * inverse;
      if (scale != nullptr) value *= scale[parameter];
      if (bias != nullptr) value += bias[parameter];
      y[at] = static_cast<T>(value);
    }
    if (mean != nullptr) mean[l] = static_cast<T>(s.mean);
    if (variance != nullptr) variance[l] = static_cast<T>(s.variance);
  }
}

// dx, dscale, dbias from dy, x, scale, mean, variance.
template <typename T>
void Gradient(const KernelCall& call, const KernelMemory& memory, const Lines& lines,
              bool by_channel) {
  const T *dy = memory.inputs[0].as<T>(), *x = memory.inputs[1].as<T>(),
          *scale = Input<T>(call, memory, 2), *mean = memory.inputs[3].as<T>(),
          *variance = memory.inputs[4].as<T>();
  T *dx = memory.outputs[0].as<T>(), *dscale = Output<T>(call, memory, 1),
    *dbias = Output<T>(call, memory, 2);
  const double epsilon = call.attributes->Float("epsilon", 1e-5f);
  const int64_t n = lines.count(), parameters = by_channel ? lines.lines : n;
  std::vector<double> sum_scale(parameters, 0.0), sum_bias(parameters, 0.0);
  for (int64_t l = 0; l < lines.lines; ++l) {
    const double inverse = 1 / std::sqrt(variance[l] + epsilon);
    double sum = 0, sum_h = 0;
    const auto factor = [&](int64_t k) {
      return scale == nullptr ? 1.0 : static_cast<double>(scale[by_channel ? l : k]);
    };
    const auto normal = [&](int64_t at) { return (x[at] - mean[l]) * inverse; };
    for (int64_t k = 0; k < n; ++k) {
      const int64_t at = lines.At(l, k), parameter = by_channel ? l : k;
      const double h = normal(at);
      sum_scale[parameter] += dy[at] * h;
      sum_bias[parameter] += dy[at];
      sum += dy[at] * factor(k);
      sum_h += dy[at] * factor(k) * h;
    }
    for (int64_t k = 0; k < n; ++k) {
      const int64_t at = lines.At(l, k);
      const double d = dy[at] * factor(k) - sum / n - normal(at) * sum_h / n;
      dx[at] = static_cast<T>(inverse * d);
    }
  }
  for (int64_t p = 0; p < parameters; ++p) {
    if (dscale != nullptr) dscale[p] = static_cast<T>(sum_scale[p]);
    if (dbias != nullptr) dbias[p] = static_cast<T>(sum_bias[p]);
  }
}

absl::Status BatchNormalization(const KernelCall& call, const KernelMemory& memory,
                                const Execution&) {
  return ForType(FloatTypes(), call.inputs[0]->dtype, [&](auto t) {
    BothModes<decltype(t)>(call, memory);
    return absl::OkStatus();
  });
}

absl::Status BatchTraining(const KernelCall& call, const KernelMemory& memory, const Execution&) {
  return ForType(FloatTypes(), call.inputs[0]->dtype, [&](auto t) {
    Normalize<decltype(t)>(call, memory, ByChannel(call.inputs[0]->dims), true);
    return absl::OkStatus();
  });
}

absl::Status BatchGradient(const KernelCall& call, const KernelMemory& memory, const Execution&) {
  return ForType(FloatTypes(), call.inputs[0]->dtype, [&](auto t) {
    Gradient<decltype(t)>(call, memory, ByChannel(call.inputs[1]->dims), true);
    return absl::OkStatus();
  });
}

absl::Status LayerTraining(const KernelCall& call, const KernelMemory& memory, const Execution&) {
  return ForType(FloatTypes(), call.inputs[0]->dtype, [&](auto t) {
    const Lines lines = FromAxis(*call.attributes, call.inputs[0]->dims);
    Normalize<decltype(t)>(call, memory, lines, false);
    return absl::OkStatus();
  });
}

absl::Status LayerGradient(const KernelCall& call, const KernelMemory& memory, const Execution&) {
  return ForType(FloatTypes(), call.inputs[0]->dtype, [&](auto t) {
    const Lines lines = FromAxis(*call.attributes, call.inputs[1]->dims);
    Gradient<decltype(t)>(call, memory, lines, false);
    return absl::OkStatus();
  });
}

}  // namespace

void AddNormReference(KernelTable& table) {
  table.push_back(TypedReference<BatchNormalization, FloatTypes>("BatchNormalization"));
  table.push_back(TypedReference<BatchTraining, FloatTypes>("onward.BatchNormalizationTraining"));
  table.push_back(TypedReference<BatchGradient, FloatTypes>("onward.BatchNormalizationGradient"));
  table.push_back(TypedReference<LayerTraining, FloatTypes>("onward.LayerNormalizationTraining"));
  table.push_back(TypedReference<LayerGradient, FloatTypes>("onward.LayerNormalizationGradient"));
}

}  // namespace onward
