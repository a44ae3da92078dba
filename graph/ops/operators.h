// The list of all operators that Onward knows.
#ifndef ONWARD_GRAPH_OPS_OPERATORS_H_
#define ONWARD_GRAPH_OPS_OPERATORS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "graph/ir/operator.h"

namespace onward {

// Operators in the order of their families' files. Those of ONNX get their
// inference from the schema of the canonical opset.
class OperatorList : public OperatorSet {
 public:
  // A user's own operators are added behind ours; one with the id of an earlier
  // one replaces it.
  explicit OperatorList(std::vector<Operator> more = {});

  const Operator* Find(absl::string_view domain, absl::string_view name) const override;
  const std::vector<std::unique_ptr<Operator>>& all() const { return all_; }

 private:
  void Add(Operator op);
  std::vector<std::unique_ptr<Operator>> all_;
  absl::flat_hash_map<std::string, const Operator*> by_id_;
};

// Without additions; built once.
const OperatorList& StandardOperators();

// One function per family file. Each appends its operators.
using OperatorFamily = std::vector<Operator>;
void AddCastOperators(OperatorFamily& list);
void AddQuantizeOperators(OperatorFamily& list);
void AddTextOperators(OperatorFamily& list);
void AddClassicalOperators(OperatorFamily& list);
void AddImageOperators(OperatorFamily& list);
void AddElementwiseOperators(OperatorFamily& list);
void AddElementwiseMathOperators(OperatorFamily& list);
void AddLinearOperators(OperatorFamily& list);
void AddEinsumOperators(OperatorFamily& list);
void AddShapeOperators(OperatorFamily& list);
void AddPadOperators(OperatorFamily& list);
void AddResizeOperators(OperatorFamily& list);
void AddSamplingOperators(OperatorFamily& list);
void AddRecurrentOperators(OperatorFamily& list);
void AddAttentionOperators(OperatorFamily& list);
void AddMicrosoftOperators(OperatorFamily& list);
void AddTrainingOperators(OperatorFamily& list);
void AddSignalOperators(OperatorFamily& list);
void AddIndexOperators(OperatorFamily& list);
void AddScatterOperators(OperatorFamily& list);
void AddDataSizedOperators(OperatorFamily& list);
void AddReduceOperators(OperatorFamily& list);
void AddConvOperators(OperatorFamily& list);
void AddPoolOperators(OperatorFamily& list);
void AddNormOperators(OperatorFamily& list);
void AddDerivedNormOperators(OperatorFamily& list);
void AddSoftmaxOperators(OperatorFamily& list);
void AddLossOperators(OperatorFamily& list);
void AddRandomOperators(OperatorFamily& list);
void AddOptimizerOperators(OperatorFamily& list);
void AddCollectiveOperators(OperatorFamily& list);
void AddControlOperators(OperatorFamily& list);
void AddLayoutOperators(OperatorFamily& list);
void AddFusedOperators(OperatorFamily& list);

}  // namespace onward

#endif  // ONWARD_GRAPH_OPS_OPERATORS_H_
