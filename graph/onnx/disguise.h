// The same model in other clothes, for tests that results depend on nothing but meaning.
#ifndef ONWARD_GRAPH_ONNX_DISGUISE_H_
#define ONWARD_GRAPH_ONNX_DISGUISE_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "graph/onnx/import.h"

namespace onward {

// What is done to a model. Nodes of its main graph, and what
// bodies read of it; bodies and functions stay.
struct DisguiseOptions {
  uint64_t seed = 1;
  bool rename = false;   // every value, input, output, node and symbol; some to Onward's own names
  bool reorder = false;  // nodes, in another topological order
  bool identities = false;  // Identity behind half of all values, initializers included
  bool casts = false;       // Cast to double and back behind half of the floating-point values
  bool transposes = false;  // a Transpose and its inverse behind half of the values of rank > 1
};

struct Disguised {
  std::string bytes;                         // of the model's file
  std::map<std::string, std::string> names;  // new -> old, of what was renamed
};

// InvalidArgument where ONNX cannot infer the model's types.
absl::StatusOr<Disguised> Disguise(const OnnxModel& model, const DisguiseOptions& options);

}  // namespace onward

#endif  // ONWARD_GRAPH_ONNX_DISGUISE_H_
