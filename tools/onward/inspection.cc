#include "tools/onward/inspection.h"

#include <algorithm>
#include <cstring>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backend/runtime/interpreter.h"
#include "graph/base/errors.h"
#include "graph/base/status_macros.h"
#include "graph/ops/operators.h"
#include "graph/passes/autodiff.h"
#include "graph/passes/restore_biases.h"
#include "graph/passes/training_mode.h"
#include "kernels/kernel.h"
#include "tools/onward/output_types.h"

namespace onward {
namespace {

class Examiner {
 public:
  Examiner(const OnnxModel& model, const ParameterOptions& options, bool restore_biases)
      : model_(model),
        options_(options),
        restore_biases_(restore_biases),
        evaluator_(&StandardOperators(), &CpuKernels()) {
    KnowFromExporter(model, &options_);
  }

  absl::StatusOr<Inspection> Run() {
    LookAtOperators();
    LookAtBatch();
    const absl::Status status = LookAtParameters();
    if (ExitCodeOf(status) == ExitCode::kUsage) return status;
    if (absl::IsUnimplemented(status) && !found_.unknown_operators.empty()) {
      found_.obstacle = absl::StrCat("no operator ", absl::StrJoin(found_.unknown_operators, ", "));
    } else if (!status.ok()) {
      found_.obstacle = std::string(status.message());
    } else {
      found_.unknown_operators.clear();  // import has read them away
    }
    // What does not reach one output may reach another.
    for (const std::string& name : taken_) found_.why_not.erase(name);
    for (const auto& [name, tensor] : model_.initializers()) {
      if (taken_.contains(name)) continue;
      found_.others.emplace_back(name, tensor->type());
      if (!IsFloating(tensor->dtype())) found_.why_not[name] = "not floating-point";
      if (found_.obstacle.empty()) {
        found_.why_not.try_emplace(name, "nothing reads it, or only shapes do");
      }
    }
    LookAtSignature();
    LookAtEqualOnes();
    return std::move(found_);
  }

 private:
  void LookAtOperators() {
    absl::flat_hash_map<std::string, int> counts;
    for (const auto& [id, count] : model_.OperatorCounts()) {
      const size_t dot = id.rfind('.');
      const bool plain = dot == std::string::npos;
      const Operator* op =
          StandardOperators().Find(plain ? "" : id.substr(0, dot), plain ? id : id.substr(dot + 1));
      if (op == nullptr) found_.unknown_operators.push_back(id);
      counts[id] = count;
    }
    // The project's own exporter leaves nothing out.
    if (absl::StrContains(model_.producer(), "keras_export")) return;
    if (counts["Conv"] > 0 && counts["BatchNormalization"] == 0 && MayHaveHadStatistics()) {
      found_.remarks.push_back(
          "convolutions without BatchNormalization: if the model had it, the exporter folded it "
          "(export from PyTorch with optimize=False, from Keras with tools/keras_export.py)");
    }
    if (counts["Dropout"] == 0) {
      found_.remarks.push_back(
          "no Dropout: if the model had it, the exporter dropped it (export in training mode)");
    }
  }

  // Not where the exporter has written the model's buffers down and none is one of them, or
  // all parameters are there.
  bool MayHaveHadStatistics() const {
    if (model_.SignatureParameters().empty()) return true;
    const std::vector<std::string> buffers = model_.SignatureBuffers();
    return !LostParameters().empty() &&
           std::any_of(buffers.begin(), buffers.end(), [](const std::string& name) {
             return absl::EndsWith(name, "running_mean");
           });
  }

  void LookAtBatch() {
    for (const ModelInput& input : model_.inputs()) {
      if (input.extents.empty() || input.extents[0].size == kDynamic) continue;
      found_.remarks.push_back(
          absl::StrCat("the batch size ", input.extents[0].size, " is written into input '",
                       input.name, "': no other trains (--batch-size ", input.extents[0].size,
                       " --drop-last); to be free, export with a dynamic batch"));
    }
  }

  absl::Status LookAtParameters() {
    ASSIGN_OR_RETURN(std::unique_ptr<Graph> graph, BuildWithTrialSizes(model_, &evaluator_));
    RETURN_IF_ERROR(LookAtBiases(graph.get()));
    // Biases that are only told of are no parameters.
    if (!restore_biases_) {
      ASSIGN_OR_RETURN(graph, BuildWithTrialSizes(model_, &evaluator_));
    }
    absl::flat_hash_map<std::string, TensorType> types;
    for (const auto& constant : graph->constants()) types[constant->name] = constant->type;
    const auto mode = ToTrainingMode(graph.get(), StandardOperators(), {});
    if (!mode.ok()) return mode.status();
    for (const Parameter& p : mode->statistics) Take(p, types, &found_.statistics);
    Parameters parameters;
    absl::Status last = absl::OkStatus();
    std::vector<GradientSeed> seeds;
    for (const Graph::Output& output : graph->outputs()) {
      if (!IsFloating(output.value->dtype())) continue;
      const auto some = FindParameters(*graph, output.value, options_);
      if (!some.ok()) {
        last = some.status();
        continue;
      }
      seeds.push_back({output.value, output.value});
      Join(*some, &parameters);
    }
    if (seeds.empty()) {
      return last.ok() ? absl::FailedPreconditionError("it has no output of floating type") : last;
    }
    for (const Parameter& p : parameters.list) {
      Take(p, types, p.frozen ? &found_.frozen : &found_.parameters);
    }
    found_.why_not.insert(parameters.untrained.begin(), parameters.untrained.end());
    found_.remarks.insert(found_.remarks.end(), parameters.notes.begin(), parameters.notes.end());
    absl::Status status = MakeParameterStates(graph.get(), StandardOperators(), parameters);
    if (!status.ok()) return status;
    std::vector<Value*> targets;
    for (const auto& state : graph->states()) {
      if (state->kind == State::Kind::kParameter) targets.push_back(state->current);
    }
    return AppendGradients(graph.get(), StandardOperators(), seeds, targets).status();
  }

