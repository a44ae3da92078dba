// Convolution and its two gradients.
#include "absl/strings/str_cat.h"
#include "graph/base/status_macros.h"
#include "graph/base/window.h"
#include "kernels/onednn/engine.h"
#include "kernels/onednn/onednn.h"

namespace onward::onednn {
namespace {

using dnnl::memory;
using Descs = absl::Span<const memory::desc>;

// oneDNN's winograd loses digits; the direct algorithm covers all else.
constexpr auto kAlgorithm = dnnl::algorithm::convolution_direct;

struct Geometry {
  memory::dims strides, dilates, begin, end;
  int64_t group = 1;
};

Geometry Read(const KernelCall& call, const Dims& x, const Dims& w, const Dims& y) {
  const Window window = ReadWindow(*call.attributes, Spatial(x), Spatial(y), Spatial(w));
  Geometry g;
  g.strides = ToDnnl(window.stride);
  for (int64_t d : window.dilation) g.dilates.push_back(d - 1);
  g.begin = ToDnnl(window.begin);
  g.end = ToDnnl(window.end);
  g.group = call.attributes->Int("group", 1);
  return g;
}

absl::Status CheckRank(const KernelCall& call) {
  RETURN_IF_ERROR(OnlyFilledFloats(call));
  if (call.inputs[0]->dims.size() > 5) return absl::UnimplementedError("more than 3 spatial axes");
  return absl::OkStatus();
}

View Filters(const Dims& w, int64_t group) {
  return group == 1 ? View::Same(w) : View::Groups(w, group);
}

dnnl::convolution_forward::primitive_desc Forward(const Geometry& g, const memory::desc& x,
                                                  const memory::desc& w, const memory::desc* bias,
                                                  const memory::desc& y,
                                                  const dnnl::primitive_attr& attributes = {}) {
  const auto kind = dnnl::prop_kind::forward_training;
  if (bias == nullptr) {
    return {CpuEngine(), kind,      kAlgorithm, x,     w,         y,
            g.strides,   g.dilates, g.begin,    g.end, attributes};
  }
  return {CpuEngine(), kind,      kAlgorithm, x,       w,     *bias,
          y,           g.strides, g.dilates,  g.begin, g.end, attributes};
}

absl::StatusOr<Form> ConvForm(const KernelCall& call) {
  RETURN_IF_ERROR(CheckRank(call));
  const Dims &x = call.inputs[0]->dims, &w = call.inputs[1]->dims, &y = call.outputs[0]->dims;
  const Geometry g = Read(call, x, w, y);
  Form form;
  form.operands = {{DNNL_ARG_SRC, false, 0, View::Same(x)},
                   {DNNL_ARG_WEIGHTS, false, 1, Filters(w, g.group)},
                   {DNNL_ARG_DST, true, 0, View::Same(y)}};
  const bool bias = call.has_input(2);
  if (bias) form.operands.push_back({DNNL_ARG_BIAS, false, 2, View::Shaped({w[0]})});
  if (call.attributes->String("activation", "") == "Relu") {
    dnnl::post_ops post;
    post.append_eltwise(dnnl::algorithm::eltwise_relu, 0, 0);
    form.attributes.set_post_ops(post);
  }
  form.create = [g, bias](Descs d, const dnnl::primitive_attr& attributes) {
    return Forward(g, d[0], d[1], bias ? &d[3] : nullptr, d[2], attributes);
  };
  return form;
}

absl::StatusOr<Form> DataGradientForm(const KernelCall& call) {
  RETURN_IF_ERROR(CheckRank(call));
  const Dims &dy = call.inputs[0]->dims, &w = call.inputs[1]->dims, &dx = call.outputs[0]->dims;
  const Geometry g = Read(call, dx, w, dy);
  Form form;
  form.operands = {{DNNL_ARG_DIFF_DST, false, 0, View::Same(dy)},
                   {DNNL_ARG_WEIGHTS, false, 1, Filters(w, g.group)},
                   {DNNL_ARG_DIFF_SRC, true, 0, View::Same(dx)}};
  form.create = [g](Descs d, const dnnl::primitive_attr& attributes) {
    return dnnl::convolution_backward_data::primitive_desc(
        CpuEngine(), kAlgorithm, d[2], d[1], d[0], g.strides, g.dilates, g.begin, g.end,
        Forward(g, d[2], d[1], nullptr, d[0]), attributes);
  };
  return form;
}

absl::StatusOr<Form> FilterGradientForm(const KernelCall& call) {
  RETURN_IF_ERROR(CheckRank(call));
  const Dims &dy = call.inputs[0]->dims, &x = call.inputs[1]->dims, &dw = call.outputs[0]->dims;
  const Geometry g = Read(call, x, dw, dy);
  Form form;
  form.operands = {{DNNL_ARG_DIFF_DST, false, 0, View::Same(dy)},
                   {DNNL_ARG_SRC, false, 1, View::Same(x)},
                   {DNNL_ARG_DIFF_WEIGHTS, true, 0, Filters(dw, g.group), true}};
  const bool bias = call.has_output(1);
  if (bias) form.operands.push_back({DNNL_ARG_DIFF_BIAS, true, 1, View::Shaped({dw[0]})});
  form.create = [g, bias](Descs d, const dnnl::primitive_attr& attributes) {
    using Gradient = dnnl::convolution_backward_weights::primitive_desc;
    const auto forward = Forward(g, d[1], d[2], bias ? &d[3] : nullptr, d[0]);
    return bias ? Gradient(CpuEngine(), kAlgorithm, d[1], d[2], d[3], d[0], g.strides, g.dilates,
                           g.begin, g.end, forward, attributes)
                : Gradient(CpuEngine(), kAlgorithm, d[1], d[2], d[0], g.strides, g.dilates, g.begin,
                           g.end, forward, attributes);
  };
  return form;
}

}  // namespace

void AddConvRows(KernelTable& table) {
  table.push_back(Row<ConvForm>("onednn.convolution", "Conv"));
  table.push_back(Row<ConvForm>("onednn.convolution", "onward.FusedConv"));
  table.push_back(
      Row<DataGradientForm>("onednn.convolution_data_gradient", "onward.ConvDataGradient"));
  table.push_back(
      Row<FilterGradientForm>("onednn.convolution_filter_gradient", "onward.ConvFilterGradient"));
}

}  // namespace onward::onednn
