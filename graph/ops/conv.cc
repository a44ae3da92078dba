// Convolutions and their gradients.
#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/base/status_macros.h"
#include "graph/base/window.h"
#include "graph/ir/builder.h"
#include "graph/ir/graph.h"
#include "graph/ops/checked.h"
#include "graph/ops/operators.h"

namespace onward {
namespace {

std::vector<int64_t> Vector(absl::Span<const int64_t> v) { return {v.begin(), v.end()}; }

// The geometry of a convolution of x with w to y.
Window WindowOf(const Attributes& attributes, const Dims& x, const Dims& w, const Dims& y) {
  return ReadWindow(attributes, Spatial(x), Spatial(y), Spatial(w));
}

// The attributes of a convolution with all defaults written and auto_pad resolved.
Attributes Explicit(const Window& window, int64_t group) {
  return {{"strides", Vector(window.stride)},
          {"dilations", Vector(window.dilation)},
          {"pads", window.Pads()},
          {"group", group}};
}

// x: [samples, channels, spatial...]; w: [filters, channels / group, kernel...].
absl::Status CheckChannels(const Dims& x, const Dims& w, int64_t group) {
  if (group < 1 || w.size() != x.size() || x.size() < 3) {
    return absl::InvalidArgumentError(absl::StrCat("input ", ToString(x), ", filters ", ToString(w),
                                                   " and group ", group,
                                                   " do not make a convolution"));
  }
  if (x[1] != w[1] * group || w[0] % group != 0) {
    return absl::InvalidArgumentError(absl::StrCat("input ", ToString(x), " has ", x[1],
                                                   " channels, the filters ", ToString(w), " take ",
                                                   w[1] * group, " in ", group, " groups"));
  }
  return absl::OkStatus();
}

absl::Status CheckConv(InferContext& c) {
  const Dims &x = c.input(0).dims, &w = c.input(1).dims;
  RETURN_IF_ERROR(CheckChannels(x, w, c.attributes().Int("group", 1)));
  const std::vector<int64_t> kernel = c.attributes().Ints("kernel_shape");
  if (!kernel.empty() && Vector(Spatial(w)) != kernel) {
    return absl::InvalidArgumentError(
        absl::StrCat("kernel_shape ", ToString(kernel), " and filters ", ToString(w), " differ"));
  }
  if (c.has(2) && c.input(2).dims != Dims{w[0]}) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a bias of [", w[0], "], got ", ToString(c.input(2).dims)));
  }
  return absl::OkStatus();
}

// Samples stay on axis 0; filters see all channels and space of one sample.
SampleAxis SamplesFirst(const Node&, absl::Span<const SampleAxis> in, int) {
  for (size_t i = 1; i < in.size(); ++i) {
    if (in[i].kind != SampleAxis::Kind::kNone) return SampleAxis::Mixed();
  }
  return in[0] == SampleAxis::Axis(0, in[0].inner) ? in[0] : SampleAxis::Mixed();
}

// Axes 0, 1 swapped, the others as they are.
std::vector<int64_t> SwapFirst(int rank) {
  std::vector<int64_t> order(rank);
  for (int i = 0; i < rank; ++i) order[i] = i;
  std::swap(order[0], order[1]);
  return order;
}

// y[n,o,p] = b[o] + sum over i, k of w[o,i,k] x[n,i, p stride + k dilation - pad]
//   dx, dw, db: the operators below
absl::Status ConvGradient(GradientContext& g) {
  Builder& b = g.b();
  const Dims x = g.x(0).dims(), w = g.x(1).dims();
  Attributes attributes =
      Explicit(WindowOf(g.attributes(), x, w, g.y().dims()), g.attributes().Int("group", 1));
  if (g.wants(0)) {
    attributes.Set("shape", Vector(x));
    g.dx(0, b.Op("onward.ConvDataGradient", {g.dy(), g.x(1)}, attributes));
  }
  const bool bias = g.has_x(2) && g.wants(2);
  if (g.wants(1)) {
    attributes.Set("shape", Vector(w));
    const std::vector<Expr> d =
        b.Ops("onward.ConvFilterGradient", {g.dy(), g.x(0)}, attributes, bias ? 2 : 1);
    g.dx(1, d[0]);
    if (bias) g.dx(2, d[1]);
  } else if (bias) {
    g.dx(2, b.Reshape(b.SumTo(g.dy(),
                              [&] {
                                Dims channel(x.size(), 1);
                                channel[1] = w[0];
                                return channel;
                              }()),
                      {w[0]}));
  }
  return absl::OkStatus();
}

// ---- ConvDataGradient: dy, w -> dx of extents `shape`.
//   dx[n,i,q] = sum over o and those p, k with p stride + k dilation - pad = q of
//               w[o,i,k] dy[n,o,p]
// Bilinear, and the transpose of the convolution in x:
//   ddy = conv(ddx, w),  dw = filter gradient of (dy, ddx)
absl::Status InferDataGradient(InferContext& c) {
  if (c.num_inputs() != 2 || !c.has(0) || !c.has(1)) {
    return absl::InvalidArgumentError("ConvDataGradient takes dy and the filters");
  }
  const std::vector<int64_t> shape = c.attributes().Ints("shape");
  const Dims x(shape.begin(), shape.end());
  RETURN_IF_ERROR(CheckChannels(x, c.input(1).dims, c.attributes().Int("group", 1)));
  if (c.input(0).dims.size() != x.size() || c.input(0).dims[1] != c.input(1).dims[0]) {
    return absl::InvalidArgumentError("dy does not fit the filters");
  }
  c.SetOutput(0, c.input(0).dtype, x);
  return absl::OkStatus();
}

absl::Status DataGradientGradient(GradientContext& g) {
  Builder& b = g.b();
  Attributes attributes = g.attributes();
  attributes.Remove("shape");
  const Dims dy = g.x(0).dims(), w = g.x(1).dims(), x = g.y().dims();
  if (g.wants(0)) {
    // The convolution may reach further than dy did, where less was asked of it.
    Expr y = b.Op("Conv", {g.dy(), g.x(1)}, attributes);
    if (y && y.dims() != dy) {
      std::vector<int64_t> starts(dy.size() - 2, 0), axes;
      for (size_t i = 2; i < dy.size(); ++i) axes.push_back(static_cast<int64_t>(i));
      y = b.Op("Slice", {y, b.Ints(starts), b.Ints(Spatial(dy)), b.Ints(axes)});
    }
    g.dx(0, y);
  }
  if (g.wants(1)) {
    attributes.Set("shape", Vector(w));
    g.dx(1, b.Op("onward.ConvFilterGradient", {g.x(0), g.dy()}, attributes));
  }
  return absl::OkStatus();
}

// `dy` with stride - 1 zeros between its entries along every spatial axis.
Expr Spread(Builder& b, Expr dy, const Window& window) {
  const Dims dims(dy.dims().begin(), dy.dims().end());  // of the dy that comes in
  Dims apart = {dims[0], dims[1]}, together = apart;
  std::vector<int64_t> behind = {0, 0}, starts, ends, axes;
  for (int i = 0; i < window.axes(); ++i) {
    apart.push_back(dims[i + 2]);
    apart.push_back(1);
    behind.push_back(0);
    behind.push_back(window.stride[i] - 1);
    together.push_back(dims[i + 2] * window.stride[i]);
    starts.push_back(0);
    ends.push_back((dims[i + 2] - 1) * window.stride[i] + 1);
    axes.push_back(i + 2);
  }
  std::vector<int64_t> pads(behind.size(), 0);
  pads.insert(pads.end(), behind.begin(), behind.end());
  Expr spread = b.Reshape(b.Op("Pad", {b.Reshape(dy, apart), b.Ints(pads)}), together);
  return b.Op("Slice", {spread, b.Ints(starts), b.Ints(ends), b.Ints(axes)});
}

// As a convolution of the spread dy with the filters turned around.
absl::Status LowerDataGradient(LowerContext& c) {
  Builder& b = c.b();
  const std::vector<int64_t> shape = c.attributes().Ints("shape");
  const Dims x(shape.begin(), shape.end()), w = c.x(1).dims(), dy = c.x(0).dims();
  const int64_t group = c.attributes().Int("group", 1);
  const Window window = WindowOf(c.attributes(), x, w, dy);
  Expr spread = Spread(b, c.x(0), window);
  // Filters of each group: inputs and outputs exchanged, space reversed.
  Dims cut = {group, w[0] / group, w[1]}, joined = {group * w[1], w[0] / group};
  std::vector<int64_t> order = {0, 2, 1}, axes, minus_one, first, before;
  std::vector<int64_t> pads(2 * x.size(), 0);
  for (int i = 0; i < window.axes(); ++i) {
    cut.push_back(w[i + 2]);
    joined.push_back(w[i + 2]);
    order.push_back(i + 3);
    axes.push_back(i + 2);
    minus_one.push_back(-1);
    first.push_back(w[i + 2] - 1);
    before.push_back(-w[i + 2] - 1);
    const int64_t reach = window.dilation[i] * (window.kernel[i] - 1);
    pads[i + 2] = reach - window.begin[i];
    pads[i + 2 + x.size()] =
        x[i + 2] + reach - ((dy[i + 2] - 1) * window.stride[i] + 1) - pads[i + 2];
  }
  Expr turned = b.Reshape(b.Transpose(b.Reshape(c.x(1), cut), order), joined);
  turned = b.Op("Slice", {turned, b.Ints(first), b.Ints(before), b.Ints(axes), b.Ints(minus_one)});
  Expr padded = b.Op("Pad", {spread, b.Ints(pads)});
  c.y(0,
      b.Op("Conv", {padded, turned}, {{"dilations", Vector(window.dilation)}, {"group", group}}));
  return absl::OkStatus();
}

// ---- ConvFilterGradient: dy, x -> dw of extents `shape`, db (optional).
//   dw[o,i,k] = sum over n, p of dy[n,o,p] x[n,i, p stride + k dilation - pad]
//   db[o] = sum over n, p of dy[n,o,p]
// Bilinear:  ddy = conv(x, ddw) + ddb,  dx = data gradient of (dy, ddw)
absl::Status InferFilterGradient(InferContext& c) {
  if (c.num_inputs() != 2 || !c.has(0) || !c.has(1)) {
    return absl::InvalidArgumentError("ConvFilterGradient takes dy and x");
  }
  const std::vector<int64_t> shape = c.attributes().Ints("shape");
  const Dims w(shape.begin(), shape.end());
  RETURN_IF_ERROR(CheckChannels(c.input(1).dims, w, c.attributes().Int("group", 1)));
  const Dims& dy = c.input(0).dims;
  if (dy.size() != w.size() || dy[1] != w[0] || dy[0] != c.input(1).dims[0]) {
    return absl::InvalidArgumentError("dy does not fit the input and the filters");
  }
  c.SetOutput(0, c.input(0).dtype, w);
  c.SetOutput(1, c.input(0).dtype, {w[0]});
  return absl::OkStatus();
}

absl::Status FilterGradientGradient(GradientContext& g) {
  Builder& b = g.b();
  Attributes attributes = g.attributes();
  attributes.Remove("shape");
  const Dims dy = g.x(0).dims(), x = g.x(1).dims();
  if (g.wants(0)) {
    Expr ddy = g.dy(0) ? b.Op("Conv", {g.x(1), g.dy(0)}, attributes) : Expr();
    if (g.dy(1)) {
      Dims channel(dy.size(), 1);
      channel[1] = dy[1];
      Expr bias = b.Expand(b.Reshape(g.dy(1), channel), dy);
      ddy = ddy ? ddy + bias : bias;
    }
    g.dx(0, ddy);
  }
  if (g.wants(1) && g.dy(0)) {
    attributes.Set("shape", Vector(x));
    g.dx(1, b.Op("onward.ConvDataGradient", {g.x(0), g.dy(0)}, attributes));
  }
  return absl::OkStatus();
}

// As a convolution of x with dy for filters, samples taken for channels, strides
// and dilations exchanged.
absl::Status LowerFilterGradient(LowerContext& c) {
  Builder& b = c.b();
  const std::vector<int64_t> shape = c.attributes().Ints("shape");
  const Dims w(shape.begin(), shape.end()), dy = c.x(0).dims(), x = c.x(1).dims();
  const int64_t group = c.attributes().Int("group", 1);
  const Window window = WindowOf(c.attributes(), x, w, dy);
  // x [N, G Ig, ...] -> [Ig, G N, ...]
  Dims cut = {x[0], group, w[1]}, joined = {w[1], group * x[0]};
  std::vector<int64_t> order = {2, 1, 0}, starts, ends, axes;
  for (int i = 0; i < window.axes(); ++i) {
    cut.push_back(x[i + 2]);
    joined.push_back(x[i + 2]);
    order.push_back(i + 3);
    starts.push_back(0);
    ends.push_back(w[i + 2]);
    axes.push_back(i + 2);
  }
  Expr channels = b.Reshape(b.Transpose(b.Reshape(c.x(1), cut), order), joined);
  Expr filters = b.Transpose(c.x(0), SwapFirst(c.x(0).rank()));
  Expr dw = b.Op("Conv", {channels, filters},
                 {{"strides", Vector(window.dilation)},
                  {"dilations", Vector(window.stride)},
                  {"pads", window.Pads()},
                  {"group", group}});
  dw = b.Op("Slice", {dw, b.Ints(starts), b.Ints(ends), b.Ints(axes)});
  c.y(0, b.Transpose(dw, SwapFirst(static_cast<int>(w.size()))));
  if (c.wants(1)) {
    std::vector<int64_t> others = {0};
    others.insert(others.end(), axes.begin(), axes.end());
    c.y(1, b.ReduceSum(c.x(0), others, false));
  }
  return absl::OkStatus();
}

// ---- ConvTranspose: the data gradient of the convolution that has its output as
// input, plus a bias.
absl::Status LowerConvTranspose(LowerContext& c) {
  Builder& b = c.b();
  const Dims x = c.x(0).dims(), w = c.x(1).dims(), y = c.node().output()->dims();
  // Strides and dilations are read as a convolution from y to x.
  Window window = ReadWindow(c.attributes(), Spatial(y), Spatial(x), Spatial(w));
  const std::string automatic = c.attributes().String("auto_pad", "NOTSET");
  const bool given = automatic == "NOTSET" && !c.attributes().Has("output_shape");
  for (int i = 0; i < window.axes(); ++i) {
    // What a convolution from y to x would be padded by in all; less than nothing
    // where y is larger than x reaches, and then the rest of y is zero.
    const int64_t reach = window.dilation[i] * (window.kernel[i] - 1) + 1;
    const int64_t all = window.stride[i] * (x[i + 2] - 1) + reach - y[i + 2];
    const std::vector<int64_t> extra = c.attributes().Ints("output_padding");
    const int64_t total = std::max<int64_t>(0, all + (extra.empty() ? 0 : extra[i]));
    if (!given) window.begin[i] = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
    if (automatic == "VALID") window.begin[i] = 0;
    window.end[i] = std::max<int64_t>(0, all - window.begin[i]);
  }
  Attributes attributes = Explicit(window, c.attributes().Int("group", 1));
  attributes.Set("shape", Vector(y));
  Expr out = b.Op("onward.ConvDataGradient", {c.x(0), c.x(1)}, attributes);
  if (c.has_x(2)) {
    Dims channel(y.size(), 1);
    channel[1] = y[1];
    out = out + b.Reshape(c.x(2), channel);
  }
  c.y(0, out);
  return absl::OkStatus();
}

absl::Status CheckConvTranspose(InferContext& c) {
  const Dims &x = c.input(0).dims, &w = c.input(1).dims;
  const int64_t group = c.attributes().Int("group", 1);
  if (x.size() < 3 || w.size() != x.size() || x[1] != w[0] || group < 1 || w[0] % group != 0) {
    return absl::InvalidArgumentError(absl::StrCat("input ", ToString(x), ", filters ", ToString(w),
                                                   " and group ", group,
                                                   " do not make a transposed convolution"));
  }
  if (c.has(2) && c.input(2).dims != Dims{w[1] * group}) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a bias of [", w[1] * group, "], got ", ToString(c.input(2).dims)));
  }
  return absl::OkStatus();
}

