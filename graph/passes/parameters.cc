#include "graph/passes/parameters.h"

#include <fnmatch.h>

#include <algorithm>
#include <cmath>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/base/errors.h"
#include "graph/base/status_macros.h"
#include "graph/ir/builder.h"
#include "graph/onnx/schema.h"
#include "graph/passes/training_mode.h"

namespace onward {
namespace {

bool MatchesAny(const std::string& name, const std::vector<std::string>& patterns) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& p) { return MatchesPattern(name, p); });
}

bool IsOneOf(const Node& node, std::initializer_list<absl::string_view> operators) {
  return std::find(operators.begin(), operators.end(), node.op().name) != operators.end();
}

// Values from which `loss` is reached through differentiable nodes.
absl::flat_hash_set<const Value*> ReachLoss(const Graph& graph, const Value* loss) {
  absl::flat_hash_set<const Value*> reach = {loss};
  for (Node* node = graph.last(); node != nullptr; node = node->previous()) {
    if (node->op().gradients == Operator::Gradients::kNone) continue;
    bool any = false;
    for (int i = 0; i < node->num_outputs() && !any; ++i) any = reach.contains(node->output(i));
    if (!any) continue;
    for (int i = 0; i < node->num_inputs(); ++i) {
      if (node->input(i) != nullptr) reach.insert(node->input(i));
    }
  }
  return reach;
}

bool IsSetting(const Node& node, int input) {
  const std::vector<FormalInput> formals = OnnxInputs(node.op().domain, node.op().name);
  if (formals.empty()) return false;
  const FormalInput& formal = formals[std::min<size_t>(input, formals.size() - 1)];
  return formal.tag == FormalInput::Tag::kNotDifferentiable;
}

// The weight of a product or a convolution, or their bias.
bool IsWeightOfProduct(const Node& node, int input) {
  const std::string& op = node.op().name;
  return (op == "MatMul" || op == "Gemm" || op == "Conv" || op == "ConvTranspose") && input > 0;
}

bool AllEqual(const Tensor& t) {
  for (int64_t i = 1; i < t.elements(); ++i) {
    if (!(t.At(i) == t.At(0))) return false;
  }
  return t.elements() > 0;
}

// Zeros and ones, or zeros and numbers that switch a softmax off; both kinds present.
bool IsMask(const Tensor& t) {
  bool zero = false;
  bool one = false;
  bool off = false;
  for (int64_t i = 0; i < t.elements(); ++i) {
    const double x = t.At(i);
    if (x == 0) {
      zero = true;
    } else if (x == 1) {
      one = true;
    } else if (x <= -1e4) {
      off = true;
    } else {
      return false;
    }
  }
  return off || (zero && one && t.elements() > 1);
}

// May a constant with a single element be a parameter? The bias of a unit or a
// slope, but not an epsilon.
bool SingleElementTrains(const Node& node, int input) {
  if (IsOneOf(node, {"Identity", "Reshape", "Unsqueeze", "Squeeze", "Expand", "Flatten"})) {
    const std::vector<Use>& uses = node.output()->uses();
    return std::any_of(uses.begin(), uses.end(), [](const Use& use) {
      return use.kind == Use::Kind::kNode && SingleElementTrains(*use.node, use.index);
    });
  }
  if (IsWeightOfProduct(node, input) || node.op().name == "PRelu") return true;
  if (node.op().name != "Add" && node.op().name != "BatchNormalization" &&
      node.op().name != "LayerNormalization") {
    return false;
  }
  if (node.op().name != "Add") return true;
  const Value* other = node.input(1 - input);
  return other != nullptr && other->producer != nullptr &&
         (other->producer->op().name == "MatMul" || other->producer->op().name == "Conv");
}

constexpr char kSingleNumber[] = "a single number; --also-train trains it";
constexpr char kPreprocessing[] = "it standardises an input";

