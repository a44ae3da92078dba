// What passes make of several operators.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "graph/base/expression.h"
#include "graph/base/status_macros.h"
#include "graph/ir/builder.h"
#include "graph/ir/graph.h"
#include "graph/ops/operators.h"

namespace onward {
namespace {

absl::StatusOr<ElementwiseProgram> ProgramOf(const Attributes& attributes, int inputs,
                                             int outputs) {
  ASSIGN_OR_RETURN(ElementwiseProgram program, ParseProgram(attributes.String("program", "")));
  if (static_cast<int>(program.inputs.size()) != inputs ||
      static_cast<int>(program.outputs.size()) != outputs) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected ", program.inputs.size(), " inputs and ", program.outputs.size(),
                     " outputs, as the program has, found ", inputs, " and ", outputs));
  }
  return program;
}

absl::Status InferElementwise(InferContext& c) {
  ASSIGN_OR_RETURN(const ElementwiseProgram program,
                   ProgramOf(c.attributes(), c.num_inputs(), c.num_outputs()));
  Dims dims;
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (!c.has(i) || c.input(i).dtype != program.inputs[i]) {
      return absl::InvalidArgumentError(absl::StrCat(
          "input ", i, ": expected type ", Name(program.inputs[i]), ", as the program has"));
    }
    ASSIGN_OR_RETURN(dims, Broadcast(dims, c.input(i).dims));
  }
  for (int o = 0; o < c.num_outputs(); ++o) {
    c.SetOutput(o, program.TypeOf(program.outputs[o]), dims);
  }
  return absl::OkStatus();
}

absl::Status LowerElementwise(LowerContext& c) {
  ASSIGN_OR_RETURN(const ElementwiseProgram program,
                   ProgramOf(c.attributes(), c.num_inputs(), c.node().num_outputs()));
  std::vector<Expr> registers;
  for (int i = 0; i < c.num_inputs(); ++i) registers.push_back(c.x(i));
  for (const Instruction& i : program.instructions) {
    if (i.opcode == Opcode::kConstant) {
      registers.push_back(c.b().Scalar(i.dtype, i.immediates[0]));
      continue;
    }
    const OnnxUse use = OnnxOf(i);
    std::vector<Expr> operands;
    for (int r : i.operands) operands.push_back(registers[r]);
    registers.push_back(c.b().Op(use.op, operands, use.attributes));
  }
  for (int o = 0; o < c.node().num_outputs(); ++o) {
    // A result of smaller inputs only.
    if (c.wants(o)) c.y(o, c.b().Expand(registers[program.outputs[o]], c.node().output(o)->dims()));
  }
  return absl::OkStatus();
}

double OperationsOfElementwise(const Node& node) {
  const auto program = ProgramOf(node.attributes, node.num_inputs(), node.num_outputs());
  ONWARD_CHECK(program.ok());
  return static_cast<double>(node.output(0)->type.elements()) *
         static_cast<double>(program->instructions.size());
}

// A graph of one use, its inputs and outputs being those of the graph.
std::string TextOf(const std::string& inputs, const std::string& outputs,
                   const std::string& program) {
  const auto names = [](absl::string_view list) {
    std::vector<std::string> out;
    for (absl::string_view piece : absl::StrSplit(list, ", ")) {
      // Extents have commas too.
      if (piece.find(' ') != absl::string_view::npos)
        out.emplace_back(piece.substr(piece.rfind(' ') + 1));
    }
    return absl::StrJoin(out, ", ");
  };
  return absl::StrCat("g (", inputs, ") => (", outputs, ") { ", names(outputs),
                      " = onward.Elementwise <program = \"", program, "\"> (", names(inputs),
                      ") }");
}

}  // namespace

void AddFusedOperators(OperatorFamily& list) {
  // y_k[i] = program(x_0[i], x_1[i], ...) on inputs broadcast to one another.
  list.push_back(
      Operator(kOnward, "Elementwise")
          .Elementwise()
          .Example(
              TextOf("float[3, 5] x", "float[3, 5] y", "float32 x0 -> t0: t0:float32 = Exp(x0)"))
          // A bias, a residual, an activation; the sum is an output too.
          .Example(TextOf("float[3, 7] x, float[7] b, float[3, 7] r",
                          "float[3, 7] y, float[3, 7] s",
                          "float32 x0, float32 x1, float32 x2 -> t2, t1: t0:float32 = Add(x0, x1); "
                          "t1:float32 = Add(t0, x2); t2:float32 = Relu(t1)"))
          // Per channel, with a scalar, numbers and a mask.
          .Example(TextOf("float[2, 3, 4, 5] x, float[1, 3, 1, 1] s, float[] k",
                          "float[2, 3, 4, 5] y",
                          "float32 x0, float32 x1, float32 x2 -> t3: t0:float32 = Mul(x0, x1); "
                          "t1:float32 = Constant<0.25>(); t2:bool = Greater(t0, t1); t3:float32 = "
                          "Where(t2, t0, x2)"))
          // Outputs of several types, one of them a smaller input.
          .Example(TextOf("float[4, 1] x, float[6] z, int64[4, 6] signed_i",
                          "float[4, 6] y, bool[4, 6] m, float[4, 6] w",
                          "float32 x0, float32 x1, int64 x2 -> t2, t3, x1: t0:float32 = Cast(x2); "
                          "t1:float32 = LeakyRelu<0.125>(x0); t2:float32 = Mul(t1, t0); t3:bool = "
                          "Less(t2, x1)"))
          // No element.
          .Example(TextOf("float[0, 3] x, float[3] z", "float[0, 3] y",
                          "float32 x0, float32 x1 -> t0: t0:float32 = Sub(x0, x1)"))
          .Lower(LowerElementwise)
          .Operations(OperationsOfElementwise)
          .Infer(InferElementwise));
}

}  // namespace onward
