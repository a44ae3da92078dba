#include "graph/base/expression.h"

#include <cmath>
#include <cstdio>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "graph/base/status_macros.h"

namespace onward {
namespace {

using Types = OpcodeRow::Types;

constexpr OpcodeRow kRows[] = {
    {Opcode::kConstant, "Constant", 0, 1, Types::kNone},
    {Opcode::kCopy, "Copy", 1, 0, Types::kSame},
    {Opcode::kCast, "Cast", 1, 0, Types::kCast},
    {Opcode::kAdd, "Add", 2, 0, Types::kSame},
    {Opcode::kSub, "Sub", 2, 0, Types::kSame},
    {Opcode::kMul, "Mul", 2, 0, Types::kSame},
    {Opcode::kDiv, "Div", 2, 0, Types::kFloating},
    {Opcode::kMin, "Min", 2, 0, Types::kSame},
    {Opcode::kMax, "Max", 2, 0, Types::kSame},
    {Opcode::kPow, "Pow", 2, 0, Types::kFloating},
    {Opcode::kPRelu, "PRelu", 2, 0, Types::kFloating},
    {Opcode::kEqual, "Equal", 2, 0, Types::kCompare},
    {Opcode::kLess, "Less", 2, 0, Types::kCompare},
    {Opcode::kLessOrEqual, "LessOrEqual", 2, 0, Types::kCompare},
    {Opcode::kGreater, "Greater", 2, 0, Types::kCompare},
    {Opcode::kGreaterOrEqual, "GreaterOrEqual", 2, 0, Types::kCompare},
    {Opcode::kAnd, "And", 2, 0, Types::kBool},
    {Opcode::kOr, "Or", 2, 0, Types::kBool},
    {Opcode::kXor, "Xor", 2, 0, Types::kBool},
    {Opcode::kNot, "Not", 1, 0, Types::kBool},
    {Opcode::kWhere, "Where", 3, 0, Types::kWhere},
    {Opcode::kAbs, "Abs", 1, 0, Types::kSame},
    {Opcode::kNeg, "Neg", 1, 0, Types::kSame},
    {Opcode::kSign, "Sign", 1, 0, Types::kSame},
    {Opcode::kReciprocal, "Reciprocal", 1, 0, Types::kFloating},
    {Opcode::kSqrt, "Sqrt", 1, 0, Types::kFloating},
    {Opcode::kExp, "Exp", 1, 0, Types::kFloating},
    {Opcode::kLog, "Log", 1, 0, Types::kFloating},
    {Opcode::kSin, "Sin", 1, 0, Types::kFloating},
    {Opcode::kCos, "Cos", 1, 0, Types::kFloating},
    {Opcode::kTan, "Tan", 1, 0, Types::kFloating},
    {Opcode::kAsin, "Asin", 1, 0, Types::kFloating},
    {Opcode::kAcos, "Acos", 1, 0, Types::kFloating},
    {Opcode::kAtan, "Atan", 1, 0, Types::kFloating},
    {Opcode::kSinh, "Sinh", 1, 0, Types::kFloating},
    {Opcode::kCosh, "Cosh", 1, 0, Types::kFloating},
    {Opcode::kTanh, "Tanh", 1, 0, Types::kFloating},
    {Opcode::kAsinh, "Asinh", 1, 0, Types::kFloating},
    {Opcode::kAcosh, "Acosh", 1, 0, Types::kFloating},
    {Opcode::kAtanh, "Atanh", 1, 0, Types::kFloating},
    {Opcode::kErf, "Erf", 1, 0, Types::kFloating},
    {Opcode::kFloor, "Floor", 1, 0, Types::kFloating},
    {Opcode::kCeil, "Ceil", 1, 0, Types::kFloating},
    {Opcode::kRound, "Round", 1, 0, Types::kFloating},
    {Opcode::kRelu, "Relu", 1, 0, Types::kSame},
    {Opcode::kSigmoid, "Sigmoid", 1, 0, Types::kFloating},
    {Opcode::kSoftplus, "Softplus", 1, 0, Types::kFloating},
    {Opcode::kSoftsign, "Softsign", 1, 0, Types::kFloating},
    {Opcode::kMish, "Mish", 1, 0, Types::kFloating},
    {Opcode::kHardSwish, "HardSwish", 1, 0, Types::kFloating},
    {Opcode::kGelu, "Gelu", 1, 0, Types::kFloating},
    {Opcode::kGeluTanh, "GeluTanh", 1, 0, Types::kFloating},
    {Opcode::kLeakyRelu, "LeakyRelu", 1, 1, Types::kFloating},
    {Opcode::kElu, "Elu", 1, 1, Types::kFloating},
    {Opcode::kCelu, "Celu", 1, 1, Types::kFloating},
    {Opcode::kSelu, "Selu", 1, 2, Types::kFloating},
    {Opcode::kHardSigmoid, "HardSigmoid", 1, 2, Types::kFloating},
    {Opcode::kThresholdedRelu, "ThresholdedRelu", 1, 1, Types::kFloating},
    {Opcode::kShrink, "Shrink", 1, 2, Types::kFloating},
    {Opcode::kSwish, "Swish", 1, 1, Types::kFloating},
    {Opcode::kIsNaN, "IsNaN", 1, 0, Types::kClassify},
    {Opcode::kIsInf, "IsInf", 1, 2, Types::kClassify},
};
static_assert(sizeof(kRows) / sizeof(kRows[0]) == static_cast<size_t>(Opcode::kCount),
              "one row per opcode, in their order");

bool IsReal(DataType type) { return type == DataType::kFloat32 || type == DataType::kFloat64; }

// The types that registers can have.
bool IsRegisterType(DataType type) {
  return IsReal(type) || type == DataType::kInt32 || type == DataType::kInt64 ||
         type == DataType::kBool || type == DataType::kUint8 || type == DataType::kInt8;
}

bool IsArithmeticType(DataType type) {
  return IsReal(type) || type == DataType::kInt32 || type == DataType::kInt64;
}

absl::Status Refuse(const Instruction& instruction, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("elementwise program: ", RowOf(instruction.opcode).name, ": ", why));
}

// Types of one instruction whose operands exist.
absl::Status CheckTypes(const Instruction& i, absl::Span<const DataType> types) {
  const Types rule = RowOf(i.opcode).types;
  if (!IsRegisterType(i.dtype)) return Refuse(i, absl::StrCat("result of type ", Name(i.dtype)));
  for (DataType t : types) {
    if (!IsRegisterType(t)) return Refuse(i, absl::StrCat("operand of type ", Name(t)));
  }
  const bool same = types.size() < 2 || types[0] == types[1];
  bool fits = true;
  switch (rule) {
    case Types::kNone:
    case Types::kCast:
      break;
    case Types::kSame:
      fits =
          same && types[0] == i.dtype && (i.opcode == Opcode::kCopy || IsArithmeticType(i.dtype));
      break;
    case Types::kFloating:
      fits = same && types[0] == i.dtype && IsReal(i.dtype);
      break;
    case Types::kCompare:
      fits = same && i.dtype == DataType::kBool &&
             (IsArithmeticType(types[0]) ||
              (types[0] == DataType::kBool && i.opcode == Opcode::kEqual));
      break;
    case Types::kBool:
      fits = same && types[0] == DataType::kBool && i.dtype == DataType::kBool;
      break;
    case Types::kWhere:
      fits = types[0] == DataType::kBool && types[1] == i.dtype && types[2] == i.dtype;
      break;
    case Types::kClassify:
      fits = IsReal(types[0]) && i.dtype == DataType::kBool;
      break;
  }
  if (fits) return absl::OkStatus();
  return Refuse(i, absl::StrCat("not on ",
                                absl::StrJoin(types, ", ",
                                              [](std::string* out, DataType t) {
                                                absl::StrAppend(out, Name(t));
                                              }),
                                " with a result of ", Name(i.dtype)));
}

absl::Status CheckInstruction(const ElementwiseProgram& program, const Instruction& i,
                              int registers) {
  const OpcodeRow& row = RowOf(i.opcode);
  if (static_cast<int>(i.operands.size()) != row.operands) {
    return Refuse(i, absl::StrCat("expected ", row.operands, " operands, got ", i.operands.size()));
  }
  absl::InlinedVector<DataType, 3> types;
  for (int r : i.operands) {
    if (r < 0 || r >= registers) return Refuse(i, absl::StrCat("register ", r, " is not known"));
    types.push_back(program.TypeOf(r));
  }
  return CheckTypes(i, types);
}

std::string RegisterName(const ElementwiseProgram& program, int reg) {
  const int n = static_cast<int>(program.inputs.size());
  return reg < n ? absl::StrCat("x", reg) : absl::StrCat("t", reg - n);
}

std::string Number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", value);
  // The shortest form that reads back equal.
  for (int digits = 1; digits < 17; ++digits) {
    char shorter[40];
    std::snprintf(shorter, sizeof shorter, "%.*g", digits, value);
    double back = 0;
    if (absl::SimpleAtod(shorter, &back) && back == value) return shorter;
  }
  return text;
}

}  // namespace

