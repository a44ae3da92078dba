#include "backend/inference/model.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backend/runtime/interpreter.h"
#include "backend/runtime/kernel_oracle.h"
#include "backend/runtime/prepare_for_plan.h"
#include "backend/runtime/regions.h"
#include "graph/base/status_macros.h"
#include "graph/ops/operators.h"
#include "graph/plan/planner.h"
#include "kernels/kernel.h"
#include "strategy/strategy.h"

namespace onward {
namespace {

bool AllTensors(const std::vector<ModelValue>& values) {
  for (const ModelValue& value : values) {
    if (value.kind != ModelValue::Kind::kTensor) return false;
  }
  return true;
}

std::string KeyOf(const std::vector<ModelValue>& inputs) {
  std::string key;
  for (const ModelValue& value : inputs) absl::StrAppend(&key, ToString(value.tensor->type()), ";");
  return key;
}

}  // namespace

InferenceModel::InferenceModel(std::unique_ptr<OnnxModel> model, int threads)
    : model_(std::move(model)), threads_(threads) {}

absl::StatusOr<std::unique_ptr<InferenceModel>> InferenceModel::Load(const std::string& path,
                                                                     int threads) {
  ASSIGN_OR_RETURN(std::unique_ptr<OnnxModel> model, OnnxModel::Load(path));
  return std::unique_ptr<InferenceModel>(new InferenceModel(std::move(model), threads));
}

absl::StatusOr<std::unique_ptr<InferenceModel>> InferenceModel::FromBytes(const std::string& bytes,
                                                                          const std::string& name,
                                                                          int threads) {
  ASSIGN_OR_RETURN(std::unique_ptr<OnnxModel> model, OnnxModel::FromBytes(bytes, name));
  return std::unique_ptr<InferenceModel>(new InferenceModel(std::move(model), threads));
}

absl::StatusOr<std::unique_ptr<InferenceModel::Planned>> InferenceModel::MakePlanned(
    const std::vector<ModelValue>& inputs) const {
  const OperatorList& operators = StandardOperators();
  Interpreter evaluator(&operators, &HostKernels());
  const TableOracle oracle(&HostKernels());
  Binding binding;
  for (size_t i = 0; i < inputs.size(); ++i) {
    binding.inputs[model_->inputs()[i].name] = inputs[i].tensor->dims();
  }
  const auto step = [&](int64_t) -> absl::StatusOr<std::unique_ptr<Graph>> {
    ASSIGN_OR_RETURN(std::unique_ptr<Graph> graph, model_->Build(operators, &evaluator, binding));
    RETURN_IF_ERROR(PrepareForPlan(graph.get(), operators, &evaluator, oracle, Device{},
                                   std::max(1, threads_), nullptr));
    return graph;
  };
  Placement placement;
  placement.devices = {Device{}};
  placement.threads = threads_;
  ASSIGN_OR_RETURN(const ReplicatedStep placed, Place(step, 1, placement));
  StateLayouts layouts;
  ASSIGN_OR_RETURN(Plan plan, MakePlan(placed, oracle, &layouts));
  auto planned = std::make_unique<Planned>();
  ExecutorOptions options;
  options.feed_sets = 1;
  ASSIGN_OR_RETURN(planned->executor,
                   Executor::Create(std::move(plan), HostKernels(), &planned->states, options));
  return planned;
}

absl::StatusOr<std::vector<ModelValue>> InferenceModel::RunPlanned(
    Planned* planned, const std::vector<ModelValue>& inputs) const {
  Executor& executor = *planned->executor;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorView feed = executor.Feed(model_->inputs()[i].name, 0, 0);
    if (feed.data == nullptr || inputs[i].tensor->bytes() == 0) continue;
    std::memcpy(feed.data, inputs[i].tensor->data(), inputs[i].tensor->bytes());
  }
  RETURN_IF_ERROR(executor.Run(0));
  std::vector<ModelValue> outputs;
  for (const ModelOutput& output : model_->outputs()) {
    const TensorView made = executor.Output(output.name);
    Tensor tensor(made.type.dtype, made.type.dims);
    if (tensor.bytes() > 0) std::memcpy(tensor.data(), made.data, tensor.bytes());
    ModelValue value;
    value.tensor = std::make_shared<const Tensor>(std::move(tensor));
    outputs.push_back(std::move(value));
  }
  return outputs;
}

absl::StatusOr<std::vector<ModelValue>> InferenceModel::Run(const std::vector<ModelValue>& inputs) {
  if (inputs.size() != model_->inputs().size()) {
    return absl::InvalidArgumentError(absl::StrCat(model_->path(), ": ", inputs.size(),
                                                   " inputs are given, expected ",
                                                   model_->inputs().size()));
  }
  if (AllTensors(inputs)) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const ModelInput& input = model_->inputs()[i];
      if (!input.is_tensor || input.dtype == inputs[i].tensor->dtype()) continue;
      return absl::InvalidArgumentError(absl::StrCat(model_->path(), ": input '", input.name,
                                                     "' is ", Name(inputs[i].tensor->dtype()),
                                                     ", expected ", Name(input.dtype)));
    }
    const std::string key = KeyOf(inputs);
    auto known = planned_.find(key);
    if (known == planned_.end()) {
      absl::StatusOr<std::unique_ptr<Planned>> planned = MakePlanned(inputs);
      // Why not is said again below, where it is an error of the model's.
      known = planned_.emplace(key, planned.ok() ? *std::move(planned) : nullptr).first;
    }
    if (known->second != nullptr) return RunPlanned(known->second.get(), inputs);
  }
  Interpreter evaluator(&StandardOperators(), &HostKernels(), KernelRows::kBest);
  return model_->Evaluate(StandardOperators(), &evaluator, inputs);
}

}  // namespace onward
