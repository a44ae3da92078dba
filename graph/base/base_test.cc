#include <gtest/gtest.h>

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
