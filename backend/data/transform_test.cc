#include "backend/data/transform.h"

#include <cmath>

#include "backend/data/test_files.h"

namespace onward {
namespace {

Column ZeroColumn(DataType dtype, Dims dims) {
  dims.insert(dims.begin(), 2);
  return ColumnOf("data", Tensor(dtype, dims));
}

absl::StatusOr<ColumnTransform> Fit(Dims data, Dims model, std::string* note,
                                    std::optional<ChannelOrder> channels = {}) {
  std::vector<std::string> notes;
  TransformOptions options;
  options.channels = channels;
  auto t = FitInput(ZeroColumn(DataType::kUint8, data), {"x", DataType::kFloat32, model}, options,
                    &notes);
  EXPECT_LE(notes.size(), 1u);
  *note = notes.empty() ? "" : notes[0];
  return t;
}

TEST(Transform, RatiosAreParsed) {
  EXPECT_EQ(ParseRatio("1/255")->value(), 1 / 255.0);
  EXPECT_EQ(ParseRatio("0.1")->value(), 0.1);
  EXPECT_EQ(ParseRatio("2")->value(), 2);
  for (const char* bad : {"", "x", "1/", "/2", "1/0", "1/2/3", "0", "inf", "nan", "1e400"}) {
    EXPECT_EQ(ExitCodeOf(ParseRatio(bad).status()), ExitCode::kUsage) << bad;
  }
}

TEST(Transform, ShapesAreMadeToFitAndSaidSo) {
  const struct {
    Dims data, model, fitted;
    const char* note;
  } kRows[] = {
      {{784}, {784}, {784}, ""},
      {{28, 28}, {kDynamic, 28}, {28, 28}, ""},
      {{28, 28}, {784}, {784}, "images 28x28 are flattened to 784 to fit input 'x'"},
      {{3, 4, 5}, {60}, {60}, "images 3x4x5 are flattened to 60 to fit input 'x'"},
      {{28, 28}, {kDynamic}, {784}, "images 28x28 are flattened to 784 to fit input 'x'"},
      {{28, 28},
       {1, 28, 28},
       {1, 28, 28},
       "images 28x28 are given an axis of 1: 1x28x28 to fit input 'x'"},
      {{28, 28},
       {28, 28, 1},
       {28, 28, 1},
       "images 28x28 are given an axis of 1: 28x28x1 to fit input 'x'"},
      {{28, 28},
       {kDynamic, kDynamic, 1},
       {28, 28, 1},
       "images 28x28 are given an axis of 1: 28x28x1 to fit input 'x'"},
      {{28, 28, 1},
       {1, 28, 28},
       {1, 28, 28},
       "images 28x28x1 are seen as 1x28x28 to fit input 'x'"},
      {{28, 28, 1}, {28, 28}, {28, 28}, "images 28x28x1 are seen as 28x28 to fit input 'x'"},
      {{}, {1}, {1}, "rows scalar are given an axis of 1: 1 to fit input 'x'"},
      {{784}, {28, 28, 1}, {28, 28, 1}, "rows 784 are seen as 28x28x1 to fit input 'x'"},
      {{32, 32, 3},
       {3, 32, 32},
       {3, 32, 32},
       "images 32x32x3 are turned to channels first: 3x32x32 to fit input 'x'"},
      {{3, 32, 32},
       {32, 32, 3},
       {32, 32, 3},
       "images 3x32x32 are turned to channels last: 32x32x3 to fit input 'x'"},
      {{32, 32, 3},
       {3, kDynamic, kDynamic},
       {3, 32, 32},
       "images 32x32x3 are turned to channels first: 3x32x32 to fit input 'x'"},
  };
  for (const auto& r : kRows) {
    std::string note;
    const auto t = Fit(r.data, r.model, &note);
    ASSERT_TRUE(t.ok()) << t.status();
    EXPECT_EQ(t->dims, r.fitted);
    EXPECT_EQ(note, r.note);
  }
}

TEST(Transform, WhatDoesNotFitOrFitsTwiceIsRefused) {
  std::string note;
  for (const auto& pair : std::vector<std::pair<Dims, Dims>>{
           {{28, 28}, {785}}, {{28, 28}, {3, 28, 28}}, {{32, 32, 3}, {4, 32, 32}}, {{}, {2}}}) {
    const auto status = Fit(pair.first, pair.second, &note).status();
    EXPECT_EQ(ExitCodeOf(status), ExitCode::kData);
    EXPECT_NE(status.message().find("do not fit input 'x'"), absl::string_view::npos) << status;
  }
  for (const auto& pair :
       std::vector<std::pair<Dims, Dims>>{{{28, 28}, {kDynamic, kDynamic, kDynamic}},
                                          {{3072}, {3, 32, 32}},
                                          {{4, 5, 4}, {kDynamic, 4, kDynamic}}}) {
    const auto status = Fit(pair.first, pair.second, &note).status();
    if (pair.first == Dims{4, 5, 4}) {
      // 4x4x5 or 5x4x4: both moves fit.
      EXPECT_NE(status.message().find("channels last to first, or first to last"),
                absl::string_view::npos)
          << status;
    }
    EXPECT_EQ(ExitCodeOf(status), ExitCode::kData);
    EXPECT_NE(status.message().find("in more than one way"), absl::string_view::npos) << status;
  }
}

TEST(Transform, FlatImagesAreTurnedWhenTheOrderIsSaid) {
  std::string note;
  auto t = Fit({3072}, {3, 32, 32}, &note, ChannelOrder::kFirst);
  ASSERT_TRUE(t.ok()) << t.status();
  EXPECT_TRUE(t->order.empty());
  t = Fit({3072}, {3, 32, 32}, &note, ChannelOrder::kLast);
  ASSERT_TRUE(t.ok()) << t.status();
  EXPECT_EQ(t->ordered_dims, (Dims{32, 32, 3}));
  EXPECT_EQ(t->order, (absl::InlinedVector<int, 6>{2, 0, 1}));
  EXPECT_EQ(note, "rows 3072 are seen as 32x32x3 and turned to 3x32x32 to fit input 'x'");
}

TEST(Transform, IntegerInputsAreNotRescaled) {
  std::vector<std::string> notes;
  TransformOptions options;
  options.rescale = {1, 255};
  const auto t =
      FitInput(ZeroColumn(DataType::kInt64, {5}), {"ids", DataType::kInt64, {5}}, options, &notes);
  ASSERT_TRUE(t.ok());
  EXPECT_EQ(t->rescale.value(), 1);
  EXPECT_EQ(notes, std::vector<std::string>{"input 'ids' takes int64: it is not rescaled"});
}

TEST(Transform, LabelFormsAreTurnedIntoOneAnother) {
  std::vector<std::string> notes;
  LabelSpec spec;
  spec.classes = 10;
  auto t = FitLabels(ZeroColumn(DataType::kUint8, {}), spec, &notes);
  ASSERT_TRUE(t.ok());
  EXPECT_EQ(t->kind, ColumnTransform::Kind::kIndices);
  t = FitLabels(ZeroColumn(DataType::kInt64, {1}), spec, &notes);
  ASSERT_TRUE(t.ok()) << t.status();
  EXPECT_TRUE(t->dims.empty());
  t = FitLabels(ZeroColumn(DataType::kFloat32, {10}), spec, &notes);
  ASSERT_TRUE(t.ok());
  EXPECT_EQ(t->kind, ColumnTransform::Kind::kFromOneHot);
  EXPECT_EQ(notes.back(), "one-hot labels of 10 classes are turned into class numbers");
  EXPECT_FALSE(FitLabels(ZeroColumn(DataType::kFloat32, {11}), spec, &notes).ok());
  spec.form = LabelSpec::Form::kOneHot;
  spec.dtype = DataType::kFloat32;
  t = FitLabels(ZeroColumn(DataType::kUint8, {}), spec, &notes);
  ASSERT_TRUE(t.ok());
  EXPECT_EQ(t->kind, ColumnTransform::Kind::kToOneHot);
  EXPECT_EQ(t->dims, Dims{10});
  t = FitLabels(ZeroColumn(DataType::kFloat32, {10}), spec, &notes);
  ASSERT_TRUE(t.ok());
  EXPECT_EQ(t->kind, ColumnTransform::Kind::kValues);
  spec.form = LabelSpec::Form::kValues;
  spec.dims = {1};
  t = FitLabels(ZeroColumn(DataType::kFloat64, {}), spec, &notes);
  ASSERT_TRUE(t.ok()) << t.status();
  EXPECT_EQ(t->dims, Dims{1});
}

TEST(Transform, StatisticsAreExact) {
  std::vector<std::string> notes;
  TransformOptions options;
  // Far from zero, where a one-pass formula in float would lose everything.
  const Column column =
      ColumnOf("d", Tensor::Of<double>({4, 2}, {1e9 + 1, 5, 1e9 + 2, 5, 1e9 + 3, 5, 1e9 + 4, 5}));
  auto s = ComputeStatistics(column, StatisticsPer::kChannel, options, &notes);
  ASSERT_TRUE(s.ok()) << s.status();
  EXPECT_EQ(s->mean, (std::vector<double>{1e9 + 2.5, 5}));
  EXPECT_DOUBLE_EQ(s->deviation[0], std::sqrt(1.25));
  EXPECT_EQ(s->deviation[1], 1);
  EXPECT_EQ(notes,
            std::vector<std::string>{"'d': 1 of 2 channels are constant, deviation 1 is used"});
}

TEST(Transform, StatisticsOfImagesAreOfTheirChannels) {
  std::vector<std::string> notes;
  TransformOptions options;
  options.rescale = {1, 2};
  const Column last =
      ColumnOf("i", Tensor::Of<uint8_t>({1, 5, 1, 2}, {0, 1, 2, 1, 0, 1, 2, 3, 1, 4}));
  const auto s = ComputeStatistics(last, StatisticsPer::kChannel, options, &notes);
  ASSERT_TRUE(s.ok()) << s.status();
  EXPECT_EQ(s->mean, (std::vector<double>{0.5, 1}));
  const auto all = ComputeStatistics(last, StatisticsPer::kColumn, options, &notes);
  EXPECT_EQ(all->mean, std::vector<double>{0.75});
  const Column both = ColumnOf("i", Tensor(DataType::kUint8, {1, 3, 3, 3}));
  EXPECT_FALSE(ComputeStatistics(both, StatisticsPer::kChannel, options, &notes).ok());
  options.standardise = *s;
  const auto t = FitInput(last, {"x", DataType::kFloat32, {5, 1, 2}}, options, &notes);
  ASSERT_TRUE(t.ok());
  EXPECT_EQ(t->channels, 2);
  EXPECT_EQ(t->inner, 1);
}

TEST(Transform, StatisticsNameNan) {
  std::vector<std::string> notes;
  const Column column = ColumnOf("d", Tensor::Of<float>({2, 2}, {1, 2, 3, NAN}));
  const auto status = ComputeStatistics(column, StatisticsPer::kColumn, {}, &notes).status();
  ExpectDataError(status, "d.file: row 1, element [1] is NaN");
}

}  // namespace
}  // namespace onward
