#include "kernels/onednn/engine.h"

#include <gtest/gtest.h>

namespace onward {
namespace {

TensorType Float(const Dims& dims, const Layout& layout = {}) {
  return {DataType::kFloat32, dims, layout};
}

Layout Blocked(std::vector<Layout::Block> blocks) {
  Layout layout;
  layout.blocks.assign(blocks.begin(), blocks.end());
  return layout;
}

Layout Ordered(std::vector<int> order, std::vector<Layout::Block> blocks = {}) {
  Layout layout = Blocked(std::move(blocks));
  layout.order.assign(order.begin(), order.end());
  return layout;
}

TEST(Descriptors, SayWhatLayoutsSay) {
  using onednn::DescriptorOf;
  using onednn::LayoutOf;
  using onednn::View;
  const Dims image = {2, 17, 5, 6}, filters = {18, 17, 3, 3}, matrix = {33, 20};
  const std::vector<std::pair<Dims, Layout>> cases = {
      {image, {}},
      {image, Layout::ChannelsLast(4)},
      {image, Blocked({{1, 16}})},
      {image, Blocked({{1, 8}})},
      {filters, Blocked({{1, 16}, {0, 16}})},
      {filters, Ordered({0, 2, 3, 1}, {{0, 16}})},
      {{7}, {}},
  };
  for (const auto& [dims, layout] : cases) {
    const TensorType type = Float(dims, layout);
    const auto desc = DescriptorOf(type, View::Same(dims));
    ASSERT_TRUE(desc.ok()) << desc.status();
    EXPECT_EQ(static_cast<int64_t>(desc->get_size()), type.bytes()) << ToString(layout);
    const auto back = LayoutOf(*desc, dims, View::Same(dims));
    ASSERT_TRUE(back.has_value()) << ToString(layout);
    EXPECT_TRUE(*back == layout) << ToString(*back) << " for " << ToString(layout);
  }
  // A matrix seen with its axes exchanged.
  const Layout swapped = Ordered({1, 0}, {{0, 16}, {1, 16}});
  const auto desc = DescriptorOf(Float(matrix, swapped), View::Swapped(matrix));
  ASSERT_TRUE(desc.ok()) << desc.status();
  const auto back = LayoutOf(*desc, matrix, View::Swapped(matrix));
  ASSERT_TRUE(back.has_value());
  EXPECT_TRUE(*back == swapped) << ToString(*back);
}

TEST(Descriptors, GroupsOfFiltersLieInAxisZero) {
  using onednn::DescriptorOf;
  using onednn::LayoutOf;
  using onednn::View;
  // One filter to a group: groups are blocked.
  const Dims depthwise = {32, 1, 3, 3};
  const View view = View::Groups(depthwise, 32);
  const auto desc = DescriptorOf(Float(depthwise, Blocked({{0, 16}})), view);
  ASSERT_TRUE(desc.ok()) << desc.status();
  EXPECT_TRUE(LayoutOf(*desc, depthwise, view).value() == Blocked({{0, 16}}));
  // A block of filters that reaches over a group is none.
  const Dims grouped = {24, 4, 3, 3};
  EXPECT_FALSE(DescriptorOf(Float(grouped, Blocked({{0, 16}})), View::Groups(grouped, 2)).ok());
  const Dims fits = {32, 16, 3, 3};
  const auto two = DescriptorOf(Float(fits, Blocked({{1, 16}, {0, 16}})), View::Groups(fits, 2));
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_TRUE(LayoutOf(*two, fits, View::Groups(fits, 2)).value() == Blocked({{1, 16}, {0, 16}}));
}

}  // namespace
}  // namespace onward
