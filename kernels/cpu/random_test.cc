#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "hwy/targets.h"
#include "kernels/cpu/try_row.h"
#include "kernels/kernel.h"
#include "kernels/philox.h"

namespace onward {
namespace {

Attributes Settings(double ratio, int64_t axis, int64_t key = 17) {
  return {{"ratio", ratio}, {"axis", axis}, {"key", key}};
}

Tensor Ramp(DataType dtype, const Dims& dims) {
  Tensor t(dtype, dims);
  for (int64_t i = 0; i < t.elements(); ++i) {
    if (dtype == DataType::kFloat32) t.mutable_values<float>()[i] = 1.0f + i % 97;
    if (dtype == DataType::kFloat64) t.mutable_values<double>()[i] = 1.0 + i % 97;
  }
  return t;
}

Tensor Drop(absl::string_view row, const Tensor& x, const Attributes& settings, int64_t seed,
            int64_t step, int64_t offset, int threads = 1) {
  const Tensor scalars[] = {Tensor::Scalar(seed), Tensor::Scalar(step), Tensor::Scalar(offset)};
  const std::vector<const Tensor*> inputs = {&x, &scalars[0], &scalars[1], &scalars[2]};
  const std::vector<TensorType> outputs = {x.type()};
  auto made = TryRow(row, settings, inputs, outputs, threads);
  EXPECT_TRUE(made.ok()) << made.status();
  return made.ok() ? std::move((*made)[0]) : Tensor(x.dtype(), x.dims());
}

bool SameBits(const Tensor& a, const Tensor& b) {
  return a.type() == b.type() && std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

// Known answers of the reference implementation (Random123 1.09, kat_vectors).
TEST(Philox, KnownAnswers) {
  const auto expect = [](PhiloxBlock counter, uint32_t key0, uint32_t key1, PhiloxBlock answer) {
    const PhiloxBlock made = Philox4x32(counter, key0, key1);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(made.word[i], answer.word[i]);
  };
  expect({{0, 0, 0, 0}}, 0, 0, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}});
  const uint32_t ones = 0xffffffff;
  expect({{ones, ones, ones, ones}}, ones, ones,
         {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}});
  expect({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0xa4093822, 0x299f31d0,
         {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}});
}

TEST(Philox, SeedStepAndNodeAllCount) {
  const RandomStream base(5, 7, 9);
  EXPECT_NE(base.Word(3), RandomStream(6, 7, 9).Word(3));
  EXPECT_NE(base.Word(3), RandomStream(5 + (int64_t{1} << 40), 7, 9).Word(3));
  EXPECT_NE(base.Word(3), RandomStream(5, 8, 9).Word(3));
  EXPECT_NE(base.Word(3), RandomStream(5, 7 + (int64_t{1} << 32), 9).Word(3));
  EXPECT_NE(base.Word(3), RandomStream(5, 7, 10).Word(3));
  EXPECT_NE(base.Word(3), base.Word(3 + (uint64_t{1} << 34)));
}

// Every instruction set that this processor has gives the bits of the reference.
TEST(Dropout, EveryInstructionSetGivesTheSameBits) {
  struct Shape {
    Dims dims;
    int64_t axis;
  };
  const std::vector<Shape> shapes = {{{5000}, -1}, {{13, 77}, 0},    {{3, 5, 7, 11}, 1},
                                     {{1}, 0},     {{600, 3}, 0},    {{4, 0}, 0},
                                     {{}, -1},     {{2, 1023, 3}, 2}};
  int sets = 0;
  const int64_t supported = hwy::SupportedTargets();
  for (int64_t rest = supported; rest != 0; rest &= rest - 1) {
    hwy::SetSupportedTargetsForTest(rest & -rest);
    ++sets;
    for (const Shape& shape : shapes) {
      for (const DataType dtype : {DataType::kFloat32, DataType::kFloat64}) {
        for (const double ratio : {0.0, 0.2, 1.0}) {
          const Tensor x = Ramp(dtype, shape.dims);
          const Attributes settings = Settings(ratio, shape.axis);
          // Offsets that begin inside a block, and beyond 2^32 elements.
          for (const int64_t offset : {int64_t{3}, int64_t{1} << 33}) {
            const Tensor expected =
                Drop("reference.onward.Dropout", x, settings, -12345678901, 42, offset);
            EXPECT_TRUE(
                SameBits(expected, Drop("cpu.dropout", x, settings, -12345678901, 42, offset)))
                << ToString(x.type()) << " ratio " << ratio << " offset " << offset << " on "
                << hwy::TargetName(rest & -rest);
          }
        }
      }
    }
  }
  hwy::SetSupportedTargetsForTest(0);
  EXPECT_GE(sets, 1);
}

