// The formulas of elementwise operators, each written once: reference loops,
// vectorised loops and CUDA kernels call the same functors. No functor touches
// memory, and each is free of undefined behaviour: integers wrap, division by the
// integer 0 gives 0, conversions of reals saturate, NaN converts to 0.
#ifndef ONWARD_KERNELS_CPU_ELEMENTWISE_FUNCTORS_H_
#define ONWARD_KERNELS_CPU_ELEMENTWISE_FUNCTORS_H_

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#ifdef __CUDACC__
#define ONWARD_BOTH __host__ __device__
#else
#define ONWARD_BOTH
#endif

namespace onward {

// ---- Conversion.

// A real outside of an integer type's range becomes its nearest bound.
template <typename To, typename From>
ONWARD_BOTH To ConvertTo(From x) {
  if constexpr (std::is_same_v<To, bool>) {
    return x != From(0);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    if (x != x) return To(0);
    // Both bounds are powers of two (less one), so the comparisons are exact.
    constexpr From low = static_cast<From>(std::numeric_limits<To>::min());
    constexpr To half = std::numeric_limits<To>::max() / 2 + 1;
    constexpr From high = static_cast<From>(half) * From(2);
    if (x >= high) return std::numeric_limits<To>::max();
    if (x <= low) return std::numeric_limits<To>::min();
    return static_cast<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

// ---- Arithmetic of two. Integers wrap: computed in uint64, they cannot overflow.

struct AddFunctor {
  template <typename T>
  ONWARD_BOTH T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    } else {
      return a + b;
    }
  }
};

struct SubFunctor {
  template <typename T>
  ONWARD_BOTH T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
    } else {
      return a - b;
    }
  }
};

struct MulFunctor {
  template <typename T>
  ONWARD_BOTH T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    } else {
      return a * b;
    }
  }
};

struct DivFunctor {
  template <typename T>
  ONWARD_BOTH T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      if (b == 0) return 0;
      if constexpr (std::is_signed_v<T>) {
        if (b == T(-1)) return static_cast<T>(0 - static_cast<uint64_t>(a));  // min / -1 wraps
      }
      return static_cast<T>(a / b);
    } else {
      return a / b;
    }
  }
};

// Modulo with the sign of the divisor (Python's %).
struct ModFunctor {
  template <typename T>
  ONWARD_BOTH T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      if (b == 0) return 0;
      if constexpr (std::is_signed_v<T>) {
        if (b == T(-1)) return 0;
        const T r = static_cast<T>(a % b);
        return r != 0 && (r < 0) != (b < 0) ? static_cast<T>(r + b) : r;
      } else {
        return static_cast<T>(a % b);
      }
    } else {
      const T r = std::fmod(a, b);
      return r != T(0) && (r < T(0)) != (b < T(0)) ? r + b : r;
    }
  }
};

// Modulo with the sign of the dividend (C's fmod).
struct FmodFunctor {
  template <typename T>
  ONWARD_BOTH T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      if (b == 0) return 0;
      if constexpr (std::is_signed_v<T>) {
        if (b == T(-1)) return 0;
      }
      return static_cast<T>(a % b);
    } else {
      return std::fmod(a, b);
    }
  }
};

// NaN where either is NaN, as in ONNX's reference.
struct MaxFunctor {
  template <typename T>
  ONWARD_BOTH T operator()(T a, T b) const {
    return a != a ? a : (b != b || b > a) ? b : a;
  }
};

struct MinFunctor {
  template <typename T>
  ONWARD_BOTH T operator()(T a, T b) const {
    return a != a ? a : (b != b || b < a) ? b : a;
  }
};

