// Elementary functions on vectors, for one instruction set at a time: included by
// files that foreach_target.h compiles several times.
//
// Highway's contrib/math gives the kernels of the range reductions; what it leaves
// undefined (NaN, infinities) is defined here, and the last bits are made right.
#if defined(ONWARD_KERNELS_CPU_VECTOR_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ONWARD_KERNELS_CPU_VECTOR_MATH_INL_H_
#undef ONWARD_KERNELS_CPU_VECTOR_MATH_INL_H_
#else
#define ONWARD_KERNELS_CPU_VECTOR_MATH_INL_H_
#endif

#include <cmath>
#include <limits>

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "kernels/cpu/vector_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace onward {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
constexpr bool IsFloat32(D) {
  return sizeof(hn::TFromD<D>) == 4;
}

// NaN where x is, else y.
template <class D, class V>
HWY_INLINE V KeepNaN(D d, V x, V y) {
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

// e^x. Beyond the clamp the result is 0 or infinity all the same.
template <class D, class V>
HWY_INLINE V ExpOf(D d, V x) {
  const V low = Number(d, IsFloat32(d) ? -104.0 : -746.0);
  const V high = Number(d, IsFloat32(d) ? 89.0 : 710.0);
  return KeepNaN(d, x, hn::Exp(d, hn::Min(hn::Max(x, low), high)));
}

// e^x - 1.
template <class D, class V>
HWY_INLINE V Expm1Of(D d, V x) {
  const V low = Number(d, IsFloat32(d) ? -104.0 : -746.0);
  const V high = Number(d, IsFloat32(d) ? 89.0 : 710.0);
  return KeepNaN(d, x, hn::Expm1(d, hn::Min(hn::Max(x, low), high)));
}

// ln x for finite x > 0, normal or subnormal. The form of FreeBSD's e_log.c: with
// f = m - 1, s = f / (2 + f): ln(1 + f) = f - (f^2 / 2 - s * (f^2 / 2 + R(s))).
template <class D, class V>
HWY_INLINE V LogOfPositive(D d, V x) {
  using T = hn::TFromD<D>;
  using TI = hwy::MakeSigned<T>;
  const hn::Rebind<TI, D> di;
  constexpr bool kIsF32 = sizeof(T) == 4;
  const auto subnormal =
      hn::Lt(x, Number(d, kIsF32 ? 1.17549435082228750797e-38 : 2.2250738585072014e-308));
  x = hn::IfThenElse(subnormal, hn::Mul(x, Number(d, kIsF32 ? 33554432.0 : 18014398509481984.0)),
                     x);
  // Bring the mantissa to [sqrt(1/2), sqrt(2)).
  constexpr int kShift = kIsF32 ? 23 : 52;
  const auto sqrt_half = hn::Set(di, static_cast<TI>(kIsF32 ? 0x3F3504F3LL : 0x3FE6A09E667F3BCDLL));
  const auto bits = hn::Sub(hn::BitCast(di, x), sqrt_half);
  const auto exponent = hn::ShiftRight<kShift>(bits);
  const auto mantissa =
      hn::And(bits, hn::Set(di, static_cast<TI>(kIsF32 ? 0x7FFFFFLL : 0xFFFFFFFFFFFFFLL)));
  V k = hn::ConvertTo(d, exponent);
  k = hn::Sub(k, hn::IfThenElseZero(subnormal, Number(d, kIsF32 ? 25 : 54)));
  const V f = hn::Sub(hn::BitCast(d, hn::Add(mantissa, sqrt_half)), Number(d, 1));
  const V s = hn::Div(f, hn::Add(f, Number(d, 2)));
  const V r = hn::impl::LogImpl<T>().LogPoly(d, s);
  const V half = hn::Mul(Number(d, 0.5), hn::Mul(f, f));
  const V ln2_high = Number(d, kIsF32 ? 6.9313812256e-01f : 6.93147180369123816490e-01);
  const V ln2_low = Number(d, kIsF32 ? 9.0580006145e-06f : 1.90821492927058770002e-10);
  const V low = hn::MulAdd(s, hn::Add(half, r), hn::Mul(k, ln2_low));
  return hn::MulAdd(k, ln2_high, hn::Sub(f, hn::Sub(half, low)));
}

template <class D, class V>
HWY_INLINE V LogOf(D d, V x) {
  const V infinity = Number(d, std::numeric_limits<double>::infinity());
  const V y = LogOfPositive(d, x);
  const V at_most_zero = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Neg(infinity),
                                        Number(d, std::numeric_limits<double>::quiet_NaN()));
  // Infinity and NaN are their own logarithm.
  const V beyond = hn::IfThenElse(hn::Lt(x, infinity), y, x);
  return hn::IfThenElse(hn::Le(x, hn::Zero(d)), at_most_zero, beyond);
}

// ln(1 + x) for x in [0, 1].
template <class D, class V>
HWY_INLINE V Log1pOfUnit(D d, V x) {
  const V one = Number(d, 1);
  const V y = hn::Add(x, one);
  const auto tiny = hn::Eq(y, one);
  const V rounded = hn::Sub(hn::IfThenZeroElse(tiny, y), one);  // what of x got into y
  return hn::IfThenElse(tiny, x, hn::Mul(LogOfPositive(d, y), hn::Div(x, rounded)));
}