// Values that are inputs of the graph, moved, converted or standardised by constants.
absl::flat_hash_set<const Value*> RawValues(const Graph& graph) {
  absl::flat_hash_set<const Value*> raw;
  for (const auto& input : graph.inputs()) raw.insert(input.get());
  for (const Node* node : graph.nodes()) {
    const Value* x = node->input(0);
    if (x == nullptr || !raw.contains(x)) continue;
    const bool moved = IsOneOf(
        *node, {"Identity", "Cast", "Transpose", "Reshape", "Flatten", "Squeeze", "Unsqueeze"});
    const bool scaled = IsOneOf(*node, {"Sub", "Div", "Mul"}) && node->input(1) != nullptr &&
                        node->input(1)->constant != nullptr;
    if (moved || scaled) raw.insert(node->output());
  }
  return raw;
}

class Search {
 public:
  Search(const Graph& graph, const Value* loss, const ParameterOptions& options)
      : graph_(graph),
        reach_(ReachLoss(graph, loss)),
        raw_(RawValues(graph)),
        options_(options),
        known_parameters_(options.known_parameters.begin(), options.known_parameters.end()),
        known_buffers_(options.known_buffers.begin(), options.known_buffers.end()) {}

  void Consider(const Value& value) {
    if (!IsFloating(value.dtype())) return;
    const bool asked = MatchesAny(value.name, options_.also_train);
    if (known_buffers_.contains(value.name) && !asked) {
      found_.untrained[value.name] = "a buffer of the model, as its exporter says";
      return;
    }
    const bool certain = asked || known_parameters_.contains(value.name);
    const char* why = "nothing reads it";
    std::vector<Use> uses;
    for (const Use& use : value.uses()) {
      if (value.constant->elements() == 0) break;
      if (use.kind != Use::Kind::kNode) continue;
      const char* obstacle = certain ? NoGradient(use) : Obstacle(value, use);
      if (obstacle == nullptr) uses.push_back(use);
      if (obstacle != nullptr) why = obstacle;
    }
    if (uses.empty()) {
      if (value.initializer) found_.untrained[value.name] = why;
      if (value.initializer && why == kPreprocessing) Tell(value, "standardises an input");
      return;
    }
    if (!certain && IsMask(*value.constant)) {
      found_.untrained[value.name] = "a mask: zeros and ones, or numbers that switch off";
      // A bias that is all zero is no mask (it has no one and nothing negative).
      Tell(value, "is taken for a mask");
      return;
    }
    std::sort(uses.begin(), uses.end(), [](const Use& a, const Use& b) {
      return a.node->ordinal != b.node->ordinal ? a.node->ordinal < b.node->ordinal
                                                : a.index < b.index;
    });
    Add(value, uses);
  }

  Parameters Take() { return std::move(found_); }

 private:
  void Tell(const Value& value, absl::string_view what) {
    found_.notes.push_back(absl::StrCat(
        "'", value.name, "' ", what, ": not trained (--also-train '", value.name, "' trains it)"));
  }

  // Why nothing reaches it through this use; null: something does.
  const char* NoGradient(const Use& use) const {
    const Node& node = *use.node;
    bool reaches = false;
    for (int i = 0; i < node.num_outputs() && !reaches; ++i)
      reaches = reach_.contains(node.output(i));
    if (!reaches || node.op().gradients == Operator::Gradients::kNone) {
      return "the loss does not depend on it through differentiable operators";
    }
    return IsSetting(node, use.index) ? "a setting of its operator" : nullptr;
  }

  // Why it does not train through this use; null: it does.
  const char* Obstacle(const Value& value, const Use& use) const {
    if (const char* none = NoGradient(use)) return none;
    const Node& node = *use.node;
    if (value.rank() == 0) return kSingleNumber;
    if (Preprocesses(use)) return kPreprocessing;
    if (FillsIn(value, use)) return "the model had no such parameter, as its exporter says";
    if (!value.initializer && !IsWeightOfProduct(node, use.index)) return "a constant of a node";
    if (value.constant->elements() == 1 && !SingleElementTrains(node, use.index)) {
      return kSingleNumber;
    }
    return nullptr;
  }

  // Where the exporter wrote down the model's parameters and this is none of them: the
  // ones and zeros that a normalization without scale and shift is given.
  bool FillsIn(const Value& value, const Use& use) const {
    return !known_parameters_.empty() && use.index > 0 &&
           IsOneOf(*use.node, {"BatchNormalization", "LayerNormalization", "InstanceNormalization",
                               "GroupNormalization"}) &&
           AllEqual(*value.constant) && (value.constant->At(0) == 0 || value.constant->At(0) == 1);
  }