const OpcodeRow& RowOf(Opcode opcode) { return kRows[static_cast<int>(opcode)]; }

int ElementwiseProgram::Append(Opcode opcode, absl::Span<const int> operands,
                               std::array<double, 2> immediates, DataType dtype) {
  Instruction made;
  made.opcode = opcode;
  made.operands.assign(operands.begin(), operands.end());
  made.immediates = immediates;
  switch (RowOf(opcode).types) {
    case Types::kNone:
    case Types::kCast:
      made.dtype = dtype;
      break;
    case Types::kCompare:
    case Types::kClassify:
    case Types::kBool:
      made.dtype = DataType::kBool;
      break;
    case Types::kWhere:
      made.dtype = TypeOf(operands[1]);
      break;
    case Types::kSame:
    case Types::kFloating:
      made.dtype = TypeOf(operands[0]);
      break;
  }
  // Of a very long program the last part is searched: time must not grow with its square.
  constexpr size_t kSearched = 512;
  const size_t begin = instructions.size() > kSearched ? instructions.size() - kSearched : 0;
  for (size_t k = begin; k < instructions.size(); ++k) {
    if (instructions[k] == made) return static_cast<int>(inputs.size() + k);
  }
  instructions.push_back(std::move(made));
  return num_registers() - 1;
}