// Of |x| < 0.625 a polynomial (Cephes' tanhf), of others 1 - 2 / (e^2x + 1).
template <class D, class V, HWY_IF_LANE_SIZE(hn::TFromD<D>, 4)>
HWY_INLINE V TanhOf(D d, V x) {
  const V a = hn::Abs(x);
  const V z = hn::Mul(x, x);
  V p = Number(d, -5.70498872745e-3);
  p = hn::MulAdd(p, z, Number(d, 2.06390887954e-2));
  p = hn::MulAdd(p, z, Number(d, -5.37397155531e-2));
  p = hn::MulAdd(p, z, Number(d, 1.33314422036e-1));
  p = hn::MulAdd(p, z, Number(d, -3.33332819422e-1));
  const V small = hn::MulAdd(hn::Mul(p, z), x, x);
  const V one = Number(d, 1);
  const V e = ExpOf(d, hn::Add(a, a));
  const V large = hn::Sub(one, hn::Div(Number(d, 2), hn::Add(e, one)));
  return hn::IfThenElse(hn::Lt(a, Number(d, 0.625)), small, hn::CopySign(large, x));
}
template <class D, class V, HWY_IF_LANE_SIZE(hn::TFromD<D>, 8)>
HWY_INLINE V TanhOf(D d, V x) {
  const V a = hn::Min(hn::Abs(x), Number(d, 20));
  return KeepNaN(d, x, hn::CopySign(hn::Tanh(d, a), x));
}

// By e^-|x|, which never overflows.
template <class D, class V>
HWY_INLINE V Sigmoid(D d, V x) {
  const V one = Number(d, 1);
  const V e = ExpOf(d, hn::Neg(hn::Abs(x)));
  return hn::Div(hn::IfThenElse(hn::Lt(x, hn::Zero(d)), e, one), hn::Add(one, e));
}

// ln(1 + e^x) = max(x, 0) + ln(1 + e^-|x|).
template <class D, class V>
HWY_INLINE V Softplus(D d, V x) {
  const V e = ExpOf(d, hn::Neg(hn::Abs(x)));
  const V y = hn::Add(hn::Max(x, hn::Zero(d)), Log1pOfUnit(d, e));
  return KeepNaN(d, x, y);
}

// x tanh(ln(1 + e^x)) = x n / (n + 2) with n = e^x (e^x + 2).
template <class D, class V>
HWY_INLINE V Mish(D d, V x) {
  const V e = ExpOf(d, hn::Min(x, Number(d, 20)));
  const V n = hn::Mul(e, hn::Add(e, Number(d, 2)));
  const V y = hn::Mul(x, hn::Div(n, hn::Add(n, Number(d, 2))));
  return KeepNaN(d, x, hn::IfThenElse(hn::Gt(x, Number(d, 20)), x, y));
}

// Minimax polynomials by N. Juffa (published as my_erff), below 1 unit in the last place.
template <class D, class V>
HWY_INLINE V Erf(D d, V x) {
  const V t = hn::Abs(x);
  const V s = hn::Mul(x, x);
  V large = hn::MulAdd(Number(d, -1.72853470e-5f), t, Number(d, 3.83197126e-4f));
  large =
      hn::MulAdd(large, s, hn::MulAdd(Number(d, -3.88396438e-3f), t, Number(d, 2.42546219e-2f)));
  large = hn::MulAdd(large, t, Number(d, -1.06777877e-1f));
  large = hn::MulAdd(large, t, Number(d, -6.34846687e-1f));
  large = hn::MulAdd(large, t, Number(d, -1.28717512e-1f));
  large = hn::Sub(Number(d, 1), ExpOf(d, hn::MulAdd(large, t, hn::Neg(t))));
  // From 4 on the result rounds to 1, and the polynomial is no longer valid.
  large = hn::IfThenElse(hn::Gt(t, Number(d, 4)), Number(d, 1), large);
  V small = Number(d, -5.96761703e-4f);
  small = hn::MulAdd(small, s, Number(d, 4.99119423e-3f));
  small = hn::MulAdd(small, s, Number(d, -2.67681349e-2f));
  small = hn::MulAdd(small, s, Number(d, 1.12819925e-1f));
  small = hn::MulAdd(small, s, Number(d, -3.76125336e-1f));
  small = hn::MulAdd(small, s, Number(d, 1.28379166e-1f));
  small = hn::MulAdd(small, x, x);
  return hn::IfThenElse(hn::Gt(t, Number(d, 0.927734375f)), hn::CopySign(large, x), small);
}

// Up to 10^4 in magnitude the reduction by pi of contrib/math keeps its bits; larger
// arguments, infinities and NaN go through the C library.
template <class D, class V, class Fast, class Slow>
HWY_INLINE V Periodic(D d, V x, Fast fast, Slow slow) {
  using T = hn::TFromD<D>;
  if (HWY_LIKELY(hn::AllTrue(d, hn::Le(hn::Abs(x), Number(d, 1e4)))))
    return fast.template operator()<D, V>(d, x);
  HWY_ALIGN T lanes[hn::MaxLanes(D())];
  const V good = hn::IfThenElseZero(hn::Le(hn::Abs(x), Number(d, 1e4)), x);
  HWY_ALIGN T results[hn::MaxLanes(D())];
  hn::Store(x, d, lanes);
  hn::Store(fast.template operator()<D, V>(d, good), d, results);
  for (size_t i = 0; i < hn::Lanes(d); ++i) {
    if (!(std::abs(lanes[i]) <= T(1e4))) results[i] = slow(lanes[i]);
  }
  return hn::Load(d, results);
}

}  // namespace HWY_NAMESPACE
}  // namespace onward
HWY_AFTER_NAMESPACE();

#endif  // ONWARD_KERNELS_CPU_VECTOR_MATH_INL_H_
