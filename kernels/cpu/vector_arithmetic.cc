// What is exact: arithmetic, comparisons, selection, rounding, casts.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/cpu/elementwise_functors.h"
#include "kernels/cpu/vector_function.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/vector_arithmetic.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"
#include "kernels/cpu/vector_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace onward {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#define ONWARD_UNARY(NAME, EXPRESSION)                    \
  struct NAME {                                           \
    template <class D, class V>                           \
    static HWY_INLINE V Do(D d, V x, const double* imm) { \
      (void)d;                                            \
      (void)imm;                                          \
      return EXPRESSION;                                  \
    }                                                     \
  };
#define ONWARD_BINARY(NAME, EXPRESSION)     \
  struct NAME {                             \
    template <class D, class V>             \
    static HWY_INLINE V Do(D d, V a, V b) { \
      (void)d;                              \
      return EXPRESSION;                    \
    }                                       \
  };
#define ONWARD_COMPARE(NAME, EXPRESSION)              \
  struct NAME {                                       \
    template <class D, class V>                       \
    static HWY_INLINE hn::Mask<D> Do(D d, V a, V b) { \
      (void)d;                                        \
      return EXPRESSION;                              \
    }                                                 \
  };

// The first operand where it is NaN, so that NaN comes through in either place.
template <class D, class V>
HWY_INLINE V MaxKeepingNaN(D d, V a, V b) {
  (void)d;
  if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
    return hn::IfThenElse(hn::Or(hn::Gt(a, b), hn::IsNaN(a)), a, b);
  } else {
    return hn::Max(a, b);
  }
}
template <class D, class V>
HWY_INLINE V MinKeepingNaN(D d, V a, V b) {
  (void)d;
  if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
    return hn::IfThenElse(hn::Or(hn::Lt(a, b), hn::IsNaN(a)), a, b);
  } else {
    return hn::Min(a, b);
  }
}
template <class D, class V>
HWY_INLINE hn::Mask<D> AtMost(D d, V a, V b) {
  (void)d;
  if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
    return hn::Le(a, b);
  } else {
    return hn::Not(hn::Gt(a, b));
  }
}
template <class D, class V>
HWY_INLINE V Sign(D d, V x) {
  using T = hn::TFromD<D>;
  const V negative = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Set(d, T(-1)), x);
  return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), hn::Set(d, T(1)), negative);
}
// max(0, min(1, alpha x + beta)), NaN kept.
template <class D, class V>
HWY_INLINE V HardSigmoid(D d, V x, double alpha, double beta) {
  const V y = hn::MulAdd(x, Number(d, alpha), Number(d, beta));
  return MaxKeepingNaN(d, MinKeepingNaN(d, y, Number(d, 1)), hn::Zero(d));
}

ONWARD_BINARY(AddF, hn::Add(a, b))
ONWARD_BINARY(SubF, hn::Sub(a, b))
ONWARD_BINARY(MulF, hn::Mul(a, b))
ONWARD_BINARY(DivF, hn::Div(a, b))
ONWARD_BINARY(MinF, MinKeepingNaN(d, a, b))
ONWARD_BINARY(MaxF, MaxKeepingNaN(d, a, b))
ONWARD_BINARY(PReluF, hn::IfThenElse(hn::Lt(a, hn::Zero(d)), hn::Mul(a, b), a))

ONWARD_UNARY(AbsF, hn::Abs(x))
ONWARD_UNARY(NegF, hn::Neg(x))
ONWARD_UNARY(SignF, Sign(d, x))
ONWARD_UNARY(ReciprocalF, hn::Div(Number(d, 1), x))
ONWARD_UNARY(SqrtF, hn::Sqrt(x))
ONWARD_UNARY(FloorF, hn::Floor(x))
ONWARD_UNARY(CeilF, hn::Ceil(x))
ONWARD_UNARY(RoundF, hn::Round(x))
ONWARD_UNARY(ReluF, hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Zero(d), x))
ONWARD_UNARY(SoftsignF, hn::Div(x, hn::Add(Number(d, 1), hn::Abs(x))))
ONWARD_UNARY(HardSigmoidF, HardSigmoid(d, x, imm[0], imm[1]))
ONWARD_UNARY(HardSwishF, hn::Mul(x, HardSigmoid(d, x, 1.0 / 6, 0.5)))
ONWARD_UNARY(LeakyReluF, hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Mul(x, Number(d, imm[0])), x))
ONWARD_UNARY(ThresholdedReluF, hn::IfThenElse(hn::Le(x, Number(d, imm[0])), hn::Zero(d), x))
ONWARD_UNARY(ShrinkF, hn::IfThenElse(hn::Lt(x, Number(d, -imm[1])), hn::Add(x, Number(d, imm[0])),
                                     hn::IfThenElseZero(hn::Gt(x, Number(d, imm[1])),
                                                        hn::Sub(x, Number(d, imm[0])))))

