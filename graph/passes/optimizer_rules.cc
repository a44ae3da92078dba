#include "graph/passes/optimizer_rules.h"

#include "absl/strings/str_cat.h"
#include "graph/base/status_macros.h"

namespace onward {
namespace {

using Rule = OptimizerSpec::Rule;

// The moment slots of a rule's node, with an empty suffix where the optimizer does
// not keep that one.
std::vector<MomentState> SlotsOf(const OptimizerSpec& spec) {
  const auto kept = [](bool keeps, const char* suffix) {
    return MomentState{keeps ? suffix : "", 0};
  };
  switch (spec.rule) {
    case Rule::kSgd:
      return {kept(spec.momentum != 0, "momentum")};
    case Rule::kAdam:
      return {kept(true, "mean"), kept(true, "mean_square"),
              kept(spec.amsgrad, "largest_mean_square")};
    case Rule::kRmsProp:
      return {kept(true, "mean_square"), kept(spec.momentum != 0, "momentum"),
              kept(spec.centered, "mean")};
    case Rule::kAdagrad:
      return {{"sum_of_squares", spec.initial_accumulator}};
  }
  return {};
}

const char* OperatorOf(Rule rule) {
  switch (rule) {
    case Rule::kSgd:
      return "onward.SgdUpdate";
    case Rule::kAdam:
      return "onward.AdamUpdate";
    case Rule::kRmsProp:
      return "onward.RmsPropUpdate";
    case Rule::kAdagrad:
      return "onward.AdagradUpdate";
  }
  return "";
}

Attributes AttributesOf(const OptimizerSpec& spec) {
  Attributes a;
  a.Set("variant", std::string(spec.formula == FormulaOf::kKeras ? "keras" : "torch"));
  const auto set = [&](const char* name, double value, double otherwise) {
    if (value != otherwise) a.Set(name, value);
  };
  set("weight_decay", spec.weight_decay, 0);
  set("clip_value", spec.clip_value, 0);
  if (spec.decoupled && spec.weight_decay != 0) a.Set("decoupled", int64_t{1});
  if (spec.rule != Rule::kSgd) a.Set("epsilon", spec.epsilon);
  switch (spec.rule) {
    case Rule::kSgd:
      set("momentum", spec.momentum, 0);
      set("dampening", spec.dampening, 0);
      if (spec.nesterov) a.Set("nesterov", int64_t{1});
      break;
    case Rule::kAdam:
      a.Set("beta1", spec.beta1);
      a.Set("beta2", spec.beta2);
      if (spec.amsgrad) a.Set("amsgrad", int64_t{1});
      break;
    case Rule::kRmsProp:
      a.Set("rho", spec.rho);
      set("momentum", spec.momentum, 0);
      if (spec.centered) a.Set("centered", int64_t{1});
      break;
    case Rule::kAdagrad:
      set("learning_rate_decay", spec.learning_rate_decay, 0);
      break;
  }
  return a;
}

}  // namespace

std::vector<MomentState> MomentsOf(const OptimizerSpec& spec) {
  std::vector<MomentState> kept;
  for (MomentState& slot : SlotsOf(spec)) {
    if (!slot.suffix.empty()) kept.push_back(std::move(slot));
  }
  return kept;
}

bool NeedsStep(const OptimizerSpec& spec) {
  return spec.rule == Rule::kAdam ||
         (spec.rule == Rule::kSgd && spec.momentum != 0 && spec.dampening != 0) ||
         (spec.rule == Rule::kAdagrad && spec.learning_rate_decay != 0);
}

absl::StatusOr<UpdateResults> AppendUpdate(Builder& builder, const OptimizerSpec& spec,
                                           const UpdateOperands& operands) {
  const std::vector<MomentState> slots = SlotsOf(spec);
  if (operands.moments.size() != MomentsOf(spec).size()) {
    return absl::InternalError(absl::StrCat(OperatorOf(spec.rule), " with ",
                                            operands.moments.size(), " moments, not ",
                                            MomentsOf(spec).size()));
  }
  std::vector<Expr> inputs = {operands.parameter, operands.gradient};
  size_t next = 0;
  for (const MomentState& slot : slots) {
    inputs.push_back(slot.suffix.empty() ? Expr() : operands.moments[next++]);
  }
  inputs.push_back(operands.learning_rate);
  inputs.push_back(NeedsStep(spec) ? operands.step : Expr());
  inputs.push_back(operands.denominator);
  inputs.push_back(operands.scale);
  while (!inputs.back()) inputs.pop_back();
  std::vector<Value*> values;
  for (const Expr& e : inputs) values.push_back(e.value());
  // An output without a name is one that is not wanted.
  std::vector<std::string> names = {absl::StrCat(operands.parameter.value()->name, "/next")};
  for (size_t i = 0; i < slots.size(); ++i) {
    names.push_back(slots[i].suffix.empty() ? ""
                                            : absl::StrCat(operands.parameter.value()->name, "/",
                                                           slots[i].suffix, "/next"));
  }
  absl::string_view op = OperatorOf(spec.rule);
  op.remove_prefix(absl::string_view("onward.").size());
  ASSIGN_OR_RETURN(Node * node,
                   builder.AddNode(builder.operators()->Find(kOnward, op), values,
                                   AttributesOf(spec), static_cast<int>(names.size()), names));
  UpdateResults results;
  results.parameter = builder.Wrap(node->output(0));
  for (size_t i = 0; i < slots.size(); ++i) {
    if (!slots[i].suffix.empty()) {
      results.moments.push_back(builder.Wrap(node->output(1 + static_cast<int>(i))));
    }
  }
  return results;
}

}  // namespace onward
