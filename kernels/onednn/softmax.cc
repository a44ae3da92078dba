// Softmax and LogSoftmax.
#include "graph/base/status_macros.h"
#include "kernels/onednn/engine.h"
#include "kernels/onednn/onednn.h"

namespace onward::onednn {
namespace {

absl::StatusOr<Form> SoftmaxForm(const KernelCall& call) {
  RETURN_IF_ERROR(OnlyFilledFloats(call));
  const Dims& dims = call.inputs[0]->dims;
  int64_t axis = call.attributes->Int("axis", -1);
  if (axis < 0) axis += static_cast<int64_t>(dims.size());
  const absl::Span<const int64_t> all(dims);
  // What lies before and behind the axis is one axis each.
  const int64_t inner = Elements(all.subspan(axis + 1));
  dnnl::memory::dims seen = {Elements(all.first(axis)), dims[axis]};
  if (inner > 1) seen.push_back(inner);
  Form form;
  form.operands = {{DNNL_ARG_SRC, false, 0, View::Shaped(seen)},
                   {DNNL_ARG_DST, true, 0, View::Shaped(seen)}};
  form.aliases = {{0, 0}};
  const auto algorithm =
      call.op == "LogSoftmax" ? dnnl::algorithm::softmax_log : dnnl::algorithm::softmax_accurate;
  form.create = [algorithm](absl::Span<const dnnl::memory::desc> d,
                            const dnnl::primitive_attr& attributes) {
    return dnnl::softmax_forward::primitive_desc(CpuEngine(), dnnl::prop_kind::forward_training,
                                                 algorithm, d[0], d[1], 1, attributes);
  };
  return form;
}

}  // namespace

void AddSoftmaxRows(KernelTable& table) {
  table.push_back(Row<SoftmaxForm>("onednn.softmax", "Softmax"));
  table.push_back(Row<SoftmaxForm>("onednn.softmax", "LogSoftmax"));
}

}  // namespace onward::onednn
