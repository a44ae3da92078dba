// Copies between layouts of the same tensor.
#include "graph/base/status_macros.h"
#include "kernels/onednn/engine.h"
#include "kernels/onednn/onednn.h"

namespace onward::onednn {
namespace {

class BoundReorder : public BoundKernel {
 public:
  absl::Status Run() override { return primitive.Run(); }
  BoundPrimitive primitive;
};

absl::Status AcceptReorder(const KernelCall& call) {
  RETURN_IF_ERROR(OnlyFilledFloats(call));
  const View view = View::Same(call.inputs[0]->dims);
  RETURN_IF_ERROR(DescriptorOf(*call.inputs[0], view).status());
  return DescriptorOf(*call.outputs[0], view).status();
}

dnnl::reorder::primitive_desc ReorderOf(const dnnl::memory::desc& from,
                                       const dnnl::memory::desc& to) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return dnnl::reorder::primitive_desc(CpuEngine(), from, CpuEngine(), to, attributes);
}

KernelNeeds DescribeReorder(const KernelCall& call) {
  KernelNeeds needs;
  needs.input_layouts = {call.inputs[0]->layout};
  needs.output_layouts = {call.outputs[0]->layout};
  const View view = View::Same(call.inputs[0]->dims);
  const auto from = DescriptorOf(*call.inputs[0], view);
  const auto to = DescriptorOf(*call.outputs[0], view);
  if (!from.ok() || !to.ok()) return needs;
  const absl::Status made = Guarded(call.threads, [&] {
    needs.scratch_bytes =
        static_cast<int64_t>(ReorderOf(*from, *to).scratchpad_desc().get_size());
  });
  if (!made.ok()) needs.scratch_bytes = 0;
  return needs;
}

absl::StatusOr<std::unique_ptr<BoundKernel>> PrepareReorder(const KernelCall& call,
                                                            const KernelMemory& memory,
                                                            const Execution& execution) {
  const View view = View::Same(call.inputs[0]->dims);
  ASSIGN_OR_RETURN(const dnnl::memory::desc from, DescriptorOf(memory.inputs[0].type, view));
  ASSIGN_OR_RETURN(const dnnl::memory::desc to, DescriptorOf(memory.outputs[0].type, view));
  auto bound = std::make_unique<BoundReorder>();
  RETURN_IF_ERROR(Guarded(execution.threads, [&] {
    const auto desc = ReorderOf(from, to);
    bound->primitive.Set(dnnl::reorder(desc));
    bound->primitive.Bind(DNNL_ARG_FROM, from, memory.inputs[0].data);
    bound->primitive.Bind(DNNL_ARG_TO, to, memory.outputs[0].data);
    if (desc.scratchpad_desc().get_size() > 0) {
      bound->primitive.Bind(DNNL_ARG_SCRATCHPAD, desc.scratchpad_desc(), memory.scratch);
    }
  }));
  return std::unique_ptr<BoundKernel>(std::move(bound));
}

}  // namespace

void AddReorderRows(KernelTable& table) {
  table.push_back({"onednn.reorder", "onward.Reorder", false, AcceptReorder, DescribeReorder,
                   PrepareReorder});
}

}  // namespace onward::onednn