absl::Status Validate(const ElementwiseProgram& program) {
  for (DataType t : program.inputs) {
    if (!IsRegisterType(t)) {
      return absl::InvalidArgumentError(
          absl::StrCat("elementwise program: input of type ", Name(t)));
    }
  }
  int registers = static_cast<int>(program.inputs.size());
  for (const Instruction& i : program.instructions) {
    RETURN_IF_ERROR(CheckInstruction(program, i, registers));
    ++registers;
  }
  if (program.outputs.empty()) {
    return absl::InvalidArgumentError("elementwise program: no outputs");
  }
  for (int r : program.outputs) {
    if (r < 0 || r >= registers) {
      return absl::InvalidArgumentError(
          absl::StrCat("elementwise program: output register ", r, " is not known"));
    }
  }
  return absl::OkStatus();
}

std::string ToString(const ElementwiseProgram& program) {
  const auto name = [&](std::string* out, int reg) {
    absl::StrAppend(out, RegisterName(program, reg));
  };
  std::string text;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", Name(program.inputs[i]), " x", i);
  }
  absl::StrAppend(&text, " -> ", absl::StrJoin(program.outputs, ", ", name), ":");
  const int first = static_cast<int>(program.inputs.size());
  for (int reg = first; reg < program.num_registers(); ++reg) {
    const Instruction& i = program.Producer(reg);
    const OpcodeRow& row = RowOf(i.opcode);
    absl::StrAppend(&text, reg == first ? " " : "; ", RegisterName(program, reg), ":",
                    Name(i.dtype), " = ", row.name);
    for (int k = 0; k < row.immediates; ++k) {
      absl::StrAppend(&text, k == 0 ? "<" : ", ", Number(i.immediates[k]));
    }
    absl::StrAppend(&text, row.immediates > 0 ? ">" : "", "(",
                    absl::StrJoin(i.operands, ", ", name), ")");
  }
  return text;
}

