#include "graph/base/expression.h"

#include <gtest/gtest.h>

#include <cmath>

namespace onward {
namespace {

constexpr DataType kF = DataType::kFloat32;

ElementwiseProgram Sample() {
  ElementwiseProgram p;
  p.inputs = {kF, kF};
  const int sum = p.Append(Opcode::kAdd, {0, 1});
  const int leaky = p.Append(Opcode::kLeakyRelu, {sum}, {0.1, 0});
  const int positive = p.Append(Opcode::kGreater, {sum, p.AppendConstant(kF, 1.0 / 3)});
  p.outputs = {leaky, positive};
  return p;
}

TEST(Expression, PrintsAndParses) {
  const ElementwiseProgram p = Sample();
  const std::string text = ToString(p);
  EXPECT_EQ(text,
            "float32 x0, float32 x1 -> t1, t3: t0:float32 = Add(x0, x1); t1:float32 = "
            "LeakyRelu<0.1>(t0); t2:float32 = Constant<0.3333333333333333>(); t3:bool = "
            "Greater(t0, t2)");
  const auto again = ParseProgram(text);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->inputs, p.inputs);
  EXPECT_EQ(again->outputs, p.outputs);
  EXPECT_TRUE(again->instructions == p.instructions);
  EXPECT_EQ(ToString(*again), text);
}

TEST(Expression, EveryOpcodeSurvivesText) {
  for (int k = 0; k < static_cast<int>(Opcode::kCount); ++k) {
    const OpcodeRow& row = RowOf(static_cast<Opcode>(k));
    ASSERT_EQ(static_cast<int>(row.opcode), k);
    const bool bools = row.types == OpcodeRow::Types::kBool;
    ElementwiseProgram p;
    p.inputs = {bools ? DataType::kBool : kF, bools ? DataType::kBool : kF, DataType::kBool};
    std::vector<int> operands;
    for (int i = 0; i < row.operands; ++i) operands.push_back(i % 2);
    if (row.opcode == Opcode::kWhere) operands = {2, 0, 1};
    p.outputs = {p.Append(row.opcode, operands, {}, kF)};
    const auto again = ParseProgram(ToString(p));
    ASSERT_TRUE(again.ok()) << ToString(p) << "\n" << again.status();
    EXPECT_TRUE(again->instructions == p.instructions) << ToString(p);
  }
}

TEST(Expression, FindsTheSameInstructionAgain) {
  ElementwiseProgram p;
  p.inputs = {kF};
  EXPECT_EQ(p.Append(Opcode::kExp, {0}), p.Append(Opcode::kExp, {0}));
  EXPECT_NE(p.AppendConstant(kF, 1), p.AppendConstant(kF, 2));
  EXPECT_NE(p.AppendConstant(kF, 1), p.AppendConstant(DataType::kFloat64, 1));
}

TEST(Expression, RefusesWhatIsWrong) {
  for (const char* text :
       {"", "float32 x0", "float32 x0 -> : t0:float32 = Exp(x0)",
        "float32 x0 -> t0: t0:float32 = Exp(x1)", "float32 x0 -> t0: t0:float32 = Exp(t0)",
        "float32 x0 -> t1: t0:float32 = Exp(x0)", "float32 x0 -> t0: t0:float64 = Exp(x0)",
        "float32 x0 -> t0: t0:float32 = Exq(x0)", "float32 x0 -> t0: t0:float32 = Exp<1>(x0)",
        "float32 x0 -> t0: t0:float32 = Exp(x0, x0)", "float32 x0 -> t0: t0:float32 = Exp(x0",
        "float32 x0 -> t0: t1:float32 = Exp(x0)", "string x0 -> x0:",
        "bool x0 -> t0: t0:bool = Add(x0, x0)", "int64 x0 -> t0: t0:int64 = Exp(x0)",
        "float32 x1 -> x0:", "float32 x0 -> t0: t0:float32 = LeakyRelu<z>(x0)",
        "float32 x0 -> t0: t0:float32 = Where(x0, x0, x0)", "float32 x0 -> x99999999999:"}) {
    const auto p = ParseProgram(text);
    EXPECT_FALSE(p.ok()) << text;
  }
}

TEST(Expression, OperatorsOfOnnx) {
  ElementwiseProgram p;
  p.inputs = {kF, kF, kF};
  const auto clip = AppendOperator(&p, "Clip", {}, {0, -1, 2}, kF);
  ASSERT_TRUE(clip.ok());
  const auto mean = AppendOperator(&p, "Mean", {}, {*clip, 1, 2}, kF);
  ASSERT_TRUE(mean.ok());
  const auto selu = AppendOperator(&p, "Selu", {{"gamma", 2.0}}, {*mean}, kF);
  ASSERT_TRUE(selu.ok());
  p.outputs = {*selu};
  EXPECT_EQ(ToString(p),
            "float32 x0, float32 x1, float32 x2 -> t5: t0:float32 = Min(x0, x2); t1:float32 = "
            "Add(t0, x1); t2:float32 = Add(t1, x2); t3:float32 = Constant<3>(); t4:float32 = "
            "Div(t2, t3); t5:float32 = Selu<1.6732631921768188, 2>(t4)");
  const size_t before = p.instructions.size();
  EXPECT_TRUE(absl::IsUnimplemented(AppendOperator(&p, "Softmax", {}, {0}, kF).status()));
  EXPECT_TRUE(absl::IsUnimplemented(AppendOperator(&p, "And", {}, {0, 1}, kF).status()));
  EXPECT_EQ(p.instructions.size(), before);
}

TEST(Expression, KeepsZero) {
  const auto keeps = [](const char* text, const std::vector<bool>& zero) -> bool {
    const auto p = ParseProgram(text);
    EXPECT_TRUE(p.ok()) << p.status();
    return KeepsZero(*p, zero)[0];
  };
  EXPECT_TRUE(keeps("float32 x0 -> t0: t0:float32 = Relu(x0)", {true}));
  EXPECT_FALSE(keeps("float32 x0 -> t0: t0:float32 = Exp(x0)", {true}));
  EXPECT_TRUE(keeps("float32 x0, float32 x1 -> t0: t0:float32 = Add(x0, x1)", {true, true}));
  EXPECT_FALSE(keeps("float32 x0, float32 x1 -> t0: t0:float32 = Add(x0, x1)", {true, false}));
  // Zero times an unknown number may be NaN.
  EXPECT_FALSE(keeps("float32 x0, float32 x1 -> t0: t0:float32 = Mul(x0, x1)", {true, false}));
  EXPECT_TRUE(
      keeps("float32 x0 -> t1: t0:float32 = Constant<3>(); t1:float32 = Mul(x0, t0)", {true}));
}

}  // namespace
}  // namespace onward
