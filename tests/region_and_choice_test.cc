// Numbers for operators whose sizes data decides, for regions of images, and for draws of
// classes. The expected values were made by onnxruntime.
#include <gtest/gtest.h>

#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/ir/builder.h"
#include "graph/ops/operators.h"
#include "tests/operator_values.h"

namespace onward {
namespace {

// All outputs, which may be constants.
void ExpectAll(const std::string& text, const std::vector<Numbers>& feeds,
               const std::vector<Numbers>& expected) {
  for (KernelRows choice : {KernelRows::kReference, KernelRows::kBest}) {
    auto graph = ParseFolded(text);
    ASSERT_TRUE(graph.ok()) << text << "\n" << graph.status();
    auto results = RunWith(choice, **graph, feeds);
    ASSERT_TRUE(results.ok()) << text << "\n" << results.status();
    ASSERT_EQ(results->size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      ExpectNumbers((*results)[i], expected[i], absl::StrCat(text, " output ", i));
    }
  }
}

TEST(Unique, GivesFirstPlacesInversesAndCounts) {
  const auto text = [](const char* attributes) {
    return absl::StrCat(
        "g () => (float[4] y, int64[4] i, int64[8] v, int64[4] n) { x = Constant<value = float[8] "
        "{2.0, 0.5, 2.0, 2.0, -1.0, 2.0, 0.5, 7.0}>() y, i, v, n = Unique",
        attributes, "(x) }");
  };
  ExpectAll(text(""), {}, {{-1, 0.5, 2, 7}, {4, 1, 0, 7}, {2, 1, 2, 2, 0, 2, 1, 3}, {1, 2, 4, 1}});
  ExpectAll(text("<sorted = 0>"), {},
            {{2, 0.5, -1, 7}, {0, 1, 4, 7}, {0, 1, 0, 0, 2, 0, 1, 3}, {4, 2, 1, 1}});
}

TEST(Unique, ComparesWholeRows) {
  ExpectAll(
      "g () => (float[2, 3] y, int64[2] i, int64[3] v, int64[2] n) { x = Constant<value = "
      "float[3, 3] {1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 2.0, 3.0, 4.0}>() "
      "y, i, v, n = Unique<axis = 0>(x) }",
      {}, {{1, 0, 0, 2, 3, 4}, {0, 2}, {0, 0, 1}, {2, 1}});
  ExpectAll(
      "g () => (int64[3] y) { x = Constant<value_ints = [5, -9000000000000000001, "
      "-9000000000000000000, 5]>() y = Unique(x) }",
      {}, {{-9000000000000000001.0, -9000000000000000000.0, 5}});
}

TEST(NonMaxSuppression, KeepsTheBestOfThoseThatOverlap) {
  const auto text = [](const char* attributes, const char* more) {
    return absl::StrCat(
        "g () => (int64[n, 3] y) { b = Constant<value = float[1, 6, 4] {0.0, 0.0, 1.0, 1.0, 0.0, "
        "0.1, 1.0, 1.1, 1.0, -0.1, 0.0, 0.9, 0.0, 10.0, 1.0, 11.0, 0.0, 10.1, 1.0, 11.1, 0.0, "
        "100.0, 1.0, 101.0}>() s = Constant<value = float[1, 2, 6] {0.9, 0.75, 0.6, 0.95, 0.5, "
        "0.3, 0.1, 0.2, 0.2, 0.2, 0.9, 0.3}>() m = Constant<value = int64[1] {3}>() "
        "o = Constant<value = float[1] {0.5}>() t = Constant<value = float[1] {0.4}>() "
        "y = NonMaxSuppression",
        attributes, "(b, s", more, ") }");
  };
  ExpectAll(text("", ", m, o"), {}, {{0, 0, 3, 0, 0, 0, 0, 0, 5, 0, 1, 4, 0, 1, 5, 0, 1, 1}});
  ExpectAll(text("<center_point_box = 1>", ", m, o"), {},
            {{0, 0, 3, 0, 0, 0, 0, 0, 2, 0, 1, 4, 0, 1, 5, 0, 1, 1}});
  ExpectAll(text("", ", m, o, t"), {}, {{0, 0, 3, 0, 0, 0, 0, 1, 4}});
  ExpectAll(text("", ""), {}, {{}});
}

TEST(DataSized, WithoutTheDataIsRefusedByName) {
  for (const char* text : {"g (float[4] x, bool[4] c) => (float[n] y) { y = Compress(x, c) }",
                           "g (float[4] x) => (float[n] y) { y = Unique(x) }",
                           "g (float[1, 2, 4] b, float[1, 1, 2] s) => (int64[n, 3] y) "
                           "{ y = NonMaxSuppression(b, s) }"}) {
    const absl::Status status = ParseFolded(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
    EXPECT_NE(std::string(status.message()).find("node 'y'"), std::string::npos) << status;
    EXPECT_NE(std::string(status.message()).find("depends on data"), std::string::npos) << status;
  }
}

TEST(Compress, PutsGradientsBack) {
  ExpectGradients(
      "g (float[2, 3] x) => (float[2, 2] y) { c = Constant<value = bool[3] {1, 0, 1}>() "
      "y = Compress<axis = -1>(x, c) }",
      {{1, 2, 3, 4, 5, 6}}, {1, 2, 3, 4}, {{1, 0, 2, 3, 0, 4}});
  EXPECT_EQ(ParseFolded("g (float[2] x) => (float[2] y) { c = Constant<value = bool[3] {1, 0, 1}>()"
                        " y = Compress<axis = 0>(x, c) }")
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
}

// Two images of 4 x 5.
const Numbers kImages = {-11, -4, 3,  10, -6, 1,   8,  -8, -1, 6,   -10, -3, 4,  11,
                         -5,  2,  9,  -7, 0,  7,   -9, -2, 5,  -11, -4,  3,  10, -6,
                         1,   8,  -8, -1, 6,  -10, -3, 4,  11, -5,  2,   9};

TEST(MaxRoiPool, TakesTheLargestOfEachBin) {
  constexpr char kText[] =
      "g (float[2, 1, 4, 5] x) => (float[3, 1, 2, 2] y) { r = Constant<value = float[3, 5] {0.0, "
      "0.0, 0.0, 3.0, 3.0, 1.0, 1.6, 0.4, 4.0, 2.6, 0.0, 3.0, 3.0, 9.0, 9.0}>() "
      "y = MaxRoiPool<pooled_shape = [2, 2]>(x, r) }";
  ExpectOutput(kText, {kImages}, {8, 10, 9, 11, 5, 8, 6, 9, 7, 0, 0, 0});
  // The largest of a region outside of the image is nowhere.
  Numbers dx(40, 0);
  dx[6] = dx[3] = dx[16] = dx[13] = dx[22] = dx[29] = dx[32] = dx[39] = dx[19] = 1;
  ExpectGradients(kText, {kImages}, Numbers(12, 1), {dx});
}

TEST(RoiAlign, TakesTheLargestWeighedNeighbour) {
  const auto text = [](const char* attributes) {
    return absl::StrCat(
        "g (float[2, 1, 4, 5] x) => (float[3, 1, 2, 2] y) { r = Constant<value = float[3, 4] {0.0, "
        "0.0, 3.0, 3.0, 0.6, 0.4, 4.0, 2.6, -3.0, 1.0, 9.0, 9.0}>() "
        "i = Constant<value_ints = [0, 1, 1]>() y = RoiAlign<mode = \"max\", output_height = 2, "
        "output_width = 2",
        attributes, ">(x, r, i) }");
  };
  ExpectOutput(text(", sampling_ratio = 2"), {kImages},
               {3.125, 3.125, 3.125, 3.125, 4.53125, 3.196875, 4.53125, 3.83625, 11, 9, 0, 0});
  ExpectOutput(
      text(", coordinate_transformation_mode = \"output_half_pixel\""), {kImages},
      {6.125, 3.90625, 4.921875, 6.015625, 7.55625, 3.565002, 4.06875, 1.681875, 5.5, 9, 0, 0});
}

TEST(Multinomial, DrawsClassesAsOftenAsTheirProbability) {
  constexpr char kText[] =
      "g (float[2, 3] x) => (int64[2, 20000] y) "
      "{ y = Multinomial<sample_size = 20000, dtype = 7, seed = 5.0>(x) }";
  auto graph = ParseFolded(kText);
  ASSERT_TRUE(graph.ok()) << graph.status();
  // Not normalized; a class of no probability.
  auto y = RunWith(KernelRows::kBest, **graph,
                   {{std::log(3.0), std::log(1.0), std::log(4.0), 0, -HUGE_VAL, 0}});
  ASSERT_TRUE(y.ok()) << y.status();
  std::vector<double> share(6, 0);
  for (size_t i = 0; i < (*y)[0].size(); ++i) {
    share[i / 20000 * 3 + static_cast<size_t>((*y)[0][i])] += 1.0 / 20000;
  }
  const Numbers expected = {0.375, 0.125, 0.5, 0.5, 0, 0.5};
  for (int i = 0; i < 6; ++i) EXPECT_NEAR(share[i], expected[i], 0.015) << i;
  EXPECT_EQ(share[4], 0);
}

}  // namespace
}  // namespace onward
