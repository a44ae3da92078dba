#include "backend/runtime/bind.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/base/shards.h"
#include "graph/base/status_macros.h"

namespace onward {
namespace {

// A kernel with the types that its call points to.
class TypedKernel : public BoundKernel {
 public:
  explicit TypedKernel(KernelMemory memory) : memory_(std::move(memory)) {}

  absl::Status Prepare(const Kernel& kernel, const PlanStep& step, int threads) {
    KernelCall call;
    call.op = step.op;
    call.attributes = &step.attributes;
    call.constants = step.constants;
    call.threads = threads;
    for (const TensorView& v : memory_.inputs) call.inputs.push_back(TypeOf(v));
    for (const TensorView& v : memory_.outputs) call.outputs.push_back(TypeOf(v));
    Execution execution;
    execution.threads = threads;
    ASSIGN_OR_RETURN(kernel_, kernel.prepare(call, memory_, execution));
    return absl::OkStatus();
  }

  absl::Status Run() override { return kernel_->Run(); }

 private:
  static const TensorType* TypeOf(const TensorView& view) {
    return view.data == nullptr ? nullptr : &view.type;
  }

  KernelMemory memory_;
  std::unique_ptr<BoundKernel> kernel_;
};

// Memory as a row of elements, whatever its layout, cut to the step's part.
void CutToPart(const PlanStep& step, TensorView* view) {
  if (view->data == nullptr) return;
  const int64_t size = static_cast<int64_t>(SizeOf(view->type.dtype));
  const RowRange range = PartOfElements(PaddedElements(view->type.dims, view->type.layout), size,
                                        step.part, step.parts);
  view->data = static_cast<char*>(view->data) + range.begin * size;
  view->type = {view->type.dtype, {range.size()}, {}};
}

}  // namespace

absl::StatusOr<std::unique_ptr<BoundKernel>> BindKernel(const KernelTable& kernels,
                                                        const PlanStep& step, KernelMemory memory,
                                                        int threads) {
  if (step.parts > 1) {
    for (int i = 0; i < step.range_inputs; ++i) CutToPart(step, &memory.inputs[i]);
    for (TensorView& output : memory.outputs) CutToPart(step, &output);
  }
  for (const Kernel& kernel : kernels) {
    if (kernel.op != step.op || kernel.name != step.kernel) continue;
    auto bound = std::make_unique<TypedKernel>(std::move(memory));
    RETURN_IF_ERROR(Annotate(bound->Prepare(kernel, step, threads),
                             absl::StrCat(step.kernel, " for '", step.source, "'")));
    return bound;
  }
  return absl::InternalError(absl::StrCat("no kernel ", step.kernel, " for ", step.op));
}

}  // namespace onward
