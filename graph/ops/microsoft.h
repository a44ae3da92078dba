// What the files of com.microsoft's operators share.
#ifndef ONWARD_GRAPH_OPS_MICROSOFT_H_
#define ONWARD_GRAPH_OPS_MICROSOFT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "graph/ir/builder.h"
#include "graph/ir/operator.h"

namespace onward {

// The domain of operators that onnxruntime's exporters and optimizers write into files.
// ONNX has no schema of them. Each is its lowering to ONNX's own, which says its types too.
inline constexpr char kMicrosoft[] = "com.microsoft";

// So many inputs and outputs an operator has.
struct Arity {
  int least = 1;
  int most = 1;
  int outputs = 1;
};

// An operator that is its lowering. The lowering checks what it reads, by
// InvalidArgument: it is tried when the node is built.
Operator ByLowering(const std::string& name, Arity arity, LowerRule rule);

// InvalidArgument: "its inputs are float32[2, 3], float32[4]: ", then what was expected.
absl::Status DoNotFit(LowerContext& l, const std::string& expected);

// Is input i there, with so many axes?
bool HasRank(LowerContext& l, int i, size_t rank);

// Samples first in everything that has them.
SampleAxis MicrosoftSamples(const Node& node, absl::Span<const SampleAxis> inputs, int output);

// Elements `from` to `to` of an axis.
Expr Part(Builder& b, Expr x, int64_t axis, int64_t from, int64_t to);

// ONNX's operator with optional inputs, of which the last ones may be empty.
std::vector<Expr> OpsWith(Builder& b, const char* name, std::vector<Expr> inputs,
                          Attributes attributes, int outputs);

void AddMicrosoftAttention(std::vector<Operator>& list);

}  // namespace onward

#endif  // ONWARD_GRAPH_OPS_MICROSOFT_H_
