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

// Sizes of the open extents other than the first, and how much larger those of the next
// symbol are. Large enough for a deep stack of convolutions; where that is refused, small
// enough for a table of positions.
struct Ladder {
  int64_t sizes[2];
  int64_t steps[2];
};
constexpr Ladder kLadders[] = {
    {{96, 224}, {32, 64}}, {{32, 49}, {4, 5}}, {{8, 13}, {2, 3}}, {{512, 640}, {32, 64}}};

// Builds the graph with open extents of two sizes and compares.
class OutputTypes {
 public:
  OutputTypes(const OnnxModel& model, Evaluator* evaluator)
      : model_(model), evaluator_(evaluator) {}

  void Complete(std::vector<ModelOutput>* outputs) {
    const auto first = FirstThatBuilds();
    if (!first.ok()) return;
    const auto second = Build(1);
    if (!second.ok()) return;
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

  // With the first of the sizes; where the model takes none, the error of the first try.
  absl::StatusOr<std::unique_ptr<Graph>> FirstThatBuilds() {
    absl::Status refused;
    for (const Ladder& ladder : kLadders) {
      Climb(ladder);
      auto graph = Build(0);
      if (!climbs_) return graph;
      if (graph.ok() && Build(1).ok()) return graph;
      if (refused.ok()) refused = graph.status();
    }
    Climb(kLadders[0]);
    if (refused.ok()) return Build(0);
    return refused;
  }

 private:
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

  void Climb(const Ladder& ladder) {
    ladder_ = &ladder;
    climbs_ = false;
    keys_.clear();
    trials_.clear();
    for (const ModelInput& input : model_.inputs()) {
      for (size_t axis = 0; axis < input.extents.size(); ++axis) {
        if (input.extents[axis].size == kDynamic) Find(input, axis);
      }
    }
  }

  std::string KeyOf(const ModelInput& input, size_t axis) const {
    const std::string& symbol = input.extents[axis].symbol;
    return symbol.empty() ? absl::StrCat(input.name, ".", axis) : symbol;
  }

  // Sizes that no other extent has.
  const Trial& Find(const ModelInput& input, size_t axis) {
    const std::string key = KeyOf(input, axis);
    const auto it = std::find(keys_.begin(), keys_.end(), key);
    if (it != keys_.end()) return trials_[it - keys_.begin()];
    const int64_t n = static_cast<int64_t>(keys_.size());
    keys_.push_back(key);
    climbs_ = climbs_ || axis > 0;
    // Of axis 0 small ones: it is mostly the batch.
    trials_.push_back(axis == 0 ? Trial{input.extents[axis].symbol, {2 + n, 3 + n}}
                                : Trial{input.extents[axis].symbol,
                                        {ladder_->sizes[0] + ladder_->steps[0] * n,
                                         ladder_->sizes[1] + ladder_->steps[1] * n}});
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
  const Ladder* ladder_ = &kLadders[0];
  bool climbs_ = false;  // some extents are of the ladder
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
  return OutputTypes(model, evaluator).FirstThatBuilds();
}

}  // namespace onward
