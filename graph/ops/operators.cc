#include "graph/ops/operators.h"

#include "absl/strings/str_cat.h"
#include "graph/base/status_macros.h"
#include "graph/onnx/schema.h"

namespace onward {

OperatorList::OperatorList(std::vector<Operator> more) {
  OperatorFamily family;
  AddElementwiseOperators(family);
  AddCastOperators(family);
  AddQuantizeOperators(family);
  AddTextOperators(family);
  AddClassicalOperators(family);
  AddImageOperators(family);
  AddElementwiseMathOperators(family);
  AddLinearOperators(family);
  AddEinsumOperators(family);
  AddShapeOperators(family);
  AddPadOperators(family);
  AddResizeOperators(family);
  AddSamplingOperators(family);
  AddRecurrentOperators(family);
  AddAttentionOperators(family);
  AddMicrosoftOperators(family);
  AddTrainingOperators(family);
  AddSignalOperators(family);
  AddIndexOperators(family);
  AddScatterOperators(family);
  AddDataSizedOperators(family);
  AddReduceOperators(family);
  AddConvOperators(family);
  AddPoolOperators(family);
  AddNormOperators(family);
  AddDerivedNormOperators(family);
  AddSoftmaxOperators(family);
  AddLossOperators(family);
  AddRandomOperators(family);
  AddOptimizerOperators(family);
  AddCollectiveOperators(family);
  AddControlOperators(family);
  AddLayoutOperators(family);
  AddFusedOperators(family);
  for (Operator& op : family) Add(std::move(op));
  for (Operator& op : more) Add(std::move(op));
}

void OperatorList::Add(Operator op) {
  if (!op.infer && OnnxHas(op.domain, op.name)) op.infer = OnnxInference(op.domain, op.name);
  all_.push_back(std::make_unique<Operator>(std::move(op)));
  by_id_[all_.back()->id()] = all_.back().get();
}

const Operator* OperatorList::Find(absl::string_view domain, absl::string_view name) const {
  const auto it = by_id_.find(domain.empty() ? std::string(name) : absl::StrCat(domain, ".", name));
  return it == by_id_.end() ? nullptr : it->second;
}

const OperatorList& StandardOperators() {
  static const OperatorList* const list = new OperatorList;
  return *list;
}

}  // namespace onward
