// What the reference and the vector kernels of losses on integer labels share: the
// operands of a call, and the check of labels. Formulas: graph/ops/loss.cc.
#ifndef ONWARD_KERNELS_CPU_CROSS_ENTROPY_CALL_H_
#define ONWARD_KERNELS_CPU_CROSS_ENTROPY_CALL_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "graph/base/errors.h"
#include "kernels/kernel.h"

namespace onward {

// Scores [n, classes, inner], labels [n, inner].
struct CrossEntropyCall {
  int64_t n = 1;
  int64_t classes = 0;
  int64_t inner = 1;
  bool has_ignore = false;
  int64_t ignore = 0;
  double smoothing = 0;
  const void* labels = nullptr;
  bool wide_labels = false;  // int64 rather than int32
  const void* scores = nullptr;
  const void* weights = nullptr;  // [classes], or null: all 1

  // Inputs `first` and on are scores, labels and class weights.
  CrossEntropyCall(const KernelCall& call, const KernelMemory& memory, int first) {
    const Dims& dims = memory.inputs[first].type.dims;
    n = dims[0];
    classes = dims[1];
    for (size_t i = 2; i < dims.size(); ++i) inner *= dims[i];
    has_ignore = call.attributes->Has("ignore_index");
    ignore = call.attributes->Int("ignore_index", 0);
    smoothing = call.attributes->Float("label_smoothing", 0);
    scores = memory.inputs[first].data;
    labels = memory.inputs[first + 1].data;
    wide_labels = memory.inputs[first + 1].type.dtype == DataType::kInt64;
    if (call.has_input(first + 2)) weights = memory.inputs[first + 2].data;
  }

  int64_t positions() const { return n * inner; }
  int64_t Label(int64_t position) const {
    return wide_labels ? static_cast<const int64_t*>(labels)[position]
                       : static_cast<const int32_t*>(labels)[position];
  }
  bool Ignored(int64_t label) const { return has_ignore && label == ignore; }
  bool Valid(int64_t label) const { return label >= 0 && label < classes; }
  // The place of class 0 of a position's scores.
  int64_t Offset(int64_t position) const {
    return position / inner * classes * inner + position % inner;
  }

  // For a label that is neither a class nor ignored.
  absl::Status BadLabel(int64_t position) const {
    return WithExitCode(
        absl::InvalidArgumentError(
            absl::StrCat("label ", Label(position), " at position ", position / inner,
                         " of the batch is not a class: there are ", classes, ", numbered from 0")),
        ExitCode::kData);
  }
};

}  // namespace onward

#endif  // ONWARD_KERNELS_CPU_CROSS_ENTROPY_CALL_H_