namespace {

absl::Status BadText(absl::string_view what, absl::string_view text) {
  return absl::InvalidArgumentError(
      absl::StrCat("elementwise program: expected ", what, ", found '", text, "'"));
}

absl::StatusOr<int> ParseRegister(const ElementwiseProgram& program, absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  int index = 0;
  const bool input = !text.empty() && text[0] == 'x';
  if (text.size() < 2 || (text[0] != 'x' && text[0] != 't') ||
      !absl::SimpleAtoi(text.substr(1), &index) || index < 0 || index > 1000000) {
    return BadText("a register", text);
  }
  return input ? index : static_cast<int>(program.inputs.size()) + index;
}

absl::StatusOr<std::vector<int>> ParseRegisters(const ElementwiseProgram& program,
                                                absl::string_view text) {
  std::vector<int> out;
  if (absl::StripAsciiWhitespace(text).empty()) return out;
  for (absl::string_view piece : absl::StrSplit(text, ',')) {
    ASSIGN_OR_RETURN(int reg, ParseRegister(program, piece));
    out.push_back(reg);
  }
  return out;
}

// "t0:float32 = LeakyRelu<0.01>(x0)"
absl::StatusOr<Instruction> ParseInstruction(const ElementwiseProgram& program,
                                             absl::string_view text) {
  const size_t colon = text.find(':'), equals = text.find('='), open = text.find('(');
  if (colon == absl::string_view::npos || equals == absl::string_view::npos ||
      open == absl::string_view::npos || colon > equals || equals > open || text.back() != ')') {
    return BadText("an instruction", text);
  }
  Instruction out;
  ASSIGN_OR_RETURN(int reg, ParseRegister(program, text.substr(0, colon)));
  if (reg != program.num_registers()) return BadText("the next register", text);
  ASSIGN_OR_RETURN(
      out.dtype,
      ParseDataType(absl::StripAsciiWhitespace(text.substr(colon + 1, equals - colon - 1))));
  absl::string_view name = absl::StripAsciiWhitespace(text.substr(equals + 1, open - equals - 1));
  std::vector<absl::string_view> numbers;
  const size_t angle = name.find('<');
  if (angle != absl::string_view::npos) {
    if (name.back() != '>') return BadText("'>'", name);
    numbers = absl::StrSplit(name.substr(angle + 1, name.size() - angle - 2), ',');
    name = name.substr(0, angle);
  }
  const OpcodeRow* row = nullptr;
  for (const OpcodeRow& r : kRows) {
    if (name == r.name) row = &r;
  }
  if (row == nullptr) return BadText("an opcode", name);
  out.opcode = row->opcode;
  if (static_cast<int>(numbers.size()) != row->immediates) return BadText("its numbers", text);
  for (int k = 0; k < row->immediates; ++k) {
    if (!absl::SimpleAtod(absl::StripAsciiWhitespace(numbers[k]), &out.immediates[k])) {
      return BadText("a number", numbers[k]);
    }
  }
  ASSIGN_OR_RETURN(std::vector<int> operands,
                   ParseRegisters(program, text.substr(open + 1, text.size() - open - 2)));
  out.operands.assign(operands.begin(), operands.end());
  return out;
}

}  // namespace