  // Adds those that are missing.
  absl::Status LookAtBiases(Graph* graph) {
    ASSIGN_OR_RETURN(const std::vector<DroppedBias> biases,
                     RestoreBiases(model_, graph, StandardOperators()));
    if (biases.empty()) return absl::OkStatus();
    std::vector<std::string> names;
    for (const DroppedBias& bias : biases) names.push_back(bias.name);
    found_.remarks.push_back(absl::StrCat(
        biases.size() == 1 ? "1 layer has" : absl::StrCat(biases.size(), " layers have"),
        " no bias: if the model had one there, it was all zero and the exporter dropped it",
        restore_biases_ ? "; --restore-biases gives back " : " (--restore-biases gives back ",
        Shown(names), restore_biases_ ? "" : ")"));
    return absl::OkStatus();
  }

  // The first of them, for a line.
  static std::string Shown(std::vector<std::string> names) {
    constexpr size_t kShown = 6;
    const bool more = names.size() > kShown;
    if (more) names.resize(kShown);
    return absl::StrCat(absl::StrJoin(names, ", "), more ? ", ..." : "");
  }

  // Of the parameters that the model had, as PyTorch's exporter writes: those that are
  // not in the file.
  std::vector<std::string> LostParameters() const {
    absl::flat_hash_set<std::string> names;
    for (const auto& [name, tensor] : model_.initializers()) names.insert(name);
    std::vector<std::string> lost;
    for (const std::string& name : model_.SignatureParameters()) {
      if (!names.contains(name)) lost.push_back(name);
    }
    return lost;
  }

  void LookAtSignature() {
    const std::vector<std::string> lost = LostParameters();
    if (lost.empty()) return;
    found_.remarks.push_back(absl::StrCat(
        lost.size(), " of the ", model_.SignatureParameters().size(),
        " parameters that the model had are not in the file under their names: folded into "
        "others, merged with equal ones, dropped because they were zero, or renamed: ",
        Shown(lost), " (export with optimize=False keeps them)"));
  }

  // Two initializers that are equal, or one is the other transposed, may have been tied.
  void LookAtEqualOnes() {
    const auto& list = model_.initializers();
    for (size_t i = 0; i < list.size(); ++i) {
      for (size_t j = i + 1; j < list.size(); ++j) {
        const Equality equality = Compare(*list[i].second, *list[j].second);
        if (equality == Equality::kNone) continue;
        found_.remarks.push_back(absl::StrCat(
            "'", list[i].first, "' and '", list[j].first, "' hold the same values",
            equality == Equality::kTransposed ? ", transposed" : "",
            ": if they were tied (an embedding and a projection often are), they train apart "
            "here"));
      }
    }
  }

  enum class Equality { kNone, kSame, kTransposed };
  // Of tensors of different numbers only: zeros and ones are equal by chance.
  static Equality Compare(const Tensor& a, const Tensor& b) {
    constexpr int64_t kFewest = 8;
    const int64_t n = a.elements();
    if (!IsFloating(a.dtype()) || a.dtype() != b.dtype() || n != b.elements() || n < kFewest ||
        a.At(0) != b.At(0) || a.At(n - 1) != b.At(n - 1) || a.At(0) == a.At(n - 1)) {
      return Equality::kNone;
    }
    if (a.dims() == b.dims() && std::memcmp(a.data(), b.data(), a.bytes()) == 0) {
      return Equality::kSame;
    }
    if (a.dims().size() != 2 || b.dims().size() != 2 || a.dims()[0] != b.dims()[1]) {
      return Equality::kNone;
    }
    const int64_t rows = a.dims()[0], columns = a.dims()[1];
    for (int64_t i = 0; i < n; ++i) {
      if (a.At(i) != b.At(i % columns * rows + i / columns)) return Equality::kNone;
    }
    return Equality::kTransposed;
  }

  static void Join(const Parameters& some, Parameters* all) {
    all->untrained.insert(some.untrained.begin(), some.untrained.end());
    for (const Parameter& p : some.list) {
      const bool known = std::any_of(all->list.begin(), all->list.end(),
                                     [&](const Parameter& o) { return o.state == p.state; });
      if (!known) all->list.push_back(p);
    }
    for (const std::string& note : some.notes) {
      const bool known = std::find(all->notes.begin(), all->notes.end(), note) != all->notes.end();
      if (!known) all->notes.push_back(note);
    }
  }

  void Take(const Parameter& p, const absl::flat_hash_map<std::string, TensorType>& types,
            Inspection::NamedTypes* to) {
    taken_.insert(p.initializer);
    const auto it = types.find(p.initializer);
    if (it != types.end()) to->emplace_back(p.state, it->second);
  }

  const OnnxModel& model_;
  ParameterOptions options_;
  bool restore_biases_;
  Interpreter evaluator_;
  Inspection found_;
  absl::flat_hash_set<std::string> taken_;
};

}  // namespace

absl::StatusOr<Inspection> Examine(const OnnxModel& model, const ParameterOptions& options,
                                   bool restore_biases) {
  return Examiner(model, options, restore_biases).Run();
}

int64_t ElementsOf(const Inspection::NamedTypes& types) {
  int64_t elements = 0;
  for (const auto& [name, type] : types) elements += type.elements();
  return elements;
}

}  // namespace onward
