// Loops of vector functions over arrays, for one instruction set at a time.
#if defined(ONWARD_KERNELS_CPU_VECTOR_LOOP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ONWARD_KERNELS_CPU_VECTOR_LOOP_INL_H_
#undef ONWARD_KERNELS_CPU_VECTOR_LOOP_INL_H_
#else
#define ONWARD_KERNELS_CPU_VECTOR_LOOP_INL_H_
#endif

#include <cstddef>
#include <cstring>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace onward {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE hn::Vec<D> Number(D d, double value) {
  return hn::Set(d, static_cast<hn::TFromD<D>>(value));
}

// A tail shorter than a vector goes through a whole vector, so that its elements come
// out as they would elsewhere. F::Do(d, x, immediates).
template <class T, class F>
void Unary(const void* const* operands, void* result, size_t n, const double* immediates) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  const T* x = static_cast<const T*>(operands[0]);
  T* y = static_cast<T*>(result);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(F::Do(d, hn::LoadU(d, x + i), immediates), d, y + i);
  }
  if (i == n) return;
  HWY_ALIGN T tail[hn::MaxLanes(hn::ScalableTag<T>())] = {};
  std::memcpy(tail, x + i, (n - i) * sizeof(T));
  hn::Store(F::Do(d, hn::Load(d, tail), immediates), d, tail);
  std::memcpy(y + i, tail, (n - i) * sizeof(T));
}

// F::Do(d, a, b).
template <class T, class F>
void Binary(const void* const* operands, void* result, size_t n, const double*) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  const T* a = static_cast<const T*>(operands[0]);
  const T* b = static_cast<const T*>(operands[1]);
  T* y = static_cast<T*>(result);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(F::Do(d, hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, y + i);
  }
  if (i == n) return;
  HWY_ALIGN T ta[hn::MaxLanes(hn::ScalableTag<T>())] = {};
  HWY_ALIGN T tb[hn::MaxLanes(hn::ScalableTag<T>())] = {};
  std::memcpy(ta, a + i, (n - i) * sizeof(T));
  std::memcpy(tb, b + i, (n - i) * sizeof(T));
  hn::Store(F::Do(d, hn::Load(d, ta), hn::Load(d, tb)), d, ta);
  std::memcpy(y + i, ta, (n - i) * sizeof(T));
}

}  // namespace HWY_NAMESPACE
}  // namespace onward
HWY_AFTER_NAMESPACE();

#endif  // ONWARD_KERNELS_CPU_VECTOR_LOOP_INL_H_
