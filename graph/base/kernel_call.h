// One use of an operator, as a plan describes it to kernels and kernels answer.
#ifndef ONWARD_GRAPH_BASE_KERNEL_CALL_H_
#define ONWARD_GRAPH_BASE_KERNEL_CALL_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "graph/base/attribute.h"
#include "graph/base/tensor.h"

namespace onward {

struct KernelCall {
  std::string op;  // "Conv", "onward.ConvFilterGradient"
  const Attributes* attributes = nullptr;
  std::vector<const TensorType*> inputs;   // null where absent
  std::vector<const TensorType*> outputs;  // null where not asked for
  // Values of inputs that are known when the plan is made; null elsewhere.
  std::vector<const Tensor*> constants;
  // Bit i: the layout of input i (output i) is open, and `describe` may ask for
  // another. The layout in its type is the one it has or, for an output, the one
  // that its reader would like; another costs a reorder.
  uint64_t open_inputs = 0;
  uint64_t open_outputs = 0;
  // On how many threads of the device it will run.
  int threads = 1;

  bool has_input(int i) const {
    return i < static_cast<int>(inputs.size()) && inputs[i] != nullptr;
  }
  bool has_output(int i) const {
    return i < static_cast<int>(outputs.size()) && outputs[i] != nullptr;
  }
  const Tensor* constant(int i) const {
    return i < static_cast<int>(constants.size()) ? constants[i] : nullptr;
  }
};

// What a kernel asks of the plan.
struct KernelNeeds {
  // Layouts that it wants, one per input and output; empty: as they are.
  std::vector<Layout> input_layouts;
  std::vector<Layout> output_layouts;
  // Memory that it may write during the call, 64-byte aligned.
  int64_t scratch_bytes = 0;
  // Output `first` may lie in the memory of input `second` (same bytes).
  std::vector<std::pair<int, int>> aliases;
};

}  // namespace onward

#endif  // ONWARD_GRAPH_BASE_KERNEL_CALL_H_
