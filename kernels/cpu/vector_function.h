// Functions on short arrays, compiled for several instruction sets.
#ifndef ONWARD_KERNELS_CPU_VECTOR_FUNCTION_H_
#define ONWARD_KERNELS_CPU_VECTOR_FUNCTION_H_

#include <cstddef>

#include "graph/base/expression.h"

namespace onward {

// result[i] = f(operands[0][i], ...) for i < n. The result may lie exactly on an
// operand whose elements are of the same size; no other overlap. An element's
// result does not depend on its place in the array nor on n.
using VectorFunction = void (*)(const void* const* operands, void* result, size_t n,
                                const double* immediates);

// The function of an instruction for the best instruction set of this processor, as
// hwy::SupportedTargets() has it at the time of the call. `type` is that of its last
// operand (of its result, for kConstant). Null where there is none.
//
// Accuracy in float32 against the exact result, in units of the last place: sums,
// products, quotients, roots, comparisons, rounding and casts are exact (correctly
// rounded); Exp, Log and Erf within 1.1, Tanh 1.3, Sigmoid, Sin and Cos 2.5, Softplus 3,
// Mish, Elu, Swish and Gelu 4 (vector_function_test.cc measures them); the same in
// float64, but Tanh 2.5.
// NaN, infinities and subnormal numbers are treated as in the C library; Min, Max and
// Relu keep NaN.
VectorFunction FindVectorFunction(const Instruction& instruction, DataType type);

// Parts of the above, by file. Null where the file has none.
VectorFunction FindArithmetic(const Instruction& instruction, DataType type);
VectorFunction FindTranscendental(const Instruction& instruction, DataType type);
VectorFunction FindScalarLoop(const Instruction& instruction, DataType type);

}  // namespace onward

#endif  // ONWARD_KERNELS_CPU_VECTOR_FUNCTION_H_
