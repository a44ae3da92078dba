#include "graph/base/window.h"

#include <gtest/gtest.h>

namespace onward {
namespace {

TEST(Window, AbsentAttributesAreOnesAndNoPadding) {
  const Window w = ReadWindow({}, {5, 6}, {3, 4}, {3, 3});
  EXPECT_EQ(w.stride, (Dims{1, 1}));
  EXPECT_EQ(w.dilation, (Dims{1, 1}));
  EXPECT_EQ(w.Pads(), (std::vector<int64_t>{0, 0, 0, 0}));
  EXPECT_EQ(w.At(1, 2, 1), 3);
}

TEST(Window, ExplicitPadsAreBeginThenEnd) {
  const Attributes a = {{"pads", std::vector<int64_t>{1, 2, 3, 4}},
                        {"dilations", std::vector<int64_t>{2, 1}}};
  const Window w = ReadWindow(a, {5, 5}, {5, 9}, {3, 3});
  EXPECT_EQ(w.begin, (Dims{1, 2}));
  EXPECT_EQ(w.end, (Dims{3, 4}));
  EXPECT_EQ(w.At(0, 0, 2), 3);
  EXPECT_FALSE(w.Inside(0, w.At(0, 0, 0)));
  EXPECT_TRUE(w.Inside(0, w.At(0, 1, 0)));
}

TEST(Window, SamePaddingPutsTheOddOneBehindOrBefore) {
  const std::vector<int64_t> strides = {2};
  const Window upper =
      ReadWindow({{"auto_pad", std::string("SAME_UPPER")}, {"strides", strides}}, {6}, {3}, {3});
  EXPECT_EQ(upper.Pads(), (std::vector<int64_t>{0, 1}));
  const Window lower =
      ReadWindow({{"auto_pad", std::string("SAME_LOWER")}, {"strides", strides}}, {6}, {3}, {3});
  EXPECT_EQ(lower.Pads(), (std::vector<int64_t>{1, 0}));
  const Window valid =
      ReadWindow({{"auto_pad", std::string("VALID")}, {"strides", strides}}, {6}, {2}, {3});
  EXPECT_EQ(valid.Pads(), (std::vector<int64_t>{0, 0}));
}

TEST(Window, NextGoesThroughAllIndicesOnce) {
  const Dims dims = {2, 1, 3};
  Dims index(3, 0);
  int n = 0;
  do {
    EXPECT_EQ(index[0] * 3 + index[2], n);
    ++n;
  } while (Next(index, dims));
  EXPECT_EQ(n, 6);
  Dims none;
  EXPECT_FALSE(Next(none, {}));
}

}  // namespace
}  // namespace onward
