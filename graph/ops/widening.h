// Other types in which an operator can be computed, where no kernel takes its own.
#ifndef ONWARD_GRAPH_OPS_WIDENING_H_
#define ONWARD_GRAPH_OPS_WIDENING_H_

#include <vector>

#include "absl/types/span.h"
#include "graph/base/attribute.h"
#include "graph/ir/operator.h"

namespace onward {

// kUndefined in a row: that value stays as it is.
struct Widening {
  std::vector<DataType> inputs, outputs;
};

// float16, bfloat16 and smaller floats are computed in float32 and rounded once per operator. Empty
// (no rows at all) where there is nothing of these types, an attribute names the type, or the
// operator is defined by arithmetic in the type itself (quantisation).
Widening WidenHalves(const Operator& op, const Attributes& attributes,
                     absl::Span<const DataType> inputs, absl::Span<const DataType> outputs);

// The integers of an operator of ONNX in which its first input is, by its schema, are
// computed as `wide`; others (indices, axes) stay. Empty where the first input is no
// integer.
Widening WidenIntegers(const Operator& op, const Attributes& attributes, DataType wide,
                       absl::Span<const DataType> inputs, absl::Span<const DataType> outputs);

}  // namespace onward

#endif  // ONWARD_GRAPH_OPS_WIDENING_H_
