// Elementwise programs: a chain of elementwise operators as one attribute.
//
// A program computes, for every element of a common index space, its outputs from
// the same element of its inputs. It is straight-line code over registers:
// register i is input i, register inputs.size() + k the result of instruction k.
// It says nothing of shapes: the node that carries it broadcasts its inputs.
//
// As text (which is how it is stored in a node's attribute and printed):
//   float32 x0, float32 x1 -> t1: t0:float32 = Add(x0, x1); t1:float32 = LeakyRelu<0.01>(t0)
#ifndef ONWARD_GRAPH_BASE_EXPRESSION_H_
#define ONWARD_GRAPH_BASE_EXPRESSION_H_

#include <array>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "graph/base/attribute.h"
#include "graph/base/data_type.h"

namespace onward {

// What an instruction computes. The names are those of ONNX's operators, with the
// same meaning; what differs is stated. Names in text leave the k out.
enum class Opcode : int {
  kConstant,  // no operands: immediate 0 in the result's type
  kCopy,      // Identity
  kCast,      // to the result's type
  // Two operands of one type.
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMin,
  kMax,
  kPow,
  kPRelu,  // a if a >= 0, else a * b
  // Two operands of one type, a bool result.
  kEqual,
  kLess,
  kLessOrEqual,
  kGreater,
  kGreaterOrEqual,
  // Bools.
  kAnd,
  kOr,
  kXor,
  kNot,
  // A bool operand, then two of the result's type.
  kWhere,
  // One operand; a result of its type.
  kAbs,
  kNeg,
  kSign,
  kReciprocal,
  kSqrt,
  kExp,
  kLog,
  kSin,
  kCos,
  kTan,
  kAsin,
  kAcos,
  kAtan,
  kSinh,
  kCosh,
  kTanh,
  kAsinh,
  kAcosh,
  kAtanh,
  kErf,
  kFloor,
  kCeil,
  kRound,
  kRelu,
  kSigmoid,
  kSoftplus,
  kSoftsign,
  kMish,
  kHardSwish,
  kGelu,      // exact, by erf
  kGeluTanh,  // Gelu with approximate="tanh"
  // One operand and immediates, in this order.
  kLeakyRelu,        // alpha
  kElu,              // alpha
  kCelu,             // alpha
  kSelu,             // alpha, gamma
  kHardSigmoid,      // alpha, beta
  kThresholdedRelu,  // alpha
  kShrink,           // bias, lambd
  kSwish,            // alpha
  // One operand; a bool result.
  kIsNaN,
  kIsInf,  // detect_negative, detect_positive (0 or 1)
  kCount,
};

// What a row of the list of opcodes says.
struct OpcodeRow {
  Opcode opcode;
  const char* name;
  int operands;
  int immediates;
  enum class Types {
    kNone,  // the result's type is free (kConstant)
    kSame,  // operands and result of one type
    kCast,
    kCompare,  // operands of one type, a bool result
    kBool,     // all bool
    kWhere,
    kFloating,  // kSame, of a floating type only
    kClassify,  // a floating operand, a bool result
  } types;
};
const OpcodeRow& RowOf(Opcode opcode);

struct Instruction {
  Opcode opcode = Opcode::kCopy;
  DataType dtype = DataType::kUndefined;  // of the result
  absl::InlinedVector<int, 3> operands;   // registers
  std::array<double, 2> immediates{};

  bool operator==(const Instruction& o) const {
    return opcode == o.opcode && dtype == o.dtype && operands == o.operands &&
           immediates == o.immediates;
  }
};

struct ElementwiseProgram {
  std::vector<DataType> inputs;
  std::vector<Instruction> instructions;
  std::vector<int> outputs;  // registers; one may be given twice

  int num_registers() const { return static_cast<int>(inputs.size() + instructions.size()); }
  DataType TypeOf(int reg) const {
    const int n = static_cast<int>(inputs.size());
    return reg < n ? inputs[reg] : instructions[reg - n].dtype;
  }
  bool IsInput(int reg) const { return reg < static_cast<int>(inputs.size()); }
  const Instruction& Producer(int reg) const { return instructions[reg - inputs.size()]; }

  // Appends an instruction, or finds the same one, and returns its register. The
  // type is that of the first operand (for kWhere the second, for comparisons bool);
  // kConstant and kCast name theirs. REQUIRES: all inputs have been added.
  int Append(Opcode opcode, absl::Span<const int> operands, std::array<double, 2> immediates = {},
             DataType dtype = DataType::kUndefined);
  int AppendConstant(DataType dtype, double value) {
    return Append(Opcode::kConstant, {}, {value, 0}, dtype);
  }
};

// InvalidArgument where a register, a type or a number of operands is wrong.
absl::Status Validate(const ElementwiseProgram& program);

std::string ToString(const ElementwiseProgram& program);
// The inverse, validated; numbers keep all bits.
absl::StatusOr<ElementwiseProgram> ParseProgram(absl::string_view text);

// Appends the use of an elementwise operator of ONNX ("Relu", "Clip", "Sum", ...) on
// registers; `operands` are its inputs, -1 where one is absent. `to` is the type of
// its output. Returns the register of the result. Unimplemented where the operator
// or its types have no instruction: the program is then as it was.
absl::StatusOr<int> AppendOperator(ElementwiseProgram* program, absl::string_view op,
                                   const Attributes& attributes, absl::Span<const int> operands,
                                   DataType to);

// The operator of ONNX that an instruction stands for, and its attributes. kConstant
// has none: an empty name.
struct OnnxUse {
  std::string op;
  Attributes attributes;
};
OnnxUse OnnxOf(const Instruction& instruction);

// The names of all operators that AppendOperator knows, in a fixed order.
const std::vector<std::string>& ProgrammableOperators();

// For every output: is it zero wherever all inputs of `zero` (one flag per input)
// are zero, whatever the others are? Blocked layouts keep zeros in their padding.
std::vector<bool> KeepsZero(const ElementwiseProgram& program, const std::vector<bool>& zero);

}  // namespace onward

#endif  // ONWARD_GRAPH_BASE_EXPRESSION_H_
