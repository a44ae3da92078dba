// What the operator suite does not try of cross-entropy kernels: every instruction
// set, threads, extreme scores, labels that are no class.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "graph/base/errors.h"
#include "hwy/targets.h"
#include "kernels/cpu/try_row.h"
#include "kernels/kernel.h"

namespace onward {
namespace {

constexpr char kForward[] = "cpu.softmax_cross_entropy";
constexpr char kGradient[] = "cpu.softmax_cross_entropy_gradient";

struct Batch {
  Tensor x, labels, weights, dloss;

  // Every fifth label is `ignored`, where that is not negative.
  Batch(const Dims& dims, int64_t ignored) {
    Dims positions = dims;
    positions.erase(positions.begin() + 1);
    x = Tensor(DataType::kFloat32, dims);
    labels = Tensor(DataType::kInt64, positions);
    dloss = Tensor(DataType::kFloat32, positions);
    weights = Tensor(DataType::kFloat32, {dims[1]});
    for (int64_t i = 0; i < x.elements(); ++i) {
      x.mutable_values<float>()[i] = 6 * std::sin(static_cast<float>(i) * 1.7f);
    }
    for (int64_t i = 0; i < labels.elements(); ++i) {
      labels.mutable_values<int64_t>()[i] = ignored >= 0 && i % 5 == 0 ? ignored : i * 7 % dims[1];
      dloss.mutable_values<float>()[i] = 0.5f + std::cos(static_cast<float>(i));
    }
    for (int64_t i = 0; i < dims[1]; ++i) {
      weights.mutable_values<float>()[i] = 0.25f + static_cast<float>(i % 3);
    }
  }

