// Telling parameters from constants, and making states of them.
#ifndef ONWARD_GRAPH_PASSES_PARAMETERS_H_
#define ONWARD_GRAPH_PASSES_PARAMETERS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "graph/ir/graph.h"
#include "graph/onnx/import.h"

namespace onward {

struct ParameterOptions {
  // Patterns with '*' and '?', of names of initializers.
  std::vector<std::string> freeze;
  std::vector<std::string> train_only;  // empty: all
  std::vector<std::string> untie;       // one copy per use, whatever their elements
  std::vector<std::string> keep_tied;   // never a copy per use
  // Of what would be taken for constants: single numbers, masks, preprocessing.
  std::vector<std::string> also_train = {};

  // ---- What the exporter tells of itself: KnowFromExporter.
  // Whether one initializer may stand for several parameters that were equal. Where not,
  // one that is read at several places was tied.
  bool may_merge = true;
  // By initializers' names: these train whatever they look like, and those never do.
  std::vector<std::string> known_parameters = {};
  std::vector<std::string> known_buffers = {};
};

// A parameter: an initializer, or one use of an initializer that the exporter had
// merged from several equal ones.
struct Parameter {
  std::string state;        // name of the state
  std::string initializer;  // name in the file
  bool frozen = false;      // stays a constant
  // Where it is read: (ordinal of the file's node, input). Empty: everywhere.
  std::vector<std::pair<int64_t, int>> uses;
  // Ordinal of the file's node whose dropped bias this is; -1: the file has it.
  int64_t bias_of = -1;
};

struct Parameters {
  std::vector<Parameter> list;
  // What was done and why, one line each, for people.
  std::vector<std::string> notes;
  // Floating-point initializers that do not train, and why.
  absl::flat_hash_map<std::string, std::string> untrained;
};

// Fills in what the model's file tells of its exporter. tools/keras_export.py merges
// nothing; of what PyTorch's older exporter merges, all but one are read through an
// Identity, which import takes for the initializer that it was; the newer one writes down
// parameters and buffers, and has merged nothing where it wrote all of them.
void KnowFromExporter(const OnnxModel& model, ParameterOptions* options);

// Floating-point initializers from which `loss` is reached through differentiable
// inputs are parameters. Not trained are: scalars; inputs that the ONNX schema tags
// as settings (bounds, ratios, padding values); masks (zeros and ones, or zeros and
// very negative numbers); what is subtracted from an input of the graph or divides it,
// before any weight; constants of Constant nodes, unless they are weights of a
// product or convolution. An initializer with several uses all of whose elements are
// equal is taken for several that the exporter merged and gets one copy per use;
// others stay tied.
// InvalidArgument (kUsage) where a pattern matches nothing; kUntrainable where no
// parameter is left.
absl::StatusOr<Parameters> FindParameters(const Graph& graph, const Value* loss,
                                          const ParameterOptions& options);

// Turns the constants of `graph` that are trained parameters into states. The same
// list serves every graph that is built from the model. The state of a float16 or bfloat16
// is float32, and is rounded where it is read: an update smaller than the last digit of
// the half would be lost.
absl::Status MakeParameterStates(Graph* graph, const OperatorSet& operators,
                                 const Parameters& parameters);

// Does `name` match `pattern`, in which '*' stands for any text and '?' for one
// character?
bool MatchesPattern(const std::string& name, const std::string& pattern);

}  // namespace onward

#endif  // ONWARD_GRAPH_PASSES_PARAMETERS_H_
