// Numbers that PyTorch (or ONNX) gives for operators whose conventions are easily mistaken: where
// resized and sampled images are read, the order of gates, the ends of sequences.
#include <gtest/gtest.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "tests/operator_values.h"

namespace onward {
namespace {

const Numbers& Image() {
  static const auto* image = new Numbers{1, 5, 2, 4, 3, 8, 1, 0, 2, 6, 7, 9};
  return *image;
}

std::string Resized(const std::string& attributes, const char* to = "1, 1, 2, 5") {
  return absl::StrCat("g (double[1, 1, 3, 4] x) => (double[", to,
                      "] y) { s = Constant<value_ints = [", to, "]>() y = Resize<", attributes,
                      ">(x, , , s) }");
}

TEST(FrameworkValues, Resize) {
  const Numbers dy = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  const std::string corners = ", coordinate_transformation_mode = \"align_corners\"";
  ExpectOutput(Resized("mode = \"linear\""), {Image()},
               {1.5, 4.475, 3.75, 2.125, 3.0, 2.25, 5.225, 6.0, 5.875, 6.75});
  ExpectGradients(
      Resized("mode = \"linear\""), {Image()}, dy,
      {{1.2, 2.175, 3.225, 4.65, 2.425, 2.95, 3.65, 4.725, 6.075, 6.675, 7.725, 9.525}});
  ExpectOutput(Resized("mode = \"linear\"" + corners), {Image()},
               {1.0, 4.0, 3.5, 2.5, 4.0, 2.0, 5.0, 6.5, 7.5, 9.0});
  ExpectOutput(Resized("mode = \"cubic\""), {Image()},
               {1.2293818, 5.0226523, 3.9418945, 1.4397695, 2.8511455, 2.0379756, 5.4746562,
                6.3676758, 5.8393281, 6.8941143});
  ExpectGradients(Resized("mode = \"cubic\"" + corners), {Image()}, dy,
                  {{1.171875, 3.1171875, 5.0859375, 5.625, 0, 0, 0, 0, 6.8359375, 9.953125,
                    11.921875, 11.2890625}});
  ExpectGradients(Resized("mode = \"nearest\", nearest_mode = \"floor\", "
                          "coordinate_transformation_mode = \"asymmetric\""),
                  {Image()}, dy, {{3, 3, 4, 5, 13, 8, 9, 10, 0, 0, 0, 0}});
  ExpectOutput(Resized("mode = \"linear\", antialias = 1, exclude_outside = 1", "1, 1, 2, 2"),
               {Image()}, {3.6071429, 2.6428571, 4.5892857, 5.4107143});
  ExpectOutput(Resized("mode = \"cubic\", antialias = 1, exclude_outside = 1, "
                       "cubic_coeff_a = -0.5",
                       "1, 1, 2, 2"),
               {Image()}, {3.6953955, 2.3433533, 4.6137723, 5.5662285});
}

TEST(FrameworkValues, GridSample) {
  const Numbers grid = {-0.9, -0.7, 0.3, 0.4, 1.3, -0.2, -1.6, 1.2};
  const auto sampled = [](const char* mode, const char* padding, int corners) {
    return absl::StrCat(
        "g (double[1, 1, 3, 4] x, double[1, 1, 4, 2] grid) => (double[1, 1, 1, 4] y) "
        "{ y = GridSample<mode = \"",
        mode, "\", padding_mode = \"", padding, "\", align_corners = ", corners, ">(x, grid) }");
  };
  const struct {
    const char *mode, *padding;
    int corners;
    Numbers y;
  } cases[] = {
      {"linear", "zeros", 0, {0.665, 4.68, 0, 0}},
      {"linear", "zeros", 1, {2.245, 3.59, 0.44, 0.16}},
      {"linear", "border", 0, {1, 4.68, 1.2, 2}},
      {"linear", "border", 1, {2.245, 3.59, 0.8, 2}},
      {"linear", "reflection", 0, {1, 4.68, 1.21, 4.8}},
      {"linear", "reflection", 1, {2.245, 3.59, 0.98, 5.98}},
      {"nearest", "zeros", 0, {1, 7, 0, 0}},
      {"nearest", "border", 1, {1, 1, 0, 2}},
      {"nearest", "reflection", 0, {1, 7, 0, 6}},
      {"cubic", "zeros", 0, {0.2239211, 5.327595, -0.0189996, -0.015498}},
      {"cubic", "zeros", 1, {2.5328612, 3.900776, -0.1082868, 0.105664}},
      {"cubic", "reflection", 0, {0.3043609, 4.505526, 0.118567, 4.46139}},
      {"cubic", "reflection", 1, {1.638534, 3.8058845, -0.4109432, 5.851732}},
  };
  for (const auto& c : cases) {
    ExpectOutput(sampled(c.mode, c.padding, c.corners), {Image(), grid}, c.y);
  }
}

TEST(FrameworkValues, GradientsOfGridSample) {
  const auto by_grid = [](const char* mode, const char* padding, const Numbers& expected) {
    ExpectGradients(
        absl::StrCat("g (double[1, 1, 4, 2] grid) => (double[1, 1, 1, 4] y) "
                     "{ x = Constant<value = double[1, 1, 3, 4] {1.0, 5.0, 2.0, 4.0, 3.0, 8.0, "
                     "1.0, 0.0, 2.0, 6.0, 7.0, 9.0}>() y = GridSample<mode = \"",
                     mode, "\", padding_mode = \"", padding, "\">(x, grid) }"),
        {{-0.9, -0.7, 0.3, 0.4, 1.3, -0.2, -1.6, 1.2}}, {1, 2, 3, 4}, {expected});
  };
  by_grid("linear", "zeros", {1.9, 1.05, 3.2, 18.9, 0, 0, 0, 0});
  by_grid("linear", "border", {0, 0, 3.2, 18.9, 0, -18, 0, 0});
  by_grid("linear", "reflection", {0, 0, 3.2, 18.9, 0.6, -16.65, -32, 0});
  by_grid("cubic", "zeros",
          {2.3020252, 1.5547366, 1.8006, 25.6784625, -0.8866463, 1.3060491, -0.64944, 0.501795});
}

TEST(FrameworkValues, RoiAlign) {
  const auto aligned = [](const char* attributes) {
    return absl::StrCat(
        "g (double[1, 1, 3, 4] x, double[2, 4] r, int64[2] i) => (double[2, 1, 2, 2] y) "
        "{ y = RoiAlign<output_height = 2, output_width = 2",
        attributes, ">(x, r, i) }");
  };
  const Numbers regions = {0.2, 0.3, 3.1, 2.4, 1, -1, 5, 1};
  const Numbers ids = {0, 0};
  ExpectOutput(aligned(""), {Image(), regions, ids},
               {3.488125, 2.84484375, 4.590625, 4.23984375, 3.5, 4.0, 3.5, 4.0});
  ExpectOutput(aligned(", sampling_ratio = 2"), {Image(), regions, ids},
               {3.488125, 2.84484375, 4.590625, 4.23984375, 1.75, 2.0, 3.625, 3.5});
  ExpectOutput(aligned(", coordinate_transformation_mode = \"output_half_pixel\", "
                       "spatial_scale = 0.8"),
               {Image(), regions, ids}, {5.6139, 2.4417, 5.7175, 4.6325, 3.2, 3.8, 3.44, 2.32});
}

TEST(FrameworkValues, AffineGrid) {
  const auto grid = [](int corners) {
    return absl::StrCat(
        "g (double[1, 2, 3] theta) => (double[1, 2, 3, 2] y) "
        "{ s = Constant<value_ints = [1, 1, 2, 3]>() y = AffineGrid<align_corners = ",
        corners, ">(theta, s) }");
  };
  const Numbers theta = {0.5, -0.2, 0.1, 0.3, 0.8, -0.4};
  ExpectOutput(
      grid(0), {theta},
      {-0.1333333, -1.0, 0.2, -0.8, 0.5333333, -0.6, -0.3333333, -0.2, 0.0, 0.0, 0.3333333, 0.2});
  ExpectOutput(grid(1), {theta},
               {-0.2, -1.5, 0.3, -1.2, 0.8, -0.9, -0.6, 0.1, -0.1, 0.4, 0.4, 0.7});
}

// sin(1 + from) / 2, sin(2 + from) / 2, ..
Numbers Waves(int count, int from) {
  Numbers out;
  for (int k = 0; k < count; ++k) out.push_back(std::sin(k + 1 + from) / 2);
  return out;
}

// Both directions over two sequences, of three steps and of two.
void ExpectRecurrent(const char* op, int gates, const char* attributes, const Numbers& y,
                     const Numbers& dx) {
  const int width = 2 * gates;
  const std::string text = absl::StrCat(
      "g (double[3, 2, 2] x, double[2, ", width, ", 2] w, double[2, ", width, ", 2] r, double[2, ",
      2 * width, "] b, int32[2] n) => (double[3, 2, 2, 2] y) { y = ", op,
      "<direction = \"bidirectional\", hidden_size = 2", attributes, ">(x, w, r, b, n) }");
  const std::vector<Numbers> feeds = {
      Waves(12, 0), Waves(4 * width, 10), Waves(4 * width, 20), Waves(4 * width, 30), {3, 2}};
  ExpectOutput(text, feeds, y);
  ExpectGradients(text, feeds, Waves(24, 40), {dx});
}

TEST(FrameworkValues, Recurrent) {
  ExpectRecurrent("LSTM", 4, "",
                  {-0.082030159,
                   0.15485825,
                   0.086990088,
                   0.12182996,
                   -0.028070318,
                   -0.24199097,
                   -0.050895126,
                   -0.16420426,
                   0.10456414,
                   0.21809718,
                   -0.02325981,
                   0.18519734,
                   -0.10924898,
                   -0.16309788,
                   0.011618754,
                   -0.12576577,
                   0.12312395,
                   0.17443079,
                   0,
                   0,
                   -0.046125479,
                   -0.10486901,
                   0,
                   0},
                  {0.10125969, 0.047494847, 0.04372417, 0.080128645, 0.089021365, 0.092701095,
                   -0.11501279, -0.064458638, -0.058731078, 0.0087102872, 0, 0});
  ExpectRecurrent("GRU", 3, ", linear_before_reset = 1",
                  {-0.023733138, -0.16937309, -0.25354549, -0.28441983,
                   0.34022295,   -0.40185949, 0.13746631,  -0.40639399,
                   -0.17731755,  -0.42391823, 0.027945455, -0.35744264,
                   0.22308233,   -0.49909598, 0.20946993,  -0.12834891,
                   -0.18223521,  -0.49750597, 0,           0,
                   0.057915076,  -0.28340044, 0,           0},
                  {0.0057859411, 0.034423134, -0.024748108, -0.10691094, -0.016455116, -0.060383867,
                   0.034940822, -0.031026322, 0.022406376, -0.083755409, 0, 0});
  ExpectRecurrent("RNN", 1, "", {-0.034391104, 0.69306685,  0.34888827,  0.35193856,
                                 -0.48835681,  -0.78955704, -0.57581769, -0.49429662,
                                 0.5062641,    0.070948478, 0.14435307,  0.49850136,
                                 -0.64766592,  -0.29440852, -0.46232372, -0.59885518,
                                 0.44572739,   0.19976358,  0,           0,
                                 -0.40507484,  -0.33159508, 0,           0},
                  {0.051567931, -0.15501665, 0.31466114, 0.13602949, 0.25941366, -0.026558274,
                   -0.16249095, 0.23666452, 0.00375309, 0.3654389, 0, 0});
}

TEST(FrameworkValues, Attention) {
  const std::string text =
      "g (double[1, 2, 3, 2] q, double[1, 2, 3, 2] k, double[1, 2, 3, 2] v) => "
      "(double[1, 2, 3, 2] y) { y = Attention<is_causal = 1>(q, k, v) }";
  const std::vector<Numbers> feeds = {Waves(12, 0), Waves(12, 10), Waves(12, 20)};
  ExpectOutput(text, feeds,
               {0.41832782, -0.0044256546, 0.033051299, -0.20972175, 0.02443448, -0.020099666,
                0.47818796, 0.13545289, 0.089187162, -0.1668463, 0.045522235, -0.010163088});
  ExpectGradients(
      text, feeds, Waves(12, 40),
      {{0, 0, 0.043120428, 0.046369983, -0.031926049, -0.057510155, 0, 0, 0.045980362, 0.06884726,
        -0.031776803, -0.058990607},
       {-0.02820221, 0.016009752, 0.042767405, -0.011765683, -0.014565195, -0.0042440694,
        -0.04926262, 0.0052259814, 0.055113785, -0.0020863741, -0.0058511648, -0.0031396073},
       {-0.13292023, -0.27133302, -0.065156851, 0.13681298, 0.12833014, 0.1360044, -0.045263573,
        -0.24503166, -0.13021458, 0.08244316, 0.095502972, 0.14058753}});
}

// A query that may see no key gives zeros, and no gradient.
TEST(FrameworkValues, AttentionToNothing) {
  const std::string text =
      "g (double[1, 1, 2, 1] q, double[1, 1, 2, 1] k, double[1, 1, 2, 1] v, bool[2, 2] m) => "
      "(double[1, 1, 2, 1] y) { y = Attention(q, k, v, m) }";
  const std::vector<Numbers> feeds = {{1, 2}, {3, 4}, {5, 6}, {0, 0, 1, 0}};
  ExpectOutput(text, feeds, {0, 5});
  ExpectGradients(text, feeds, {1, 1}, {{0, 0}, {0, 0}, {1, 0}});
}

TEST(FrameworkValues, Signals) {
  ExpectOutput("g (double[1, 8, 1] x) => (double[1, 5, 2] y) { y = DFT<onesided = 1>(x) }",
               {Waves(8, 0)},
               {0.7715455, 0, 1.9378322, 0.45502086, -0.45777995, -0.19866309, -0.13743691,
                -0.06084573, -0.090892182, 0});
  ExpectOutput(
      "g (double[1, 3, 1] x) => (double[1, 5, 2] y) "
      "{ n = Constant<value_int = 5>() y = DFT(x, n) }",
      {Waves(3, 0)},
      {0.94594421, 0, 0.50414543, -0.47387075, 0.074721197, -0.20012926, 0.074721197, 0.20012926,
       0.50414543, 0.47387075});
  ExpectOutput(
      "g (double[1, 8, 1] x) => (double[1, 7, 1] y) { n = Constant<value_int = 7>() "
      "s = DFT<onesided = 1>(x) y = DFT<onesided = 1, inverse = 1>(s, n) }",
      {Waves(8, 0)},
      {0.49382516, 0.48114739, -0.084588809, -0.54526264, -0.37759007, 0.24534281, 0.55867166});
  ExpectOutput(
      "g (double[1, 8, 1] x) => (double[1, 3, 3, 2] y) { n = Constant<value_int = 4>() "
      "s = Constant<value_int = 2>() w = HannWindow<output_datatype = 11>(n) y = STFT(x, s, w) }",
      {Waves(8, 0)},
      {0.10868374, 0, -0.070560004, -0.41652498, 0.032436271, 0, -0.73851664, 0, 0.47946214,
       0.11934675, -0.22040764, 0, 0.50597899, 0, -0.3284933, 0.31719344, 0.15100761, 0});
  const auto window = [](const char* call) {
    return absl::StrCat("g (double[5] x) => (double[5] y) { n = Constant<value_int = 5>() w = ",
                        call, "(n) c = Cast<to = 11>(w) y = Mul(c, x) }");
  };
  const Numbers ones = {1, 1, 1, 1, 1};
  ExpectOutput(window("HannWindow<periodic = 0>"), {ones}, {0, 0.5, 1, 0.5, 0});
  ExpectOutput(window("BlackmanWindow"), {ones},
               {0, 0.20077014, 0.84922986, 0.84922986, 0.20077014});
  ExpectOutput(window("HammingWindow<periodic = 0>"), {ones},
               {4.0 / 46, 25.0 / 46, 1, 25.0 / 46, 4.0 / 46});
  // (ONNX's own; other libraries place the corners otherwise.)
  Numbers triangles(27, 0.0);
  triangles[0] = triangles[4] = triangles[8] = 1;
  triangles[11] = 0.5;
  ExpectOutput(
      "g (float[9, 3] x) => (float[9, 3] y) { b = Constant<value_int = 3>() "
      "n = Constant<value_int = 17>() r = Constant<value_int = 8000>() "
      "lo = Constant<value_float = 100.0>() hi = Constant<value_float = 3000.0>() "
      "w = MelWeightMatrix(b, n, r, lo, hi) y = Mul(w, x) }",
      {Numbers(27, 1.0)}, triangles);
}

TEST(FrameworkValues, ProductsAtZeros) {
  // The slope of a running product is the product of the others, zero or not.
  ExpectGradients(
      "g (double[4] x) => (double[4] y) { a = Constant<value_int = 0>() y = CumProd(x, a) }",
      {{2, 0, 3, 4}}, {1, 1, 1, 1}, {{1, 2 + 6 + 24, 0, 0}});
  ExpectGradients("g (double[2, 2] x) => (double y) { y = Det(x) }", {{0, 0, 0, 5}}, {1},
                  {{5, 0, 0, 0}});
  ExpectGradients("g (double[3, 3] x) => (double y) { y = Det(x) }", {{1, 2, 3, 2, 4, 6, 1, 0, 1}},
                  {1}, {{4, 4, -4, -2, -2, 2, 0, 0, 0}});
}

}  // namespace
}  // namespace onward