// x to the power of e, in x's type. Integers to a power that is an integer are
// multiplied out and wrap; a negative power of an integer is truncated.
struct PowFunctor {
  template <typename T, typename E>
  ONWARD_BOTH T operator()(T x, E e) const {
    if constexpr (std::is_integral_v<T> && std::is_integral_v<E>) {
      bool negative = false;
      if constexpr (std::is_signed_v<E>) negative = e < 0;
      if (negative) {
        if (x == T(1)) return 1;
        if constexpr (std::is_signed_v<T>) {
          if (x == T(-1)) return e % 2 == 0 ? T(1) : T(-1);
        }
        return 0;
      }
      uint64_t result = 1, base = static_cast<uint64_t>(x);
      for (uint64_t n = static_cast<uint64_t>(e); n != 0; n >>= 1) {
        if (n & 1) result *= base;
        base *= base;
      }
      return static_cast<T>(result);
    } else if constexpr (std::is_same_v<T, float> && std::is_same_v<E, float>) {
      return std::pow(x, e);
    } else {
      return ConvertTo<T>(std::pow(static_cast<double>(x), static_cast<double>(e)));
    }
  }
};

// x where it is positive, slope * x elsewhere.
struct PReluFunctor {
  template <typename T>
  ONWARD_BOTH T operator()(T x, T slope) const {
    return x < T(0) ? MulFunctor()(x, slope) : x;
  }
};

// ---- Comparison and logic.

struct EqualFunctor {
  template <typename T>
  ONWARD_BOTH bool operator()(T a, T b) const {
    return a == b;
  }
};
struct GreaterFunctor {
  template <typename T>
  ONWARD_BOTH bool operator()(T a, T b) const {
    return a > b;
  }
};
struct GreaterOrEqualFunctor {
  template <typename T>
  ONWARD_BOTH bool operator()(T a, T b) const {
    return a >= b;
  }
};
struct LessFunctor {
  template <typename T>
  ONWARD_BOTH bool operator()(T a, T b) const {
    return a < b;
  }
};
struct LessOrEqualFunctor {
  template <typename T>
  ONWARD_BOTH bool operator()(T a, T b) const {
    return a <= b;
  }
};
struct AndFunctor {
  ONWARD_BOTH bool operator()(bool a, bool b) const { return a && b; }
};
struct OrFunctor {
  ONWARD_BOTH bool operator()(bool a, bool b) const { return a || b; }
};
struct XorFunctor {
  ONWARD_BOTH bool operator()(bool a, bool b) const { return a != b; }
};
struct NotFunctor {
  ONWARD_BOTH bool operator()(bool a) const { return !a; }
};
struct BitwiseAndFunctor {
  template <typename T>
  ONWARD_BOTH T operator()(T a, T b) const {
    return static_cast<T>(a & b);
  }
};
struct BitwiseOrFunctor {
  template <typename T>
  ONWARD_BOTH T operator()(T a, T b) const {
    return static_cast<T>(a | b);
  }
};
struct BitwiseXorFunctor {
  template <typename T>
  ONWARD_BOTH T operator()(T a, T b) const {
    return static_cast<T>(a ^ b);
  }
};
struct BitwiseNotFunctor {
  template <typename T>
  ONWARD_BOTH T operator()(T a) const {
    return static_cast<T>(~a);
  }
};
// A shift by less than 0 or by the width of the type and more leaves what the sign fills in.
struct ShiftLeftFunctor {
  template <typename T>
  ONWARD_BOTH T operator()(T a, T n) const {
    if (n < 0 || n >= static_cast<T>(8 * sizeof(T))) return T(0);
    return static_cast<T>(static_cast<uint64_t>(a) << n);
  }
};
struct ShiftRightFunctor {
  template <typename T>
  ONWARD_BOTH T operator()(T a, T n) const {
    if (n < 0 || n >= static_cast<T>(8 * sizeof(T))) return a < 0 ? static_cast<T>(-1) : T(0);
    return static_cast<T>(a >> n);
  }
};
struct IsNaNFunctor {
  template <typename T>
  ONWARD_BOTH bool operator()(T x) const {
    return x != x;
  }
};
struct IsInfFunctor {
  bool negative = true;
  bool positive = true;
  template <typename T>
  ONWARD_BOTH bool operator()(T x) const {
    constexpr T infinity = std::numeric_limits<T>::infinity();
    return (positive && x == infinity) || (negative && x == -infinity);
  }
};

// ---- Numbers of any type.

