#include "backend/data/convert.h"

#include <cmath>
#include <limits>
#include <random>

#include "backend/data/test_files.h"

namespace onward {
namespace {

constexpr DataType kTypes[] = {DataType::kBool,    DataType::kUint8,    DataType::kInt8,
                               DataType::kUint16,  DataType::kInt16,    DataType::kUint32,
                               DataType::kInt32,   DataType::kUint64,   DataType::kInt64,
                               DataType::kFloat16, DataType::kBfloat16, DataType::kFloat32,
                               DataType::kFloat64};

ColumnTransform Plain(DataType from, Dims dims, DataType to) {
  ColumnTransform t;
  t.from = from;
  t.from_dims = t.dims = std::move(dims);
  t.dtype = to;
  return t;
}

int64_t Convert(const ColumnTransform& t, const Tensor& rows, Tensor* out) {
  Converter converter(t);
  const int64_t n = rows.dims()[0];
  Dims dims = t.dims;
  dims.insert(dims.begin(), n);
  *out = Tensor(t.dtype, dims);
  std::vector<const void*> pointers;
  for (int64_t i = 0; i < n; ++i)
    pointers.push_back(static_cast<const char*>(rows.data()) + i * (rows.bytes() / n));
  return converter.Convert(pointers.data(), n, out->data());
}

std::string Complaint(const ColumnTransform& t, const Tensor& row) {
  return Converter(t).Complaint(row.data());
}

TEST(Convert, EveryTypeToEveryTypeKeepsSmallIntegers) {
  for (DataType from : kTypes) {
    for (DataType to : kTypes) {
      // More than a block of elements, so that its borders are tried.
      Tensor rows(from, {2, 700}), out;
      const Tensor one = Tensor::Full(from, {1}, 1);
      for (int64_t i = 0; i < 1400; i += 3) {
        std::memcpy(static_cast<char*>(rows.data()) + i * SizeOf(from), one.data(), SizeOf(from));
      }
      ASSERT_EQ(Convert(Plain(from, {700}, to), rows, &out), 2) << Name(from) << Name(to);
      for (int64_t i = 0; i < 1400; ++i)
        ASSERT_EQ(out.At(i), i % 3 == 0) << Name(from) << Name(to) << i;
    }
  }
}

TEST(Convert, BytesOver255AreTheCorrectlyRoundedQuotients) {
  Tensor rows(DataType::kUint8, {1, 256}), out;
  for (int i = 0; i < 256; ++i) rows.mutable_values<uint8_t>()[i] = static_cast<uint8_t>(i);
  ColumnTransform t = Plain(DataType::kUint8, {256}, DataType::kFloat32);
  t.rescale = {1, 255};
  ASSERT_EQ(Convert(t, rows, &out), 1);
  for (int i = 0; i < 256; ++i) EXPECT_EQ(out.values<float>()[i], static_cast<float>(i) / 255.0f);
}

TEST(Convert, AnyByteOfABoolIsTrue) {
  Tensor out;
  Tensor bytes(DataType::kBool, {1, 3});
  static_cast<uint8_t*>(bytes.data())[1] = 7;
  ASSERT_EQ(Convert(Plain(DataType::kBool, {3}, DataType::kFloat32), bytes, &out), 1);
  EXPECT_EQ(out.values<float>()[1], 1.0f);
}

// (x * rescale - mean) / deviation per channel, against the formula, for
// channels first, last, and features; from bytes and from floats.
TEST(Convert, ScalesPerChannel) {
  std::mt19937 random(1);
  for (DataType from : {DataType::kUint8, DataType::kFloat32, DataType::kInt32}) {
    for (int64_t inner : {int64_t{1}, int64_t{7}, int64_t{600}}) {
      for (int64_t outer : {1, 400}) {
        const int64_t channels = 3, elements = outer * channels * inner;
        Tensor rows(from, {1, elements}), out;
        for (int64_t i = 0; i < elements; ++i) {
          const int v = random() % 200;
          if (from == DataType::kUint8) rows.mutable_values<uint8_t>()[i] = v;
          if (from == DataType::kFloat32) rows.mutable_values<float>()[i] = v * 0.37f;
          if (from == DataType::kInt32) rows.mutable_values<int32_t>()[i] = v * 1000;
        }
        ColumnTransform t = Plain(from, {elements}, DataType::kFloat32);
        t.channels = channels;
        t.inner = inner;
        t.rescale = {1, 255};
        t.mean = {0.1, 0.2, 0.3};
        t.deviation = {1, 2, 3};
        ASSERT_EQ(Convert(t, rows, &out), 1);
        for (int64_t i = 0; i < elements; ++i) {
          const int64_t c = i / inner % channels;
          const double expected = (rows.At(i) / 255 - t.mean[c]) / t.deviation[c];
          ASSERT_NEAR(out.At(i), expected, 1e-6 * (1 + std::abs(expected))) << i;
        }
      }
    }
  }
}

TEST(Convert, MovesChannelsWhileConverting) {
  ColumnTransform t = Plain(DataType::kUint8, {2, 3, 2}, DataType::kFloat32);
  t.order = {2, 0, 1};
  t.ordered_dims = t.from_dims;
  t.dims = {2, 2, 3};
  Tensor rows(DataType::kUint8, {1, 2, 3, 2}), out;
  for (int i = 0; i < 12; ++i) rows.mutable_values<uint8_t>()[i] = i;
  ASSERT_EQ(Convert(t, rows, &out), 1);
  EXPECT_EQ(out.values<float>(),
            absl::MakeConstSpan(std::vector<float>{0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11}));
}

TEST(Convert, NanAndInfinityAreFoundAndNamed) {
  for (DataType from : {DataType::kFloat16, DataType::kFloat32, DataType::kFloat64}) {
    for (DataType to :
         {DataType::kFloat16, DataType::kFloat32, DataType::kFloat64, DataType::kInt32}) {
      for (double wrong : {std::nan(""), std::numeric_limits<double>::infinity()}) {
        Tensor rows(from, {3, 4, 200}), out;
        const Tensor v = Tensor::Full(from, {1}, wrong);
        std::memcpy(static_cast<char*>(rows.data()) + (800 + 3 * 200 + 5) * SizeOf(from), v.data(),
                    SizeOf(from));
        ColumnTransform t = Plain(from, {4, 200}, to);
        ASSERT_EQ(Convert(t, rows, &out), 1) << Name(from) << Name(to);
        Tensor row(from, {4, 200});
        std::memcpy(row.data(), static_cast<char*>(rows.data()) + 800 * SizeOf(from), row.bytes());
        EXPECT_EQ(Complaint(t, row),
                  std::isnan(wrong) ? "element [3, 5] is NaN" : "element [3, 5] is infinite");
        t.allow_non_finite = true;
        EXPECT_EQ(Convert(t, rows, &out), IsFloating(to) ? 3 : 1);
      }
    }
  }
}

TEST(Convert, WhatTheTypeCannotHoldIsAnError) {
  const struct {
    DataType from, to;
    double value;
  } kRows[] = {{DataType::kFloat64, DataType::kFloat32, 1e300},
               {DataType::kFloat32, DataType::kFloat16, 1e6},
               {DataType::kFloat32, DataType::kInt64, 0.5},
               {DataType::kFloat64, DataType::kInt64, 1e19},
               {DataType::kInt64, DataType::kInt32, 4e9},
               {DataType::kInt32, DataType::kUint8, -1},
               {DataType::kInt8, DataType::kUint64, -1},
               {DataType::kUint8, DataType::kInt8, 200},
               {DataType::kUint8, DataType::kBool, 2},
               {DataType::kInt32, DataType::kBool, 2},
               {DataType::kUint64, DataType::kInt64, 1e19}};
  for (const auto& r : kRows) {
    Tensor out;
    const Tensor row = Tensor::Full(r.from, {1, 1}, r.value);
    const ColumnTransform t = Plain(r.from, {1}, r.to);
    EXPECT_EQ(Convert(t, row, &out), 0) << Name(r.from) << Name(r.to);
    EXPECT_NE(Complaint(t, row).find("cannot hold"), std::string::npos) << Complaint(t, row);
  }
}

TEST(Convert, LabelsAreChecked) {
  for (DataType from : {DataType::kUint8, DataType::kInt64, DataType::kFloat32, DataType::kInt32}) {
    ColumnTransform t = Plain(from, {}, DataType::kInt64);
    t.kind = ColumnTransform::Kind::kIndices;
    t.classes = 10;
    Tensor out;
    Tensor rows = Tensor::Full(from, {3}, 9);
    ASSERT_EQ(Convert(t, rows, &out), 3);
    EXPECT_EQ(out.values<int64_t>()[2], 9);
    for (double wrong : {10.0, -1.0, 2.5}) {
      if (wrong != 10 && (from == DataType::kUint8 || (wrong == 2.5 && IsInteger(from)))) continue;
      const Tensor bad = Tensor::Full(from, {1}, wrong);
      EXPECT_EQ(Convert(t, bad, &out), 0) << Name(from) << wrong;
      EXPECT_EQ(Complaint(t, bad), "label " + absl::StrCat(wrong) +
                                       " is no class: integers from 0 to 9 were expected");
    }
    t.ignore_index = 255;
    rows = Tensor::Full(from, {1}, 255);
    EXPECT_EQ(Convert(t, rows, &out), 1);
  }
}

TEST(Convert, OneHotThereAndBack) {
  ColumnTransform t = Plain(DataType::kUint8, {}, DataType::kFloat32);
  t.kind = ColumnTransform::Kind::kToOneHot;
  t.classes = 3;
  t.dims = {3};
  Tensor out;
  ASSERT_EQ(Convert(t, Tensor::Of<uint8_t>({2}, {2, 0}), &out), 2);
  EXPECT_EQ(out.values<float>(), absl::MakeConstSpan(std::vector<float>{0, 0, 1, 1, 0, 0}));
  EXPECT_EQ(Convert(t, Tensor::Of<uint8_t>({2}, {2, 3}), &out), 1);

  ColumnTransform back = Plain(DataType::kFloat32, {3}, DataType::kInt64);
  back.kind = ColumnTransform::Kind::kFromOneHot;
  back.classes = 3;
  back.dims = {};
  ASSERT_EQ(Convert(back, Tensor::Of<float>({2, 3}, {0, 0, 1, 1, 0, 0}), &out), 2);
  EXPECT_EQ(out.values<int64_t>(), absl::MakeConstSpan(std::vector<int64_t>{2, 0}));
  EXPECT_EQ(Convert(back, Tensor::Of<float>({2, 3}, {0, 0, 1, 1, 1, 0}), &out), 1);
  EXPECT_EQ(Convert(back, Tensor::Of<float>({1, 3}, {0, 0.5, 0.5}), &out), 0);
  EXPECT_EQ(Convert(back, Tensor::Of<float>({1, 3}, {0, 0, 0}), &out), 0);
}

}  // namespace
}  // namespace onward
