#include "graph/passes/loss_model.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/base/errors.h"
#include "graph/base/status_macros.h"
#include "graph/ir/builder.h"
#include "graph/passes/given_loss.h"

namespace onward {
namespace {

absl::Status Usage(const std::string& message) {
  return WithExitCode(absl::InvalidArgumentError(message), ExitCode::kUsage);
}

absl::StatusOr<std::vector<std::string>> OutputsFor(const Graph& graph,
                                                    const LossRequest& request) {
  std::vector<std::string> names;
  for (const Graph::Output& o : graph.outputs()) names.push_back(o.name);
  if (request.prediction.empty()) return names;
  if (graph.FindOutput(request.prediction) != nullptr) {
    return std::vector<std::string>{request.prediction};
  }
  return Usage(absl::StrCat("the model has no output '", request.prediction, "'; it has ",
                            absl::StrJoin(names, ", ")));
}

// Copies a graph's nodes to the end of another.
class Appended {
 public:
  explicit Appended(Graph* to) : to_(to) {}

  void Stands(const Value* from, Value* to) { copies_[from] = to; }

  Value* Copy(const Value* value) {
    if (value == nullptr) return nullptr;
    Value*& copy = copies_[value];
    if (copy == nullptr) {
      ONWARD_CHECK(value->constant != nullptr);
      copy = to_->AddConstant(value->constant, absl::StrCat("loss/", value->name));
    }
    return copy;
  }

  absl::Status Add(const Node& node) {
    if (node.op().random || !node.bodies.empty()) {
      return WithExitCode(
          absl::UnimplementedError(absl::StrCat(
              Describe(node), node.op().random ? ": draws random numbers, which" : ": has a body,",
              " a loss model may not")),
          ExitCode::kUntrainable);
    }
    std::vector<Value*> inputs;
    for (int i = 0; i < node.num_inputs(); ++i) inputs.push_back(Copy(node.input(i)));
    std::vector<TensorType> types;
    std::vector<std::string> names;
    for (int i = 0; i < node.num_outputs(); ++i) {
      const Value* v = node.output(i);
      types.push_back(v == nullptr ? TensorType{} : v->type);
      names.push_back(v == nullptr ? "" : absl::StrCat("loss/", v->name));
    }
    Node* made = to_->AddNode(nullptr, &node.op(), inputs, types, names, node.attributes);
    made->name = node.name;
    made->source = absl::StrCat("loss: ", node.source);
    made->phase = Phase::kLoss;
    for (int i = 0; i < node.num_outputs(); ++i) {
      if (node.output(i) != nullptr) copies_[node.output(i)] = made->output(i);
    }
    return absl::OkStatus();
  }

 private:
  Graph* to_;
  absl::flat_hash_map<const Value*, Value*> copies_;
};

absl::StatusOr<LossValues> Attach(Graph* graph, const OperatorSet& operators, Evaluator* evaluator,
                                  const OnnxModel& loss, const LossRequest& request) {
  ASSIGN_OR_RETURN(const std::vector<std::string> outputs, OutputsFor(*graph, request));
  ASSIGN_OR_RETURN(const LossInputs matched, MatchLossInputs(loss, outputs));
  LossValues out;
  std::vector<Value*> given;
  Binding binding;
  Value* labels = nullptr;
  for (size_t i = 0; i < loss.inputs().size(); ++i) {
    const ModelInput& input = loss.inputs()[i];
    Value* value = nullptr;
    if (static_cast<int>(i) == matched.labels) {
      Dims dims = {graph->inputs()[0]->dims()[0]};
      dims.insert(dims.end(), request.label_dims.begin(), request.label_dims.end());
      value = graph->AddInput(kLabelsFeed, {request.label_dtype, std::move(dims), {}});
      value->feed = kLabelsFeed;
      labels = value;
    } else {
      value = graph->FindOutput(matched.outputs[i]);
      if (out.prediction == nullptr) out.prediction = value;
    }
    if (value->dtype() != input.dtype) {
      return Usage(absl::StrCat("its input '", input.name, "' is ", Name(input.dtype), ", but '",
                                value->name, "' is ", Name(value->dtype())));
    }
    binding.inputs[input.name] = value->dims();
    given.push_back(value);
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<Graph> from, loss.Build(operators, evaluator, binding));
  Appended appended(graph);
  for (size_t i = 0; i < given.size(); ++i) {
    appended.Stands(from->FindInput(loss.inputs()[i].name), given[i]);
  }
  for (const Node* node : from->nodes()) RETURN_IF_ERROR(appended.Add(*node));
  Builder b(graph, &operators);
  b.SetPhase(Phase::kLoss);
  b.SetScope("loss");
  b.SetSource("loss");
  ASSIGN_OR_RETURN(const LossTerms terms, TermsOfLoss(&b, appended.Copy(from->outputs()[0].value)));
  out.numerator = terms.numerator.value();
  out.denominator = terms.denominator.value();
  // Metrics compare as those of the built-in losses do.
  out.labels = labels;
  if (labels != nullptr && IsInteger(labels->dtype()) && out.prediction != nullptr &&
      out.prediction->rank() == 2 && Elements(labels->dims()) == out.prediction->dims()[0]) {
    out.scores = out.prediction;
    Expr classes = b.Reshape(b.Cast(b.Wrap(labels), DataType::kInt64), {out.prediction->dims()[0]});
    RETURN_IF_ERROR(b.status());
    out.labels = classes.value();
  }
  return out;
}

}  // namespace

absl::StatusOr<LossInputs> MatchLossInputs(const OnnxModel& loss,
                                           const std::vector<std::string>& outputs) {
  LossInputs matched;
  std::vector<bool> settled, taken(outputs.size(), false);
  for (const ModelInput& input : loss.inputs()) {
    const auto it = std::find(outputs.begin(), outputs.end(), input.name);
    const bool labels = it == outputs.end() && input.name == kLabelsFeed;
    if (it != outputs.end()) taken[it - outputs.begin()] = true;
    if (labels) matched.labels = static_cast<int>(matched.outputs.size());
    matched.outputs.push_back(it == outputs.end() ? "" : *it);
    settled.push_back(labels || it != outputs.end());
  }
  size_t next = 0;
  bool even = loss.outputs().size() == 1;
  for (size_t i = 0; i < settled.size(); ++i) {
    if (settled[i]) continue;
    while (next < outputs.size() && taken[next]) ++next;
    if (next < outputs.size()) {
      matched.outputs[i] = outputs[next++];
    } else {
      even = even && matched.labels < 0;
      matched.labels = static_cast<int>(i);
    }
  }
  if (even) return matched;
  std::vector<std::string> inputs;
  for (const ModelInput& input : loss.inputs()) inputs.push_back(input.name);
  return Usage(absl::StrCat(loss.path(),
                            ": a loss has one output, and as inputs outputs of the "
                            "model (",
                            absl::StrJoin(outputs, ", "),
                            ") and one for the labels; "
                            "this one has inputs ",
                            absl::StrJoin(inputs, ", "), " and ", loss.outputs().size(),
                            " outputs"));
}

absl::StatusOr<LossValues> AttachLossModel(Graph* graph, const OperatorSet& operators,
                                           Evaluator* evaluator, const OnnxModel& loss,
                                           const LossRequest& request) {
  absl::StatusOr<LossValues> values = Attach(graph, operators, evaluator, loss, request);
  if (values.ok()) return values;
  const bool named = absl::StartsWith(std::string(values.status().message()), loss.path());
  return Annotate(values.status(),
                  named ? std::string("loss") : absl::StrCat("loss: ", loss.path()));
}

}  // namespace onward