// ---- CausalConvWithState: each channel convolved by itself with what came before, which
// starts as past_state (zeros where it is absent). Outputs y and the last places, the
// state to go on with.
absl::Status InferCausalConv(InferContext& c) {
  const std::string activation = c.attributes().String("activation", "none");
  const bool known = activation == "none" || activation == "silu" || activation == "swish";
  bool fits =
      known && c.has(0) && c.has(1) && c.input(0).dims.size() == 3 && c.input(1).dims.size() == 3;
  if (fits) {
    const Dims &x = c.input(0).dims, &w = c.input(1).dims;
    const Dims state{x[0], x[1], w[2] - 1};
    fits = w[0] == x[1] && w[1] == 1 && w[2] > 0 && (!c.has(2) || c.input(2).dims == Dims{x[1]}) &&
           (!c.has(3) || c.input(3).dims == state);
    c.SetOutput(0, c.input(0).dtype, x);
    c.SetOutput(1, c.input(0).dtype, state);
  }
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "expected [samples, channels, places], filters of [channels, 1, k] and activation none, "
      "silu or swish; the activation is '",
      activation, "'"));
}

absl::Status LowerCausalConv(LowerContext& c) {
  Builder& b = c.b();
  const Dims x = c.x(0).dims(), w = c.x(1).dims();
  Expr before = c.has_x(3) ? c.x(3) : b.Zeros({c.x(0).dtype(), {x[0], x[1], w[2] - 1}, {}});
  Expr all = b.Op("Concat", {before, c.x(0)}, {{"axis", int64_t{2}}});
  std::vector<Expr> inputs = {all, c.x(1)};
  if (c.has_x(2)) inputs.push_back(c.x(2));
  if (c.wants(0)) {
    Expr y = b.Op("Conv", inputs, {{"group", x[1]}});
    const bool bent = c.attributes().String("activation", "none") != "none";
    c.y(0, bent ? b.Op("Swish", {y}) : y);
  }
  if (c.wants(1)) {
    const std::vector<int64_t> from{x[2]}, to{x[2] + w[2] - 1}, axis{2};
    c.y(1, b.Op("Slice", {all, b.Ints(from), b.Ints(to), b.Ints(axis)}));
  }
  return absl::OkStatus();
}