absl::StatusOr<ElementwiseProgram> ParseProgram(absl::string_view text) {
  ElementwiseProgram program;
  const size_t arrow = text.find("->");
  const size_t colon = arrow == absl::string_view::npos ? arrow : text.find(':', arrow);
  if (colon == absl::string_view::npos) return BadText("'inputs -> outputs: instructions'", text);
  const absl::string_view inputs = absl::StripAsciiWhitespace(text.substr(0, arrow));
  if (!inputs.empty()) {
    for (absl::string_view piece : absl::StrSplit(inputs, ',')) {
      piece = absl::StripAsciiWhitespace(piece);
      const size_t space = piece.find(' ');
      if (piece.substr(space == absl::string_view::npos ? 0 : space) !=
          absl::StrCat(" x", program.inputs.size())) {
        return BadText(absl::StrCat("'type x", program.inputs.size(), "'"), piece);
      }
      ASSIGN_OR_RETURN(DataType type, ParseDataType(piece.substr(0, space)));
      program.inputs.push_back(type);
    }
  }
  const absl::string_view body = absl::StripAsciiWhitespace(text.substr(colon + 1));
  if (!body.empty()) {
    for (absl::string_view piece : absl::StrSplit(body, ';')) {
      ASSIGN_OR_RETURN(Instruction i, ParseInstruction(program, absl::StripAsciiWhitespace(piece)));
      program.instructions.push_back(std::move(i));
    }
  }
  ASSIGN_OR_RETURN(program.outputs,
                   ParseRegisters(program, text.substr(arrow + 2, colon - arrow - 2)));
  RETURN_IF_ERROR(Validate(program));
  return program;
}

std::vector<bool> KeepsZero(const ElementwiseProgram& program, const std::vector<bool>& zero) {
  std::vector<bool> z = zero;
  const auto constant = [&](int reg, double* value) {
    if (program.IsInput(reg) || program.Producer(reg).opcode != Opcode::kConstant) return false;
    *value = program.Producer(reg).immediates[0];
    return std::isfinite(*value);
  };
  for (const Instruction& i : program.instructions) {
    const auto& r = i.operands;
    const int n = static_cast<int>(r.size());
    const bool a = n > 0 && z[r[0]], b = n > 1 && z[r[1]], c = n > 2 && z[r[2]];
    double value = 0;
    bool keeps = a;  // most functions of one operand are zero at zero
    switch (i.opcode) {
      case Opcode::kConstant:
        keeps = i.immediates[0] == 0;
        break;
      case Opcode::kMul:
        keeps = (a && (b || constant(r[1], &value))) || (b && constant(r[0], &value));
        break;
      case Opcode::kDiv:
        keeps = a && constant(r[1], &value) && value != 0;
        break;
      case Opcode::kPow:
        keeps = a && constant(r[1], &value) && value > 0;
        break;
      case Opcode::kPRelu:
        keeps = a;
        break;
      case Opcode::kAnd:
        keeps = a || b;
        break;
      case Opcode::kWhere:
        keeps = c && (a || b);
        break;
      case Opcode::kAdd:
      case Opcode::kSub:
      case Opcode::kMin:
      case Opcode::kMax:
      case Opcode::kLess:
      case Opcode::kGreater:
      case Opcode::kOr:
      case Opcode::kXor:
        keeps = a && b;
        break;
      case Opcode::kEqual:
      case Opcode::kLessOrEqual:
      case Opcode::kGreaterOrEqual:
      case Opcode::kNot:
      case Opcode::kReciprocal:
      case Opcode::kExp:
      case Opcode::kLog:
      case Opcode::kCos:
      case Opcode::kAcos:
      case Opcode::kCosh:
      case Opcode::kAcosh:
      case Opcode::kSigmoid:
      case Opcode::kSoftplus:
        keeps = false;
        break;
      case Opcode::kHardSigmoid:
        keeps = a && i.immediates[1] <= 0;
        break;
      case Opcode::kShrink:
        keeps = a && i.immediates[1] >= 0;
        break;
      default:
        break;
    }
    z.push_back(keeps);
  }
  std::vector<bool> out;
  for (int reg : program.outputs) out.push_back(z[reg]);
  return out;
}

}  // namespace onward
