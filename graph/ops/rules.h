// Parts that the operator blocks of several families share.
#ifndef ONWARD_GRAPH_OPS_RULES_H_
#define ONWARD_GRAPH_OPS_RULES_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "graph/ir/builder.h"
#include "graph/ir/operator.h"

namespace onward {

// The elements of input `i` of a node, an integer tensor; none where it is absent.
// Unimplemented where it is not a constant.
absl::StatusOr<std::vector<int64_t>> ConstantInts(const Node& node, int i);

// The same for a rule about sample axes: false where it is not a constant.
bool ConstantInts(const Node& node, int i, std::vector<int64_t>* values);

// The elements of input `i`, numbers of any type; none where it is absent.
// Unimplemented where it is not a constant.
absl::StatusOr<std::vector<double>> ConstantReals(const Node& node, int i);

// axis in [-rank, rank) to [0, rank). REQUIRES: in range (inference has looked).
int64_t FromBack(int64_t axis, int64_t rank);

// 0, 1, .. n - 1.
std::vector<int64_t> Iota(int64_t n);

// For rules that compute a constant entry by entry, at so many operations. Unimplemented
// where that is no longer small: a file of a few bytes can ask for any extent.
absl::Status CheckComputable(double operations);

// A one-dimensional int64 tensor of one element.
Expr OneInt(Builder& b, int64_t value);

// A constant of a floating type.
Expr Reals(Builder& b, DataType dtype, Dims dims, const std::vector<double>& numbers);

// A boolean value as 0 or 1 in the type of `like`.
Expr AsNumber(Expr condition, Expr like);

// x where the condition holds, 0 elsewhere.
Expr KeepWhere(Expr condition, Expr x);

// So many operations for each element of the largest tensor.
OperationsRule PerElement(double operations);

// ---- Rules about the sample axis of outputs.

// The axis stays where it is, unless the operator touches it.
SampleAxis SamplesUnless(const SampleAxis& x, bool touched);

// Of a value whose elements are laid out again in row-major order under other
// extents: a batch merged with the axes inside it is found again, one that is
// split or merged with axes outside it is mixed.
SampleAxis SamplesReshaped(const Node& node, absl::Span<const SampleAxis> inputs, int output);

// Of an operator whose output does not depend on what its inputs hold.
SampleAxis SamplesNone(const Node& node, absl::Span<const SampleAxis> inputs, int output);

// Of an operator that mixes whatever it is given.
SampleAxis SamplesMixed(const Node& node, absl::Span<const SampleAxis> inputs, int output);

}  // namespace onward

#endif  // ONWARD_GRAPH_OPS_RULES_H_