// ---- FusedConv: y = activation(conv(x, w) + b), what the fusion pass makes.
absl::Status InferFusedConv(InferContext& c) {
  RETURN_IF_ERROR(OnnxInference("", "Conv")(c));
  const std::string activation = c.attributes().String("activation", "");
  if (!activation.empty() && activation != "Relu") {
    return absl::InvalidArgumentError(absl::StrCat("unknown activation '", activation, "'"));
  }
  return CheckConv(c);
}

absl::Status LowerFusedConv(LowerContext& c) {
  Builder& b = c.b();
  Attributes attributes = c.attributes();
  attributes.Remove("activation");
  std::vector<Expr> inputs = {c.x(0), c.x(1)};
  if (c.has_x(2)) inputs.push_back(c.x(2));
  Expr y = b.Op("Conv", inputs, attributes);
  if (c.attributes().String("activation", "") == "Relu") y = b.Op("Relu", {y});
  c.y(0, y);
  return absl::OkStatus();
}

// A multiplication and an addition for each element of the convolution's output and of a
// filter of extents w.
double ConvOperations(const Value& y, const Dims& w) {
  return 2.0 * static_cast<double>(y.type.elements()) *
         static_cast<double>(w[1] * Elements(Spatial(w)));
}

double ForwardOperations(const Node& node) {
  return ConvOperations(*node.output(0), node.input(1)->dims());
}

