#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "absl/strings/match.h"
#include "kernels/cpu/try_row.h"

namespace onward {
namespace {

constexpr char kTrees[] = "reference.ai.onnx.ml.TreeEnsemble";
constexpr char kLabels[] = "reference.ai.onnx.ml.LabelEncoder";
const double kNan = std::numeric_limits<double>::quiet_NaN();

std::shared_ptr<const Tensor> Doubles(const std::vector<double>& v) {
  return std::make_shared<Tensor>(Tensor::Of<double>({static_cast<int64_t>(v.size())}, v));
}

// Two trees of one comparison each, of features 0 and 1, with leaves for targets 0 and 1.
Attributes TwoTrees() {
  const std::vector<uint8_t> modes = {0, 6};
  return {{"nodes_splits", Doubles({1, 0})},
          {"nodes_modes", std::make_shared<const Tensor>(Tensor::Of<uint8_t>({2}, modes))},
          {"nodes_featureids", std::vector<int64_t>{0, 1}},
          {"nodes_truenodeids", std::vector<int64_t>{0, 1}},
          {"nodes_trueleafs", std::vector<int64_t>{1, 1}},
          {"nodes_falsenodeids", std::vector<int64_t>{2, 3}},
          {"nodes_falseleafs", std::vector<int64_t>{1, 1}},
          {"membership_values", Doubles({5, 7, kNan})},
          {"tree_roots", std::vector<int64_t>{0, 1}},
          {"leaf_targetids", std::vector<int64_t>{0, 0, 1, 0}},
          {"leaf_weights", Doubles({2, 4, 0.5, -1})}};
}

absl::StatusOr<std::vector<double>> Scores(const Attributes& attributes,
                                           const std::vector<double>& x) {
  const Tensor in = Tensor::Of<double>({static_cast<int64_t>(x.size()) / 2, 2}, x);
  const std::vector<const Tensor*> inputs = {&in};
  const std::vector<TensorType> outputs = {{DataType::kFloat64, {in.dims()[0], 2}, {}}};
  auto made = TryRow(kTrees, attributes, inputs, outputs);
  if (!made.ok()) return made.status();
  const auto values = (*made)[0].values<double>();
  return std::vector<double>(values.begin(), values.end());
}

std::vector<double> With(const char* name, int64_t value, const std::vector<double>& x) {
  Attributes attributes = TwoTrees();
  attributes.Set(name, value);
  auto scores = Scores(attributes, x);
  EXPECT_TRUE(scores.ok()) << scores.status();
  return scores.ok() ? *scores : std::vector<double>{};
}

TEST(TreeEnsemble, LeavesAreAggregatedByTarget) {
  using Row = std::vector<double>;
  const Row both = {1, 7};
  EXPECT_EQ(*Scores(TwoTrees(), {1, 7, 2, 6}), (Row{6, 0, -1, 0.5}));
  EXPECT_EQ(With("aggregate_function", 0, both), (Row{3, 0}));
  EXPECT_EQ(With("aggregate_function", 2, both), (Row{2, 0}));
  EXPECT_EQ(With("aggregate_function", 3, both), (Row{4, 0}));
}

TEST(TreeEnsemble, NotANumberIsFalseUnlessToldOtherwise) {
  EXPECT_EQ(*Scores(TwoTrees(), {kNan, kNan}), (std::vector<double>{-1, 0.5}));
  Attributes attributes = TwoTrees();
  attributes.Set("nodes_missing_value_tracks_true", std::vector<int64_t>{1, 0});
  EXPECT_EQ(*Scores(attributes, {kNan, kNan}), (std::vector<double>{1, 0}));
}

TEST(TreeEnsemble, ScoresAreTransformed) {
  const std::vector<double> x = {2, 6};  // scores -1 and 0.5
  const double e = std::exp(1.5);
  std::vector<double> y = With("post_transform", 1, x);
  EXPECT_NEAR(y[0], 1 / (1 + e), 1e-12);
  EXPECT_NEAR(y[1], e / (1 + e), 1e-12);
  EXPECT_NEAR(With("post_transform", 2, x)[1], 1 / (1 + std::exp(-0.5)), 1e-12);
  // Of scores 6 and 0, the latter stays.
  EXPECT_EQ(With("post_transform", 3, {1, 7}), (std::vector<double>{1, 0}));
  y = With("post_transform", 4, x);
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_NEAR(y[1], 0, 1e-12);
  Attributes attributes = TwoTrees();
  attributes.Set("post_transform", int64_t{4});
  attributes.Set("leaf_weights", Doubles({2, 4, 0.975, -1}));
  EXPECT_NEAR((*Scores(attributes, x))[1], 1.959963984540054, 1e-9);
}

TEST(TreeEnsemble, TreesThatAreNoneAreErrors) {
  const auto refuses = [](const char* name, AttributeValue value, const char* message) {
    Attributes attributes = TwoTrees();
    attributes.Set(name, std::move(value));
    const absl::Status status = Scores(attributes, {9, 9}).status();
    EXPECT_FALSE(status.ok()) << name;
    EXPECT_TRUE(absl::StrContains(status.message(), message)) << status;
  };
  using Ints = std::vector<int64_t>;
  refuses("nodes_falseleafs", Ints{0, 1}, "there is no such");  // goes on to node 2 of 2
  refuses("nodes_falsenodeids", Ints{2, 4}, "there is no such");
  refuses("nodes_featureids", Ints{0, 2}, "there is no such");
  refuses("nodes_featureids", Ints{0}, "nodes_featureids has 1 entries");
  refuses("tree_roots", Ints{-1}, "tree_roots holds -1");
  refuses("leaf_targetids", Ints{0, 0, 2, 0}, "leaf_targetids holds 2");
  refuses("leaf_weights", Doubles({1}), "leaf_targetids has 4 entries");
  refuses("membership_values", Doubles({5, 7}), "fewer sets");
  refuses("aggregate_function", int64_t{4}, "aggregate_function is 4");
  refuses("post_transform", int64_t{5}, "post_transform is 5");
  Attributes attributes = TwoTrees();
  attributes.Set("nodes_falseleafs", Ints{0, 0});
  attributes.Set("nodes_falsenodeids", Ints{1, 0});
  EXPECT_TRUE(absl::StrContains(Scores(attributes, {9, 9}).status().message(), "lead back"));
}

TEST(LabelEncoder, FloatKeysAreNumbers) {
  const Attributes attributes = {{"keys_floats", std::vector<double>{0, kNan, 0}},
                                 {"values_floats", std::vector<double>{1, 2, 3}}};
  const std::vector<float> values = {-0.0f, -std::numeric_limits<float>::quiet_NaN(), 1};
  const Tensor x = Tensor::Of<float>({3}, values);
  const std::vector<const Tensor*> inputs = {&x};
  const std::vector<TensorType> outputs = {x.type()};
  auto made = TryRow(kLabels, attributes, inputs, outputs);
  ASSERT_TRUE(made.ok()) << made.status();
  const auto y = (*made)[0].values<float>();
  EXPECT_EQ(y[0], 3);  // the last of equal keys
  EXPECT_EQ(y[1], 2);
  EXPECT_EQ(y[2], 0);
  EXPECT_TRUE(std::signbit(y[2]));
}

TEST(LabelEncoder, MissingStringsHaveTheirDefault) {
  const Attributes attributes = {{"keys_int64s", std::vector<int64_t>{4}},
                                 {"values_strings", std::vector<std::string>{"four"}}};
  const std::vector<int64_t> values = {4, 5};
  const Tensor x = Tensor::Of<int64_t>({2}, values);
  const std::vector<const Tensor*> inputs = {&x};
  const std::vector<TensorType> outputs = {{DataType::kString, {2}, {}}};
  auto made = TryRow(kLabels, attributes, inputs, outputs);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ((*made)[0].values<StringRef>()[0].text(), "four");
  EXPECT_EQ((*made)[0].values<StringRef>()[1].text(), "_Unused");
  Attributes more = attributes;
  more.Set("values_strings", std::vector<std::string>{"four", "five"});
  EXPECT_FALSE(TryRow(kLabels, more, inputs, outputs).ok());
}

}  // namespace
}  // namespace onward
