#include "backend/training/free_batch.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "backend/runtime/interpreter.h"
#include "graph/base/status_macros.h"
#include "graph/ops/operators.h"
#include "graph/passes/sample_axis.h"
#include "kernels/kernel.h"

namespace onward {
namespace {

constexpr int64_t kAssumedExtent = 8;  // of what else is open

absl::StatusOr<std::unique_ptr<Graph>> BuildFor(const OnnxModel& model, int64_t batch) {
  Binding binding;
  for (const ModelInput& input : model.inputs()) {
    Dims dims;
    for (size_t axis = 0; axis < input.extents.size(); ++axis) {
      const int64_t size = input.extents[axis].size;
      dims.push_back(size != kDynamic ? size : axis == 0 ? batch : kAssumedExtent);
    }
    binding.inputs[input.name] = std::move(dims);
  }
  Interpreter evaluator(&StandardOperators(), &CpuKernels());
  return model.Build(StandardOperators(), &evaluator, binding);
}

// Is `other`, of batch `to`, as `graph`, of batch `from`, is?
bool IsSameButForBatch(const Graph& graph, int64_t from, const Graph& other, int64_t to) {
  if (graph.outputs().size() != other.outputs().size()) return false;
  const SampleAxes axes = FindSampleAxes(other);
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    const Value* a = graph.outputs()[i].value;
    const Value* b = other.outputs()[i].value;
    if (a->rank() < 1 || a->rank() != b->rank()) return false;
    if (a->dims()[0] * to != b->dims()[0] * from) return false;
    for (int axis = 1; axis < a->rank(); ++axis) {
      if (a->dims()[axis] != b->dims()[axis]) return false;
    }
    const auto samples = axes.find(b);
    if (samples == axes.end() || samples->second.kind != SampleAxis::Kind::kAxis ||
        samples->second.axis != 0) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::string FreeBatchOf(OnnxModel* model) {
  const int64_t batch = model->FixedBatch(kDynamic);
  if (batch == kDynamic) return "";
  const auto fixed = BuildFor(*model, batch);
  if (!fixed.ok()) return "";  // the walk says why
  const int targets = model->FreeBatch(**fixed);
  bool free = true;
  for (const int64_t other : {batch, batch + 1, 2 * batch + 3}) {
    const auto graph = BuildFor(*model, other);
    free = free && graph.ok() && IsSameButForBatch(**fixed, batch, **graph, other);
  }
  if (free) {
    return absl::StrCat("the file fixes the batch to ", batch, "; it is taken out of ", targets,
                        " shapes, and any batch trains here (the exported model keeps its own)");
  }
  model->FixBatchAgain();
  return absl::StrCat("the file fixes the batch to ", batch,
                      ", and it cannot be taken out: only --batch-size ", batch,
                      " fits, with samples that it divides (--drop-last leaves the rest out); "
                      "export with a dynamic batch axis");
}

}  // namespace onward