double DataGradientOperations(const Node& node) {
  return ConvOperations(*node.input(0), node.input(1)->dims());
}

double FilterGradientOperations(const Node& node) {
  const std::vector<int64_t> shape = node.attributes.Ints("shape");
  return ConvOperations(*node.input(0), Dims(shape.begin(), shape.end()));
}

Operator Conv() {
  return Operator("", "Conv")
      .Infer(OnnxInferenceAnd("Conv", CheckConv))
      .Example(
          "g (float[2, 3, 5, 5] x, float[4, 3, 3, 3] w, float[4] b) => (float[2, 4, 3, 3] y)"
          " { y = Conv(x, w, b) }")
      .Example(
          "g (float[16, 1, 7] x, float[1, 1, 3] w) => (float[16, 1, 3] y)"
          " { y = Conv<strides = [2]>(x, w) }")
      .Example(
          "g (float[16, 1, 7] x, float[17, 1, 3] w) => (float[16, 17, 4] y)"
          " { y = Conv<strides = [2], pads = [1, 1]>(x, w) }")
      .Example(
          "g (float[2, 2, 5, 4] x, float[3, 2, 3, 2] w) => (float[2, 3, 5, 2] y)"
          " { y = Conv<kernel_shape = [3, 2], strides = [1, 2], pads = [1, 0, 1, 0]>(x, w) }")
      .Example(
          "g (float[1, 4, 6, 5] x, float[6, 2, 3, 3] w, float[6] b) => (float[1, 6, 3, 3] y)"
          " { y = Conv<group = 2, strides = [2, 2], pads = [1, 1, 1, 1]>(x, w, b) }")
      .Example(
          "g (float[1, 3, 6, 6] x, float[3, 1, 3, 3] w) => (float[1, 3, 6, 6] y)"
          " { y = Conv<group = 3, pads = [1, 1, 1, 1]>(x, w) }")
      .Example(
          "g (float[1, 2, 5, 5] x, float[4, 1, 2, 2] w) => (float[1, 4, 4, 4] y)"
          " { y = Conv<group = 2>(x, w) }")
      .Example(
          "g (float[1, 2, 7, 6] x, float[2, 2, 3, 2] w) => (float[1, 2, 3, 4] y)"
          " { y = Conv<dilations = [2, 3], pads = [0, 1, 0, 0]>(x, w) }")
      .Example(
          "g (float[1, 2, 6, 5] x, float[2, 2, 3, 2] w) => (float[1, 2, 3, 3] y)"
          " { y = Conv<auto_pad = \"SAME_UPPER\", strides = [2, 2]>(x, w) }")
      .Example(
          "g (float[1, 2, 6, 5] x, float[2, 2, 3, 2] w) => (float[1, 2, 3, 3] y)"
          " { y = Conv<auto_pad = \"SAME_LOWER\", strides = [2, 2]>(x, w) }")
      .Example(
          "g (float[1, 2, 6, 5] x, float[2, 2, 3, 2] w) => (float[1, 2, 2, 2] y)"
          " { y = Conv<auto_pad = \"VALID\", strides = [2, 2]>(x, w) }")
      .Example(
          "g (float[1, 1, 4, 4] x, float[1, 1, 2, 3] w) => (float[1, 1, 4, 6] y)"
          " { y = Conv<pads = [0, 3, 1, 1]>(x, w) }")
      .Example(
          "g (float[1, 2, 8, 8] x, float[3, 2, 1, 1] w) => (float[1, 3, 3, 3] y)"
          " { y = Conv<strides = [3, 3]>(x, w) }")
      .Example(
          "g (float[2, 2, 7] x, float[3, 2, 3] w, float[3] b) => (float[2, 3, 4] y)"
          " { y = Conv<strides = [2], pads = [1, 1]>(x, w, b) }")
      .Example(
          "g (float[1, 2, 3, 4, 3] x, float[2, 2, 2, 2, 2] w, float[2] b)"
          " => (float[1, 2, 2, 3, 2] y) { y = Conv(x, w, b) }")
      .Example(
          "g (float[0, 2, 4, 4] x, float[3, 2, 3, 3] w) => (float[0, 3, 2, 2] y)"
          " { y = Conv(x, w) }")
      .Example(
          "g (float[1, 17, 3, 4] positive_x, float[18, 17, 2, 2] w, float[18] b)"
          " => (float[1, 18, 3, 4] y) { y = Conv<pads = [1, 1, 0, 0]>(positive_x, w, b) }")
      .Gradient(ConvGradient)
      .Operations(ForwardOperations)
      .Samples(SamplesFirst);
}