struct IdentityFunctor {
  template <typename T>
  ONWARD_BOTH T operator()(T x) const {
    return x;
  }
};
struct NegFunctor {
  template <typename T>
  ONWARD_BOTH T operator()(T x) const {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(0 - static_cast<uint64_t>(x));
    } else {
      return -x;
    }
  }
};
struct AbsFunctor {
  template <typename T>
  ONWARD_BOTH T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>) {
      return std::fabs(x);
    } else if constexpr (std::is_signed_v<T>) {
      return x < 0 ? NegFunctor()(x) : x;
    } else {
      return x;
    }
  }
};
// -1, 0 or 1; NaN stays.
struct SignFunctor {
  template <typename T>
  ONWARD_BOTH T operator()(T x) const {
    if (x > T(0)) return T(1);
    if constexpr (std::is_signed_v<T>) {
      if (x < T(0)) return T(-1);
    }
    return x;  // 0 or NaN
  }
};
struct ReluFunctor {
  template <typename T>
  ONWARD_BOTH T operator()(T x) const {
    return x < T(0) ? T(0) : x;  // NaN stays
  }
};
struct ShrinkFunctor {
  double bias = 0;
  double lambd = 0.5;
  template <typename T>
  ONWARD_BOTH T operator()(T x) const {
    const double v = static_cast<double>(x);
    if (v < -lambd) return ConvertTo<T>(v + bias);
    if (v > lambd) return ConvertTo<T>(v - bias);
    return x != x ? x : T(0);
  }
};

// ---- Reals.

struct CeilFunctor {
  template <typename T>
  ONWARD_BOTH T operator()(T x) const {
    return std::ceil(x);
  }
};
struct FloorFunctor {
  template <typename T>
  ONWARD_BOTH T operator()(T x) const {
    return std::floor(x);
  }
};
// Halves go to the even neighbour (the rounding mode that every thread starts in).
struct RoundFunctor {
  template <typename T>
  ONWARD_BOTH T operator()(T x) const {
    return std::nearbyint(x);
  }
};
struct SqrtFunctor {
  template <typename T>
  ONWARD_BOTH T operator()(T x) const {
    return std::sqrt(x);
  }
};
struct ReciprocalFunctor {
  template <typename T>
  ONWARD_BOTH T operator()(T x) const {
    return T(1) / x;
  }
};
struct ExpFunctor {
  template <typename T>
  ONWARD_BOTH T operator()(T x) const {
    return std::exp(x);
  }
};
struct LogFunctor {
  template <typename T>
  ONWARD_BOTH T operator()(T x) const {
    return std::log(x);
  }
};
struct ErfFunctor {
  template <typename T>
  ONWARD_BOTH T operator()(T x) const {
    return std::erf(x);
  }
};
struct SinFunctor {
  template <typename T>
  ONWARD_BOTH T operator()(T x) const {
    return std::sin(x);
  }
};
struct CosFunctor {
  template <typename T>
  ONWARD_BOTH T operator()(T x) const {
    return std::cos(x);
  }
};
struct TanFunctor {
  template <typename T>
  ONWARD_BOTH T operator()(T x) const {
    return std::tan(x);
  }
};
struct AsinFunctor {
  template <typename T>
  ONWARD_BOTH T operator()(T x) const {
    return std::asin(x);
  }
};
struct AcosFunctor {
  template <typename T>
  ONWARD_BOTH T operator()(T x) const {
    return std::acos(x);
  }
};
struct AtanFunctor {
  template <typename T>
  ONWARD_BOTH T operator()(T x) const {
    return std::atan(x);
  }
};
struct SinhFunctor {
  template <typename T>
  ONWARD_BOTH T operator()(T x) const {
    return std::sinh(x);
  }
};
struct CoshFunctor {
  template <typename T>
  ONWARD_BOTH T operator()(T x) const {
    return std::cosh(x);
  }
};
struct TanhFunctor {
  template <typename T>
  ONWARD_BOTH T operator()(T x) const {
    return std::tanh(x);
  }
};
struct AsinhFunctor {
  template <typename T>
  ONWARD_BOTH T operator()(T x) const {
    return std::asinh(x);
  }
};
struct AcoshFunctor {
  template <typename T>
  ONWARD_BOTH T operator()(T x) const {
    return std::acosh(x);
  }
};
struct AtanhFunctor {
  template <typename T>
  ONWARD_BOTH T operator()(T x) const {
    return std::atanh(x);
  }
};