  // Is it a mean that is subtracted from an input, or a deviation that divides it (or,
  // as its reciprocal, multiplies what a mean was subtracted from)?
  bool Preprocesses(const Use& use) const {
    const Node& node = *use.node;
    if (use.index != 1 || !raw_.contains(node.input(0))) return false;
    if (IsOneOf(node, {"Sub", "Div"})) return true;
    const Node* before = node.input(0)->producer;
    return node.op().name == "Mul" && before != nullptr && before->op().name == "Sub";
  }

  void Add(const Value& value, const std::vector<Use>& uses) {
    const bool frozen =
        MatchesAny(value.name, options_.freeze) ||
        (!options_.train_only.empty() && !MatchesAny(value.name, options_.train_only));
    if (frozen) {
      found_.list.push_back({Free(value.name), value.name, true, {}});
      return;
    }
    const bool merged = uses.size() > 1 && !MatchesAny(value.name, options_.keep_tied) &&
                        ((options_.may_merge && AllEqual(*value.constant)) ||
                         MatchesAny(value.name, options_.untie));
    if (!merged) {
      found_.list.push_back({Free(value.name), value.name, false, {}});
      if (uses.size() > 1) {
        found_.notes.push_back(absl::StrCat("'", value.name, "' is read at ", uses.size(),
                                            " places and stays one parameter (tied)"));
      }
      return;
    }
    for (const Use& use : uses) {
      const std::string place = use.node->source.empty() ? use.node->name : use.node->source;
      Parameter p;
      p.state = Free(absl::StrCat(value.name, "@", place));
      p.initializer = value.name;
      p.uses.push_back({use.node->ordinal, use.index});
      found_.list.push_back(std::move(p));
    }
    found_.notes.push_back(absl::StrCat(
        "'", value.name, "' is read at ", uses.size(),
        " places and all its elements are equal: the exporter merged equal parameters, each "
        "place trains its own copy (--keep-tied '",
        value.name, "' to undo)"));
  }

  // A name for a state that no other has.
  std::string Free(std::string name) {
    name = FreeStateName(graph_, std::move(name));
    while (!taken_.insert(name).second) name = FreeStateName(graph_, absl::StrCat(name, "~"));
    return name;
  }

  const Graph& graph_;
  absl::flat_hash_set<std::string> taken_;
  absl::flat_hash_set<const Value*> reach_;
  absl::flat_hash_set<const Value*> raw_;
  const ParameterOptions& options_;
  const absl::flat_hash_set<std::string> known_parameters_;
  const absl::flat_hash_set<std::string> known_buffers_;
  Parameters found_;
};

absl::Status CheckPatterns(const Parameters& parameters, const std::vector<std::string>& patterns,
                           absl::string_view flag) {
  for (const std::string& pattern : patterns) {
    const bool any =
        std::any_of(parameters.list.begin(), parameters.list.end(),
                    [&](const Parameter& p) { return MatchesPattern(p.initializer, pattern); });
    if (any) continue;
    std::vector<std::string> names;
    for (const Parameter& p : parameters.list) {
      if (names.size() < 8) names.push_back(p.initializer);
    }
    return WithExitCode(absl::InvalidArgumentError(absl::StrCat(
                            flag, " '", pattern, "' matches no parameter; there are ",
                            absl::StrJoin(names, ", "), parameters.list.size() > 8 ? ", ..." : "")),
                        ExitCode::kUsage);
  }
  return absl::OkStatus();
}

}  // namespace

bool MatchesPattern(const std::string& name, const std::string& pattern) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

void KnowFromExporter(const OnnxModel& model, ParameterOptions* options) {
  options->known_parameters = model.SignatureParameters();
  options->known_buffers = model.SignatureBuffers();
  const std::vector<std::string>& had = options->known_parameters;
  absl::flat_hash_set<std::string> names;
  for (const auto& [name, tensor] : model.initializers()) names.insert(name);
  const bool whole = std::all_of(had.begin(), had.end(),
                                 [&](const std::string& name) { return names.contains(name); });
  const bool pytorch = absl::StartsWith(model.producer(), "pytorch");
  const bool keras_export = absl::StrContains(model.producer(), "keras_export");
  options->may_merge = !keras_export && !(pytorch && whole);
  // Another tool gave the initializers other names: those of the record say nothing.
  const bool any = std::any_of(had.begin(), had.end(),
                               [&](const std::string& name) { return names.contains(name); });
  if (any) return;
  options->known_parameters.clear();
  options->known_buffers.clear();
}

