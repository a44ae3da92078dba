#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/reference.h"

namespace onward {
namespace {

enum class Kind { kSoftmax, kLogSoftmax, kHardmax };

// One line of `n` elements, `step` apart.
template <typename T, Kind kKind>
void Line(const T* x, T* y, int64_t n, int64_t step) {
  int64_t first = 0;
  for (int64_t i = 1; i < n; ++i) {
    if (x[i * step] > x[first * step]) first = i;
  }
  if (kKind == Kind::kHardmax) {
    for (int64_t i = 0; i < n; ++i) y[i * step] = i == first ? 1 : 0;
    return;
  }
  const double largest = x[first * step];
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += std::exp(x[i * step] - largest);
  const double log_sum = std::log(sum);
  for (int64_t i = 0; i < n; ++i) {
    const double shifted = x[i * step] - largest;
    y[i * step] =
        static_cast<T>(kKind == Kind::kSoftmax ? std::exp(shifted) / sum : shifted - log_sum);
  }
}

template <typename T, Kind kKind>
absl::Status Run(const KernelCall& call, const KernelMemory& memory) {
  const Dims& dims = call.inputs[0]->dims;
  const int64_t rank = static_cast<int64_t>(dims.size());
  int64_t axis = call.attributes->Int("axis", -1);
  if (axis < 0) axis += rank;
  const int64_t n = dims[axis], step = Elements(absl::MakeConstSpan(dims).subspan(axis + 1));
  const int64_t outer = Elements(absl::MakeConstSpan(dims).first(axis));
  if (n == 0) return absl::OkStatus();
  for (int64_t i = 0; i < outer; ++i) {
    for (int64_t j = 0; j < step; ++j) {
      const int64_t at = i * n * step + j;
      Line<T, kKind>(memory.inputs[0].as<T>() + at, memory.outputs[0].as<T>() + at, n, step);
    }
  }
  return absl::OkStatus();
}

template <Kind kKind>
absl::Status OnAxis(const KernelCall& call, const KernelMemory& memory, const Execution&) {
  switch (call.inputs[0]->dtype) {
    case DataType::kFloat32:
      return Run<float, kKind>(call, memory);
    case DataType::kFloat64:
      return Run<double, kKind>(call, memory);
    default:
      return absl::UnimplementedError(
          absl::StrCat("no softmax of ", std::string(Name(call.inputs[0]->dtype))));
  }
}

}  // namespace

void AddSoftmaxReference(KernelTable& table) {
  table.push_back(ReferenceKernel<OnAxis<Kind::kSoftmax>>("Softmax"));
  table.push_back(ReferenceKernel<OnAxis<Kind::kLogSoftmax>>("LogSoftmax"));
  table.push_back(ReferenceKernel<OnAxis<Kind::kHardmax>>("Hardmax"));
}

}  // namespace onward
