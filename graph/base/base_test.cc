#include <gtest/gtest.h>

#include <cmath>

#include "graph/base/attribute.h"
#include "graph/base/device.h"
#include "graph/base/errors.h"
#include "graph/base/layout.h"
#include "graph/base/shape.h"
#include "graph/base/tensor.h"

namespace onward {
namespace {

TEST(Shape, BroadcastFollowsOnnx) {
  EXPECT_EQ(*Broadcast(Dims{2, 1, 3}, Dims{4, 1}), (Dims{2, 4, 3}));
  EXPECT_EQ(*Broadcast(Dims{}, Dims{0, 2}), (Dims{0, 2}));
  EXPECT_FALSE(Broadcast(Dims{2, 3}, Dims{2}).ok());
}

TEST(Shape, SizesFromOutsideAreChecked) {
  EXPECT_EQ(*CheckedElements(Dims{3, 0, int64_t{1} << 40}), 0);
  EXPECT_FALSE(CheckedElements(Dims{int64_t{1} << 40, int64_t{1} << 40}).ok());
  EXPECT_FALSE(CheckedElements(Dims{2, -2}).ok());
}

TEST(Layout, BlockedOffsetsArePaddedAndDense) {
  Layout blocked;
  blocked.blocks.push_back({1, 8});
  const Dims dims{2, 3, 2};  // 3 channels padded to 8
  EXPECT_EQ(PaddedElements(dims, blocked), 2 * 8 * 2);
  EXPECT_EQ(OffsetOf(dims, blocked, Dims{1, 2, 1}), 1 * 16 + 1 * 8 + 2);
  EXPECT_EQ(OffsetOf(Dims{2, 3, 4, 5}, Layout::ChannelsLast(4), Dims{1, 2, 3, 4}),
            ((1 * 4 + 3) * 5 + 4) * 3 + 2);
}

template <typename T>
void ExpectConverts(DataType type, const Dims& dims, const Layout& from, const Layout& to) {
  std::vector<T> source(PaddedElements(dims, from), T(0));
  std::vector<T> target(PaddedElements(dims, to), T(9)), expected(target.size(), T(0));
  Dims index(dims.size(), 0);
  for (int64_t i = 0; i < Elements(dims); ++i) {
    source[OffsetOf(dims, from, index)] = expected[OffsetOf(dims, to, index)] = T(i % 100 + 1);
    for (size_t a = dims.size(); a-- > 0;) {
      if (++index[a] < dims[a]) break;
      index[a] = 0;
    }
  }
  ConvertLayout({{type, dims, from}, source.data()}, {{type, dims, to}, target.data()});
  EXPECT_EQ(target, expected) << ToString(from) << " to " << ToString(to);
}

TEST(Tensor, ConvertsBetweenAnyLayouts) {
  Layout image, weight;
  image.blocks = {{1, 8}};
  weight.order = {1, 0, 2, 3};
  weight.blocks = {{1, 4}, {0, 8}, {1, 2}};  // an axis in two blocks
  const Layout layouts[] = {{}, Layout::ChannelsLast(4), image, weight};
  for (const Layout& from : layouts) {
    for (const Layout& to : layouts) {
      ExpectConverts<float>(DataType::kFloat32, {3, 11, 2, 5}, from, to);
      ExpectConverts<double>(DataType::kFloat64, {8, 16, 1, 2}, from, to);
      ExpectConverts<uint16_t>(DataType::kBfloat16, {1, 3, 2, 2}, from, to);
      ExpectConverts<uint8_t>(DataType::kUint8, {2, 0, 2, 2}, from, to);
      ExpectConverts<uint8_t>(DataType::kUint8, {9, 9, 1, 1}, from, to);
    }
  }
}

TEST(Tensor, HalfAndBfloatRoundTrip) {
  EXPECT_EQ(HalfToFloat(FloatToHalf(1.5f)), 1.5f);
  EXPECT_EQ(BfloatToFloat(FloatToBfloat(-0.375f)), -0.375f);
  EXPECT_EQ(Tensor::Full(DataType::kFloat16, {2}, 0.25).At(1), 0.25);
}

TEST(StringRef, EqualTextsAreOneHandle) {
  const StringRef a = StringRef::Of("héllo"), b = StringRef::Of(std::string("h\xc3\xa9llo"));
  EXPECT_EQ(a.handle, b.handle);
  EXPECT_EQ(a.text(), "h\xc3\xa9llo");
  EXPECT_NE(a.handle, StringRef::Of("hello").handle);
  EXPECT_EQ(StringRef::Of("").handle, 0u);
  Tensor zeroed(DataType::kString, {2});
  EXPECT_EQ(zeroed.values<StringRef>()[1].text(), "");
}

// The values of the formats as the papers that define them list them.
TEST(SmallFloat, CodesHaveTheirValues) {
  EXPECT_EQ(SmallFloatToFloat(DataType::kFloat8E4M3Fn, 0x7e), 448);
  EXPECT_EQ(SmallFloatToFloat(DataType::kFloat8E4M3Fn, 0x01), std::ldexp(1.0f, -9));
  EXPECT_EQ(SmallFloatToFloat(DataType::kFloat8E4M3Fnuz, 0x7f), 240);
  EXPECT_EQ(SmallFloatToFloat(DataType::kFloat8E5M2, 0xfb), -57344);
  EXPECT_EQ(SmallFloatToFloat(DataType::kFloat8E5M2, 0xfc), -INFINITY);
  EXPECT_EQ(SmallFloatToFloat(DataType::kFloat8E5M2Fnuz, 0x7f), 57344);
  EXPECT_EQ(SmallFloatToFloat(DataType::kFloat4E2M1, 0xf), -6);
  EXPECT_EQ(SmallFloatToFloat(DataType::kFloat4E2M1, 0x1), 0.5);
  EXPECT_EQ(SmallFloatToFloat(DataType::kFloat6E2M3, 0x1f), 7.5);
  EXPECT_EQ(SmallFloatToFloat(DataType::kFloat6E3M2, 0x1f), 28);
  EXPECT_EQ(SmallFloatToFloat(DataType::kFloat8E8M0, 128), 2);
  EXPECT_TRUE(std::isnan(SmallFloatToFloat(DataType::kFloat8E8M0, 0xff)));
  EXPECT_TRUE(std::isnan(SmallFloatToFloat(DataType::kFloat8E5M2Fnuz, 0x80)));
}

TEST(SmallFloat, EveryCodeRoundTripsAndMidpointsGoToEven) {
  for (int t = 17; t <= 28; ++t) {
    const DataType type = static_cast<DataType>(t);
    if (!IsSmallFloat(type)) continue;
    const int codes = 1 << PackedBits(type);
    for (int code = 0; code < codes; ++code) {
      const float value = SmallFloatToFloat(type, static_cast<uint8_t>(code));
      if (std::isnan(value) || code + 1 == codes) continue;
      // (float8e8m0's smallest is a denormal float: as ONNX has it, what lies below the
      // normal ones is rounded up to them.)
      EXPECT_EQ(FloatToSmallFloat(type, value, false, RoundMode::kDown), code) << Name(type);
      const float next = SmallFloatToFloat(type, static_cast<uint8_t>(code + 1));
      if (type == DataType::kFloat8E8M0 || !std::isfinite(next) || next <= value) continue;
      const int even = code % 2 == 0 ? code : code + 1;
      EXPECT_EQ(FloatToSmallFloat(type, (double{value} + next) / 2), even) << Name(type);
    }
  }
}

// The table of ONNX's Cast.
TEST(SmallFloat, WhatIsTooLargeSaturatesOrNot) {
  const auto to = [](DataType type, double value, bool saturate) {
    return static_cast<int>(FloatToSmallFloat(type, value, saturate));
  };
  EXPECT_EQ(to(DataType::kFloat8E4M3Fn, INFINITY, true), 0x7e);
  EXPECT_EQ(to(DataType::kFloat8E4M3Fn, INFINITY, false), 0x7f);
  EXPECT_EQ(to(DataType::kFloat8E4M3Fn, 464, false), 0x7e);
  EXPECT_EQ(to(DataType::kFloat8E4M3Fn, 465, false), 0x7f);
  EXPECT_EQ(to(DataType::kFloat8E5M2, -1e9, true), 0xfb);
  EXPECT_EQ(to(DataType::kFloat8E5M2, -1e9, false), 0xfc);
  EXPECT_EQ(to(DataType::kFloat8E4M3Fnuz, -1e-9, false), 0);
  EXPECT_EQ(to(DataType::kFloat8E5M2Fnuz, 1e9, false), 0x80);
  EXPECT_EQ(to(DataType::kFloat4E2M1, -100, false), 0xf);
  EXPECT_EQ(to(DataType::kFloat8E4M3Fn, NAN, true), 0x7f);
  EXPECT_EQ(FloatToSmallFloat(DataType::kFloat8E8M0, 3), 129);
  EXPECT_EQ(FloatToSmallFloat(DataType::kFloat8E8M0, 3, true, RoundMode::kDown), 128);
  EXPECT_EQ(FloatToSmallFloat(DataType::kFloat8E8M0, 2.9, true, RoundMode::kNearest), 128);
  EXPECT_EQ(FloatToSmallFloat(DataType::kFloat8E8M0, 3.4e38), 0xfe);
  EXPECT_EQ(FloatToSmallFloat(DataType::kFloat8E8M0, 3.4e38, false), 0xff);
}

TEST(Tensor, SmallTypesTakeAByteEach) {
  const Tensor minus = Tensor::Full(DataType::kInt4, {3}, -5);
  EXPECT_EQ(minus.bytes(), 3);
  EXPECT_EQ(minus.IntAt(2), -5);
  EXPECT_EQ(Tensor::Full(DataType::kUint2, {1}, 7).At(0), 3);
  EXPECT_EQ(Tensor::Full(DataType::kFloat4E2M1, {1}, 5.1).At(0), 6);
  EXPECT_EQ(*ParseDataType("float8e4m3fnuz"), DataType::kFloat8E4M3Fnuz);
}

TEST(Device, ListsAreChecked) {
  EXPECT_EQ(ParseDevices("cpu:0,cpu:1")->size(), 2u);
  for (const char* bad : {"", "cpu", "cpu:0,cpu:0", "cpu:0,gpu:0", "cpu:-1", "tpu:0"}) {
    EXPECT_FALSE(ParseDevices(bad).ok()) << bad;
  }
}

TEST(Errors, TheCodeNearestToTheCauseStays) {
  absl::Status s = WithExitCode(absl::InvalidArgumentError("x"), ExitCode::kData);
  s = WithExitCode(s, ExitCode::kUsage);
  EXPECT_EQ(ExitCodeOf(s), ExitCode::kData);
  EXPECT_EQ(ExitCodeOf(absl::OkStatus()), ExitCode::kDone);
  EXPECT_EQ(ExitCodeOf(absl::UnknownError("")), ExitCode::kInternal);
}

}  // namespace
}  // namespace onward
