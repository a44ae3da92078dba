// Graphs as ONNX: for dumps, Netron, golden texts and examples of operators.
#ifndef ONWARD_GRAPH_ONNX_TEXT_H_
#define ONWARD_GRAPH_ONNX_TEXT_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "graph/ir/evaluator.h"
#include "graph/ir/graph.h"
#include "graph/ir/operator.h"

namespace onward {

// A graph from ONNX text in the canonical opset, with concrete shapes:
//   g (float[2, 3] x, float[3] b) => (float[2, 3] y) { y = Add(x, b) }
// Operators of Onward are written onward.Name. With an evaluator, arithmetic on
// shapes is folded as at import.
absl::StatusOr<std::unique_ptr<Graph>> ParseGraph(const std::string& text,
                                                  const OperatorSet& operators,
                                                  Evaluator* evaluator = nullptr);

// A model from ONNX text, header included, as the bytes of its file (OnnxModel::FromBytes
// takes them):
//   <ir_version: 10, opset_import: ["" : 21]>
//   net (float[N, 3] x) => (float[N, 2] y) <float[3, 2] w = {...}> { y = MatMul(x, w) }
absl::StatusOr<std::string> ModelFromText(const std::string& text);

// The graph as ONNX text: states are inputs (`current`) and outputs (`next`),
// constants of up to 16 elements are written out. A node's device, where one is
// set, is its attribute __device. Deterministic.
std::string ToText(const Graph& graph);

// Writes the graph as an .onnx file that opens in Netron, constants included
// where they have at most 4096 elements (a dump shows structure). Exit code 8
// where it cannot be written.
absl::Status WriteOnnx(const Graph& graph, const std::string& path);

}  // namespace onward

#endif  // ONWARD_GRAPH_ONNX_TEXT_H_
