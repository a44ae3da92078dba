// What the operator suite does not try of optimizer kernels: memory in place,
// layouts with padding, threads, instruction sets, a denominator of zero.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "hwy/targets.h"
#include "kernels/cpu/try_row.h"
#include "kernels/kernel.h"

namespace onward {
namespace {

// A call of one kernel whose tensors all have one type, in place.
struct InPlace {
  TensorType type;
  int moments;
  std::vector<Tensor> memory;  // parameter, gradient, moments
  Tensor lr = Tensor::Scalar(0.1);
  Tensor step = Tensor::Scalar<int64_t>(2);
  Tensor denominator = Tensor::Scalar(4.0);

  InPlace(TensorType t, int moments_) : type(std::move(t)), moments(moments_) {
    for (int k = 0; k < 2 + moments; ++k) {
      memory.emplace_back(type.dtype, Dims{PaddedElements(type.dims, type.layout)});
    }
  }

  // Element i of every operand. Moments are positive, the third one small: the mean
  // gradient of RMSprop, whose square the mean square exceeds.
  void Fill() {
    for (int k = 0; k < 2 + moments; ++k) {
      for (int64_t i = 0; i < memory[k].elements(); ++i) {
        double x = std::sin(static_cast<double>(i * 7 + k)) + (k > 1 ? 1.5 : 0);
        if (k == 4) x /= 10;
        if (type.dtype == DataType::kFloat32) {
          memory[k].mutable_values<float>()[i] = static_cast<float>(x);
        } else {
          memory[k].mutable_values<double>()[i] = x;
        }
      }
    }
  }