// 1 / (1 + exp(-x)), with no exp of a large positive number.
struct SigmoidFunctor {
  template <typename T>
  ONWARD_BOTH T operator()(T x) const {
    if (x >= T(0)) return T(1) / (T(1) + std::exp(-x));
    const T e = std::exp(x);
    return e / (T(1) + e);
  }
};
// log(1 + exp(x)) = max(x, 0) + log1p(exp(-|x|)).
struct SoftplusFunctor {
  template <typename T>
  ONWARD_BOTH T operator()(T x) const {
    return (x > T(0) ? x : T(0)) + std::log1p(std::exp(-std::fabs(x)));
  }
};
struct SoftsignFunctor {
  template <typename T>
  ONWARD_BOTH T operator()(T x) const {
    return x / (T(1) + std::fabs(x));
  }
};
// x * sigmoid(alpha * x).
struct SwishFunctor {
  double alpha = 1;
  template <typename T>
  ONWARD_BOTH T operator()(T x) const {
    return x * SigmoidFunctor()(static_cast<T>(alpha) * x);
  }
};
struct MishFunctor {
  template <typename T>
  ONWARD_BOTH T operator()(T x) const {
    return x * std::tanh(SoftplusFunctor()(x));
  }
};
// x * Phi(x); erfc keeps the digits of large negative x.
struct GeluFunctor {
  bool approximate = false;  // by tanh
  template <typename T>
  ONWARD_BOTH T operator()(T x) const {
    if (approximate) {
      constexpr T k = static_cast<T>(0.79788456080286535588);  // sqrt(2 / pi)
      return T(0.5) * x * (T(1) + std::tanh(k * (x + T(0.044715) * x * x * x)));
    }
    constexpr T root_half = static_cast<T>(0.70710678118654752440);
    return T(0.5) * x * std::erfc(-x * root_half);
  }
};
struct EluFunctor {
  double alpha = 1;
  template <typename T>
  ONWARD_BOTH T operator()(T x) const {
    return x < T(0) ? static_cast<T>(alpha) * std::expm1(x) : x;
  }
};
struct SeluFunctor {
  double alpha = 1.67326319217681884765625;
  double gamma = 1.05070102214813232421875;
  template <typename T>
  ONWARD_BOTH T operator()(T x) const {
    return static_cast<T>(gamma) * (x > T(0) ? x : static_cast<T>(alpha) * std::expm1(x));
  }
};
// max(0, x) + min(0, alpha * (exp(x / alpha) - 1)).
struct CeluFunctor {
  double alpha = 1;
  template <typename T>
  ONWARD_BOTH T operator()(T x) const {
    const T a = static_cast<T>(alpha);
    const T bent = a * std::expm1(x / a);
    return (x > T(0) ? x : x != x ? x : T(0)) + (bent < T(0) ? bent : T(0));
  }
};
struct LeakyReluFunctor {
  double alpha = 0.01f;  // as files hold it
  template <typename T>
  ONWARD_BOTH T operator()(T x) const {
    return x < T(0) ? static_cast<T>(alpha) * x : x;
  }
};
struct ThresholdedReluFunctor {
  double alpha = 1;
  template <typename T>
  ONWARD_BOTH T operator()(T x) const {
    return x > static_cast<T>(alpha) || x != x ? x : T(0);
  }
};
// max(0, min(1, alpha * x + beta)).
struct HardSigmoidFunctor {
  double alpha = 0.2f;
  double beta = 0.5;
  template <typename T>
  ONWARD_BOTH T operator()(T x) const {
    const T line = static_cast<T>(alpha) * x + static_cast<T>(beta);
    return line < T(0) ? T(0) : line > T(1) ? T(1) : line;
  }
};
// x * max(0, min(1, x / 6 + 1 / 2)).
struct HardSwishFunctor {
  template <typename T>
  ONWARD_BOTH T operator()(T x) const {
    const T line = x / T(6) + T(0.5);
    return x * (line < T(0) ? T(0) : line > T(1) ? T(1) : line);
  }
};

}  // namespace onward

#endif  // ONWARD_KERNELS_CPU_ELEMENTWISE_FUNCTORS_H_
