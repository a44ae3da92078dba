// Giving back biases that an exporter dropped because they were all zero.
#ifndef ONWARD_GRAPH_PASSES_RESTORE_BIASES_H_
#define ONWARD_GRAPH_PASSES_RESTORE_BIASES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/ir/graph.h"
#include "graph/ir/operator.h"
#include "graph/onnx/import.h"

namespace onward {

// A constant of zeros that stands for a bias, as an initializer of the file would.
struct DroppedBias {
  std::string name;
  int64_t ordinal = -1;  // of the file's node that it belongs to
};

// Adds zeros as the bias of every Conv, ConvTranspose, Gemm and product with a matrix
// of weights that has none: as the third input, or by an Add behind the product. Left
// alone are nodes whose result goes into an Add with a constant (there is the bias), or
// into a BatchNormalization alone (which takes the place of one), and those whose module
// had no bias, or still has it in the file, where the exporter of `model` has written its
// modules and parameters down. `graph` is built from `model`; the result is the same for
// every graph that is.
absl::StatusOr<std::vector<DroppedBias>> RestoreBiases(const OnnxModel& model, Graph* graph,
                                                       const OperatorSet& operators);

}  // namespace onward

#endif  // ONWARD_GRAPH_PASSES_RESTORE_BIASES_H_
