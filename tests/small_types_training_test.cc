// Models of small types train: weights and activations in float16 and bfloat16, and
// quantised ones, whose gradients pass straight through the rounding.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "backend/training/session.h"
#include "backend/training/walk.h"
#include "graph/base/status_macros.h"
#include "graph/onnx/text.h"

namespace onward {
namespace {

constexpr int64_t kRows = 8;
constexpr int64_t kFeatures = 4;
constexpr int64_t kOutputs = 2;

std::unique_ptr<OnnxModel> Model(const std::string& text) {
  auto bytes = ModelFromText(absl::StrCat("<ir_version: 10, opset_import: [\"\" : 21]>\n", text));
  EXPECT_TRUE(bytes.ok()) << bytes.status() << text;
  auto model = OnnxModel::FromBytes(*bytes, "net.onnx");
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? *std::move(model) : nullptr;
}

void Put(DataType type, void* memory, int64_t i, double value) {
  switch (type) {
    case DataType::kFloat16:
      static_cast<uint16_t*>(memory)[i] = FloatToHalf(static_cast<float>(value));
      return;
    case DataType::kBfloat16:
      static_cast<uint16_t*>(memory)[i] = FloatToBfloat(static_cast<float>(value));
      return;
    default:
      static_cast<float*>(memory)[i] = static_cast<float>(value);
  }
}

struct Outcome {
  std::vector<double> losses;
  std::map<std::string, Tensor> states;
};

// Steps of SGD on one batch, of which the labels are a linear function.
absl::StatusOr<Outcome> Train(const OnnxModel& net, DataType type, int steps, double rate,
                              int shards = 1) {
  WalkOptions options;
  options.inputs = {{"x", type, {kFeatures}}};
  options.loss.kind = LossRequest::Kind::kMeanSquared;
  options.loss.label_dtype = type;
  options.loss.label_dims = {kOutputs};
  for (int d = 0; d < std::min(shards, 2); ++d) {
    options.placement.devices.push_back({Device::Kind::kCpu, d});
  }
  options.placement.threads = static_cast<int>(options.placement.devices.size());
  options.placement.shards = shards;
  std::vector<FeedSpec> feeds = options.inputs;
  feeds.push_back({kLabelsFeed, type, {kOutputs}});
  ASSIGN_OR_RETURN(std::unique_ptr<Walk> walk, Walk::Create(&net, std::move(options)));
  Session session(walk.get());
  ASSIGN_OR_RETURN(std::unique_ptr<FeedBuffers> buffers,
                   FeedBuffers::Create(feeds, kRows, shards, 2));
  int64_t row = 0;
  const std::vector<int64_t> sizes = ShardSizes(kRows, shards);
  for (int s = 0; s < shards; ++s) {
    for (int64_t r = 0; r < sizes[s]; ++r, ++row) {
      double label[kOutputs] = {0, 0};
      for (int64_t k = 0; k < kFeatures; ++k) {
        const double x = std::sin(1.7 * static_cast<double>(row * kFeatures + k));
        Put(type, buffers->Memory("x", s, 0), r * kFeatures + k, x);
        label[0] += x * 0.5;
        label[1] += k % 2 == 0 ? x : -x;
      }
      for (int64_t o = 0; o < kOutputs; ++o) {
        Put(type, buffers->Memory(kLabelsFeed, s, 0), r * kOutputs + o, label[o]);
      }
    }
  }
  Outcome out;
  for (int step = 0; step < steps; ++step) {
    std::vector<MetricSum> sums;
    RETURN_IF_ERROR(session.Train(*buffers, 0, kRows, rate, &sums));
    out.losses.push_back(sums[0].numerator / sums[0].denominator);
  }
  for (const auto& named : session.states().names()) {
    out.states.emplace(named.name, session.states().Read(named.name));
  }
  return out;
}

// "T[dims] name = {...}"; halves are written as their bits.
std::string Weights(DataType type, const std::string& dims, const std::string& name, int n) {
  std::string numbers;
  for (int i = 0; i < n; ++i) {
    const auto value = static_cast<float>(0.5 * std::sin(2.3 * i + 0.4));
    absl::StrAppend(&numbers, i == 0 ? "" : ", ");
    if (type == DataType::kFloat32) absl::StrAppend(&numbers, value);
    if (type == DataType::kFloat16) absl::StrAppend(&numbers, FloatToHalf(value));
    if (type == DataType::kBfloat16) absl::StrAppend(&numbers, FloatToBfloat(value));
  }
  return absl::StrCat(std::string(OnnxName(type)), dims, " ", name, " = {", numbers, "}");
}

std::string Net(DataType type) {
  const std::string t(OnnxName(type));
  return absl::StrCat("net (", t, "[N, 4] x) => (", t, "[N, 2] y) <",
                      Weights(type, "[4, 8]", "w", 32), ", ", Weights(type, "[8]", "b", 8), ", ",
                      Weights(type, "[8, 2]", "v", 16),
                      "> { h = Gemm(x, w, b) t = Tanh(h) y = MatMul(t, v) }");
}

TEST(SmallTypes, HalvesTrainAsFloat32DoesButForTheirRounding) {
  const auto reference = Train(*Model(Net(DataType::kFloat32)), DataType::kFloat32, 30, 0.2);
  ASSERT_TRUE(reference.ok()) << reference.status();
  EXPECT_LT(reference->losses.back(), 0.1 * reference->losses.front());
  for (DataType type : {DataType::kFloat16, DataType::kBfloat16}) {
    const std::string name(Name(type));
    const auto half = Train(*Model(Net(type)), type, 30, 0.2);
    ASSERT_TRUE(half.ok()) << half.status();
    const double digits = type == DataType::kFloat16 ? 0.01 : 0.08;
    for (size_t i = 0; i < half->losses.size(); ++i) {
      EXPECT_NEAR(half->losses[i], reference->losses[i], digits * reference->losses[0])
          << name << " step " << i;
    }
    EXPECT_LT(half->losses.back(), 0.15 * half->losses.front()) << name;
  }
}

TEST(SmallTypes, ShardsOfHalvesAddUp) {
  const auto one = Train(*Model(Net(DataType::kFloat16)), DataType::kFloat16, 5, 0.2);
  const auto two = Train(*Model(Net(DataType::kFloat16)), DataType::kFloat16, 5, 0.2, 2);
  ASSERT_TRUE(one.ok() && two.ok()) << one.status() << two.status();
  for (size_t i = 0; i < one->losses.size(); ++i) {
    EXPECT_NEAR(two->losses[i], one->losses[i], 0.01 * one->losses[0]);
  }
}

// Weights and activations are quantised to 8 bits and back.
constexpr char kQuantised[] =
    "net (float[N, 4] x) => (float[N, 2] y) <float[4, 2] w = {0.1, -0.2, 0.3, 0.5, 0.4, -0.1, "
    "-0.3, 0.2}> { s = Constant<value = float {0.02}>() z = Constant<value = uint8 {128}>() "
    "xq = QuantizeLinear(x, s, z) xr = DequantizeLinear(xq, s, z) "
    "t = Constant<value = float[2] {0.02, 0.03}>() u = Constant<value = int8[2] {0, 0}>() "
    "wq = QuantizeLinear<axis = 1>(w, t, u) wr = DequantizeLinear<axis = 1>(wq, t, u) "
    "y = MatMul(xr, wr) }";

TEST(SmallTypes, QuantisationAwareTrainingWorks) {
  const auto plain = Train(*Model("net (float[N, 4] x) => (float[N, 2] y) <float[4, 2] w = {0.1, "
                                  "-0.2, 0.3, 0.5, 0.4, -0.1, -0.3, 0.2}> { y = MatMul(x, w) }"),
                           DataType::kFloat32, 40, 0.3);
  const auto quantised = Train(*Model(kQuantised), DataType::kFloat32, 40, 0.3);
  ASSERT_TRUE(plain.ok()) << plain.status();
  ASSERT_TRUE(quantised.ok()) << quantised.status();
  ASSERT_EQ(quantised->states.count("w"), 1u);
  EXPECT_LT(quantised->losses.back(), 0.01 * quantised->losses.front());
  // The gradient is that of the rounded weights, as if they were not rounded: the first
  // step moves the float weights nearly as without quantisation, by other than multiples
  // of the scale.
  for (int64_t i = 0; i < 8; ++i) {
    const double w = quantised->states.at("w").At(i);
    EXPECT_NEAR(w, plain->states.at("w").At(i), 0.05) << i;
    EXPECT_GT(std::fabs(std::remainder(w, 0.01)), 0);
  }
}

TEST(SmallTypes, NoGradientPassesWhereAWeightIsClipped) {
  // 127 * 0.001 is the largest weight; those beyond it stay where they are.
  const auto out = Train(
      *Model("net (float[N, 4] x) => (float[N, 2] y) <float[4, 2] w = {0.5, -0.5, 0.05, -0.05, "
             "0.5, -0.5, 0.05, -0.05}> { t = Constant<value = float {0.001}>() u = Constant<value "
             "= int8 {0}>() wq = QuantizeLinear(w, t, u) wr = DequantizeLinear(wq, t, u) y = "
             "MatMul(x, wr) }"),
      DataType::kFloat32, 1, 0.05);
  ASSERT_TRUE(out.ok()) << out.status();
  const double before[] = {0.5, -0.5, 0.05, -0.05, 0.5, -0.5, 0.05, -0.05};
  for (int64_t i = 0; i < 8; ++i) {
    const float w = static_cast<float>(out->states.at("w").At(i));
    if (std::fabs(before[i]) > 0.127) {
      EXPECT_EQ(w, static_cast<float>(before[i])) << i;
    } else {
      EXPECT_NE(w, static_cast<float>(before[i])) << i;
    }
  }
}

}  // namespace
}  // namespace onward
