#include "graph/passes/loss.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/base/errors.h"
#include "graph/base/status_macros.h"
#include "graph/ir/builder.h"
#include "graph/passes/given_loss.h"
#include "graph/passes/loss_terms.h"

namespace onward {
namespace {

absl::Status Usage(const std::string& message) {
  return WithExitCode(absl::InvalidArgumentError(message), ExitCode::kUsage);
}

absl::StatusOr<Value*> FindPrediction(const Graph& graph, const std::string& name) {
  std::vector<std::string> names;
  for (const Graph::Output& o : graph.outputs()) names.push_back(o.name);
  if (name.empty()) {
    if (names.size() == 1) return graph.outputs()[0].value;
    return Usage(absl::StrCat("the model has ", names.size(), " outputs (",
                              absl::StrJoin(names, ", "),
                              "); say by --prediction which one the "
                              "loss reads"));
  }
  Value* value = graph.FindOutput(name);
  if (value == nullptr) {
    return Usage(
        absl::StrCat("the model has no output '", name, "'; it has ", absl::StrJoin(names, ", ")));
  }
  return value;
}

// What makes a value, and the nodes behind it that only move its elements, or convert them
// to another floating type, last first.
struct Ending {
  const Node* maker = nullptr;  // null: none
  std::vector<const Node*> movers;
};

Ending EndingOf(const Value* value) {
  Ending ending;
  ending.maker = value->producer;
  while (ending.maker != nullptr) {
    const std::string id = ending.maker->op().id();
    const bool converts = id == "Cast" && IsFloating(ending.maker->output()->dtype()) &&
                          IsFloating(ending.maker->input(0)->dtype());
    const bool moves = converts || id == "Identity" || id == "Transpose" || id == "Reshape" ||
                       id == "Flatten" || id == "Squeeze" || id == "Unsqueeze";
    if (!moves || ending.maker->input(0)->producer == nullptr) break;
    ending.movers.push_back(ending.maker);
    ending.maker = ending.maker->input(0)->producer;
  }
  return ending;
}

// Where axis `axis` of a mover's result lies in what it moves; -1 where it is spread or
// joined with another.
int AxisBefore(const Node& mover, int axis) {
  const Dims& before = mover.input(0)->dims();
  const Dims& after = mover.output()->dims();
  if (mover.op().name == "Identity" || mover.op().name == "Cast") return axis;
  if (mover.op().name == "Transpose") {
    const std::vector<int64_t> permutation = mover.attributes.Ints("perm", {});
    return permutation.empty() ? static_cast<int>(after.size()) - 1 - axis
                               : static_cast<int>(permutation[axis]);
  }
  // The others: extents of 1 come and go, those above 1 stay in their order.
  std::vector<int> from, to;
  for (int i = 0; i < static_cast<int>(before.size()); ++i) {
    if (before[i] != 1) from.push_back(i);
  }
  for (int i = 0; i < static_cast<int>(after.size()); ++i) {
    if (after[i] != 1) to.push_back(i);
  }
  const auto at = std::find(to.begin(), to.end(), axis);
  if (from.size() != to.size() || at == to.end()) return -1;
  for (size_t i = 0; i < from.size(); ++i) {
    if (before[from[i]] != after[to[i]]) return -1;
  }
  return from[at - to.begin()];
}

// `value` moved as the ending moves what its maker makes.
Value* Moved(Builder* b, Value* value, const Ending& ending) {
  Expr moved = b->Wrap(value);
  for (auto it = ending.movers.rbegin(); it != ending.movers.rend(); ++it) {
    const Node& mover = **it;
    std::vector<Expr> inputs = {moved};
    for (int i = 1; i < mover.num_inputs(); ++i) {
      inputs.push_back(mover.input(i) == nullptr ? Expr() : b->Wrap(mover.input(i)));
    }
    moved = b->Op(mover.op().name, inputs, mover.attributes);
  }
  return moved.value();
}

// Which axis of the prediction counts classes.
absl::StatusOr<int> ClassAxis(const Value& prediction, const LossRequest& request) {
  const int rank = prediction.rank();
  if (rank < 2) {
    return Usage(absl::StrCat("a cross entropy needs scores of rank 2 or more, but '",
                              prediction.name, "' is ", ToString(prediction.type)));
  }
  if (rank == 2) return 1;
  if (IsFloating(request.label_dtype)) return rank - 1;  // a row of class shares: Keras' order
  // PyTorch puts classes on axis 1, Keras and language models last: the labels decide.
  const auto fits = [&](int axis) {
    Dims rest;
    for (int i = 1; i < rank; ++i) {
      if (i != axis) rest.push_back(prediction.dims()[i]);
    }
    return rest == request.label_dims;
  };
  if (fits(rank - 1)) return rank - 1;
  if (fits(1)) return 1;
  return Usage(absl::StrCat("labels of extents ", ToString(request.label_dims),
                            " per sample do not fit scores ", ToString(prediction.type)));
}

LossSpec::Scores FormOf(LossRequest::Input input) {
  switch (input) {
    case LossRequest::Input::kProbabilities:
      return LossSpec::Scores::kProbabilities;
    case LossRequest::Input::kLogProbabilities:
      return LossSpec::Scores::kLogProbabilities;
    default:
      return LossSpec::Scores::kLogits;
  }
}

LossSpec::Measure MeasureOf(LossRequest::Kind kind) {
  switch (kind) {
    case LossRequest::Kind::kBinaryCrossEntropy:
      return LossSpec::Measure::kBinaryCrossEntropy;
    case LossRequest::Kind::kMeanSquared:
      return LossSpec::Measure::kMeanSquared;
    case LossRequest::Kind::kMeanAbsolute:
      return LossSpec::Measure::kMeanAbsolute;
    case LossRequest::Kind::kHuber:
      return LossSpec::Measure::kHuber;
    default:
      return LossSpec::Measure::kCrossEntropy;
  }
}

// What the loss reads, and in what form.
struct Scores {
  Value* value = nullptr;
  LossRequest::Input form = LossRequest::Input::kLogits;
  std::string note;
};

// A Softmax, LogSoftmax or Sigmoid at the end is looked through, also where its result is
// transposed or reshaped (channels last for the user).
Scores FindScores(Builder* b, Value* prediction, const LossRequest& request, bool binary,
                  int class_axis) {
  Scores out{prediction, request.input, ""};
  const Ending ending = EndingOf(prediction);
  const Node* maker = ending.maker;
  const std::string op = maker == nullptr ? "" : maker->op().id();
  const std::string wanted = binary ? "Sigmoid" : "Softmax";
  const auto on_class_axis = [&] {
    int place = class_axis;
    for (const Node* mover : ending.movers) {
      if (place >= 0) place = AxisBefore(*mover, place);
    }
    const int64_t axis = maker->attributes.Int("axis", -1);
    return (axis < 0 ? axis + maker->output()->rank() : axis) == place;
  };
  const bool ends_so = op == wanted && (binary || on_class_axis());
  const bool ends_in_log = !binary && op == "LogSoftmax" && on_class_axis();
  const bool may_be_probabilities = request.input == LossRequest::Input::kAuto ||
                                    request.input == LossRequest::Input::kProbabilities;
  const bool may_be_logs = request.input == LossRequest::Input::kAuto ||
                           request.input == LossRequest::Input::kLogProbabilities;
  if ((ends_so && may_be_probabilities) || (ends_in_log && may_be_logs)) {
    out.value = Moved(b, maker->input(0), ending);
    out.form = LossRequest::Input::kLogits;
    out.note = absl::StrCat("the model ends in ", op,
                            ": cross entropy is taken from the logits "
                            "before it; the exported model keeps it");
  } else if (request.input == LossRequest::Input::kAuto) {
    out.form = LossRequest::Input::kLogits;
    out.note =
        absl::StrCat("the model does not end in ", wanted, ": its output is taken for logits");
  }
  return out;
}

Expr LabelsFeed(Graph* graph, Builder* b, const Value& prediction, const LossRequest& request) {
  Value* fed = graph->FindInput(kLabelsFeed);
  if (fed == nullptr) {
    Dims dims = {prediction.dims()[0]};
    dims.insert(dims.end(), request.label_dims.begin(), request.label_dims.end());
    fed = graph->AddInput(kLabelsFeed, {request.label_dtype, std::move(dims), {}});
    fed->feed = kLabelsFeed;
  }
  return b->Wrap(fed);
}

// [n, ..., classes] as [rows, classes]; [n, classes, ...] likewise by a transpose.
Expr AsRows(Builder* b, Expr scores, int class_axis) {
  if (!scores || scores.rank() == 2) return scores;
  std::vector<int64_t> permutation;
  for (int i = 0; i < scores.rank(); ++i) {
    if (i != class_axis) permutation.push_back(i);
  }
  permutation.push_back(class_axis);
  const int64_t classes = scores.dims()[class_axis];
  Expr last = b->Transpose(scores, permutation);
  return b->Reshape(last, {Elements(scores.dims()) / std::max<int64_t>(classes, 1), classes});
}

absl::StatusOr<LossValues> CategoricalCrossEntropy(Graph* graph, Builder* b,
                                                   const LossRequest& request, Value* prediction) {
  ASSIGN_OR_RETURN(const int class_axis, ClassAxis(*prediction, request));
  const Scores found = FindScores(b, prediction, request, false, class_axis);
  LossValues out;
  out.prediction = prediction;
  if (!found.note.empty()) out.notes.push_back(found.note);
  Expr labels = LabelsFeed(graph, b, *prediction, request);
  LossSpec spec;
  spec.measure = LossSpec::Measure::kCrossEntropy;
  spec.scores = FormOf(found.form);
  spec.class_axis = class_axis;
  spec.label_smoothing = request.label_smoothing;
  spec.class_weights = request.class_weights;
  spec.ignore_index = request.ignore_index;
  ASSIGN_OR_RETURN(const LossTerms terms,
                   BuildLossTerms(*b, spec, b->Wrap(found.value), labels, Expr()));
  out.numerator = terms.numerator.value();
  out.denominator = terms.denominator.value();
  // For metrics: a row of scores and a class number for each label.
  const bool shares = IsFloating(request.label_dtype);
  Expr scores = AsRows(b, b->Wrap(found.value), class_axis);
  if (shares) labels = AsRows(b, labels, class_axis);
  if (!shares) labels = b->Reshape(labels, {scores.dims()[0]});
  RETURN_IF_ERROR(b->status());
  out.scores = scores.value();
  Expr classes = shares
                     ? b->Op("ArgMax", {labels}, {{"axis", int64_t{1}}, {"keepdims", int64_t{0}}})
                     : b->Cast(labels, DataType::kInt64);
  out.labels = classes.value();
  if (request.ignore_index.has_value() && !shares) {
    Expr ignored =
        b->Op("Equal",
              {classes, b->Scalar(DataType::kInt64, static_cast<double>(*request.ignore_index))});
    out.counted = b->Cast(b->Op("Not", {ignored}), scores.dtype()).value();
  }
  RETURN_IF_ERROR(b->status());
  return out;
}

// The same extents, those of 1 aside; or one of the two has a flat row per sample.
bool SameButForOnes(const Dims& a, const Dims& b) {
  const auto significant = [](const Dims& dims) {
    std::vector<int64_t> some;
    for (size_t i = 0; i < dims.size(); ++i) {
      if (i == 0 || dims[i] != 1) some.push_back(dims[i]);
    }
    return some;
  };
  const std::vector<int64_t> x = significant(a), y = significant(b);
  return x == y || (Elements(a) == Elements(b) && (x.size() <= 2 || y.size() <= 2));
}

absl::StatusOr<LossValues> Elementwise(Graph* graph, Builder* b, const LossRequest& request,
                                       Value* prediction) {
  const bool binary = request.kind == LossRequest::Kind::kBinaryCrossEntropy;
  LossValues out;
  out.prediction = prediction;
  Scores found{prediction, LossRequest::Input::kLogits, ""};
  if (binary) found = FindScores(b, prediction, request, true, 0);
  if (!found.note.empty()) out.notes.push_back(found.note);
  Expr labels = LabelsFeed(graph, b, *prediction, request);
  Expr scores = b->Wrap(found.value);
  if (!SameButForOnes(labels.dims(), scores.dims())) {
    return Usage(absl::StrCat("labels of extents ", ToString(request.label_dims),
                              " per sample do not fit the output '", prediction->name,
                              "', which is ", ToString(prediction->type)));
  }
  labels = b->Reshape(b->Cast(labels, scores.dtype()), scores.dims());
  LossSpec spec;
  spec.measure = MeasureOf(request.kind);
  spec.scores = FormOf(found.form);
  spec.label_smoothing = request.label_smoothing;
  spec.huber_delta = request.huber_delta;
  ASSIGN_OR_RETURN(const LossTerms terms, BuildLossTerms(*b, spec, scores, labels, Expr()));
  out.numerator = terms.numerator.value();
  out.denominator = terms.denominator.value();
  out.labels = labels.value();
  if (binary) {
    out.scores = scores.value();
    out.threshold = found.form == LossRequest::Input::kLogits ? 0 : 0.5;
  }
  RETURN_IF_ERROR(b->status());
  return out;
}

// A loss that the model computes.
absl::StatusOr<LossValues> ModelOutput(Builder* b, Value* prediction) {
  LossValues out;
  out.prediction = prediction;
  ASSIGN_OR_RETURN(const LossTerms terms, TermsOfLoss(b, prediction));
  out.numerator = terms.numerator.value();
  out.denominator = terms.denominator.value();
  return out;
}

}  // namespace

bool TakesClassNumbers(LossRequest::Kind kind) { return kind == LossRequest::Kind::kCrossEntropy; }

absl::StatusOr<LossValues> AttachLoss(Graph* graph, const OperatorSet& operators,
                                      const LossRequest& request) {
  ASSIGN_OR_RETURN(Value * prediction, FindPrediction(*graph, request.prediction));
  Builder b(graph, &operators);
  b.SetPhase(Phase::kLoss);
  b.SetScope("loss");
  b.SetSource("loss");
  if (request.kind != LossRequest::Kind::kModelOutput && prediction->rank() < 1) {
    return Usage(absl::StrCat("output '", prediction->name,
                              "' is a single number, no prediction "
                              "per sample; --loss output:",
                              prediction->name, " trains on it"));
  }
  switch (request.kind) {
    case LossRequest::Kind::kCrossEntropy:
      return CategoricalCrossEntropy(graph, &b, request, prediction);
    case LossRequest::Kind::kModelOutput:
      return ModelOutput(&b, prediction);
    case LossRequest::Kind::kModelFile:
      return absl::InternalError("a second model's loss is attached by AttachLossModel");
    case LossRequest::Kind::kNone:
      return absl::InternalError("no loss is asked for");
    default:
      return Elementwise(graph, &b, request, prediction);
  }
}

}  // namespace onward
