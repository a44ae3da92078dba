// What the rows of oneDNN share: how its memory descriptors say what our layouts
// say, and how one call becomes one bound primitive.
//
// A row states a Form: which tensors of the call are which arguments of a
// primitive, how oneDNN counts their axes, and how to create the primitive's
// descriptor from the arguments' descriptors. Everything else is here: the open
// tensors are left to oneDNN's choice, its choice is told to the plan in our own
// words, and a primitive is bound to memory.
//
// float32 only. No exception of the library leaves this folder. Everything may be
// called from several threads at once.
#ifndef ONWARD_KERNELS_ONEDNN_ENGINE_H_
#define ONWARD_KERNELS_ONEDNN_ENGINE_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/kernel.h"
#include "oneapi/dnnl/dnnl.hpp"

namespace onward::onednn {

const dnnl::engine& CpuEngine();

// How oneDNN sees the axes of one of our tensors.
struct View {
  enum class Kind {
    kSame,     // the same axes
    kSwapped,  // a matrix whose axes are exchanged
    kGroups,   // axis 0 cut in two: groups, and the rest of it
    kShaped,   // other extents over the same plain memory; the layout is never open
  };
  Kind kind = Kind::kSame;
  dnnl::memory::dims dims;     // as oneDNN counts them
  dnnl::memory::dims strides;  // kShaped: of the plain memory; empty: row-major

  static View Same(const Dims& dims);
  static View Swapped(const Dims& dims);
  // REQUIRES: groups divides dims[0].
  static View Groups(const Dims& dims, int64_t groups);
  static View Shaped(dnnl::memory::dims dims, dnnl::memory::dims strides = {});
};

// The descriptor of memory of `type`. Unimplemented where oneDNN has no name for
// its layout, or it is not float32.
absl::StatusOr<dnnl::memory::desc> DescriptorOf(const TensorType& type, const View& view);

// The layout that a descriptor asks of our tensor of extents `dims`; nothing where
// a Layout cannot say it (compensation, strides with gaps). Of several layouts
// that are the same memory the simplest is given; with `exact` one that oneDNN writes
// with the same strides, those of axes of one element included.
std::optional<Layout> LayoutOf(const dnnl::memory::desc& desc, const Dims& dims, const View& view,
                               bool exact = false);

// One tensor of a call as an argument of a primitive.
struct Operand {
  int argument = 0;  // DNNL_ARG_...
  bool output = false;
  int index = 0;  // which input or output of the call
  View view;
  // Ask for another layout than it has only where there is no code for its own.
  bool keep = false;
  // Lie as this earlier operand of the form does, where the layout is open.
  int like = -1;
};

// Creates a primitive's descriptor from those of the operands, in their order; may
// throw dnnl::error.
using Create = std::function<dnnl::primitive_desc_base(absl::Span<const dnnl::memory::desc>,
                                                       const dnnl::primitive_attr&)>;

// A call said in oneDNN's words.
struct Form {
  std::vector<Operand> operands;
  Create create;
  dnnl::primitive_attr attributes;
  std::vector<std::pair<int, int>> aliases;
  // Refuse the library's unoptimised loops, which are no faster than ours.
  bool refuse_reference = true;
  // Outputs filled with zeros before the primitive runs.
  std::vector<int> cleared;
};
// Unimplemented where the call has no such form.
using FormOf = absl::StatusOr<Form> (*)(const KernelCall& call);

// What the three functions of a row do, given the call's form.
absl::Status Accepts(const KernelCall& call, const Form& form);
KernelNeeds Describe(const KernelCall& call, const Form& form);
absl::StatusOr<std::unique_ptr<BoundKernel>> Prepare(const KernelCall& call, const Form& form,
                                                     const KernelMemory& memory,
                                                     const Execution& execution);

// A row that is one form. Scratch and layouts hold for the call's number of
// threads, which must be that of the execution.
template <FormOf kForm>
Kernel Row(std::string name, std::string op) {
  Kernel row;
  row.name = std::move(name);
  row.op = std::move(op);
  row.accepts = [](const KernelCall& call) {
    const absl::StatusOr<Form> form = kForm(call);
    return form.ok() ? Accepts(call, *form) : form.status();
  };
  row.describe = [](const KernelCall& call) {
    const absl::StatusOr<Form> form = kForm(call);
    return form.ok() ? Describe(call, *form) : KernelNeeds{};
  };
  row.prepare = [](const KernelCall& call, const KernelMemory& memory,
                   const Execution& execution) -> absl::StatusOr<std::unique_ptr<BoundKernel>> {
    absl::StatusOr<Form> form = kForm(call);
    if (!form.ok()) return form.status();
    return Prepare(call, *form, memory, execution);
  };
  return row;
}

// ---- For forms.

dnnl::memory::dims ToDnnl(absl::Span<const int64_t> dims);

// Ok where all tensors are float32, none is empty (oneDNN leaves the result of an empty
// sum as it was), and the last extent and the product of the others fit an int.
absl::Status OnlyFilledFloats(const KernelCall& call);

// Runs `make` with a team of `threads` on the calling thread, as oneDNN
// cuts its work when a descriptor is made; exceptions become Unimplemented.
absl::Status Guarded(int threads, const std::function<void()>& make);

// One primitive with all its arguments bound.
class BoundPrimitive {
 public:
  BoundPrimitive() = default;
  // Adds an argument. `data` outlives this.
  void Bind(int argument, const dnnl::memory::desc& desc, void* data);
  void Set(dnnl::primitive primitive) { primitive_ = std::move(primitive); }
  // On the calling thread's team.
  absl::Status Run();

 private:
  dnnl::primitive primitive_;
  dnnl::stream stream_{CpuEngine()};
  std::vector<dnnl::memory> memories_;
  std::vector<dnnl_exec_arg_t> arguments_;
};

}  // namespace onward::onednn

#endif  // ONWARD_KERNELS_ONEDNN_ENGINE_H_
