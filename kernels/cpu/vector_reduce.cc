#include "kernels/cpu/vector_reduce.h"

#include <cmath>
#include <cstring>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/vector_reduce.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace onward {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Start: what changes nothing. Map: what is folded of x. Join: two results, as vectors
// and one by one.
struct FoldSum {
  template <class T>
  static T Start() {
    return T(0);
  }
  template <class D, class V>
  static HWY_INLINE V Map(D, V x) {
    return x;
  }
  template <class V>
  static HWY_INLINE V Join(V a, V b) {
    return hn::Add(a, b);
  }
  template <class T>
  static T JoinOne(T a, T b) {
    return a + b;
  }
};
struct FoldSumAbs : FoldSum {
  template <class D, class V>
  static HWY_INLINE V Map(D, V x) {
    return hn::Abs(x);
  }
};
struct FoldSumSquare : FoldSum {
  template <class D, class V>
  static HWY_INLINE V Map(D, V x) {
    return hn::Mul(x, x);
  }
};
template <bool kMax>
struct FoldExtreme {
  template <class T>
  static T Start() {
    using Limits = std::numeric_limits<T>;
    if (Limits::has_infinity) return kMax ? -Limits::infinity() : Limits::infinity();
    return kMax ? Limits::lowest() : Limits::max();
  }
  template <class D, class V>
  static HWY_INLINE V Map(D, V x) {
    return x;
  }
  template <class V>
  static HWY_INLINE V Join(V a, V b) {
    if constexpr (hwy::IsFloat<hn::TFromV<V>>()) {
      const auto first = kMax ? hn::Gt(a, b) : hn::Lt(a, b);
      return hn::IfThenElse(hn::Or(first, hn::IsNaN(a)), a, b);
    } else {
      return kMax ? hn::Max(a, b) : hn::Min(a, b);
    }
  }
  template <class T>
  static T JoinOne(T a, T b) {
    return (kMax ? a > b : a < b) || a != a ? a : b;
  }
};

template <class T, class F>
void Rows(const void* x, int64_t rows, int64_t stride, int64_t n, void* result) {
  const hn::ScalableTag<T> d;
  constexpr size_t kMostLanes = hn::MaxLanes(hn::ScalableTag<T>());
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto start = hn::Set(d, F::template Start<T>());
  auto a0 = start, a1 = start, a2 = start, a3 = start;
  for (int64_t r = 0; r < rows; ++r) {
    const T* p = static_cast<const T*>(x) + r * stride;
    int64_t i = 0;
    for (; i + 4 * lanes <= n; i += 4 * lanes) {
      a0 = F::Join(a0, F::Map(d, hn::LoadU(d, p + i)));
      a1 = F::Join(a1, F::Map(d, hn::LoadU(d, p + i + lanes)));
      a2 = F::Join(a2, F::Map(d, hn::LoadU(d, p + i + 2 * lanes)));
      a3 = F::Join(a3, F::Map(d, hn::LoadU(d, p + i + 3 * lanes)));
    }
    for (; i + lanes <= n; i += lanes) a0 = F::Join(a0, F::Map(d, hn::LoadU(d, p + i)));
    if (i == n) continue;
    HWY_ALIGN T tail[kMostLanes] = {};
    std::memcpy(tail, p + i, (n - i) * sizeof(T));
    const auto mapped = F::Map(d, hn::Load(d, tail));
    a1 = F::Join(a1, hn::IfThenElse(hn::FirstN(d, n - i), mapped, start));
  }
  HWY_ALIGN T one[kMostLanes];
  hn::Store(F::Join(F::Join(a0, a1), F::Join(a2, a3)), d, one);
  for (int64_t w = lanes / 2; w > 0; w /= 2) {
    for (int64_t i = 0; i < w; ++i) one[i] = F::JoinOne(one[i], one[i + w]);
  }
  *static_cast<T*>(result) = one[0];
}