absl::StatusOr<Parameters> FindParameters(const Graph& graph, const Value* loss,
                                          const ParameterOptions& options) {
  Search search(graph, loss, options);
  for (const auto& value : graph.constants()) search.Consider(*value);
  Parameters parameters = search.Take();
  RETURN_IF_ERROR(CheckPatterns(parameters, options.freeze, "--freeze"));
  RETURN_IF_ERROR(CheckPatterns(parameters, options.train_only, "--train-only"));
  RETURN_IF_ERROR(CheckPatterns(parameters, options.untie, "--untie"));
  RETURN_IF_ERROR(CheckPatterns(parameters, options.keep_tied, "--keep-tied"));
  RETURN_IF_ERROR(CheckPatterns(parameters, options.also_train, "--also-train"));
  const bool any = std::any_of(parameters.list.begin(), parameters.list.end(),
                               [](const Parameter& p) { return !p.frozen; });
  if (!any) {
    return WithExitCode(
        absl::FailedPreconditionError(parameters.list.empty()
                                          ? "the model has no parameter that the loss depends on"
                                          : "every parameter is frozen; nothing is left to train"),
        ExitCode::kUntrainable);
  }
  return parameters;
}

namespace {

// The state of a parameter, and what reads it in the type of the constant.
absl::StatusOr<Value*> AddParameterState(Graph* graph, const OperatorSet& operators,
                                         const std::string& name, const Value& constant) {
  const DataType type = constant.dtype();
  if (type != DataType::kFloat16 && type != DataType::kBfloat16) {
    return graph->AddState(State::Kind::kParameter, name, constant.type, constant.constant)
        ->current;
  }
  auto wide = std::make_shared<Tensor>(DataType::kFloat32, constant.dims());
  for (int64_t i = 0; i < wide->elements(); ++i) {
    wide->mutable_values<float>()[i] = static_cast<float>(constant.constant->At(i));
  }
  const TensorType wide_type = wide->type();
  State* state = graph->AddState(State::Kind::kParameter, name, wide_type, std::move(wide));
  Builder b(graph, &operators);
  b.InsertBefore(graph->first());
  b.SetSource(name);
  Expr rounded = b.Cast(b.Wrap(state->current), type);
  RETURN_IF_ERROR(b.status());
  return rounded.value();
}

}  // namespace

absl::Status MakeParameterStates(Graph* graph, const OperatorSet& operators,
                                 const Parameters& parameters) {
  absl::flat_hash_map<std::string, Value*> constants;
  for (const auto& c : graph->constants()) constants[c->name] = c.get();
  for (const Parameter& p : parameters.list) {
    if (p.frozen) continue;
    const auto it = constants.find(p.initializer);
    if (it == constants.end()) continue;  // not read in this graph
    Value* constant = it->second;
    const std::vector<Use> uses(constant->uses().begin(), constant->uses().end());  // edited below
    Value* read = nullptr;
    for (const Use& use : uses) {
      if (use.kind != Use::Kind::kNode) continue;
      const std::pair<int64_t, int> place(use.node->ordinal, use.index);
      if (!p.uses.empty() && std::find(p.uses.begin(), p.uses.end(), place) == p.uses.end()) {
        continue;
      }
      if (read == nullptr) {
        ASSIGN_OR_RETURN(read, AddParameterState(graph, operators, p.state, *constant));
      }
      graph->SetInput(use.node, use.index, read);
    }
  }
  // Those alone: a loss or a pass may hold constants that nothing reads yet.
  for (const Parameter& p : parameters.list) {
    const auto it = constants.find(p.initializer);
    if (it == constants.end() || !it->second->uses().empty()) continue;
    graph->RemoveConstant(it->second);
    constants.erase(it);
  }
  return absl::OkStatus();
}

}  // namespace onward
