// Pooling, and the gradient of averages. The gradient of the largest is a loop of
// our own (kernels/cpu/max_pool_gradient.cc): oneDNN's needs what its forward
// primitive remembers.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "graph/base/status_macros.h"
#include "graph/base/window.h"
#include "kernels/onednn/engine.h"
#include "kernels/onednn/onednn.h"

namespace onward::onednn {
namespace {

using dnnl::memory;
using Descs = absl::Span<const memory::desc>;

struct Geometry {
  dnnl::algorithm algorithm = dnnl::algorithm::pooling_max;
  memory::dims strides, kernel, dilates, begin, end;
};

absl::StatusOr<Geometry> Read(const KernelCall& call, const Dims& x, const Dims& y, bool largest) {
  if (x.size() > 5) return absl::UnimplementedError("more than 3 spatial axes");
  std::vector<int64_t> kernel = call.attributes->Ints("kernel_shape");
  if (kernel.empty()) kernel.assign(x.begin() + 2, x.end());
  const Window w = ReadWindow(*call.attributes, Spatial(x), Spatial(y), kernel);
  const bool with_padding = call.attributes->Int("count_include_pad", 0) != 0;
  Geometry g;
  if (!largest) {
    g.algorithm = with_padding ? dnnl::algorithm::pooling_avg_include_padding
                               : dnnl::algorithm::pooling_avg_exclude_padding;
  }
  g.strides = ToDnnl(w.stride);
  g.kernel = ToDnnl(w.kernel);
  g.begin = ToDnnl(w.begin);
  for (int i = 0; i < w.axes(); ++i) {
    g.dilates.push_back(w.dilation[i] - 1);
    // How far the windows reach, which ceil_mode may put behind the padding.
    const int64_t reach = w.dilation[i] * (w.kernel[i] - 1) + 1;
    const int64_t last = (w.output[i] - 1) * w.stride[i] + reach - w.begin[i] - w.input[i];
    if (!largest && with_padding && last > w.end[i]) {
      return absl::UnimplementedError("windows behind the padding, which oneDNN would count");
    }
    g.end.push_back(std::max<int64_t>(last, 0));
    if (w.begin[i] >= reach || g.end.back() >= reach) {
      return absl::UnimplementedError("padding as large as the window");
    }
  }
  return g;
}

dnnl::pooling_forward::primitive_desc Forward(const Geometry& g, const memory::desc& x,
                                              const memory::desc& y,
                                              const dnnl::primitive_attr& attributes) {
  return {CpuEngine(), dnnl::prop_kind::forward_inference,
          g.algorithm, x,
          y,           g.strides,
          g.kernel,    g.dilates,
          g.begin,     g.end,
          attributes};
}

absl::StatusOr<Form> PoolForm(const KernelCall& call) {
  RETURN_IF_ERROR(OnlyFilledFloats(call));
  if (call.has_output(1)) return absl::UnimplementedError("indices are asked for");
  const bool largest = call.op == "MaxPool" || call.op == "GlobalMaxPool";
  const Dims &x = call.inputs[0]->dims, &y = call.outputs[0]->dims;
  ASSIGN_OR_RETURN(const Geometry g, Read(call, x, y, largest));
  Form form;
  // The input keeps its layout: pooling follows what made it.
  form.operands = {{DNNL_ARG_SRC, false, 0, View::Same(x), true},
                   {DNNL_ARG_DST, true, 0, View::Same(y)}};
  form.create = [g](Descs d, const dnnl::primitive_attr& attributes) {
    return Forward(g, d[0], d[1], attributes);
  };
  return form;
}

absl::StatusOr<Form> AverageGradientForm(const KernelCall& call) {
  RETURN_IF_ERROR(OnlyFilledFloats(call));
  const Dims &dy = call.inputs[0]->dims, &dx = call.outputs[0]->dims;
  ASSIGN_OR_RETURN(const Geometry g, Read(call, dx, dy, false));
  Form form;
  form.operands = {{DNNL_ARG_DIFF_DST, false, 0, View::Same(dy), true},
                   {DNNL_ARG_DIFF_SRC, true, 0, View::Same(dx)}};
  form.create = [g](Descs d, const dnnl::primitive_attr& attributes) {
    return dnnl::pooling_backward::primitive_desc(CpuEngine(), g.algorithm, d[1], d[0], g.strides,
                                                  g.kernel, g.dilates, g.begin, g.end,
                                                  Forward(g, d[1], d[0], {}), attributes);
  };
  return form;
}

}  // namespace

void AddPoolRows(KernelTable& table) {
  for (const char* op : {"MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"}) {
    table.push_back(Row<PoolForm>("onednn.pooling", op));
  }
  table.push_back(
      Row<AverageGradientForm>("onednn.pooling_gradient", "onward.AveragePoolGradient"));
}

}  // namespace onward::onednn
