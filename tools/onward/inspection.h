// What can be said of a model without data: for `onward inspect`.
#ifndef ONWARD_TOOLS_ONWARD_INSPECTION_H_
#define ONWARD_TOOLS_ONWARD_INSPECTION_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "graph/onnx/import.h"
#include "graph/passes/parameters.h"

namespace onward {

struct Inspection {
  using NamedTypes = std::vector<std::pair<std::string, TensorType>>;

  // Parameters that train and that do not by their states' names, running statistics,
  // and the other initializers, as training would take them. Where the graph cannot be
  // built, all are among the others.
  NamedTypes parameters, frozen, statistics, others;
  // Of those among the others that are known: why they do not train.
  absl::flat_hash_map<std::string, std::string> why_not;
  std::vector<std::string> unknown_operators;
  // Why it cannot be trained here, one line; empty: it can.
  std::string obstacle;
  // What its exporter folded, merged, dropped or fixed, as far as it can be seen.
  std::vector<std::string> remarks;
};

// `restore_biases`: as training with --restore-biases takes it, with the biases that are
// missing. InvalidArgument (kUsage) where a pattern matches no parameter.
absl::StatusOr<Inspection> Examine(const OnnxModel& model, const ParameterOptions& options,
                                   bool restore_biases = false);

// Elements of all of them.
int64_t ElementsOf(const Inspection::NamedTypes& types);

}  // namespace onward

#endif  // ONWARD_TOOLS_ONWARD_INSPECTION_H_