// Four rows at a time, so that the results are read and written a quarter as often.
template <class T, class F>
void Columns(const void* x, int64_t rows, int64_t stride, int64_t n, void* result) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  T* y = static_cast<T*>(result);
  HWY_ALIGN T tail[4][hn::MaxLanes(hn::ScalableTag<T>())] = {};
  for (int64_t i = 0; i < n; ++i) y[i] = F::template Start<T>();
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    const T* p = static_cast<const T*>(x) + r * stride;
    int64_t i = 0;
    const auto four = [&](const T* p0, const T* p1, const T* p2, const T* p3) HWY_ATTR {
      return F::Join(F::Join(F::Map(d, hn::LoadU(d, p0)), F::Map(d, hn::LoadU(d, p1))),
                     F::Join(F::Map(d, hn::LoadU(d, p2)), F::Map(d, hn::LoadU(d, p3))));
    };
    for (; i + lanes <= n; i += lanes) {
      const auto sum = four(p + i, p + i + stride, p + i + 2 * stride, p + i + 3 * stride);
      hn::StoreU(F::Join(hn::LoadU(d, y + i), sum), d, y + i);
    }
    if (i == n) continue;
    for (int k = 0; k < 4; ++k) std::memcpy(tail[k], p + i + k * stride, (n - i) * sizeof(T));
    const auto sum = four(tail[0], tail[1], tail[2], tail[3]);
    std::memcpy(tail[0], y + i, (n - i) * sizeof(T));
    hn::Store(F::Join(hn::Load(d, tail[0]), sum), d, tail[0]);
    std::memcpy(y + i, tail[0], (n - i) * sizeof(T));
  }
  for (; r < rows; ++r) {
    const T* p = static_cast<const T*>(x) + r * stride;
    int64_t i = 0;
    for (; i + lanes <= n; i += lanes) {
      hn::StoreU(F::Join(hn::LoadU(d, y + i), F::Map(d, hn::LoadU(d, p + i))), d, y + i);
    }
    if (i == n) continue;
    std::memcpy(tail[0], p + i, (n - i) * sizeof(T));
    std::memcpy(tail[1], y + i, (n - i) * sizeof(T));
    hn::Store(F::Join(hn::Load(d, tail[1]), F::Map(d, hn::Load(d, tail[0]))), d, tail[1]);
    std::memcpy(y + i, tail[1], (n - i) * sizeof(T));
  }
}

template <class T, class F>
void Merge(void* a, const void* b, int64_t n) {
  T* y = static_cast<T*>(a);
  const T* x = static_cast<const T*>(b);
  for (int64_t i = 0; i < n; ++i) y[i] = F::JoinOne(y[i], x[i]);
}

template <class T, class F>
ReduceFunctions FunctionsOf() {
  return {Rows<T, F>, Columns<T, F>, Merge<T, F>};
}

template <class T>
ReduceFunctions FoldsOf(Fold fold) {
  switch (fold) {
    case Fold::kSum:
      return FunctionsOf<T, FoldSum>();
    case Fold::kMax:
      return FunctionsOf<T, FoldExtreme<true>>();
    case Fold::kMin:
      return FunctionsOf<T, FoldExtreme<false>>();
    case Fold::kSumAbs:
      if constexpr (hwy::IsFloat<T>()) return FunctionsOf<T, FoldSumAbs>();
      break;
    case Fold::kSumSquare:
      if constexpr (hwy::IsFloat<T>()) return FunctionsOf<T, FoldSumSquare>();
      break;
  }
  return {};
}

ReduceFunctions Reduce(Fold fold, DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return FoldsOf<float>(fold);
    case DataType::kFloat64:
      return FoldsOf<double>(fold);
    case DataType::kInt32:
      return FoldsOf<int32_t>(fold);
    case DataType::kInt64:
      return FoldsOf<int64_t>(fold);
    default:
      return {};
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace onward
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace onward {
HWY_EXPORT(Reduce);

ReduceFunctions FindReduce(Fold fold, DataType type) {
  return HWY_DYNAMIC_DISPATCH(Reduce)(fold, type);
}
}  // namespace onward
#endif
