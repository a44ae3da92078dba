// Which functor computes which elementwise operator, and how the functor is made
// from the attributes. Every kind of loop goes through this list.
#ifndef ONWARD_KERNELS_CPU_ELEMENTWISE_LIST_H_
#define ONWARD_KERNELS_CPU_ELEMENTWISE_LIST_H_

#include "graph/base/attribute.h"
#include "kernels/cpu/elementwise_functors.h"
#include "kernels/cpu/loops.h"

namespace onward {

// The functor of one node. Defaults are those of the ONNX schemas.
template <typename Functor>
Functor FunctorOf(const Attributes&) {
  return Functor{};
}
template <>
inline IsInfFunctor FunctorOf(const Attributes& a) {
  return {a.Int("detect_negative", 1) != 0, a.Int("detect_positive", 1) != 0};
}
template <>
inline ShrinkFunctor FunctorOf(const Attributes& a) {
  return {a.Float("bias", 0), a.Float("lambd", 0.5)};
}
template <>
inline SwishFunctor FunctorOf(const Attributes& a) {
  return {a.Float("alpha", 1)};
}
template <>
inline GeluFunctor FunctorOf(const Attributes& a) {
  return {StringOf(a, "approximate", "none") == "tanh"};
}
template <>
inline EluFunctor FunctorOf(const Attributes& a) {
  return {a.Float("alpha", 1)};
}
template <>
inline SeluFunctor FunctorOf(const Attributes& a) {
  const SeluFunctor defaults;
  return {a.Float("alpha", defaults.alpha), a.Float("gamma", defaults.gamma)};
}
template <>
inline CeluFunctor FunctorOf(const Attributes& a) {
  return {a.Float("alpha", 1)};
}
template <>
inline LeakyReluFunctor FunctorOf(const Attributes& a) {
  return {a.Float("alpha", 0.01f)};
}
template <>
inline ThresholdedReluFunctor FunctorOf(const Attributes& a) {
  return {a.Float("alpha", 1)};
}
template <>
inline HardSigmoidFunctor FunctorOf(const Attributes& a) {
  return {a.Float("alpha", 0.2f), a.Float("beta", 0.5)};
}

// visit(name, functor, types): operators of one input on reals.
template <typename Visitor>
void ForEachRealFunctor(Visitor visit) {
  visit("Ceil", CeilFunctor());
  visit("Floor", FloorFunctor());
  visit("Round", RoundFunctor());
  visit("Sqrt", SqrtFunctor());
  visit("Reciprocal", ReciprocalFunctor());
  visit("Exp", ExpFunctor());
  visit("Log", LogFunctor());
  visit("Erf", ErfFunctor());
  visit("Sin", SinFunctor());
  visit("Cos", CosFunctor());
  visit("Tan", TanFunctor());
  visit("Asin", AsinFunctor());
  visit("Acos", AcosFunctor());
  visit("Atan", AtanFunctor());
  visit("Sinh", SinhFunctor());
  visit("Cosh", CoshFunctor());
  visit("Tanh", TanhFunctor());
  visit("Asinh", AsinhFunctor());
  visit("Acosh", AcoshFunctor());
  visit("Atanh", AtanhFunctor());
  visit("Sigmoid", SigmoidFunctor());
  visit("Softplus", SoftplusFunctor());
  visit("Softsign", SoftsignFunctor());
  visit("Swish", SwishFunctor());
  visit("Mish", MishFunctor());
  visit("Gelu", GeluFunctor());
  visit("Elu", EluFunctor());
  visit("Selu", SeluFunctor());
  visit("Celu", CeluFunctor());
  visit("LeakyRelu", LeakyReluFunctor());
  visit("ThresholdedRelu", ThresholdedReluFunctor());
  visit("HardSigmoid", HardSigmoidFunctor());
  visit("HardSwish", HardSwishFunctor());
  visit("IsNaN", IsNaNFunctor());
  visit("IsInf", IsInfFunctor());
}

// Operators of one input on all numbers.
template <typename Visitor>
void ForEachNumberFunctor(Visitor visit) {
  visit("Neg", NegFunctor());
  visit("Abs", AbsFunctor());
  visit("Sign", SignFunctor());
  visit("Relu", ReluFunctor());
  visit("Shrink", ShrinkFunctor());
}

// Operators of two broadcast inputs of one type, numbers.
template <typename Visitor>
void ForEachBinaryFunctor(Visitor visit) {
  visit("Add", AddFunctor());
  visit("Sub", SubFunctor());
  visit("Mul", MulFunctor());
  visit("Div", DivFunctor());
  visit("PRelu", PReluFunctor());
  visit("Greater", GreaterFunctor());
  visit("GreaterOrEqual", GreaterOrEqualFunctor());
  visit("Less", LessFunctor());
  visit("LessOrEqual", LessOrEqualFunctor());
}

}  // namespace onward

#endif  // ONWARD_KERNELS_CPU_ELEMENTWISE_LIST_H_