ONWARD_COMPARE(EqualF, hn::Eq(a, b))
ONWARD_COMPARE(LessF, hn::Lt(a, b))
ONWARD_COMPARE(LessOrEqualF, AtMost(d, a, b))
ONWARD_COMPARE(GreaterF, hn::Gt(a, b))
ONWARD_COMPARE(GreaterOrEqualF, AtMost(d, b, a))

// Comparisons to bytes of 0 and 1. 32-bit lanes are narrowed as vectors.
template <class T, class F>
void Compare(const void* const* operands, void* result, size_t n, const double*) {
  const hn::ScalableTag<T> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<uint8_t, decltype(d)> d8;
  const size_t lanes = hn::Lanes(d);
  const T* a = static_cast<const T*>(operands[0]);
  const T* b = static_cast<const T*>(operands[1]);
  uint8_t* y = static_cast<uint8_t*>(result);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto mask = F::Do(d, hn::LoadU(d, a + i), hn::LoadU(d, b + i));
    const auto ones = hn::IfThenElseZero(hn::RebindMask(di, mask), hn::Set(di, 1));
    if constexpr (sizeof(T) == 4) {
      hn::StoreU(hn::DemoteTo(d8, ones), d8, y + i);
    } else {
      HWY_ALIGN int64_t wide[hn::MaxLanes(decltype(di)())];
      hn::Store(ones, di, wide);
      for (size_t k = 0; k < lanes; ++k) y[i + k] = static_cast<uint8_t>(wide[k]);
    }
  }
  if (i == n) return;
  HWY_ALIGN T ta[hn::MaxLanes(decltype(d)())] = {};
  HWY_ALIGN T tb[hn::MaxLanes(decltype(d)())] = {};
  std::memcpy(ta, a + i, (n - i) * sizeof(T));
  std::memcpy(tb, b + i, (n - i) * sizeof(T));
  const auto mask = F::Do(d, hn::Load(d, ta), hn::Load(d, tb));
  HWY_ALIGN hwy::MakeSigned<T> wide[hn::MaxLanes(decltype(di)())];
  hn::Store(hn::IfThenElseZero(hn::RebindMask(di, mask), hn::Set(di, 1)), di, wide);
  for (size_t k = 0; i + k < n; ++k) y[i + k] = static_cast<uint8_t>(wide[k]);
}

// c ? a : b on lanes of 4 bytes, whatever they mean.
void Where4(const void* const* operands, void* result, size_t n, const double*) {
  const hn::ScalableTag<int32_t> d;
  const hn::Rebind<uint8_t, decltype(d)> d8;
  const size_t lanes = hn::Lanes(d);
  const uint8_t* c = static_cast<const uint8_t*>(operands[0]);
  const int32_t* a = static_cast<const int32_t*>(operands[1]);
  const int32_t* b = static_cast<const int32_t*>(operands[2]);
  int32_t* y = static_cast<int32_t*>(result);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto condition = hn::PromoteTo(d, hn::LoadU(d8, c + i));
    hn::StoreU(
        hn::IfThenElse(hn::Ne(condition, hn::Zero(d)), hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d,
        y + i);
  }
  for (; i < n; ++i) y[i] = c[i] != 0 ? a[i] : b[i];
}

template <class T>
void WhereLoop(const void* const* operands, void* result, size_t n, const double*) {
  const uint8_t* c = static_cast<const uint8_t*>(operands[0]);
  const T* a = static_cast<const T*>(operands[1]);
  const T* b = static_cast<const T*>(operands[2]);
  T* y = static_cast<T*>(result);
  for (size_t i = 0; i < n; ++i) y[i] = c[i] != 0 ? a[i] : b[i];
}

template <class From, class To>
void CastLoop(const void* const* operands, void* result, size_t n, const double*) {
  const From* x = static_cast<const From*>(operands[0]);
  To* y = static_cast<To*>(result);
  for (size_t i = 0; i < n; ++i) {
    if constexpr (std::is_floating_point<From>::value && std::is_integral<To>::value) {
      y[i] = ConvertTo<To>(x[i]);  // saturates
    } else {
      y[i] = static_cast<To>(x[i]);
    }
  }
}
template <class From>
void CastToBool(const void* const* operands, void* result, size_t n, const double*) {
  const From* x = static_cast<const From*>(operands[0]);
  uint8_t* y = static_cast<uint8_t*>(result);
  for (size_t i = 0; i < n; ++i) y[i] = x[i] != From(0) ? 1 : 0;
}