  absl::StatusOr<std::vector<Tensor>> Forward(const std::string& row, const Attributes& attributes,
                                              bool weighted, int threads = 1) {
    const std::vector<const Tensor*> inputs = {&x, &labels, weighted ? &weights : nullptr};
    const std::vector<TensorType> outputs = {dloss.type(), dloss.type()};
    return TryRow(row, attributes, inputs, outputs, threads);
  }
  absl::StatusOr<std::vector<Tensor>> Gradient(const std::string& row, const Attributes& attributes,
                                               bool weighted, int threads = 1) {
    const std::vector<const Tensor*> inputs = {&dloss, &x, &labels, weighted ? &weights : nullptr};
    const std::vector<TensorType> outputs = {x.type()};
    return TryRow(row, attributes, inputs, outputs, threads);
  }
};

// Relative to the larger of an element and a tenth.
void ExpectClose(const std::vector<Tensor>& a, const std::vector<Tensor>& b,
                 const std::string& where) {
  for (size_t k = 0; k < a.size(); ++k) {
    for (int64_t i = 0; i < a[k].elements(); ++i) {
      ASSERT_NEAR(a[k].At(i), b[k].At(i), 1e-6 * std::max(1.0, std::fabs(b[k].At(i))))
          << where << " output " << k << " element " << i;
    }
  }
}

TEST(CrossEntropy, EveryInstructionSetEqualsTheReference) {
  const std::vector<Dims> shapes = {{128, 10}, {3, 1},    {17, 63},    {5, 64},     {3, 1000},
                                    {0, 10},   {2, 5, 3}, {2, 70, 21}, {3, 4, 5, 8}};
  for (int64_t rest = hwy::SupportedTargets(); rest != 0; rest &= rest - 1) {
    hwy::SetSupportedTargetsForTest(rest & -rest);
    for (const Dims& dims : shapes) {
      for (const double smoothing : {0.0, 0.1}) {
        for (const bool weighted : {false, true}) {
          Batch batch(dims, 0);
          const Attributes a = {{"label_smoothing", smoothing}, {"ignore_index", int64_t{0}}};
          const std::string where = ToString(dims) + " on " + hwy::TargetName(rest & -rest);
          auto loss = batch.Forward(kForward, a, weighted);
          auto expected = batch.Forward("reference.onward.SoftmaxCrossEntropy", a, weighted);
          ASSERT_TRUE(loss.ok() && expected.ok()) << loss.status() << expected.status();
          ExpectClose(*loss, *expected, where);
          auto dx = batch.Gradient(kGradient, a, weighted);
          expected = batch.Gradient("reference.onward.SoftmaxCrossEntropyGradient", a, weighted);
          ASSERT_TRUE(dx.ok() && expected.ok()) << dx.status() << expected.status();
          ExpectClose(*dx, *expected, where);
        }
      }
    }
  }
  hwy::SetSupportedTargetsForTest(0);
}

TEST(CrossEntropy, ThreadsDoNotChangeBits) {
  for (const Dims& dims : {Dims{4001, 10}, Dims{201, 300}, Dims{3, 7, 2001}}) {
    Batch batch(dims, -1);
    const Attributes a = {{"label_smoothing", 0.1}};
    auto loss = batch.Forward(kForward, a, true);
    auto dx = batch.Gradient(kGradient, a, true);
    ASSERT_TRUE(loss.ok() && dx.ok());
    for (const int threads : {2, 3}) {
      auto other = batch.Forward(kForward, a, true, threads);
      ASSERT_TRUE(other.ok());
      EXPECT_EQ(std::memcmp((*loss)[0].data(), (*other)[0].data(), (*loss)[0].bytes()), 0);
      other = batch.Gradient(kGradient, a, true, threads);
      ASSERT_TRUE(other.ok());
      EXPECT_EQ(std::memcmp((*dx)[0].data(), (*other)[0].data(), (*dx)[0].bytes()), 0);
    }
  }
}

TEST(CrossEntropy, ALabelThatIsNoClassIsAnErrorOfData) {
  for (const char* row : {kForward, "reference.onward.SoftmaxCrossEntropy"}) {
    for (const int64_t label : {int64_t{10}, int64_t{-1}, int64_t{1} << 32}) {
      Batch batch({40, 10}, -1);
      batch.labels.mutable_values<int64_t>()[31] = label;
      batch.labels.mutable_values<int64_t>()[17] = label;
      auto made = batch.Forward(row, {}, false, 2);
      ASSERT_FALSE(made.ok()) << row;
      EXPECT_EQ(ExitCodeOf(made.status()), ExitCode::kData);
      EXPECT_NE(made.status().message().find("at position 17"), std::string::npos) << made.status();
      // The same label is fine where it is the one to be ignored.
      EXPECT_TRUE(batch.Forward(row, {{"ignore_index", label}}, false).ok());
    }
  }
  for (const char* row : {kGradient, "reference.onward.SoftmaxCrossEntropyGradient"}) {
    Batch batch({40, 10}, -1);
    batch.labels.mutable_values<int64_t>()[31] = 10;
    EXPECT_FALSE(batch.Gradient(row, {}, false).ok());
  }
}

TEST(CrossEntropy, IgnoredPositionsGiveZerosWhateverTheirScores) {
  for (const Dims& dims : {Dims{20, 10}, Dims{20, 100}}) {
    Batch batch(dims, 3);
    for (int64_t k = 0; k < dims[1]; ++k) {  // position 5 is ignored
      batch.x.mutable_values<float>()[5 * dims[1] + k] = std::numeric_limits<float>::quiet_NaN();
    }
    const Attributes a = {{"ignore_index", int64_t{3}}, {"label_smoothing", 0.1}};
    auto loss = batch.Forward(kForward, a, true);
    auto dx = batch.Gradient(kGradient, a, true);
    ASSERT_TRUE(loss.ok() && dx.ok());
    EXPECT_EQ((*loss)[0].At(5), 0);
    EXPECT_EQ((*loss)[1].At(5), 0);
    for (int64_t k = 0; k < dims[1]; ++k) EXPECT_EQ((*dx)[0].At(5 * dims[1] + k), 0);
  }
}

TEST(CrossEntropy, ExtremeScores) {
  for (const Dims& dims : {Dims{4, 10}, Dims{4, 100}}) {
    Batch batch(dims, -1);
    auto x = batch.x.mutable_values<float>();
    const float infinity = std::numeric_limits<float>::infinity();
    for (int64_t k = 0; k < dims[1]; ++k) {
      x[k] = 1e4f * static_cast<float>(k % 3);  // position 0: far apart
      x[dims[1] + k] = k == 2 ? 0 : -infinity;  // position 1: one class is left
    }
    x[2 * dims[1] + 1] = std::numeric_limits<float>::quiet_NaN();
    x[3 * dims[1] + 1] = infinity;
    batch.labels.mutable_values<int64_t>()[1] = 2;
    auto loss = batch.Forward(kForward, {}, false);
    auto dx = batch.Gradient(kGradient, {}, false);
    ASSERT_TRUE(loss.ok() && dx.ok());
    EXPECT_TRUE(std::isfinite((*loss)[0].At(0)));
    EXPECT_EQ((*loss)[0].At(1), 0);
    for (int64_t k = 0; k < dims[1]; ++k) EXPECT_EQ((*dx)[0].At(dims[1] + k), 0);
    // Divergence is not hidden.
    EXPECT_TRUE(std::isnan((*loss)[0].At(2)));
    EXPECT_TRUE(std::isnan((*loss)[0].At(3)));
    EXPECT_TRUE(std::isnan((*dx)[0].At(2 * dims[1])));
  }
}

}  // namespace
}  // namespace onward
