#include "backend/runtime/regions.h"

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backend/runtime/interpreter.h"
#include "graph/base/errors.h"
#include "graph/base/status_macros.h"
#include "graph/onnx/region.h"
#include "graph/ops/operators.h"
#include "graph/passes/autodiff.h"

namespace onward {
namespace {

using Tensors = std::vector<std::shared_ptr<const Tensor>>;

absl::Status OfData(const absl::Status& status) { return WithExitCode(status, ExitCode::kData); }

// What is bound: the body, and where inputs and outputs lie.
class BoundRegion : public BoundKernel {
 public:
  BoundRegion(std::unique_ptr<RegionBody> body, const KernelMemory& memory)
      : body_(std::move(body)), memory_(memory) {}

  absl::Status Run() override {
    Interpreter interpreter(&StandardOperators(), &HostKernels(), KernelRows::kBest);
    ASSIGN_OR_RETURN(const Tensors results,
                     body_->Run(StandardOperators(), &interpreter, Inputs(memory_.inputs.size())));
    for (size_t i = 0; i < memory_.outputs.size(); ++i) {
      RETURN_IF_ERROR(Write(*results[i], memory_.outputs[i]));
    }
    return absl::OkStatus();
  }

 protected:
  // The first inputs, as tensors that look into the plan's memory.
  Tensors Inputs(size_t count) const {
    Tensors tensors;
    for (size_t i = 0; i < count; ++i) {
      const TensorView& view = memory_.inputs[i];
      tensors.push_back(
          std::make_shared<const Tensor>(view.type.dtype, view.type.dims, view.data, [] {}));
    }
    return tensors;
  }

  static absl::Status Write(const Tensor& tensor, const TensorView& to) {
    if (to.data == nullptr) return absl::OkStatus();
    if (tensor.type() != to.type) {
      return OfData(absl::InvalidArgumentError(
          absl::StrCat("what data decides has come to ", ToString(tensor.type()), ", expected ",
                       ToString(to.type), " as the model says")));
    }
    if (tensor.bytes() > 0) std::memcpy(to.data, tensor.data(), tensor.bytes());
    return absl::OkStatus();
  }

  std::unique_ptr<RegionBody> body_;
  KernelMemory memory_;
};

class BoundRegionGradient : public BoundRegion {
 public:
  BoundRegionGradient(std::unique_ptr<RegionBody> body, const KernelMemory& memory,
                      const Attributes& attributes)
      : BoundRegion(std::move(body), memory),
        wanted_(attributes.Ints("wanted")),
        given_(attributes.Ints("given")) {}

  absl::Status Run() override {
    const OperatorList& operators = StandardOperators();
    Interpreter interpreter(&operators, &HostKernels(), KernelRows::kBest);
    const size_t inputs = memory_.inputs.size() - given_.size();
    const Tensors all = Inputs(memory_.inputs.size());
    const absl::Span<const std::shared_ptr<const Tensor>> x(all.data(), inputs);
    ASSIGN_OR_RETURN(const RegionBody::Traced traced, body_->Trace(operators, &interpreter, x));
    Graph* graph = traced.graph.get();
    std::vector<GradientSeed> seeds;
    for (size_t i = 0; i < given_.size(); ++i) {
      Value* y = traced.outputs[given_[i]];
      if (y != nullptr) seeds.push_back({y, graph->AddConstant(all[inputs + i])});
    }
    std::vector<Value*> targets;
    for (int64_t i : wanted_) targets.push_back(graph->inputs()[i].get());
    ASSIGN_OR_RETURN(const std::vector<Value*> gradients,
                     AppendGradients(graph, operators, seeds, targets));
    for (Value* gradient : gradients) {
      if (gradient != nullptr) graph->AddOutput("", gradient);
    }
    std::vector<const Tensor*> feeds;
    for (const auto& tensor : x) feeds.push_back(tensor.get());
    ASSIGN_OR_RETURN(const std::vector<Tensor> results, interpreter.Run(*graph, feeds));
    size_t next = 0;
    for (size_t i = 0; i < gradients.size(); ++i) {
      const TensorView& to = memory_.outputs[i];
      if (gradients[i] != nullptr) {
        RETURN_IF_ERROR(Write(results[next++], to));
      } else if (to.data != nullptr) {
        std::memset(to.data, 0, to.type.bytes());
      }
    }
    return absl::OkStatus();
  }

 private:
  std::vector<int64_t> wanted_;
  std::vector<int64_t> given_;
};

template <typename Bound, typename... More>
absl::StatusOr<std::unique_ptr<BoundKernel>> Bind(const KernelCall& call,
                                                  const KernelMemory& memory, More&&... more) {
  ASSIGN_OR_RETURN(std::unique_ptr<RegionBody> body,
                   RegionBody::Parse(call.attributes->String("body", "")));
  return std::unique_ptr<BoundKernel>(
      std::make_unique<Bound>(std::move(body), memory, std::forward<More>(more)...));
}

}  // namespace

const KernelTable& HostKernels() {
  static const KernelTable* const table = [] {
    auto* rows = new KernelTable(CpuKernels());
    rows->push_back({"host.Region", "onward.Region", false, AcceptPlain, WantPlain,
                     [](const KernelCall& call, const KernelMemory& memory, const Execution&) {
                       return Bind<BoundRegion>(call, memory);
                     }});
    rows->push_back({"host.RegionGradient", "onward.RegionGradient", false, AcceptPlain, WantPlain,
                     [](const KernelCall& call, const KernelMemory& memory, const Execution&) {
                       return Bind<BoundRegionGradient>(call, memory, *call.attributes);
                     }});
    return rows;
  }();
  return *table;
}

}  // namespace onward
