#include <cmath>
#include <type_traits>

#include "kernels/cpu/random_elements.h"
#include "kernels/cpu/reference.h"
#include "kernels/philox.h"

namespace onward {
namespace {

constexpr double kTwoToMinus32 = 1.0 / 4294967296.0;

// In [0, 1): the upper 24 bits of the word for float, all 32 for double.
template <typename T>
T Unit(uint32_t word) {
  if (std::is_same_v<T, float>) return static_cast<T>((word >> 8) * (1.0 / 16777216.0));
  return static_cast<T>(word * kTwoToMinus32);
}

template <typename T>
void Dropout(const RandomCall& random, double ratio, const T* x, T* y) {
  const T scale = static_cast<T>(ratio < 1 ? 1 / (1 - ratio) : 0);
  random.elements.ForEach([&](int64_t at, uint64_t index) {
    const double u = random.stream.NumberOfHalves(index) * kTwoToMinus32;
    y[at] = u >= ratio ? x[at] * scale : T(0);
  });
}

absl::Status DropoutKernel(const KernelCall& call, const KernelMemory& memory, const Execution&) {
  const TensorView& x = memory.inputs[0];
  const RandomCall random(RandomSource(call, memory, 1, x.type.dims));
  const double ratio = call.attributes->Float("ratio", 0.5);
  if (x.type.dtype == DataType::kFloat32) {
    Dropout(random, ratio, x.as<float>(), memory.outputs[0].as<float>());
  } else if (x.type.dtype == DataType::kFloat64) {
    Dropout(random, ratio, x.as<double>(), memory.outputs[0].as<double>());
  } else {
    return absl::UnimplementedError("Dropout of this data type");
  }
  return absl::OkStatus();
}

template <typename T>
void Uniform(const RandomCall& random, const Attributes& a, T* y) {
  const double low = a.Float("low", 0), high = a.Float("high", 1);
  const bool halves = a.Int("halves", 0) != 0;
  random.elements.ForEach([&](int64_t at, uint64_t index) {
    const uint32_t word = halves ? random.stream.NumberOfHalves(index) : random.stream.Word(index);
    y[at] = static_cast<T>(low + (high - low) * Unit<T>(word));
  });
}

template <typename T>
void Normal(const RandomCall& random, const Attributes& a, T* y) {
  const double mean = a.Float("mean", 0), scale = a.Float("scale", 1);
  RandomStream second = random.stream;
  second.node ^= 0x80000000u;
  random.elements.ForEach([&](int64_t at, uint64_t index) {
    const double u0 = random.stream.Word(index) * kTwoToMinus32;
    const double u1 = second.Word(index) * kTwoToMinus32;
    const double normal = std::sqrt(-2 * std::log(1 - u0)) * std::cos(2 * M_PI * u1);
    y[at] = static_cast<T>(mean + scale * normal);
  });
}

absl::Status UniformKernel(const KernelCall& call, const KernelMemory& memory, const Execution&) {
  const TensorView& y = memory.outputs[0];
  const RandomCall random(RandomSource(call, memory, 0, y.type.dims));
  if (y.type.dtype == DataType::kFloat64) {
    Uniform(random, *call.attributes, y.as<double>());
  } else {
    Uniform(random, *call.attributes, y.as<float>());
  }
  return absl::OkStatus();
}

absl::Status NormalKernel(const KernelCall& call, const KernelMemory& memory, const Execution&) {
  const TensorView& y = memory.outputs[0];
  const RandomCall random(RandomSource(call, memory, 0, y.type.dims));
  if (y.type.dtype == DataType::kFloat64) {
    Normal(random, *call.attributes, y.as<double>());
  } else {
    Normal(random, *call.attributes, y.as<float>());
  }
  return absl::OkStatus();
}

}  // namespace

void AddRandomReference(KernelTable& table) {
  table.push_back(ReferenceKernel<DropoutKernel>("onward.Dropout"));
  table.push_back(ReferenceKernel<UniformKernel>("onward.RandomUniform"));
  table.push_back(ReferenceKernel<NormalKernel>("onward.RandomNormal"));
}

}  // namespace onward