// Inputs dy and w; attributes strides, dilations, pads, group of the convolution, and
// `shape`, the extents of x.
Operator ConvDataGradient() {
  return Operator(kOnward, "ConvDataGradient")
      .Infer(InferDataGradient)
      .Example(
          "g (float[2, 4, 3, 3] dy, float[4, 3, 3, 3] w) => (float[2, 3, 5, 5] dx)"
          " { dx = onward.ConvDataGradient<shape = [2, 3, 5, 5]>(dy, w) }")
      .Example(
          "g (float[1, 6, 3, 3] dy, float[6, 2, 3, 3] w) => (float[1, 4, 6, 5] dx)"
          " { dx = onward.ConvDataGradient<shape = [1, 4, 6, 5], group = 2,"
          " strides = [2, 2], pads = [1, 1, 1, 1]>(dy, w) }")
      .Example(
          "g (float[1, 2, 3, 4] dy, float[2, 2, 3, 2] w) => (float[1, 2, 7, 6] dx)"
          " { dx = onward.ConvDataGradient<shape = [1, 2, 7, 6], dilations = [2, 3],"
          " pads = [0, 1, 0, 0]>(dy, w) }")
      .Example(
          "g (float[2, 3, 4] dy, float[3, 2, 3] w) => (float[2, 2, 7] dx)"
          " { dx = onward.ConvDataGradient<shape = [2, 2, 7], strides = [2],"
          " pads = [1, 1]>(dy, w) }")
      .Example(
          "g (float[1, 3, 6, 6] dy, float[3, 1, 3, 3] w) => (float[1, 3, 6, 6] dx)"
          " { dx = onward.ConvDataGradient<shape = [1, 3, 6, 6], group = 3,"
          " pads = [1, 1, 1, 1]>(dy, w) }")
      .Example(
          "g (float[1, 2, 2, 3, 2] dy, float[2, 2, 2, 2, 2] w) => (float[1, 2, 3, 4, 3] dx)"
          " { dx = onward.ConvDataGradient<shape = [1, 2, 3, 4, 3]>(dy, w) }")
      .Example(
          "g (float[1, 18, 3, 4] dy, float[18, 17, 2, 2] w) => (float[1, 17, 3, 4] dx)"
          " { dx = onward.ConvDataGradient<shape = [1, 17, 3, 4],"
          " pads = [1, 1, 0, 0]>(dy, w) }")
      .Lower(LowerDataGradient)
      .Operations(DataGradientOperations)
      .Gradient(DataGradientGradient)
      .Samples(SamplesFirst);
}