// Where the upper half of an element's number equals the threshold's, the lower half
// decides: rarely, and as in the reference.
TEST(Dropout, LowerHalvesDecideTies) {
  const double ratio = 0.2;
  const auto upper = static_cast<uint32_t>(ratio * 65536);
  const RandomStream stream(8, 9, 17);
  Tensor x(DataType::kFloat32, {400000});
  for (float& v : x.mutable_values<float>()) v = 1;
  const Tensor y = Drop("cpu.dropout", x, Settings(ratio, 0), 8, 9, 0);
  int ties = 0, kept = 0;
  for (int64_t i = 0; i < x.elements(); ++i) {
    const bool keep = stream.NumberOfHalves(i) >= std::ceil(ratio * 4294967296.0);
    ASSERT_EQ(y.values<float>()[i] != 0, keep) << i;
    if (stream.Half(i) != upper) continue;
    ++ties;
    kept += keep;
  }
  EXPECT_GT(kept, 0);
  EXPECT_LT(kept, ties);
}

TEST(Dropout, ThreadsDoNotChangeBits) {
  const Tensor x = Ramp(DataType::kFloat32, {64, 1001});
  const Tensor one = Drop("cpu.dropout", x, Settings(0.3, 0), 1, 2, 0, 1);
  for (const int threads : {2, 3, 5}) {
    EXPECT_TRUE(SameBits(one, Drop("cpu.dropout", x, Settings(0.3, 0), 1, 2, 0, threads)));
  }
}

// A batch cut into shards gets the masks of the whole, along any sample axis.
TEST(Dropout, ShardsGetTheMaskOfTheWhole) {
  for (const int64_t axis : {0, 1}) {
    const Dims whole_dims = axis == 0 ? Dims{10, 3, 7} : Dims{3, 10, 7};
    const Tensor whole =
        Drop("cpu.dropout", Ramp(DataType::kFloat64, whole_dims), Settings(0.5, axis), 11, 3, 0);
    for (const auto& [first, count] : {std::pair<int64_t, int64_t>{0, 4}, {4, 1}, {5, 5}}) {
      Dims dims = whole_dims;
      dims[axis] = count;
      Tensor x(DataType::kFloat64, dims);
      for (double& v : x.mutable_values<double>()) v = 1;
      const Tensor part = Drop("cpu.dropout", x, Settings(0.5, axis), 11, 3, first);
      const int64_t outer = axis == 0 ? 1 : 3, inner = axis == 0 ? 21 : 7;
      for (int64_t o = 0; o < outer; ++o) {
        for (int64_t i = 0; i < count * inner; ++i) {
          const double in_whole = whole.values<double>()[(o * 10 + first) * inner + i];
          EXPECT_EQ(part.values<double>()[o * count * inner + i] != 0, in_whole != 0);
        }
      }
    }
  }
}

TEST(Dropout, KeepsTheShareAndTheMean) {
  Tensor x(DataType::kFloat32, {200000});
  for (float& v : x.mutable_values<float>()) v = 1;
  for (const double ratio : {0.1, 0.25, 0.5, 0.8}) {
    const Tensor y = Drop("cpu.dropout", x, Settings(ratio, 0), 4, 1, 0);
    double kept = 0, sum = 0;
    for (const float v : y.values<float>()) {
      kept += v != 0;
      sum += v;
    }
    // Six standard deviations of a binomial share.
    const double slack = 6 * std::sqrt(ratio * (1 - ratio) / 200000);
    EXPECT_NEAR(kept / 200000, 1 - ratio, slack);
    EXPECT_NEAR(sum / 200000, 1, slack / (1 - ratio));
  }
}

TEST(RandomNumbers, UniformAndNormalHaveTheirMoments) {
  const Tensor scalars[] = {Tensor::Scalar<int64_t>(1), Tensor::Scalar<int64_t>(2),
                            Tensor::Scalar<int64_t>(0)};
  const std::vector<const Tensor*> inputs = {&scalars[0], &scalars[1], &scalars[2]};
  const std::vector<TensorType> type = {{DataType::kFloat32, {100000}, {}}};
  auto uniform =
      TryRow("reference.onward.RandomUniform", {{"low", -1.0}, {"high", 3.0}}, inputs, type);
  auto normal =
      TryRow("reference.onward.RandomNormal", {{"mean", 2.0}, {"scale", 3.0}}, inputs, type);
  ASSERT_TRUE(uniform.ok() && normal.ok());
  const auto moments = [](const Tensor& t) {
    double sum = 0, squares = 0;
    for (const float v : t.values<float>()) {
      sum += v;
      squares += static_cast<double>(v) * v;
    }
    const double mean = sum / t.elements();
    return std::pair<double, double>(mean, squares / t.elements() - mean * mean);
  };
  EXPECT_NEAR(moments((*uniform)[0]).first, 1, 0.03);
  EXPECT_NEAR(moments((*uniform)[0]).second, 16.0 / 12, 0.03);
  EXPECT_NEAR(moments((*normal)[0]).first, 2, 0.06);
  EXPECT_NEAR(moments((*normal)[0]).second, 9, 0.25);
  for (const float v : (*uniform)[0].values<float>()) ASSERT_TRUE(v >= -1 && v <= 3);
}

}  // namespace
}  // namespace onward