template <class T>
void Fill(const void* const*, void* result, size_t n, const double* imm) {
  T* y = static_cast<T*>(result);
  const T value = static_cast<T>(imm[0]);
  for (size_t i = 0; i < n; ++i) y[i] = value;
}
void FillBool(const void* const*, void* result, size_t n, const double* imm) {
  std::memset(result, imm[0] != 0 ? 1 : 0, n);
}

template <size_t kBytes>
void Copy(const void* const* operands, void* result, size_t n, const double*) {
  if (result != operands[0]) std::memcpy(result, operands[0], n * kBytes);
}

// Bools in bytes that are 0 or 1.
enum class Bools { kAnd, kOr, kXor, kNot, kEqual };
template <Bools kOp>
void BoolLoop(const void* const* operands, void* result, size_t n, const double*) {
  const uint8_t* a = static_cast<const uint8_t*>(operands[0]);
  const uint8_t* b = kOp == Bools::kNot ? a : static_cast<const uint8_t*>(operands[1]);
  uint8_t* y = static_cast<uint8_t*>(result);
  for (size_t i = 0; i < n; ++i) {
    const uint8_t p = a[i] != 0, q = b[i] != 0;
    y[i] = kOp == Bools::kAnd   ? p & q
           : kOp == Bools::kOr  ? p | q
           : kOp == Bools::kXor ? p ^ q
           : kOp == Bools::kNot ? 1 ^ p
                                : 1 ^ p ^ q;
  }
}

template <class T>
void IsNaNLoop(const void* const* operands, void* result, size_t n, const double*) {
  const T* x = static_cast<const T*>(operands[0]);
  uint8_t* y = static_cast<uint8_t*>(result);
  for (size_t i = 0; i < n; ++i) y[i] = x[i] != x[i] ? 1 : 0;
}
template <class T>
void IsInfLoop(const void* const* operands, void* result, size_t n, const double* imm) {
  const T* x = static_cast<const T*>(operands[0]);
  uint8_t* y = static_cast<uint8_t*>(result);
  const bool negative = imm[0] != 0, positive = imm[1] != 0;
  for (size_t i = 0; i < n; ++i) {
    y[i] = std::isinf(x[i]) && (x[i] < 0 ? negative : positive) ? 1 : 0;
  }
}

// 64-bit integers have no vector product on most processors.
void MulInt64(const void* const* operands, void* result, size_t n, const double*) {
  const uint64_t* a = static_cast<const uint64_t*>(operands[0]);
  const uint64_t* b = static_cast<const uint64_t*>(operands[1]);
  uint64_t* y = static_cast<uint64_t*>(result);
  for (size_t i = 0; i < n; ++i) y[i] = a[i] * b[i];
}

template <class T>
VectorFunction FindNumeric(Opcode opcode) {
  switch (opcode) {
    case Opcode::kConstant:
      return Fill<T>;
    case Opcode::kAdd:
      return Binary<T, AddF>;
    case Opcode::kSub:
      return Binary<T, SubF>;
    case Opcode::kMul:
      if constexpr (sizeof(T) == 8 && !hwy::IsFloat<T>())
        return MulInt64;
      else
        return Binary<T, MulF>;
    case Opcode::kMin:
      return Binary<T, MinF>;
    case Opcode::kMax:
      return Binary<T, MaxF>;
    case Opcode::kAbs:
      return Unary<T, AbsF>;
    case Opcode::kNeg:
      return Unary<T, NegF>;
    case Opcode::kSign:
      return Unary<T, SignF>;
    case Opcode::kRelu:
      return Unary<T, ReluF>;
    case Opcode::kEqual:
      return Compare<T, EqualF>;
    case Opcode::kLess:
      return Compare<T, LessF>;
    case Opcode::kLessOrEqual:
      return Compare<T, LessOrEqualF>;
    case Opcode::kGreater:
      return Compare<T, GreaterF>;
    case Opcode::kGreaterOrEqual:
      return Compare<T, GreaterOrEqualF>;
    default:
      return nullptr;
  }
}

