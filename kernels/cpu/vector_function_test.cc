// Accuracy of the vector functions for every instruction set of this processor.
#include "kernels/cpu/vector_function.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <vector>

#include "hwy/highway.h"

namespace onward {
namespace {

using Real = long double;

Real Sigmoid(Real x) { return 1 / (1 + std::exp(-x)); }
Real Softplus(Real x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }
Real Mish(Real x) { return x * std::tanh(Softplus(x)); }
Real Swish(Real x) { return x * Sigmoid(x); }
Real Elu(Real x) { return x < 0 ? std::expm1(x) : x; }
Real Gelu(Real x) { return x / 2 * std::erfc(-x / std::sqrt(Real(2))); }
Real GeluTanh(Real x) {
  const Real pi = 3.14159265358979323846264338327950288L;
  return x / 2 * (1 + std::tanh(std::sqrt(2 / pi) * (x + Real(0.044715) * x * x * x)));
}
Real Reciprocal(Real x) { return 1 / x; }
Real Softsign(Real x) { return x / (1 + std::fabs(x)); }

// The largest error allowed, in units of the last place of the exact result. Where a
// formula cancels (Gelu far below zero), the unit is that of `least` at least.
struct Row {
  const char* name;
  Opcode opcode;
  Real (*exact)(Real);
  double most32, most64;
  double from, to;  // the range of arguments
  double least;
};
const Row kRows[] = {
    {"Exp", Opcode::kExp, std::exp, 1.5, 1.5, -1e30, 1e30, 0},
    {"Log", Opcode::kLog, std::log, 1.5, 1.5, -1, 1e38, 0},
    {"Tanh", Opcode::kTanh, std::tanh, 2, 4, -1e30, 1e30, 0},
    {"Sigmoid", Opcode::kSigmoid, Sigmoid, 2.5, 2.5, -1e30, 1e30, 0},
    {"Softplus", Opcode::kSoftplus, Softplus, 3, 3, -1e30, 1e30, 0},
    {"Mish", Opcode::kMish, Mish, 4, 4, -80, 1e30, 0},
    {"Swish", Opcode::kSwish, Swish, 4, 4, -80, 1e30, 0},
    {"Elu", Opcode::kElu, Elu, 4, 4, -1e30, 1e30, 0},
    {"Sin", Opcode::kSin, std::sin, 2.5, 2.5, -1e6, 1e6, 1e-3},
    {"Cos", Opcode::kCos, std::cos, 2.5, 2.5, -1e6, 1e6, 1e-3},
    {"Erf", Opcode::kErf, std::erf, 2, 1.5, -1e30, 1e30, 0},
    {"Gelu", Opcode::kGelu, Gelu, 4, 4, -1e3, 1e30, 1},
    {"GeluTanh", Opcode::kGeluTanh, GeluTanh, 4, 4, -1e3, 1e10, 1},
    {"Sqrt", Opcode::kSqrt, std::sqrt, 0.5001, 0.5001, -1, 1e38, 0},
    {"Reciprocal", Opcode::kReciprocal, Reciprocal, 0.5001, 0.5001, -1e37, 1e37, 0},
    {"Softsign", Opcode::kSoftsign, Softsign, 1.5, 1.5, -1e37, 1e37, 0},
};

template <typename T>
double UnitsOff(T got, Real exact, double least) {
  if (std::isnan(exact) || std::isnan(got)) {
    return std::isnan(exact) && std::isnan(got) ? 0 : 1e30;
  }
  const T rounded = static_cast<T>(exact);
  if (got == rounded) return 0;
  if (std::isinf(got) || std::isinf(rounded)) return 1e30;
  const T scale = std::max<T>(std::fabs(rounded), static_cast<T>(least));
  const Real unit =
      std::max<Real>(std::numeric_limits<T>::denorm_min(),
                     std::nextafter(scale, std::numeric_limits<T>::infinity()) - Real(scale));
  return static_cast<double>(std::fabs(got - exact) / unit);
}

// Numbers of all magnitudes and signs, and the special ones.
std::vector<float> Arguments(float) {
  std::vector<float> x;
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 9973) {
    const uint32_t b = static_cast<uint32_t>(bits);
    float f;
    std::memcpy(&f, &b, 4);
    x.push_back(f);
  }
  for (int i = -40000; i <= 40000; ++i) x.push_back(static_cast<float>(i) / 2000);
  return x;
}
std::vector<double> Arguments(double) {
  std::vector<double> x;
  for (int e = -1074; e < 1024; e += 3) {
    for (int k = 0; k < 16; ++k) {
      x.push_back(std::ldexp(1 + k / 16.0 + 1e-4, e));
      x.push_back(-x.back());
    }
  }
  for (int i = -40000; i <= 40000; ++i) x.push_back(i / 2003.0);
  return x;
}

template <typename T>
void MeasureRow(const Row& row, const char* target) {
  std::vector<T> x;
  for (T v : Arguments(T())) {
    if (v >= row.from && v <= row.to) x.push_back(v);
  }
  for (T v : {T(0), -T(0), std::numeric_limits<T>::quiet_NaN()}) x.push_back(v);
  Instruction i;
  i.opcode = row.opcode;
  i.dtype = DataTypeOf<T>::value;
  const VectorFunction f = FindVectorFunction(i, i.dtype);
  ASSERT_NE(f, nullptr) << row.name;
  std::vector<T> y(x.size());
  const double immediates[2] = {1, 1};
  const void* operands[1] = {x.data()};
  f(operands, y.data(), x.size(), immediates);
  double worst = 0;
  T where = 0;
  for (size_t k = 0; k < x.size(); ++k) {
    const double off = UnitsOff(y[k], row.exact(x[k]), row.least);
    if (off > worst) {
      worst = off;
      where = x[k];
    }
  }
  std::printf("%-8s %-12s %s %8.3f at %.9g\n", target, row.name, sizeof(T) == 4 ? "f32" : "f64",
              worst, static_cast<double>(where));
  EXPECT_LE(worst, sizeof(T) == 4 ? row.most32 : row.most64)
      << row.name << " on " << target << " at " << where;
}

// Runs `body` once for each instruction set that is compiled and supported.
template <typename Body>
void ForEachTarget(Body body) {
  int64_t rest = hwy::SupportedTargets() & (HWY_TARGETS);
  while (rest != 0) {
    const int64_t target = rest & -rest;
    rest &= rest - 1;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    body(hwy::TargetName(target));
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

TEST(VectorFunction, Accuracy) {
  ForEachTarget([](const char* target) {
    for (const Row& row : kRows) {
      MeasureRow<float>(row, target);
      MeasureRow<double>(row, target);
    }
  });
}

template <typename T>
void TrySpecials() {
  const T inf = std::numeric_limits<T>::infinity();
  const T nan = std::numeric_limits<T>::quiet_NaN();
  struct {
    Opcode opcode;
    T x, y;
  } const cases[] = {
      {Opcode::kExp, inf, inf},      {Opcode::kExp, -inf, 0},
      {Opcode::kLog, 0, -inf},       {Opcode::kLog, inf, inf},
      {Opcode::kLog, -1, nan},       {Opcode::kLog, -inf, nan},
      {Opcode::kTanh, inf, 1},       {Opcode::kTanh, -inf, -1},
      {Opcode::kSigmoid, inf, 1},    {Opcode::kSigmoid, -inf, 0},
      {Opcode::kSoftplus, inf, inf}, {Opcode::kSoftplus, -inf, 0},
      {Opcode::kErf, inf, 1},        {Opcode::kErf, -inf, -1},
      {Opcode::kSin, inf, nan},      {Opcode::kCos, -inf, nan},
      {Opcode::kRelu, nan, nan},     {Opcode::kRelu, -inf, 0},
      {Opcode::kElu, -inf, -1},      {Opcode::kElu, inf, inf},
      {Opcode::kRound, T(2.5), 2},   {Opcode::kRound, T(-3.5), -4},
      {Opcode::kFloor, T(-0.5), -1}, {Opcode::kCeil, T(0.5), 1},
      {Opcode::kSign, nan, nan},     {Opcode::kSign, -inf, -1},
      {Opcode::kSqrt, -1, nan},      {Opcode::kRound, T(1e15), T(1e15)},
  };
  for (const auto& c : cases) {
    Instruction i;
    i.opcode = c.opcode;
    i.dtype = DataTypeOf<T>::value;
    const VectorFunction f = FindVectorFunction(i, i.dtype);
    ASSERT_NE(f, nullptr);
    for (size_t n : {1, 5, 33}) {  // in a tail and in whole vectors
      std::vector<T> x(n, c.x), y(n, T(7));
      const double immediates[2] = {1, 1};
      const void* operands[1] = {x.data()};
      f(operands, y.data(), n, immediates);
      for (T v : y) {
        EXPECT_TRUE(v == c.y || (std::isnan(v) && std::isnan(c.y)))
            << RowOf(c.opcode).name << "(" << c.x << ") gave " << v;
      }
    }
  }
}

TEST(VectorFunction, SpecialNumbers) {
  ForEachTarget([](const char* target) {
    SCOPED_TRACE(target);
    TrySpecials<float>();
    TrySpecials<double>();
  });
}

// Two operands: NaN in either place, and powers of everything.
TEST(VectorFunction, TwoOperands) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  std::vector<float> a, b;
  for (float x : {0.f, -0.f, 1.f, -1.f, 2.f, -2.5f, 0.5f, 1e-40f, 1e30f, inf, -inf, nan, 3.7f}) {
    for (float y : {0.f, 1.f, -1.f, 2.f, -3.f, 0.5f, 2.5f, 1e3f, inf, -inf, nan, -0.3f}) {
      a.push_back(x);
      b.push_back(y);
    }
  }
  ForEachTarget([&](const char* target) {
    for (Opcode opcode : {Opcode::kPow, Opcode::kMax, Opcode::kMin, Opcode::kDiv}) {
      Instruction i;
      i.opcode = opcode;
      i.dtype = DataType::kFloat32;
      std::vector<float> y(a.size());
      const void* operands[2] = {a.data(), b.data()};
      FindVectorFunction(i, i.dtype)(operands, y.data(), y.size(), nullptr);
      for (size_t k = 0; k < y.size(); ++k) {
        float want = 0;
        if (opcode == Opcode::kPow) want = std::pow(a[k], b[k]);
        if (opcode == Opcode::kDiv) want = a[k] / b[k];
        if (opcode == Opcode::kMax)
          want = std::isnan(a[k] + b[k]) && (std::isnan(a[k]) || std::isnan(b[k]))
                     ? nan
                     : std::max(a[k], b[k]);
        if (opcode == Opcode::kMin)
          want = std::isnan(a[k]) || std::isnan(b[k]) ? nan : std::min(a[k], b[k]);
        EXPECT_LE(UnitsOff<float>(y[k], want, 0), opcode == Opcode::kPow ? 1 : 0)
            << target << " " << RowOf(opcode).name << "(" << a[k] << ", " << b[k] << ") gave "
            << y[k] << ", expected " << want;
      }
    }
  });
}

// An element's result does not depend on where it stands.
TEST(VectorFunction, TailsEqualVectors) {
  std::vector<float> x(67);
  for (size_t i = 0; i < x.size(); ++i) x[i] = 0.37f * static_cast<float>(i) - 11;
  const double immediates[2] = {0.7, 1.1};
  ForEachTarget([&](const char* target) {
    for (int k = 0; k < static_cast<int>(Opcode::kCount); ++k) {
      const OpcodeRow& row = RowOf(static_cast<Opcode>(k));
      if (row.types != OpcodeRow::Types::kFloating && row.types != OpcodeRow::Types::kSame)
        continue;
      Instruction i;
      i.opcode = row.opcode;
      i.dtype = DataType::kFloat32;
      const VectorFunction f = FindVectorFunction(i, i.dtype);
      ASSERT_NE(f, nullptr) << row.name;
      std::vector<float> whole(x.size()), parts(x.size());
      const void* operands[2] = {x.data(), x.data()};
      f(operands, whole.data(), x.size(), immediates);
      for (size_t first = 0; first < x.size(); first += 3) {
        const void* some[2] = {x.data() + first, x.data() + first};
        f(some, parts.data() + first, std::min<size_t>(3, x.size() - first), immediates);
      }
      EXPECT_EQ(std::memcmp(whole.data(), parts.data(), x.size() * 4), 0)
          << row.name << " on " << target;
    }
  });
}

}  // namespace
}  // namespace onward