// Inputs dy and x; attributes as above, `shape` the extents of w.
Operator ConvFilterGradient() {
  return Operator(kOnward, "ConvFilterGradient")
      .Infer(InferFilterGradient)
      .Example(
          "g (float[2, 4, 3, 3] dy, float[2, 3, 5, 5] x) => (float[4, 3, 3, 3] dw)"
          " { dw = onward.ConvFilterGradient<shape = [4, 3, 3, 3]>(dy, x) }")
      .Example(
          "g (float[2, 6, 3, 3] dy, float[2, 4, 6, 5] x) => (float[6, 2, 3, 3] dw,"
          " float[6] db) { dw, db = onward.ConvFilterGradient<shape = [6, 2, 3, 3],"
          " group = 2, strides = [2, 2], pads = [1, 1, 1, 1]>(dy, x) }")
      .Example(
          "g (float[1, 2, 3, 4] dy, float[1, 2, 7, 6] x) => (float[2, 2, 3, 2] dw)"
          " { dw = onward.ConvFilterGradient<shape = [2, 2, 3, 2], dilations = [2, 3],"
          " pads = [0, 1, 0, 0]>(dy, x) }")
      .Example(
          "g (float[2, 3, 4] dy, float[2, 2, 7] x) => (float[3, 2, 3] dw, float[3] db)"
          " { dw, db = onward.ConvFilterGradient<shape = [3, 2, 3], strides = [2],"
          " pads = [1, 1]>(dy, x) }")
      .Example(
          "g (float[2, 3, 6, 6] dy, float[2, 3, 6, 6] x) => (float[3, 1, 3, 3] dw)"
          " { dw = onward.ConvFilterGradient<shape = [3, 1, 3, 3], group = 3,"
          " pads = [1, 1, 1, 1]>(dy, x) }")
      .Example(
          "g (float[1, 2, 2, 3, 2] dy, float[1, 2, 3, 4, 3] x) => (float[2, 2, 2, 2, 2] dw)"
          " { dw = onward.ConvFilterGradient<shape = [2, 2, 2, 2, 2]>(dy, x) }")
      .Example(
          "g (float[1, 18, 3, 4] dy, float[1, 17, 3, 4] x) => (float[18, 17, 2, 2] dw,"
          " float[18] db) { dw, db = onward.ConvFilterGradient<shape = [18, 17, 2, 2],"
          " pads = [1, 1, 0, 0]>(dy, x) }")
      .Lower(LowerFilterGradient)
      .Operations(FilterGradientOperations)
      .Gradient(FilterGradientGradient)
      .Samples([](const Node&, absl::Span<const SampleAxis>, int) { return SampleAxis::Mixed(); });
}

