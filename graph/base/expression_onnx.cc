// Which instructions stand for ONNX's elementwise operators.
#include "absl/strings/str_cat.h"
#include "graph/base/expression.h"

namespace onward {
namespace {

// Operators that are one instruction on all their inputs, and the attributes that
// become immediates.
struct Direct {
  const char* op;
  Opcode opcode;
  struct {
    const char* name = nullptr;
    double otherwise = 0;
  } attributes[2] = {};
};

constexpr Direct kDirect[] = {
    {"Add", Opcode::kAdd},
    {"Sub", Opcode::kSub},
    {"Mul", Opcode::kMul},
    {"Div", Opcode::kDiv},
    {"Pow", Opcode::kPow},
    {"PRelu", Opcode::kPRelu},
    {"Equal", Opcode::kEqual},
    {"Less", Opcode::kLess},
    {"LessOrEqual", Opcode::kLessOrEqual},
    {"Greater", Opcode::kGreater},
    {"GreaterOrEqual", Opcode::kGreaterOrEqual},
    {"And", Opcode::kAnd},
    {"Or", Opcode::kOr},
    {"Xor", Opcode::kXor},
    {"Not", Opcode::kNot},
    {"Where", Opcode::kWhere},
    {"Abs", Opcode::kAbs},
    {"Neg", Opcode::kNeg},
    {"Sign", Opcode::kSign},
    {"Reciprocal", Opcode::kReciprocal},
    {"Sqrt", Opcode::kSqrt},
    {"Exp", Opcode::kExp},
    {"Log", Opcode::kLog},
    {"Sin", Opcode::kSin},
    {"Cos", Opcode::kCos},
    {"Tan", Opcode::kTan},
    {"Asin", Opcode::kAsin},
    {"Acos", Opcode::kAcos},
    {"Atan", Opcode::kAtan},
    {"Sinh", Opcode::kSinh},
    {"Cosh", Opcode::kCosh},
    {"Tanh", Opcode::kTanh},
    {"Asinh", Opcode::kAsinh},
    {"Acosh", Opcode::kAcosh},
    {"Atanh", Opcode::kAtanh},
    {"Erf", Opcode::kErf},
    {"Floor", Opcode::kFloor},
    {"Ceil", Opcode::kCeil},
    {"Round", Opcode::kRound},
    {"Relu", Opcode::kRelu},
    {"Sigmoid", Opcode::kSigmoid},
    {"Softplus", Opcode::kSoftplus},
    {"Softsign", Opcode::kSoftsign},
    {"Mish", Opcode::kMish},
    {"HardSwish", Opcode::kHardSwish},
    {"IsNaN", Opcode::kIsNaN},
    {"LeakyRelu", Opcode::kLeakyRelu, {{"alpha", 0.01f}}},
    {"Elu", Opcode::kElu, {{"alpha", 1}}},
    {"Celu", Opcode::kCelu, {{"alpha", 1}}},
    {"Selu",
     Opcode::kSelu,
     {{"alpha", 1.67326319217681884765625}, {"gamma", 1.05070102214813232421875}}},
    {"HardSigmoid", Opcode::kHardSigmoid, {{"alpha", 0.2f}, {"beta", 0.5}}},
    {"ThresholdedRelu", Opcode::kThresholdedRelu, {{"alpha", 1}}},
    {"Shrink", Opcode::kShrink, {{"bias", 0}, {"lambd", 0.5}}},
    {"Swish", Opcode::kSwish, {{"alpha", 1}}},
    {"IsInf", Opcode::kIsInf, {{"detect_negative", 1}, {"detect_positive", 1}}},
};

const char* const kComposed[] = {"Identity", "Cast", "Clip", "Gelu", "Sum", "Mean", "Max", "Min"};

double NumberOf(const Attributes& attributes, const char* name, double otherwise) {
  const AttributeValue* value = attributes.Find(name);
  if (value == nullptr) return otherwise;
  if (const auto* i = std::get_if<int64_t>(value)) return static_cast<double>(*i);
  return attributes.Float(name, otherwise);
}

bool AllPresent(absl::Span<const int> operands) {
  for (int r : operands) {
    if (r < 0) return false;
  }
  return !operands.empty();
}

// Left to right, as ONNX's variadic operators are defined.
int Fold(ElementwiseProgram& p, Opcode opcode, absl::Span<const int> operands) {
  int result = operands[0];
  for (size_t i = 1; i < operands.size(); ++i) result = p.Append(opcode, {result, operands[i]});
  return operands.size() == 1 ? p.Append(Opcode::kCopy, {result}) : result;
}

// -1 where `op` is none of the composed ones.
int AppendComposed(ElementwiseProgram& p, absl::string_view op, const Attributes& attributes,
                   absl::Span<const int> operands, DataType to) {
  const int x = operands[0];
  if (op == "Identity") return p.Append(Opcode::kCopy, {x});
  if (op == "Cast") {
    return p.TypeOf(x) == to ? p.Append(Opcode::kCopy, {x}) : p.Append(Opcode::kCast, {x}, {}, to);
  }
  if (op == "Gelu") {
    const bool tanh = attributes.String("approximate", "none") == "tanh";
    return p.Append(tanh ? Opcode::kGeluTanh : Opcode::kGelu, {x});
  }
  if (op == "Sum") return Fold(p, Opcode::kAdd, operands);
  if (op == "Max") return Fold(p, Opcode::kMax, operands);
  if (op == "Min") return Fold(p, Opcode::kMin, operands);
  if (op == "Mean") {
    const int sum = Fold(p, Opcode::kAdd, operands);
    if (operands.size() == 1) return sum;
    return p.Append(Opcode::kDiv,
                    {sum, p.AppendConstant(to, static_cast<double>(operands.size()))});
  }
  if (op == "Clip") {
    int y = x;
    if (operands.size() > 1 && operands[1] >= 0) y = p.Append(Opcode::kMax, {y, operands[1]});
    if (operands.size() > 2 && operands[2] >= 0) y = p.Append(Opcode::kMin, {y, operands[2]});
    return y == x ? p.Append(Opcode::kCopy, {x}) : y;
  }
  return -1;
}

// Small constant exponents are products.
int AppendPower(ElementwiseProgram& p, int base, int exponent) {
  if (!p.IsInput(exponent) && p.Producer(exponent).opcode == Opcode::kConstant) {
    const double value = p.Producer(exponent).immediates[0];
    if (value == 1) return p.Append(Opcode::kCopy, {base});
    if (value == 2) return p.Append(Opcode::kMul, {base, base});
    if (value == 3) return p.Append(Opcode::kMul, {p.Append(Opcode::kMul, {base, base}), base});
    if (value == -1) return p.Append(Opcode::kReciprocal, {base});
  }
  return p.Append(Opcode::kPow, {base, exponent});
}

int AppendDirect(ElementwiseProgram& p, absl::string_view op, const Attributes& attributes,
                 absl::Span<const int> operands) {
  for (const Direct& d : kDirect) {
    if (op != d.op || static_cast<int>(operands.size()) != RowOf(d.opcode).operands) continue;
    std::array<double, 2> immediates{};
    for (int k = 0; k < 2; ++k) {
      if (d.attributes[k].name != nullptr) {
        immediates[k] = NumberOf(attributes, d.attributes[k].name, d.attributes[k].otherwise);
      }
    }
    absl::InlinedVector<int, 3> registers(operands.begin(), operands.end());
    // The exponent may be of another type.
    if (d.opcode == Opcode::kPow && p.TypeOf(registers[0]) != p.TypeOf(registers[1])) {
      registers[1] = p.Append(Opcode::kCast, {registers[1]}, {}, p.TypeOf(registers[0]));
    }
    if (d.opcode == Opcode::kPow) return AppendPower(p, registers[0], registers[1]);
    return p.Append(d.opcode, registers, immediates);
  }
  return -1;
}

}  // namespace

absl::StatusOr<int> AppendOperator(ElementwiseProgram* program, absl::string_view op,
                                   const Attributes& attributes, absl::Span<const int> operands,
                                   DataType to) {
  const absl::Status refused =
      absl::UnimplementedError(absl::StrCat("no elementwise instruction for ", op));
  if (operands.empty() || operands[0] < 0) return refused;
  if (op != "Clip" && !AllPresent(operands)) return refused;
  const size_t before = program->instructions.size();
  int result = AppendComposed(*program, op, attributes, operands, to);
  if (result < 0) result = AppendDirect(*program, op, attributes, operands);
  if (result < 0) return refused;
  const std::vector<int> outputs = std::move(program->outputs);
  program->outputs = {result};
  const absl::Status valid = Validate(*program);
  program->outputs = outputs;
  if (!valid.ok() || program->TypeOf(result) != to) {
    program->instructions.resize(before);
    return absl::UnimplementedError(
        absl::StrCat("no elementwise instruction for ", op, " on these types"));
  }
  return result;
}

OnnxUse OnnxOf(const Instruction& instruction) {
  switch (instruction.opcode) {
    case Opcode::kConstant:
      return {};
    case Opcode::kCopy:
      return {"Identity", {}};
    case Opcode::kCast:
      return {"Cast", {{"to", static_cast<int64_t>(instruction.dtype)}}};
    case Opcode::kGeluTanh:
      return {"Gelu", {{"approximate", std::string("tanh")}}};
    case Opcode::kIsInf:
      return {"IsInf",
              {{"detect_negative", static_cast<int64_t>(instruction.immediates[0])},
               {"detect_positive", static_cast<int64_t>(instruction.immediates[1])}}};
    default:
      break;
  }
  OnnxUse use{RowOf(instruction.opcode).name, {}};
  for (const Direct& d : kDirect) {
    if (d.opcode != instruction.opcode) continue;
    for (int k = 0; k < RowOf(d.opcode).immediates; ++k) {
      use.attributes.Set(d.attributes[k].name, instruction.immediates[k]);
    }
  }
  return use;
}

const std::vector<std::string>& ProgrammableOperators() {
  static const auto* const names = [] {
    auto* list = new std::vector<std::string>;
    for (const Direct& d : kDirect) list->push_back(d.op);
    for (const char* name : kComposed) list->push_back(name);
    return list;
  }();
  return *names;
}

}  // namespace onward
