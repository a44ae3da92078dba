// What is to be known of ONNX's operators beyond the schema: which inputs are
// differentiable where the schema's tags are wrong or say nothing, why Onward has no
// gradient where it has none, and why an operator is not in the operator list.
//
// `onward operators` prints it; a test compares it with the schema and with what the
// operators' rules give, so that there is no hole without a reason.
#ifndef ONWARD_GRAPH_OPS_DIFFERENTIABILITY_H_
#define ONWARD_GRAPH_OPS_DIFFERENTIABILITY_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "graph/onnx/schema.h"

namespace onward {

// What the schema's tag of one input does not say, or says wrong.
struct InputNote {
  const char* op;
  const char* input;  // the schema's name
  bool differentiable;
  const char* reason;
};
const std::vector<InputNote>& InputNotes();

// Null where the tag stands.
const InputNote* FindInputNote(absl::string_view op, absl::string_view input);

// By the schema's tag, corrected.
bool IsDifferentiable(absl::string_view op, const FormalInput& input);

// An operator of ONNX's default domain that has no block of its own, and why. Of one that
// has a block after all nothing here counts.
struct AbsentOperator {
  const char* name;
  bool runs;  // it is taken apart at import; else it is refused
  const char* reason;
};
const std::vector<AbsentOperator>& AbsentOperators();

}  // namespace onward

#endif  // ONWARD_GRAPH_OPS_DIFFERENTIABILITY_H_
