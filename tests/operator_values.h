// Runs small graphs on given numbers, with the reference loops and with the best kernels.
#ifndef ONWARD_TESTS_OPERATOR_VALUES_H_
#define ONWARD_TESTS_OPERATOR_VALUES_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "backend/runtime/interpreter.h"
#include "graph/ir/graph.h"

namespace onward {

using Numbers = std::vector<double>;

// A graph from its text, arithmetic on shapes folded.
absl::StatusOr<std::unique_ptr<Graph>> ParseFolded(const std::string& text);

// All outputs, for numbers in the types and extents of the graph's inputs.
absl::StatusOr<std::vector<Numbers>> RunWith(KernelRows choice, const Graph& graph,
                                             const std::vector<Numbers>& feeds);

// Equal to 1e-6, infinities and NaN included.
void ExpectNumbers(const Numbers& actual, const Numbers& expected, const std::string& where);

// The first output of `text` for the given inputs.
void ExpectOutput(const std::string& text, const std::vector<Numbers>& feeds,
                  const Numbers& expected);

// The gradients of sum(first output * dy) for all floating inputs, in order; the last ones
// of `expected` may be left out.
void ExpectGradients(const std::string& text, const std::vector<Numbers>& feeds, const Numbers& dy,
                     const std::vector<Numbers>& expected);

}  // namespace onward

#endif  // ONWARD_TESTS_OPERATOR_VALUES_H_