  absl::Status Run(const Kernel& kernel, const Attributes& attributes, int threads,
                   Tensor* apart = nullptr) {
    const TensorType lr_type = lr.type(), step_type = step.type();
    KernelCall call;
    KernelMemory m;
    call.op = kernel.op;
    call.attributes = &attributes;
    const auto input = [&](const TensorType& t, void* data) {
      call.inputs.push_back(&t);
      m.inputs.push_back({t, data});
    };
    for (Tensor& t : memory) input(type, t.data());
    input(lr_type, lr.data());
    input(step_type, step.data());
    input(lr_type, denominator.data());
    for (int k = 0; k < 1 + moments; ++k) {
      call.outputs.push_back(&type);
      m.outputs.push_back(
          {type, apart != nullptr ? apart[k].data() : memory[k == 0 ? 0 : k + 1].data()});
    }
    absl::Status status = kernel.accepts(call);
    if (!status.ok()) return status;
    auto bound = kernel.prepare(call, m, Execution{threads});
    return bound.ok() ? (*bound)->Run() : bound.status();
  }
};

struct Case {
  const char* row;
  const char* reference;
  int moments;
  Attributes attributes;
};

std::vector<Case> Cases() {
  return {
      {"cpu.sgd", "reference.onward.SgdUpdate", 1, {{"momentum", 0.9}, {"weight_decay", 0.01}}},
      {"cpu.adam", "reference.onward.AdamUpdate", 3, {{"weight_decay", 0.01}}},
      {"cpu.rmsprop", "reference.onward.RmsPropUpdate", 3, {{"momentum", 0.5}, {"epsilon", 0.1}}},
      {"cpu.adagrad", "reference.onward.AdagradUpdate", 1, {{"clip_value", 0.05}}},
  };
}

bool SameBits(const Tensor& a, const Tensor& b) {
  return std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

TEST(OptimizerKernels, InPlaceAndThreadsGiveTheSameBits) {
  for (const Case& c : Cases()) {
    for (const DataType dtype : {DataType::kFloat32, DataType::kFloat64}) {
      const TensorType type = {dtype, {50021}, {}};
      InPlace apart(type, c.moments);
      apart.Fill();
      std::vector<Tensor> results;
      for (int k = 0; k < 1 + c.moments; ++k) results.emplace_back(dtype, type.dims);
      ASSERT_TRUE(apart.Run(RowNamed(c.row), c.attributes, 1, results.data()).ok()) << c.row;
      for (const int threads : {1, 2, 3}) {
        InPlace in_place(type, c.moments);
        in_place.Fill();
        ASSERT_TRUE(in_place.Run(RowNamed(c.row), c.attributes, threads).ok()) << c.row;
        EXPECT_TRUE(SameBits(in_place.memory[0], results[0])) << c.row << " " << threads;
        for (int k = 0; k < c.moments; ++k) {
          EXPECT_TRUE(SameBits(in_place.memory[2 + k], results[1 + k])) << c.row << " " << threads;
        }
      }
    }
  }
}

TEST(OptimizerKernels, EveryInstructionSetEqualsTheReference) {
  for (int64_t rest = hwy::SupportedTargets(); rest != 0; rest &= rest - 1) {
    hwy::SetSupportedTargetsForTest(rest & -rest);
    for (const Case& c : Cases()) {
      for (const int64_t size : {1, 5, 37, 1000}) {
        const TensorType type = {DataType::kFloat64, {size}, {}};
        InPlace expected(type, c.moments), made(type, c.moments);
        expected.Fill();
        made.Fill();
        ASSERT_TRUE(expected.Run(RowNamed(c.reference), c.attributes, 1).ok());
        ASSERT_TRUE(made.Run(RowNamed(c.row), c.attributes, 1).ok());
        for (int64_t i = 0; i < size; ++i) {
          ASSERT_NEAR(made.memory[0].At(i), expected.memory[0].At(i), 1e-13)
              << c.row << " on " << hwy::TargetName(rest & -rest);
        }
      }
    }
  }
  hwy::SetSupportedTargetsForTest(0);
}

// 5 output channels in blocks of 16: 11 of 16 are padding.
TEST(OptimizerKernels, ZeroPaddingStaysZeroInAnySharedLayout) {
  TensorType type = {DataType::kFloat32, {5, 3, 2, 2}, {}};
  type.layout.order = {0, 1, 2, 3};
  type.layout.blocks = {{0, 16}};
  for (const Case& c : Cases()) {
    InPlace call(type, c.moments);
    Dims index(4, 0);
    for (int64_t o = 0; o < 5; ++o) {
      index[0] = o;
      const int64_t at = OffsetOf(type.dims, type.layout, index);
      for (Tensor& t : call.memory) t.mutable_values<float>()[at] = 1;
    }
    ASSERT_TRUE(call.Run(RowNamed(c.row), c.attributes, 1).ok()) << c.row;
    int changed = 0, others = 0;
    for (int64_t i = 0; i < call.memory[0].elements(); ++i) {
      const float p = call.memory[0].values<float>()[i];
      if (p != 0) ++changed;
      if (std::isnan(p)) ++others;
    }
    EXPECT_EQ(changed, 5) << c.row;
    EXPECT_EQ(others, 0) << c.row;
  }
  InPlace call(type, 3);
  EXPECT_TRUE(absl::IsUnimplemented(call.Run(RowNamed("cpu.adam"), {{"epsilon", 0.0}}, 1)));
}

TEST(OptimizerKernels, AsksForOneLayoutAndRefusesTwo) {
  TensorType plain = {DataType::kFloat32, {16, 3, 2, 2}, {}};
  TensorType blocked = plain;
  blocked.layout.order = {0, 1, 2, 3};
  blocked.layout.blocks = {{0, 16}};
  const TensorType scalar = {DataType::kFloat32, {}, {}};
  const Attributes none;
  KernelCall call;
  call.op = "onward.SgdUpdate";
  call.attributes = &none;
  call.inputs = {&plain, &blocked, &plain, &scalar};
  call.outputs = {&plain, &plain};
  call.open_inputs = 0b0101;  // the gradient comes as it comes
  call.open_outputs = 0b11;
  const Kernel& sgd = RowNamed("cpu.sgd");
  ASSERT_TRUE(sgd.accepts(call).ok());
  const KernelNeeds needs = sgd.describe(call);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(needs.input_layouts[i] == blocked.layout);
  EXPECT_TRUE(needs.input_layouts[3].plain());
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(needs.output_layouts[i] == blocked.layout);
  call.open_inputs = 0;
  EXPECT_TRUE(absl::IsUnimplemented(sgd.accepts(call)));
}

TEST(OptimizerKernels, ADenominatorOfZeroMakesTheGradientZero) {
  for (const Case& c : Cases()) {
    for (const char* row : {c.row, c.reference}) {
      const TensorType type = {DataType::kFloat32, {21}, {}};
      InPlace none(type, c.moments), zero(type, c.moments);
      none.Fill();
      zero.Fill();
      none.denominator = Tensor::Scalar(0.0);
      for (float& g : none.memory[1].mutable_values<float>()) {
        g = std::numeric_limits<float>::quiet_NaN();
      }
      for (float& g : zero.memory[1].mutable_values<float>()) g = 0;
      ASSERT_TRUE(none.Run(RowNamed(row), c.attributes, 1).ok());
      ASSERT_TRUE(zero.Run(RowNamed(row), c.attributes, 1).ok());
      EXPECT_TRUE(SameBits(none.memory[0], zero.memory[0])) << row;
    }
  }
}

// A gradient that is not a number must reach the parameter, clipped or not.
TEST(OptimizerKernels, NaNIsNotClippedAway) {
  for (const Case& c : Cases()) {
    for (const char* row : {c.row, c.reference}) {
      InPlace call({DataType::kFloat32, {16}, {}}, c.moments);
      call.Fill();
      call.memory[1].mutable_values<float>()[3] = std::numeric_limits<float>::quiet_NaN();
      Attributes clipped = c.attributes;
      clipped.Set("clip_value", 0.5);
      ASSERT_TRUE(call.Run(RowNamed(row), clipped, 1).ok());
      EXPECT_TRUE(std::isnan(call.memory[0].values<float>()[3])) << row;
    }
  }
}

}  // namespace
}  // namespace onward
