// Inference by ONNX's schema, with the checks that it leaves out.
#ifndef ONWARD_GRAPH_OPS_CHECKED_H_
#define ONWARD_GRAPH_OPS_CHECKED_H_

#include <functional>
#include <string>

#include "graph/base/status_macros.h"
#include "graph/ir/operator.h"
#include "graph/onnx/schema.h"

namespace onward {

// The schema's inference of operator `name` of ONNX, then `check`, which sees the
// outputs too. For what a file may get wrong and a kernel relies on.
inline InferRule OnnxInferenceAnd(const std::string& name,
                                  std::function<absl::Status(InferContext&)> check) {
  return [infer = OnnxInference("", name), check = std::move(check)](InferContext& c) {
    RETURN_IF_ERROR(infer(c));
    return check(c);
  };
}

}  // namespace onward

#endif  // ONWARD_GRAPH_OPS_CHECKED_H_
