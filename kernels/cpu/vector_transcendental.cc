// Exponentials, logarithms and their relatives in float32 and float64.
#include <cmath>

#include "kernels/cpu/vector_function.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/vector_transcendental.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"
#include "kernels/cpu/vector_loop-inl.h"
#include "kernels/cpu/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace onward {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#define ONWARD_UNARY(NAME, EXPRESSION)                    \
  struct NAME {                                           \
    template <class D, class V>                           \
    static HWY_INLINE V Do(D d, V x, const double* imm) { \
      (void)imm;                                          \
      return EXPRESSION;                                  \
    }                                                     \
  };

struct FastSin {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return hn::Sin(d, x);
  }
};
struct FastCos {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return hn::Cos(d, x);
  }
};
struct SlowSin {
  template <class T>
  T operator()(T x) const {
    return std::sin(x);
  }
};
struct SlowCos {
  template <class T>
  T operator()(T x) const {
    return std::cos(x);
  }
};

template <class D, class V>
HWY_INLINE V GeluTanh(D d, V x) {
  const V cube = hn::Mul(hn::Mul(x, x), x);
  const V inner =
      hn::Mul(Number(d, 0.79788456080286535588), hn::MulAdd(Number(d, 0.044715), cube, x));
  return hn::Mul(hn::Mul(Number(d, 0.5), x), hn::Add(Number(d, 1), TanhOf(d, inner)));
}

template <class D, class V>
HWY_INLINE V Elu(D d, V x, double alpha) {
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Mul(Number(d, alpha), Expm1Of(d, x)), x);
}

// max(0, x) + min(0, alpha (e^(x / alpha) - 1))
template <class D, class V>
HWY_INLINE V Celu(D d, V x, double alpha) {
  const V a = Number(d, alpha);
  const V lower = hn::Min(hn::Mul(a, Expm1Of(d, hn::Div(x, a))), hn::Zero(d));
  return KeepNaN(d, x, hn::Add(hn::Max(x, hn::Zero(d)), lower));
}

ONWARD_UNARY(ExpF, ExpOf(d, x))
ONWARD_UNARY(LogF, LogOf(d, x))
ONWARD_UNARY(TanhF, TanhOf(d, x))
ONWARD_UNARY(SigmoidF, Sigmoid(d, x))
ONWARD_UNARY(SoftplusF, Softplus(d, x))
ONWARD_UNARY(MishF, Mish(d, x))
ONWARD_UNARY(SwishF, hn::Mul(x, Sigmoid(d, hn::Mul(x, Number(d, imm[0])))))
ONWARD_UNARY(GeluTanhF, GeluTanh(d, x))
ONWARD_UNARY(EluF, Elu(d, x, imm[0]))
ONWARD_UNARY(SeluF, hn::Mul(Number(d, imm[1]), Elu(d, x, imm[0])))
ONWARD_UNARY(CeluF, Celu(d, x, imm[0]))
ONWARD_UNARY(SinF, Periodic(d, x, FastSin(), SlowSin()))
ONWARD_UNARY(CosF, Periodic(d, x, FastCos(), SlowCos()))
ONWARD_UNARY(ErfF, Erf(d, x))
ONWARD_UNARY(GeluF,
             hn::Mul(hn::Mul(Number(d, 0.5), x),
                     hn::Add(Number(d, 1), Erf(d, hn::Mul(x, Number(d, 0.70710678118654752440))))))

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
// Without vectors the C library is as fast.
void PowFloat(const void* const* operands, void* result, size_t n, const double*) {
  const float* a = static_cast<const float*>(operands[0]);
  const float* b = static_cast<const float*>(operands[1]);
  float* y = static_cast<float*>(result);
  for (size_t i = 0; i < n; ++i) y[i] = std::pow(a[i], b[i]);
}
#else
// a^b = e^(b ln a) in float64 where a is positive and both are finite; else the C library.
void PowFloat(const void* const* operands, void* result, size_t n, const double*) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> df;
  const size_t lanes = hn::Lanes(d);
  const float* a = static_cast<const float*>(operands[0]);
  const float* b = static_cast<const float*>(operands[1]);
  float* y = static_cast<float*>(result);
  size_t i = 0;
  const auto infinity = Number(d, std::numeric_limits<double>::infinity());
  for (; i + lanes <= n; i += lanes) {
    const auto base = hn::PromoteTo(d, hn::LoadU(df, a + i));
    const auto exponent = hn::PromoteTo(d, hn::LoadU(df, b + i));
    const auto good = hn::And(hn::And(hn::Gt(base, hn::Zero(d)), hn::Lt(base, infinity)),
                              hn::Lt(hn::Abs(exponent), infinity));
    if (HWY_LIKELY(hn::AllTrue(d, good))) {
      const auto power = ExpOf(d, hn::Mul(exponent, LogOfPositive(d, base)));
      hn::StoreU(hn::DemoteTo(df, power), df, y + i);
    } else {
      for (size_t k = i; k < i + lanes; ++k) y[k] = std::pow(a[k], b[k]);
    }
  }
  for (; i < n; ++i) {
    // The same numbers as in a whole vector.
    const bool good = a[i] > 0 && std::isfinite(a[i]) && std::isfinite(b[i]);
    const hn::CappedTag<double, 1> d1;
    y[i] = !good ? std::pow(a[i], b[i])
                 : static_cast<float>(hn::GetLane(ExpOf(
                       d1, hn::Mul(hn::Set(d1, b[i]), LogOfPositive(d1, hn::Set(d1, a[i]))))));
  }
}

#endif

template <class T>
VectorFunction FindIn(Opcode opcode) {
  switch (opcode) {
    case Opcode::kExp:
      return Unary<T, ExpF>;
    case Opcode::kLog:
      return Unary<T, LogF>;
    case Opcode::kTanh:
      return Unary<T, TanhF>;
    case Opcode::kSigmoid:
      return Unary<T, SigmoidF>;
    case Opcode::kSoftplus:
      return Unary<T, SoftplusF>;
    case Opcode::kMish:
      return Unary<T, MishF>;
    case Opcode::kSwish:
      return Unary<T, SwishF>;
    case Opcode::kGeluTanh:
      return Unary<T, GeluTanhF>;
    case Opcode::kElu:
      return Unary<T, EluF>;
    case Opcode::kSelu:
      return Unary<T, SeluF>;
    case Opcode::kCelu:
      return Unary<T, CeluF>;
    case Opcode::kSin:
      return Unary<T, SinF>;
    case Opcode::kCos:
      return Unary<T, CosF>;
    default:
      return nullptr;
  }
}

VectorFunction Transcendental(Opcode opcode, DataType type) {
  if (type == DataType::kFloat64) return FindIn<double>(opcode);
  if (type != DataType::kFloat32) return nullptr;
  if (opcode == Opcode::kErf) return Unary<float, ErfF>;
  if (opcode == Opcode::kGelu) return Unary<float, GeluF>;
  if (opcode == Opcode::kPow) return PowFloat;
  return FindIn<float>(opcode);
}

}  // namespace HWY_NAMESPACE
}  // namespace onward
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace onward {
HWY_EXPORT(Transcendental);

VectorFunction FindTranscendental(const Instruction& instruction, DataType type) {
  return HWY_DYNAMIC_DISPATCH(Transcendental)(instruction.opcode, type);
}
}  // namespace onward
#endif
