#include "kernels/cpu/vector_function.h"

namespace onward {

VectorFunction FindVectorFunction(const Instruction& instruction, DataType type) {
  if (VectorFunction f = FindArithmetic(instruction, type)) return f;
  if (VectorFunction f = FindTranscendental(instruction, type)) return f;
  return FindScalarLoop(instruction, type);
}

}  // namespace onward