Operator ConvTranspose() {
  return Operator("", "ConvTranspose")
      .Infer(OnnxInferenceAnd("ConvTranspose", CheckConvTranspose))
      .Example(
          "g (float[1, 2, 3, 3] x, float[2, 3, 3, 3] w, float[3] b) => (float[1, 3, 5, 5] y)"
          " { y = ConvTranspose(x, w, b) }")
      .Example(
          "g (float[1, 2, 3, 3] x, float[2, 2, 3, 3] w) => (float[1, 2, 6, 6] y)"
          " { y = ConvTranspose<strides = [2, 2], pads = [1, 1, 1, 1],"
          " output_padding = [1, 1]>(x, w) }")
      .Example(
          "g (float[1, 4, 3, 3] x, float[4, 1, 2, 2] w) => (float[1, 2, 6, 6] y)"
          " { y = ConvTranspose<group = 2, strides = [2, 2], kernel_shape = [2, 2]>(x, w) }")
      .Example(
          "g (float[1, 2, 3, 3] x, float[2, 2, 3, 3] w) => (float[1, 2, 6, 6] y)"
          " { y = ConvTranspose<auto_pad = \"SAME_UPPER\", strides = [2, 2]>(x, w) }")
      .Example(
          "g (float[1, 2, 3, 3] x, float[2, 2, 3, 3] w) => (float[1, 2, 6, 6] y)"
          " { y = ConvTranspose<auto_pad = \"SAME_LOWER\", strides = [2, 2]>(x, w) }")
      .Example(
          "g (float[1, 2, 3, 3] x, float[2, 2, 3, 3] w) => (float[1, 2, 7, 8] y)"
          " { y = ConvTranspose<output_shape = [7, 8], strides = [2, 2],"
          " output_padding = [0, 1]>(x, w) }")
      .Example(
          "g (float[1, 2, 4] x, float[2, 2, 3] w) => (float[1, 2, 8] y)"
          " { y = ConvTranspose<dilations = [2]>(x, w) }")
      .AlwaysLower(LowerConvTranspose)
      .Samples(SamplesFirst);
}

