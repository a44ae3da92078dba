#include "backend/training/config.h"

#include <algorithm>
#include <cmath>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "graph/base/errors.h"
#include "graph/base/status_macros.h"

namespace onward {
namespace {

template <typename... Parts>
absl::Status UsageError(const Parts&... parts) {
  return WithExitCode(absl::InvalidArgumentError(absl::StrCat(parts...)), ExitCode::kUsage);
}

// Lower case, without what people forget: "MSELoss" and "mse_loss" are one.
std::string Folded(absl::string_view name) {
  std::string out;
  for (char c : name) {
    if (c != '_' && c != '-' && c != ' ') out += absl::ascii_tolower(c);
  }
  return out;
}

struct LossRow {
  const char* name;
  LossKind kind;
  LossInput input;
  LabelForm labels;
};

// The first name of a kind is the one that messages suggest.
constexpr LossRow kLosses[] = {
    {"cross_entropy", LossKind::kCrossEntropy, LossInput::kAuto, LabelForm::kAuto},
    {"CrossEntropyLoss", LossKind::kCrossEntropy, LossInput::kAuto, LabelForm::kAuto},
    {"sparse_categorical_crossentropy", LossKind::kCrossEntropy, LossInput::kAuto,
     LabelForm::kInteger},
    {"categorical_crossentropy", LossKind::kCrossEntropy, LossInput::kAuto, LabelForm::kOneHot},
    {"NLLLoss", LossKind::kCrossEntropy, LossInput::kLogProbabilities, LabelForm::kInteger},
    {"nll", LossKind::kCrossEntropy, LossInput::kLogProbabilities, LabelForm::kInteger},
    {"binary_crossentropy", LossKind::kBinaryCrossEntropy, LossInput::kAuto, LabelForm::kAuto},
    {"BCELoss", LossKind::kBinaryCrossEntropy, LossInput::kProbabilities, LabelForm::kAuto},
    {"bce", LossKind::kBinaryCrossEntropy, LossInput::kAuto, LabelForm::kAuto},
    {"BCEWithLogitsLoss", LossKind::kBinaryCrossEntropy, LossInput::kLogits, LabelForm::kAuto},
    {"mean_squared_error", LossKind::kMeanSquared, LossInput::kAuto, LabelForm::kAuto},
    {"mse", LossKind::kMeanSquared, LossInput::kAuto, LabelForm::kAuto},
    {"MSELoss", LossKind::kMeanSquared, LossInput::kAuto, LabelForm::kAuto},
    {"mean_absolute_error", LossKind::kMeanAbsolute, LossInput::kAuto, LabelForm::kAuto},
    {"mae", LossKind::kMeanAbsolute, LossInput::kAuto, LabelForm::kAuto},
    {"L1Loss", LossKind::kMeanAbsolute, LossInput::kAuto, LabelForm::kAuto},
    {"huber", LossKind::kHuber, LossInput::kAuto, LabelForm::kAuto},
    {"HuberLoss", LossKind::kHuber, LossInput::kAuto, LabelForm::kAuto},
};

struct OptimizerRow {
  OptimizerKind kind;
  const char* name;
  // The defaults of Keras 3 and of PyTorch: learning rate, rho, epsilon, first
  // accumulator, weight decay.
  struct Defaults {
    double learning_rate, rho, epsilon, initial_accumulator, weight_decay;
  } keras, pytorch;
};

constexpr OptimizerRow kOptimizers[] = {
    {OptimizerKind::kSgd, "sgd", {0.01, 0, 0, 0, 0}, {1e-3, 0, 0, 0, 0}},
    {OptimizerKind::kAdam, "adam", {1e-3, 0, 1e-7, 0, 0}, {1e-3, 0, 1e-8, 0, 0}},
    {OptimizerKind::kAdamW, "adamw", {1e-3, 0, 1e-7, 0, 0.004}, {1e-3, 0, 1e-8, 0, 0.01}},
    {OptimizerKind::kRmsprop, "rmsprop", {1e-3, 0.9, 1e-7, 0, 0}, {0.01, 0.99, 1e-8, 0, 0}},
    {OptimizerKind::kAdagrad, "adagrad", {1e-3, 0, 1e-7, 0.1, 0}, {0.01, 0, 1e-10, 0, 0}},
};

// Levenshtein's distance, where swapping two neighbours is one mistake too.
size_t EditDistance(const std::string& a, const std::string& b) {
  // Rows i - 2, i - 1 and i of the table.
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    std::swap(before, last);
    std::swap(last, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, substituted});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

// "what 'text' is unknown; did you mean 'nearest'?" or the list of what there is.
absl::Status Unknown(absl::string_view what, absl::string_view text,
                     const std::vector<std::string>& names, absl::string_view listed) {
  const std::string nearest = NearestName(text, names);
  if (!nearest.empty()) {
    return UsageError(what, " '", text, "' is not known; did you mean '", nearest, "'?");
  }
  return UsageError(what, " '", text, "' is not known; there are ", listed);
}

// ---- Validate's pieces. Each names the flag first.

absl::Status Finite(absl::string_view flag, double value) {
  return std::isfinite(value) ? absl::OkStatus()
                              : UsageError(flag, " ", value, ": must be a finite number");
}

absl::Status AtLeast(absl::string_view flag, double value, double least) {
  RETURN_IF_ERROR(Finite(flag, value));
  return value >= least ? absl::OkStatus()
                        : UsageError(flag, " ", value, ": must be at least ", least);
}

absl::Status Positive(absl::string_view flag, double value) {
  RETURN_IF_ERROR(Finite(flag, value));
  return value > 0 ? absl::OkStatus() : UsageError(flag, " ", value, ": must be more than 0");
}

// In [0, 1).
absl::Status Share(absl::string_view flag, double value) {
  return value >= 0 && value < 1 ? absl::OkStatus()
                                 : UsageError(flag, " ", value, ": must be at least 0 and below 1");
}

// Whether these files may carry labels of their own. What a file is is told when it is
// read; an .npy is one array, and files for several inputs have no room for labels.
bool MayHoldLabels(const std::vector<NamedFile>& files) {
  for (const NamedFile& file : files) {
    const bool array = absl::EndsWithIgnoreCase(file.path, ".npy") ||
                       absl::EndsWithIgnoreCase(file.path, ".npy.gz");
    const bool joined = file.name.empty() || file.name == files[0].name;
    if (array || !joined) return false;
  }
  return !files.empty();
}

absl::Status CheckData(const RunConfig& c, Command command) {
  const bool reads_data =
      command == Command::kTrain || command == Command::kEvaluate || command == Command::kPredict;
  if (reads_data && c.data.empty()) {
    return UsageError("--data is missing: ", Name(command), " needs the data files of the ",
                      "model's inputs, as --data FILE or --data NAME=FILE,NAME=FILE");
  }
  RETURN_IF_ERROR(Share("--validation-split", c.validation_split));
  if (c.validation_split > 0 && !c.validation_data.empty()) {
    return UsageError("--validation-split and --validation-data exclude each other: is the ",
                      "validation data a part of --data, or in files of its own?");
  }
  if (c.validation_data.empty() && !c.validation_labels.empty()) {
    return UsageError("--validation-labels without --validation-data");
  }
  if (!c.validation_data.empty() && !c.labels.empty() && c.validation_labels.empty() &&
      !MayHoldLabels(c.validation_data)) {
    return UsageError("--validation-labels is missing: training has --labels; ", kOwnLabelsAdvice);
  }
  const absl::StatusOr<double> rescale = ParseRescale(c.rescale);
  if (!rescale.ok()) return Annotate(rescale.status(), "--rescale");
  for (const auto& [name, size] : c.dims) {
    if (name.empty() || size < 1) {
      return UsageError("--dim ", name, "=", size, ": expected NAME=SIZE with a size of 1 or more");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckLoss(const RunConfig& c, Command command) {
  const LossConfig& loss = c.loss;
  if (loss.kind == LossKind::kNone && (command == Command::kTrain || command == Command::kPlan)) {
    return UsageError("--loss is missing: for example --loss cross_entropy for classes, --loss ",
                      "mse for numbers, or --loss output:NAME for a loss inside the model");
  }
  if (loss.kind == LossKind::kNone && command == Command::kEvaluate && c.metrics.empty()) {
    return UsageError("evaluate needs --loss or --metrics");
  }
  const bool cross_entropy =
      loss.kind == LossKind::kCrossEntropy || loss.kind == LossKind::kBinaryCrossEntropy;
  RETURN_IF_ERROR(Share("--label-smoothing", loss.label_smoothing));
  if (loss.label_smoothing > 0 && !cross_entropy) {
    return UsageError("--label-smoothing goes with a cross-entropy, not with --loss ", loss.name);
  }
  if (!loss.class_weights.empty() && loss.kind != LossKind::kCrossEntropy) {
    return UsageError("--class-weights goes with a cross-entropy over classes, not with --loss ",
                      loss.name);
  }
  for (double weight : loss.class_weights) RETURN_IF_ERROR(AtLeast("--class-weights", weight, 0));
  if (loss.ignore_index.has_value() && loss.kind != LossKind::kCrossEntropy) {
    return UsageError("--ignore-index goes with a cross-entropy over classes, not with --loss ",
                      loss.name);
  }
  if (loss.input != LossInput::kAuto && !cross_entropy && loss.kind != LossKind::kNone) {
    return UsageError("--loss-input goes with a cross-entropy, not with --loss ", loss.name);
  }
  RETURN_IF_ERROR(Positive("--huber-delta", loss.huber_delta));
  const bool needs_labels = loss.kind != LossKind::kNone && loss.kind != LossKind::kModelOutput &&
                            loss.kind != LossKind::kModelFile;
  if (c.labels.empty() && (needs_labels || !c.metrics.empty()) &&
      (command == Command::kTrain || command == Command::kEvaluate)) {
    if (!MayHoldLabels(c.data)) {
      return UsageError(
          "--labels is missing: ", needs_labels ? absl::StrCat("--loss ", loss.name) : "--metrics",
          " compares with labels; ", kOwnLabelsAdvice);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckOptimizer(const RunConfig& c) {
  const OptimizerConfig o = ResolveOptimizer(c.optimizer);
  RETURN_IF_ERROR(AtLeast("--learning-rate", *o.learning_rate, 0));
  RETURN_IF_ERROR(Share("--momentum", o.momentum));
  if (o.momentum > 0 && o.kind != OptimizerKind::kSgd && o.kind != OptimizerKind::kRmsprop) {
    return UsageError("--momentum goes with sgd and rmsprop, not with --optimizer ", Name(o.kind),
                      o.kind == OptimizerKind::kAdagrad ? "" : " (whose own is --beta-1)");
  }
  if (o.nesterov && (o.kind != OptimizerKind::kSgd || o.momentum == 0)) {
    return UsageError("--nesterov goes with --optimizer sgd and a --momentum above 0");
  }
  RETURN_IF_ERROR(Share("--beta-1", o.beta_1));
  RETURN_IF_ERROR(Share("--beta-2", o.beta_2));
  RETURN_IF_ERROR(Share("--rho", *o.rho));
  if (o.kind != OptimizerKind::kSgd) RETURN_IF_ERROR(Positive("--epsilon", *o.epsilon));
  RETURN_IF_ERROR(AtLeast("--initial-accumulator", *o.initial_accumulator, 0));
  RETURN_IF_ERROR(AtLeast("--weight-decay", *o.weight_decay, 0));
  RETURN_IF_ERROR(AtLeast("--clip-norm", o.clip_norm, 0));
  RETURN_IF_ERROR(AtLeast("--clip-value", o.clip_value, 0));

  const ScheduleConfig& s = c.schedule;
  RETURN_IF_ERROR(AtLeast("--warmup-steps", s.warmup_steps, 0));
  RETURN_IF_ERROR(AtLeast("--decay-steps", s.decay_steps, 0));
  if (s.kind == ScheduleKind::kStep && s.decay_steps == 0) {
    return UsageError("--schedule step needs --decay-steps: the steps between two drops");
  }
  if (!(s.decay_factor > 0 && s.decay_factor <= 1)) {
    return UsageError("--decay-factor ", s.decay_factor, ": must be above 0 and at most 1");
  }
  return AtLeast("--final-learning-rate", s.final_learning_rate, 0);
}

absl::Status CheckDump(const RunConfig& c) {
  std::vector<std::string> names = StageNames();
  names.push_back("all");
  for (const std::string& stage : c.dump) {
    if (absl::c_linear_search(names, stage)) continue;
    return Unknown("--dump: stage", stage, names, absl::StrJoin(names, ", "));
  }
  return absl::OkStatus();
}

absl::Status CheckRun(const RunConfig& c) {
  RETURN_IF_ERROR(AtLeast("--epochs", c.epochs, 1));
  RETURN_IF_ERROR(AtLeast("--steps", c.steps, 0));
  RETURN_IF_ERROR(AtLeast("--batch-size", c.batch_size, 1));
  RETURN_IF_ERROR(AtLeast("--accumulate", c.accumulate, 1));
  RETURN_IF_ERROR(AtLeast("--threads", c.threads, 0));
  RETURN_IF_ERROR(AtLeast("--shards", c.shards, 0));
  if (c.shards > 0 && c.devices.size() > static_cast<size_t>(c.shards)) {
    return UsageError("--shards ", c.shards, " is less than the ", c.devices.size(),
                      " devices: a device runs one shard or more");
  }
  RETURN_IF_ERROR(Positive("--bucket-mb", c.bucket_mb));
  if (!c.freeze.empty() && !c.train_only.empty()) {
    return UsageError("--freeze and --train-only exclude each other");
  }
  return absl::OkStatus();
}

absl::Status CheckCallbacks(const RunConfig& c) {
  RETURN_IF_ERROR(AtLeast("--min-delta", c.min_delta.value_or(0), 0));
  RETURN_IF_ERROR(AtLeast("--reduce-lr-min-delta", c.reduce_lr_min_delta.value_or(0), 0));
  RETURN_IF_ERROR(AtLeast("--patience", c.patience, 0));
  RETURN_IF_ERROR(AtLeast("--reduce-lr-patience", c.reduce_lr_patience, 0));
  RETURN_IF_ERROR(AtLeast("--min-learning-rate", c.min_learning_rate, 0));
  if (!(c.reduce_lr_factor > 0 && c.reduce_lr_factor < 1)) {
    return UsageError("--reduce-lr-factor ", c.reduce_lr_factor, ": must be above 0 and below 1");
  }
  const bool validates = !c.validation_data.empty() || c.validation_split > 0;
  if (absl::StartsWith(c.monitor, "val_") && !validates) {
    return UsageError("--monitor ", c.monitor,
                      " needs validation data: --validation-data or --validation-split");
  }
  RETURN_IF_ERROR(AtLeast("--save-every", c.save_every, 0));
  RETURN_IF_ERROR(AtLeast("--keep", c.keep, 0));
  if (c.checkpoint_dir.empty()) {
    if (c.save_every > 0) return UsageError("--save-every needs --checkpoint-dir");
    if (c.resume == ResumeMode::kAuto || c.resume == ResumeMode::kLatest) {
      return UsageError("--resume needs --checkpoint-dir, where it looks for the newest one");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::string_view Name(Command command) {
  switch (command) {
    case Command::kTrain:
      return "train";
    case Command::kEvaluate:
      return "evaluate";
    case Command::kPredict:
      return "predict";
    case Command::kInspect:
      return "inspect";
    case Command::kPlan:
      return "plan";
    case Command::kExport:
      return "export";
  }
  ONWARD_CHECK(false);
}

const std::vector<Command>& AllCommands() {
  static const auto* const commands =
      new std::vector<Command>{Command::kTrain,   Command::kEvaluate, Command::kPredict,
                               Command::kInspect, Command::kPlan,     Command::kExport};
  return *commands;
}

absl::StatusOr<LossConfig> ParseLoss(absl::string_view text) {
  LossConfig loss;
  loss.name = std::string(text);
  if (absl::StartsWith(text, "output:")) {
    loss.kind = LossKind::kModelOutput;
    loss.target = std::string(text.substr(7));
    if (loss.target.empty()) {
      return UsageError("loss 'output:' lacks the name of the model's output");
    }
    return loss;
  }
  if (absl::EndsWithIgnoreCase(text, ".onnx")) {
    loss.kind = LossKind::kModelFile;
    loss.target = std::string(text);
    return loss;
  }
  std::vector<std::string> names;
  for (const LossRow& row : kLosses) {
    if (Folded(row.name) == Folded(text)) {
      loss.kind = row.kind;
      loss.input = row.input;
      loss.labels = row.labels;
      return loss;
    }
    names.push_back(row.name);
  }
  return Unknown("loss", text, names,
                 "cross_entropy, binary_crossentropy, mse, mae, huber (with Keras' and PyTorch's "
                 "names for them), output:NAME and FILE.onnx");
}

absl::StatusOr<OptimizerKind> ParseOptimizer(absl::string_view text) {
  std::vector<std::string> names;
  for (const OptimizerRow& row : kOptimizers) {
    if (Folded(row.name) == Folded(text)) return row.kind;
    names.push_back(row.name);
  }
  return Unknown("optimizer", text, names, "sgd, adam, adamw, rmsprop and adagrad");
}

absl::string_view Name(OptimizerKind kind) {
  for (const OptimizerRow& row : kOptimizers) {
    if (row.kind == kind) return row.name;
  }
  ONWARD_CHECK(false);
}

OptimizerConfig ResolveOptimizer(OptimizerConfig config) {
  for (const OptimizerRow& row : kOptimizers) {
    if (row.kind != config.kind) continue;
    const OptimizerRow::Defaults& d =
        config.form == OptimizerForm::kKeras ? row.keras : row.pytorch;
    config.learning_rate = config.learning_rate.value_or(d.learning_rate);
    config.rho = config.rho.value_or(d.rho);
    config.epsilon = config.epsilon.value_or(d.epsilon);
    config.initial_accumulator = config.initial_accumulator.value_or(d.initial_accumulator);
    config.weight_decay = config.weight_decay.value_or(d.weight_decay);
  }
  return config;
}

absl::StatusOr<MetricConfig> ParseMetric(absl::string_view text) {
  const std::string folded = Folded(text);
  for (const char* name :
       {"accuracy", "acc", "sparsecategoricalaccuracy", "categoricalaccuracy", "binaryaccuracy"}) {
    if (folded == name) return MetricConfig{MetricKind::kAccuracy, 1, "accuracy"};
  }
  for (const char* name : {"mae", "meanabsoluteerror"}) {
    if (folded == name) return MetricConfig{MetricKind::kMeanAbsolute, 1, "mae"};
  }
  for (const char* name : {"mse", "meansquarederror"}) {
    if (folded == name) return MetricConfig{MetricKind::kMeanSquared, 1, "mse"};
  }
  if (folded == "topkcategoricalaccuracy" || folded == "sparsetopkcategoricalaccuracy") {
    return MetricConfig{MetricKind::kTopK, 5, "top_5_accuracy"};
  }
  // top5, top_5, top-5-accuracy
  absl::string_view digits = folded;
  int k = 0;
  if (absl::ConsumePrefix(&digits, "top")) {
    absl::ConsumeSuffix(&digits, "accuracy");
    if (absl::SimpleAtoi(digits, &k) && k >= 1) {
      return MetricConfig{MetricKind::kTopK, k, absl::StrCat("top_", k, "_accuracy")};
    }
  }
  return Unknown("metric", text, {"accuracy", "top_5_accuracy", "mae", "mse"},
                 "accuracy, top_K_accuracy (K a number), mae and mse; the loss is always shown");
}

absl::StatusOr<double> ParseRescale(absl::string_view text) {
  const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits('/', 1));
  double value = 0;
  double divisor = 1;
  if (!absl::SimpleAtod(parts[0], &value) ||
      (parts.size() == 2 && !absl::SimpleAtod(parts[1], &divisor))) {
    return UsageError("'", text, "' is neither a number nor a ratio such as 1/255");
  }
  value /= divisor;
  if (!std::isfinite(value) || value == 0) {
    return UsageError("'", text, "' must be finite and not 0");
  }
  return value;
}

const std::vector<std::string>& StageNames() {
  static const auto* const names =
      new std::vector<std::string>{"import",     "training", "loss",       "gradients", "optimizer",
                                   "simplified", "fused",    "replicated", "plan"};
  return *names;
}

absl::Status Validate(const RunConfig& config, Command command) {
  if (config.model.empty()) {
    return UsageError("which model? onward ", Name(command), " MODEL.onnx ...");
  }
  RETURN_IF_ERROR(CheckData(config, command));
  RETURN_IF_ERROR(CheckLoss(config, command));
  RETURN_IF_ERROR(CheckOptimizer(config));
  RETURN_IF_ERROR(CheckRun(config));
  RETURN_IF_ERROR(CheckCallbacks(config));
  RETURN_IF_ERROR(CheckDump(config));
  if (command == Command::kPredict || command == Command::kExport) {
    if (config.output.empty()) {
      return UsageError("--output is missing: where shall ", Name(command), " write to?");
    }
  }
  if (command == Command::kExport && config.checkpoint.empty() && config.checkpoint_dir.empty()) {
    return UsageError("export needs --checkpoint, or --checkpoint-dir for the newest one there");
  }
  if (!config.output.empty() && config.output == config.model) {
    return UsageError("--output ", config.output,
                      " is the model itself, which is never written over; name another file");
  }
  return absl::OkStatus();
}

std::string NearestName(absl::string_view name, const std::vector<std::string>& names) {
  const std::string folded = Folded(name);
  if (folded.empty()) return "";
  std::string best;
  size_t best_distance = 0;
  for (const std::string& candidate : names) {
    const std::string other = Folded(candidate);
    size_t distance = EditDistance(folded, other);
    // A beginning (or an end) of a name is near, however much is missing.
    if (folded.size() >= 3 && (absl::StartsWith(other, folded) || absl::EndsWith(other, folded))) {
      distance = std::min<size_t>(distance, 1);
    }
    if (distance > std::max<size_t>(1, std::min(folded.size(), other.size()) / 3)) continue;
    if (best.empty() || distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace onward