template <class T>
VectorFunction FindReal(Opcode opcode) {
  switch (opcode) {
    case Opcode::kDiv:
      return Binary<T, DivF>;
    case Opcode::kPRelu:
      return Binary<T, PReluF>;
    case Opcode::kReciprocal:
      return Unary<T, ReciprocalF>;
    case Opcode::kSqrt:
      return Unary<T, SqrtF>;
    case Opcode::kFloor:
      return Unary<T, FloorF>;
    case Opcode::kCeil:
      return Unary<T, CeilF>;
    case Opcode::kRound:
      return Unary<T, RoundF>;
    case Opcode::kSoftsign:
      return Unary<T, SoftsignF>;
    case Opcode::kHardSigmoid:
      return Unary<T, HardSigmoidF>;
    case Opcode::kHardSwish:
      return Unary<T, HardSwishF>;
    case Opcode::kLeakyRelu:
      return Unary<T, LeakyReluF>;
    case Opcode::kThresholdedRelu:
      return Unary<T, ThresholdedReluF>;
    case Opcode::kShrink:
      return Unary<T, ShrinkF>;
    case Opcode::kIsNaN:
      return IsNaNLoop<T>;
    case Opcode::kIsInf:
      return IsInfLoop<T>;
    default:
      return FindNumeric<T>(opcode);
  }
}

VectorFunction FindBool(Opcode opcode) {
  switch (opcode) {
    case Opcode::kConstant:
      return FillBool;
    case Opcode::kAnd:
      return BoolLoop<Bools::kAnd>;
    case Opcode::kOr:
      return BoolLoop<Bools::kOr>;
    case Opcode::kXor:
      return BoolLoop<Bools::kXor>;
    case Opcode::kNot:
      return BoolLoop<Bools::kNot>;
    case Opcode::kEqual:
      return BoolLoop<Bools::kEqual>;
    default:
      return nullptr;
  }
}

template <class From>
VectorFunction FindCast(DataType to) {
  switch (to) {
    case DataType::kFloat32:
      return CastLoop<From, float>;
    case DataType::kFloat64:
      return CastLoop<From, double>;
    case DataType::kInt32:
      return CastLoop<From, int32_t>;
    case DataType::kInt64:
      return CastLoop<From, int64_t>;
    case DataType::kUint8:
      return CastLoop<From, uint8_t>;
    case DataType::kInt8:
      return CastLoop<From, int8_t>;
    case DataType::kBool:
      return CastToBool<From>;
    default:
      return nullptr;
  }
}

VectorFunction FindCastFrom(DataType from, DataType to) {
  switch (from) {
    case DataType::kFloat32:
      return FindCast<float>(to);
    case DataType::kFloat64:
      return FindCast<double>(to);
    case DataType::kInt32:
      return FindCast<int32_t>(to);
    case DataType::kInt64:
      return FindCast<int64_t>(to);
    case DataType::kUint8:
      return FindCast<uint8_t>(to);
    case DataType::kInt8:
      return FindCast<int8_t>(to);
    case DataType::kBool:
      return FindCast<uint8_t>(to);
    default:
      return nullptr;
  }
}

VectorFunction FindBySize(Opcode opcode, size_t bytes) {
  if (opcode == Opcode::kCopy) {
    return bytes == 1 ? Copy<1> : bytes == 4 ? Copy<4> : Copy<8>;
  }
  return bytes == 1 ? WhereLoop<uint8_t> : bytes == 4 ? Where4 : WhereLoop<uint64_t>;
}

VectorFunction Arithmetic(Opcode opcode, DataType type, DataType result) {
  if (opcode == Opcode::kCast) return FindCastFrom(type, result);
  if (opcode == Opcode::kCopy || opcode == Opcode::kWhere) {
    return FindBySize(opcode, SizeOf(result));
  }
  switch (type) {
    case DataType::kFloat32:
      return FindReal<float>(opcode);
    case DataType::kFloat64:
      return FindReal<double>(opcode);
    case DataType::kInt32:
      return FindNumeric<int32_t>(opcode);
    case DataType::kInt64:
      return FindNumeric<int64_t>(opcode);
    case DataType::kBool:
      return FindBool(opcode);
    case DataType::kUint8:
      return opcode == Opcode::kConstant ? Fill<uint8_t> : nullptr;
    case DataType::kInt8:
      return opcode == Opcode::kConstant ? Fill<int8_t> : nullptr;
    default:
      return nullptr;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace onward
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace onward {
HWY_EXPORT(Arithmetic);

VectorFunction FindArithmetic(const Instruction& instruction, DataType type) {
  return HWY_DYNAMIC_DISPATCH(Arithmetic)(instruction.opcode, type, instruction.dtype);
}
}  // namespace onward
#endif
