// Copies between layouts: steps of plans, which no graph has.
#include "graph/base/status_macros.h"
#include "kernels/onednn/engine.h"
#include "kernels/onednn/onednn.h"

namespace onward::onednn {
namespace {

absl::StatusOr<Form> ReorderForm(const KernelCall& call) {
  RETURN_IF_ERROR(OnlyFilledFloats(call));
  View view = View::Same(call.inputs[0]->dims);
  // The layout of a product's weights may have a name for the exchanged axes alone.
  const bool named =
      DescriptorOf(*call.inputs[0], view).ok() && DescriptorOf(*call.outputs[0], view).ok();
  if (!named && call.inputs[0]->dims.size() == 2) view = View::Swapped(call.inputs[0]->dims);
  Form form;
  form.operands = {{DNNL_ARG_FROM, false, 0, view, true}, {DNNL_ARG_TO, true, 0, view, true}};
  // Any code of the library's beats the loop that computes every offset.
  form.refuse_reference = false;
  form.create = [](absl::Span<const dnnl::memory::desc> d, const dnnl::primitive_attr& attributes) {
    return dnnl::reorder::primitive_desc(CpuEngine(), d[0], CpuEngine(), d[1], attributes);
  };
  return form;
}

}  // namespace

void AddReorderRows(KernelTable& table) {
  table.push_back(Row<ReorderForm>("onednn.reorder", "onward.Reorder"));
}

}  // namespace onward::onednn
