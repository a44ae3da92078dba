// Loops over the C library, for what is rare in training steps.
#include <cmath>
#include <cstdint>

#include "kernels/cpu/vector_function.h"

namespace onward {
namespace {

template <typename T, T (*kFunction)(T)>
void Unary(const void* const* operands, void* result, size_t n, const double*) {
  const T* x = static_cast<const T*>(operands[0]);
  T* y = static_cast<T*>(result);
  for (size_t i = 0; i < n; ++i) y[i] = kFunction(x[i]);
}

template <typename T>
T Tan(T x) {
  return std::tan(x);
}
template <typename T>
T Asin(T x) {
  return std::asin(x);
}
template <typename T>
T Acos(T x) {
  return std::acos(x);
}
template <typename T>
T Atan(T x) {
  return std::atan(x);
}
template <typename T>
T Sinh(T x) {
  return std::sinh(x);
}
template <typename T>
T Cosh(T x) {
  return std::cosh(x);
}
template <typename T>
T Asinh(T x) {
  return std::asinh(x);
}
template <typename T>
T Acosh(T x) {
  return std::acosh(x);
}
template <typename T>
T Atanh(T x) {
  return std::atanh(x);
}
template <typename T>
T Erf(T x) {
  return std::erf(x);
}
template <typename T>
T Gelu(T x) {
  return T(0.5) * x * (1 + std::erf(x * T(0.70710678118654752440)));
}

template <typename T>
void Pow(const void* const* operands, void* result, size_t n, const double*) {
  const T* a = static_cast<const T*>(operands[0]);
  const T* b = static_cast<const T*>(operands[1]);
  T* y = static_cast<T*>(result);
  for (size_t i = 0; i < n; ++i) y[i] = std::pow(a[i], b[i]);
}

template <typename T>
VectorFunction Find(Opcode opcode) {
  switch (opcode) {
    case Opcode::kTan:
      return Unary<T, Tan<T>>;
    case Opcode::kAsin:
      return Unary<T, Asin<T>>;
    case Opcode::kAcos:
      return Unary<T, Acos<T>>;
    case Opcode::kAtan:
      return Unary<T, Atan<T>>;
    case Opcode::kSinh:
      return Unary<T, Sinh<T>>;
    case Opcode::kCosh:
      return Unary<T, Cosh<T>>;
    case Opcode::kAsinh:
      return Unary<T, Asinh<T>>;
    case Opcode::kAcosh:
      return Unary<T, Acosh<T>>;
    case Opcode::kAtanh:
      return Unary<T, Atanh<T>>;
    case Opcode::kErf:
      return Unary<T, Erf<T>>;
    case Opcode::kGelu:
      return Unary<T, Gelu<T>>;
    case Opcode::kPow:
      return Pow<T>;
    default:
      return nullptr;
  }
}

}  // namespace

VectorFunction FindScalarLoop(const Instruction& instruction, DataType type) {
  if (type == DataType::kFloat32) return Find<float>(instruction.opcode);
  if (type == DataType::kFloat64) return Find<double>(instruction.opcode);
  return nullptr;
}

}  // namespace onward
