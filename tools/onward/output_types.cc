#include "tools/onward/output_types.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "backend/runtime/interpreter.h"
#include "graph/ops/operators.h"
#include "kernels/kernel.h"

namespace onward {
namespace {

// The open extents of the inputs, each with the two numbers that it is tried with.
struct Trial {
  std::string symbol;
  int64_t sizes[2];
};

// Builds the graph with open extents of two sizes and compares.
class OutputTypes {
 public:
  OutputTypes(const OnnxModel& model, Evaluator* evaluator) : model_(model), evaluator_(evaluator) {
    for (const ModelInput& input : model.inputs()) {
      for (size_t axis = 0; axis < input.extents.size(); ++axis) {
        if (input.extents[axis].size == kDynamic) Find(input, axis);
      }
    }
  }

  void Complete(std::vector<ModelOutput>* outputs) {
    const auto first = Build(0);
    const auto second = Build(1);
    if (!first.ok() || !second.ok()) return;
    for (size_t i = 0; i < outputs->size(); ++i) {
      ModelOutput& output = (*outputs)[i];
      const TensorType& a = (*first)->outputs()[i].value->type;
      const TensorType& b = (*second)->outputs()[i].value->type;
      output.dtype = a.dtype;
      if (a.dims.size() != b.dims.size()) continue;
      if (output.extents.size() != a.dims.size()) {
        output.extents.assign(a.dims.size(), Extent());
      }
      for (size_t axis = 0; axis < a.dims.size(); ++axis) {
        Complete(a.dims[axis], b.dims[axis], &output.extents[axis]);
      }
    }
  }

  absl::StatusOr<std::unique_ptr<Graph>> Build(int which) {
    Binding binding;
    for (const ModelInput& input : model_.inputs()) {
      Dims dims;
      for (size_t axis = 0; axis < input.extents.size(); ++axis) {
        const int64_t size = input.extents[axis].size;
        dims.push_back(size == kDynamic ? Find(input, axis).sizes[which] : size);
      }
      binding.inputs[input.name] = std::move(dims);
    }
    return model_.Build(StandardOperators(), evaluator_, binding);
  }

 private:
  std::string KeyOf(const ModelInput& input, size_t axis) const {
    const std::string& symbol = input.extents[axis].symbol;
    return symbol.empty() ? absl::StrCat(input.name, ".", axis) : symbol;
  }

  // Sizes that no other extent has, and large enough for a convolution.
  const Trial& Find(const ModelInput& input, size_t axis) {
    const std::string key = KeyOf(input, axis);
    const auto it = std::find(keys_.begin(), keys_.end(), key);
    if (it != keys_.end()) return trials_[it - keys_.begin()];
    const int64_t n = static_cast<int64_t>(keys_.size());
    keys_.push_back(key);
    // Of axis 0 small ones: it is mostly the batch.
    trials_.push_back(axis == 0 ? Trial{input.extents[axis].symbol, {2 + n, 3 + n}}
                                : Trial{input.extents[axis].symbol, {96 + 32 * n, 224 + 64 * n}});
    return trials_.back();
  }

  void Complete(int64_t a, int64_t b, Extent* extent) const {
    if (a == b) {
      extent->size = a;
      return;
    }
    extent->size = kDynamic;
    if (!extent->symbol.empty()) return;
    for (const Trial& trial : trials_) {
      if (trial.sizes[0] == a && trial.sizes[1] == b) extent->symbol = trial.symbol;
    }
  }

  const OnnxModel& model_;
  Evaluator* evaluator_;
  std::vector<std::string> keys_;
  std::vector<Trial> trials_;
};

}  // namespace

std::vector<ModelOutput> TypedOutputs(const OnnxModel& model) {
  std::vector<ModelOutput> outputs = model.outputs();
  Interpreter evaluator(&StandardOperators(), &CpuKernels());
  OutputTypes(model, &evaluator).Complete(&outputs);
  return outputs;
}

absl::StatusOr<std::unique_ptr<Graph>> BuildWithTrialSizes(const OnnxModel& model,
                                                           Evaluator* evaluator) {
  return OutputTypes(model, evaluator).Build(0);
}

}  // namespace onward