Operator CausalConv() {
  return Operator("", "CausalConvWithState")
      .Infer(InferCausalConv)
      .Example(
          "g (float[2, 3, 5] x, float[3, 1, 3] w) => (float[2, 3, 5] y) "
          "{ y = CausalConvWithState(x, w) }")
      .Example(
          "g (float[2, 3, 2] x, float[3, 1, 4] w, float[3] b, float[2, 3, 3] s) => "
          "(float[2, 3, 2] y, float[2, 3, 3] t) "
          "{ y, t = CausalConvWithState<activation = \"silu\">(x, w, b, s) }")
      .Example(
          "g (float[1, 1, 2] x, float[1, 1, 2] w, float[1, 1, 1] s) => "
          "(float[1, 1, 2] y, float[1, 1, 1] t) "
          "{ y, t = CausalConvWithState<activation = \"swish\">(x, w, , s) }")
      .AlwaysLower(LowerCausalConv)
      .Samples([](const Node&, absl::Span<const SampleAxis> in, int) {
        for (size_t i = 0; i < in.size(); ++i) {
          const bool none = in[i].kind == SampleAxis::Kind::kNone;
          const bool first = in[i] == SampleAxis::Axis(0);
          if (i == 0 ? !first : !none && (i != 3 || !first)) return SampleAxis::Mixed();
        }
        return in[0];
      });
}

Operator FusedConv() {
  return Operator(kOnward, "FusedConv")
      .Infer(InferFusedConv)
      .Example(
          "g (float[2, 3, 5, 5] x, float[4, 3, 3, 3] w, float[4] b) => (float[2, 4, 3, 3] y)"
          " { y = onward.FusedConv<activation = \"Relu\">(x, w, b) }")
      .Example(
          "g (float[2, 3, 5, 5] x, float[4, 3, 3, 3] w) => (float[2, 4, 5, 5] y)"
          " { y = onward.FusedConv<activation = \"Relu\", pads = [1, 1, 1, 1]>(x, w) }")
      .Example(
          "g (float[2, 4, 5, 5] x, float[4, 2, 3, 3] w, float[4] b) => (float[2, 4, 3, 3] y)"
          " { y = onward.FusedConv<group = 2, auto_pad = \"SAME_UPPER\","
          " strides = [2, 2]>(x, w, b) }")
      .Lower(LowerFusedConv)
      .Operations(ForwardOperations)
      .Samples(SamplesFirst);
}

}  // namespace

void AddConvOperators(OperatorFamily& list) {
  list.push_back(Conv());
  list.push_back(ConvDataGradient());
  list.push_back(ConvFilterGradient());
  list.push_back(ConvTranspose());
  list.push_back(CausalConv());
  list.push_back(FusedConv());
}

}  // namespace onward
