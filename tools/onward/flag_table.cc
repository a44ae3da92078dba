#include "tools/onward/flag_table.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "graph/base/status_macros.h"

namespace onward {
namespace {

using Values = std::vector<std::string>;

constexpr unsigned Bit(Command command) { return 1U << static_cast<int>(command); }
constexpr unsigned kTrain = Bit(Command::kTrain);
constexpr unsigned kEvaluate = Bit(Command::kEvaluate);
constexpr unsigned kPredict = Bit(Command::kPredict);
constexpr unsigned kInspect = Bit(Command::kInspect);
constexpr unsigned kPlan = Bit(Command::kPlan);
constexpr unsigned kExport = Bit(Command::kExport);
constexpr unsigned kTrains = kTrain | kPlan;
constexpr unsigned kMeasures = kTrain | kPlan | kEvaluate;
constexpr unsigned kRuns = kMeasures | kPredict;
constexpr unsigned kAll = kRuns | kInspect | kExport;

// A flag without its accessors.
struct Row {
  const char* name;
  const char* placeholder;
  const char* group;
  unsigned commands;
  const char* help;
};

// ---- text to value and back

template <typename... Parts>
absl::Status BadValue(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

absl::Status Parse(const std::string& text, double* value) {
  if (!absl::SimpleAtod(text, value)) return BadValue("'", text, "' is not a number");
  return absl::OkStatus();
}

absl::Status Parse(const std::string& text, bool* value) {
  const std::string lower = absl::AsciiStrToLower(text);
  *value = lower == "true" || lower == "yes" || lower == "on";
  if (*value || lower == "false" || lower == "no" || lower == "off") return absl::OkStatus();
  return BadValue("'", text, "' is neither true nor false");
}

absl::Status Parse(const std::string& text, std::string* value) {
  if (text.empty()) return BadValue("the value is empty");
  *value = text;
  return absl::OkStatus();
}

template <typename Integer>
absl::Status ParseInteger(const std::string& text, Integer* value) {
  if (!absl::SimpleAtoi(text, value)) return BadValue("'", text, "' is not a whole number");
  return absl::OkStatus();
}
absl::Status Parse(const std::string& text, int* value) { return ParseInteger(text, value); }
absl::Status Parse(const std::string& text, int64_t* value) { return ParseInteger(text, value); }
absl::Status Parse(const std::string& text, uint64_t* value) { return ParseInteger(text, value); }

// The shortest text that reads back as the same number.
std::string Print(double value) {
  char buffer[32];
  const auto result = std::to_chars(buffer, buffer + sizeof(buffer), value);
  return std::string(buffer, result.ptr);
}
std::string Print(bool value) { return value ? "true" : "false"; }
std::string Print(const std::string& value) { return value; }
std::string Print(int value) { return absl::StrCat(value); }
std::string Print(int64_t value) { return absl::StrCat(value); }
std::string Print(uint64_t value) { return absl::StrCat(value); }

// Values given in several flags, in one with commas, or both.
Values SplitList(const Values& values) {
  Values out;
  for (const std::string& value : values) {
    for (absl::string_view part : absl::StrSplit(value, ',')) {
      out.emplace_back(absl::StripAsciiWhitespace(part));
    }
  }
  return out;
}

// ---- makers of flags

Flag MakeFlag(const Row& row, bool repeatable) {
  return {row.name,     row.placeholder, repeatable, row.group,
          row.commands, row.help,        nullptr,    nullptr};
}

// A field of one value. `field` gives a reference to it; one of text that is empty
// counts as not given.
template <typename Field>
Flag Single(const Row& row, Field field) {
  using T = std::decay_t<decltype(field(std::declval<RunConfig&>()))>;
  Flag flag = MakeFlag(row, false);
  flag.set = [field](const Values& values, RunConfig* config) {
    return Parse(values.back(), &field(*config));
  };
  flag.get = [field](RunConfig config) -> Values {
    std::string text = Print(field(config));
    if (std::is_same_v<T, std::string> && text.empty()) return {};
    return {std::move(text)};
  };
  return flag;
}

// A std::optional number. `matters` says when its default is worth printing.
template <typename Field>
Flag Optional(const Row& row, Field field, bool (*matters)(const RunConfig&)) {
  using T = typename std::decay_t<decltype(field(std::declval<RunConfig&>()))>::value_type;
  Flag flag = MakeFlag(row, false);
  flag.set = [field](const Values& values, RunConfig* config) {
    T value;
    RETURN_IF_ERROR(Parse(values.back(), &value));
    field(*config) = value;
    return absl::OkStatus();
  };
  flag.get = [field, matters](RunConfig config) -> Values {
    const bool given = field(config).has_value();
    if (!given && !matters(config)) return {};
    config.optimizer = ResolveOptimizer(config.optimizer);
    if (!field(config).has_value()) return {};
    return {Print(*field(config))};
  };
  return flag;
}

// A list of texts or numbers.
template <typename Field>
Flag List(const Row& row, Field field) {
  using T = typename std::decay_t<decltype(field(std::declval<RunConfig&>()))>::value_type;
  Flag flag = MakeFlag(row, true);
  flag.set = [field](const Values& values, RunConfig* config) {
    std::vector<T> list;
    for (const std::string& text : SplitList(values)) {
      T value;
      RETURN_IF_ERROR(Parse(text, &value));
      list.push_back(value);
    }
    field(*config) = std::move(list);
    return absl::OkStatus();
  };
  flag.get = [field](RunConfig config) {
    Values out;
    for (const T& value : field(config)) out.push_back(Print(value));
    return out;
  };
  return flag;
}

// Files, each with or without "NAME=". "=FILE" is a file without a name whose path
// has a '='.
template <typename Field>
Flag Files(const Row& row, Field field) {
  Flag flag = MakeFlag(row, true);
  flag.set = [field](const Values& values, RunConfig* config) {
    std::vector<NamedFile> files;
    for (const std::string& text : SplitList(values)) {
      const size_t equals = text.find('=');
      NamedFile file;
      if (equals != std::string::npos) file.name = text.substr(0, equals);
      file.path = equals == std::string::npos ? text : text.substr(equals + 1);
      if (file.path.empty()) return BadValue("'", text, "' names no file");
      files.push_back(std::move(file));
    }
    field(*config) = std::move(files);
    return absl::OkStatus();
  };
  flag.get = [field](RunConfig config) {
    Values out;
    for (const NamedFile& file : field(config)) {
      const bool plain = file.name.empty() && file.path.find('=') == std::string::npos;
      out.push_back(plain ? file.path : absl::StrCat(file.name, "=", file.path));
    }
    return out;
  };
  return flag;
}

template <typename Enum>
using Names = std::vector<std::pair<const char*, Enum>>;

// One of a few words.
template <typename Field, typename Enum>
Flag Choice(const Row& row, Field field, Names<Enum> names) {
  Flag flag = MakeFlag(row, false);
  flag.set = [field, names](const Values& values, RunConfig* config) -> absl::Status {
    std::vector<std::string> words;
    for (const auto& [name, value] : names) {
      if (values.back() == name) {
        field(*config) = value;
        return absl::OkStatus();
      }
      words.push_back(name);
    }
    const std::string nearest = NearestName(values.back(), words);
    return BadValue("'", values.back(), "' is none of ", absl::StrJoin(words, ", "),
                    nearest.empty() ? "" : absl::StrCat("; did you mean '", nearest, "'?"));
  };
  flag.get = [field, names](RunConfig config) -> Values {
    for (const auto& [name, value] : names) {
      if (field(config) == value) return {name};
    }
    return {};
  };
  return flag;
}

Flag Custom(const Row& row, bool repeatable,
            std::function<absl::Status(const Values&, RunConfig*)> set,
            std::function<Values(const RunConfig&)> get) {
  Flag flag = MakeFlag(row, repeatable);
  flag.set = std::move(set);
  flag.get = std::move(get);
  return flag;
}

#define FIELD(path) \
  [](RunConfig & c) -> auto& { return c.path; }

constexpr char kData[] = "Data";
constexpr char kLearning[] = "What is learnt";
constexpr char kOptimizer[] = "Optimizer";
constexpr char kRun[] = "Run";
constexpr char kDevices[] = "Devices";
constexpr char kCallbacks[] = "Callbacks";
constexpr char kCheckpoints[] = "Checkpoints";
constexpr char kOutput[] = "Output";

bool Always(const RunConfig&) { return true; }
bool Never(const RunConfig&) { return false; }
bool IsRmsprop(const RunConfig& c) { return c.optimizer.kind == OptimizerKind::kRmsprop; }
bool IsAdagrad(const RunConfig& c) { return c.optimizer.kind == OptimizerKind::kAdagrad; }
bool HasEpsilon(const RunConfig& c) { return c.optimizer.kind != OptimizerKind::kSgd; }

// ---- flags with a form of their own

absl::Status SetDims(const Values& values, RunConfig* config) {
  std::vector<std::pair<std::string, int64_t>> dims;
  for (const std::string& text : SplitList(values)) {
    const size_t equals = text.rfind('=');
    int64_t size = 0;
    if (equals == std::string::npos || equals == 0 ||
        !absl::SimpleAtoi(text.substr(equals + 1), &size)) {
      return BadValue("'", text, "' is not NAME=SIZE, for example batch=32");
    }
    dims.emplace_back(text.substr(0, equals), size);
  }
  config->dims = std::move(dims);
  return absl::OkStatus();
}

Values GetDims(const RunConfig& config) {
  Values out;
  for (const auto& [name, size] : config.dims) out.push_back(absl::StrCat(name, "=", size));
  return out;
}

absl::Status SetRescale(const Values& values, RunConfig* config) {
  RETURN_IF_ERROR(ParseRescale(values.back()).status());
  config->rescale = values.back();
  return absl::OkStatus();
}

// Leaves the numbers beside the loss (smoothing, weights) as they are.
absl::Status SetLoss(const Values& values, RunConfig* config) {
  ASSIGN_OR_RETURN(LossConfig loss, ParseLoss(values.back()));
  loss.huber_delta = config->loss.huber_delta;
  loss.label_smoothing = config->loss.label_smoothing;
  loss.class_weights = config->loss.class_weights;
  loss.ignore_index = config->loss.ignore_index;
  config->loss = std::move(loss);
  return absl::OkStatus();
}

Values GetLoss(const RunConfig& config) {
  if (config.loss.kind == LossKind::kNone) return {};
  return {config.loss.name};
}

absl::Status SetMetrics(const Values& values, RunConfig* config) {
  std::vector<MetricConfig> metrics;
  for (const std::string& text : SplitList(values)) {
    ASSIGN_OR_RETURN(MetricConfig metric, ParseMetric(text));
    metrics.push_back(std::move(metric));
  }
  config->metrics = std::move(metrics);
  return absl::OkStatus();
}

Values GetMetrics(const RunConfig& config) {
  Values out;
  for (const MetricConfig& metric : config.metrics) out.push_back(metric.name);
  return out;
}

absl::Status SetOptimizer(const Values& values, RunConfig* config) {
  ASSIGN_OR_RETURN(config->optimizer.kind, ParseOptimizer(values.back()));
  return absl::OkStatus();
}

Values GetOptimizer(const RunConfig& config) { return {std::string(Name(config.optimizer.kind))}; }

absl::Status SetDevices(const Values& values, RunConfig* config) {
  const std::string text = absl::StrJoin(SplitList(values), ",");
  config->devices.clear();
  if (text == "auto") return absl::OkStatus();
  ASSIGN_OR_RETURN(config->devices, ParseDevices(text));
  return absl::OkStatus();
}

Values GetDevices(const RunConfig& config) {
  if (config.devices.empty()) return {"auto"};
  Values out;
  for (const Device& device : config.devices) out.push_back(ToString(device));
  return out;
}

absl::Status SetResume(const Values& values, RunConfig* config) {
  const std::string& text = values.back();
  if (text.empty()) return BadValue("the value is empty");
  config->resume_path.clear();
  if (text == "never") {
    config->resume = ResumeMode::kNever;
  } else if (text == "auto") {
    config->resume = ResumeMode::kAuto;
  } else if (text == "latest") {
    config->resume = ResumeMode::kLatest;
  } else {
    config->resume = ResumeMode::kPath;
    config->resume_path = text;
  }
  return absl::OkStatus();
}

Values GetResume(const RunConfig& config) {
  switch (config.resume) {
    case ResumeMode::kNever:
      return {"never"};
    case ResumeMode::kAuto:
      return {"auto"};
    case ResumeMode::kLatest:
      return {"latest"};
    case ResumeMode::kPath:
      return {config.resume_path};
  }
  return {};
}

// ---- the table, a group at a time

void AddDataFlags(std::vector<Flag>* flags) {
  const Names<ImageChannels> channels = {{"auto", ImageChannels::kAuto},
                                         {"first", ImageChannels::kFirst},
                                         {"last", ImageChannels::kLast}};
  flags->insert(
      flags->end(),
      {
          Files({"data", "[NAME=]FILE", kData, kRuns,
                 "Inputs: .npy, .npz, IDX, CIFAR-10 or .csv, also gzipped. NAME is the model's "
                 "input; files without a name are joined"},
                FIELD(data)),
          Files({"labels", "[NAME=]FILE", kData, kMeasures, "Labels, in the same formats"},
                FIELD(labels)),
          Files({"validation-data", "[NAME=]FILE", kData, kTrains,
                 "Inputs that are measured after every epoch and never trained on"},
                FIELD(validation_data)),
          Files({"validation-labels", "[NAME=]FILE", kData, kTrains, "Their labels"},
                FIELD(validation_labels)),
          Single({"validation-split", "SHARE", kData, kTrains,
                  "Set the last SHARE (0.1: a tenth) of the data aside for validation"},
                 FIELD(validation_split)),
          Custom({"rescale", "FACTOR", kData, kRuns,
                  "Multiply floating-point inputs by FACTOR, for example 1/255"},
                 false, SetRescale, [](const RunConfig& c) { return Values{c.rescale}; }),
          Single({"standardize", "", kData, kRuns,
                  "Bring floating-point inputs to mean 0 and deviation 1"},
                 FIELD(standardize)),
          Single({"shuffle", "", kData, kTrains, "A new order of samples in every epoch (default)"},
                 FIELD(shuffle)),
          Choice({"channels", "PLACE", kData, kRuns,
                  "Where the data's images have their channels: first, last, or auto: told from "
                  "the extents (default)"},
                 FIELD(channels), channels),
          Single({"allow-nan", "", kData, kRuns, "NaN and infinity in the data are no errors"},
                 FIELD(allow_nan)),
          Single({"drop-last", "", kData, kTrains,
                  "Leave out an epoch's last batch where it is smaller"},
                 FIELD(drop_last)),
          Custom({"dim", "NAME=SIZE", kData, kAll & ~kExport,
                  "Size of a symbolic dimension of the model that the data does not give"},
                 true, SetDims, GetDims),
      });
}

void AddLearningFlags(std::vector<Flag>* flags) {
  const Names<LossInput> inputs = {{"auto", LossInput::kAuto},
                                   {"logits", LossInput::kLogits},
                                   {"probabilities", LossInput::kProbabilities},
                                   {"log-probabilities", LossInput::kLogProbabilities}};
  flags->insert(
      flags->end(),
      {
          Custom({"loss", "NAME", kLearning, kMeasures,
                  "cross_entropy, binary_crossentropy, mse, mae, huber, or Keras' or PyTorch's "
                  "name; output:NAME for an output of the model; FILE.onnx"},
                 false, SetLoss, GetLoss),
          Choice({"loss-input", "FORM", kLearning, kMeasures,
                  "What a cross-entropy takes: logits, probabilities, log-probabilities, or auto: "
                  "told from the end of the model (default)"},
                 FIELD(loss.input), inputs),
          Single({"label-smoothing", "SHARE", kLearning, kMeasures,
                  "Share of each label that is spread over all classes"},
                 FIELD(loss.label_smoothing)),
          List({"class-weights", "W,W,...", kLearning, kMeasures, "One weight per class"},
               FIELD(loss.class_weights)),
          Optional({"ignore-index", "LABEL", kLearning, kMeasures,
                    "Integer label that counts for nothing (PyTorch's is -100)"},
                   FIELD(loss.ignore_index), Never),
          Single({"huber-delta", "DELTA", kLearning, kMeasures,
                  "Where huber turns from square to line (default 1)"},
                 FIELD(loss.huber_delta)),
          Custom({"metrics", "NAME,...", kLearning, kMeasures,
                  "accuracy, top_5_accuracy (any number), mae, mse"},
                 true, SetMetrics, GetMetrics),
          Single({"prediction", "NAME", kLearning, kRuns,
                  "The model's output that loss and metrics read, where it has several"},
                 FIELD(prediction)),
          List({"freeze", "PATTERN,...", kLearning, kTrains | kInspect,
                "Parameters that do not train, by name; * and ? stand for any text and letter"},
               FIELD(freeze)),
          List({"train-only", "PATTERN,...", kLearning, kTrains | kInspect,
                "The only parameters that train"},
               FIELD(train_only)),
          List({"untie", "PATTERN,...", kLearning, kTrains | kInspect,
                "Shared initializers that get one copy per use"},
               FIELD(untie)),
          List({"keep-tied", "PATTERN,...", kLearning, kTrains | kInspect,
                "Shared initializers that stay one parameter"},
               FIELD(keep_tied)),
          List({"also-train", "PATTERN,...", kLearning, kTrains | kInspect,
                "Initializers that train although they look like constants"},
               FIELD(also_train)),
          Single({"restore-biases", "", kLearning, kTrains | kInspect,
                  "Give back the all-zero biases that an exporter dropped"},
                 FIELD(restore_biases)),
      });
}

void AddOptimizerFlags(std::vector<Flag>* flags) {
  const Names<OptimizerForm> forms = {{"keras", OptimizerForm::kKeras},
                                      {"pytorch", OptimizerForm::kPyTorch}};
  const Names<ScheduleKind> schedules = {{"constant", ScheduleKind::kConstant},
                                         {"step", ScheduleKind::kStep},
                                         {"cosine", ScheduleKind::kCosine},
                                         {"linear", ScheduleKind::kLinear}};
  flags->insert(
      flags->end(),
      {
          Custom({"optimizer", "NAME", kOptimizer, kTrains,
                  "sgd (default), adam, adamw, rmsprop or adagrad"},
                 false, SetOptimizer, GetOptimizer),
          Choice({"optimizer-form", "FORM", kOptimizer, kTrains,
                  "Whose formulas and defaults: keras (default) or pytorch"},
                 FIELD(optimizer.form), forms),
          Optional({"learning-rate", "RATE", kOptimizer, kTrains,
                    "Learning rate (default: 0.001; sgd 0.01)"},
                   FIELD(optimizer.learning_rate), Always),
          Single({"momentum", "SHARE", kOptimizer, kTrains, "Momentum of sgd and rmsprop"},
                 FIELD(optimizer.momentum)),
          Single({"nesterov", "", kOptimizer, kTrains, "Nesterov's momentum, for sgd"},
                 FIELD(optimizer.nesterov)),
          Single({"beta-1", "SHARE", kOptimizer, kTrains, "First moment's decay (default 0.9)"},
                 FIELD(optimizer.beta_1)),
          Single({"beta-2", "SHARE", kOptimizer, kTrains, "Second moment's decay (default 0.999)"},
                 FIELD(optimizer.beta_2)),
          Optional({"rho", "SHARE", kOptimizer, kTrains, "rmsprop's decay"}, FIELD(optimizer.rho),
                   IsRmsprop),
          Optional({"epsilon", "NUMBER", kOptimizer, kTrains,
                    "Number that keeps the division finite (default 1e-7)"},
                   FIELD(optimizer.epsilon), HasEpsilon),
          Optional({"initial-accumulator", "NUMBER", kOptimizer, kTrains,
                    "Where adagrad's sums of squares begin"},
                   FIELD(optimizer.initial_accumulator), IsAdagrad),
          Optional({"weight-decay", "RATE", kOptimizer, kTrains,
                    "Weight decay (default 0; adamw 0.004)"},
                   FIELD(optimizer.weight_decay), Always),
          Single({"clip-norm", "NORM", kOptimizer, kTrains,
                  "Scale all gradients so that their common norm is at most NORM"},
                 FIELD(optimizer.clip_norm)),
          Single({"clip-value", "NUMBER", kOptimizer, kTrains,
                  "Cut every gradient to [-NUMBER, NUMBER]"},
                 FIELD(optimizer.clip_value)),
          Choice({"schedule", "NAME", kOptimizer, kTrain,
                  "Learning rate over time: constant (default), step, cosine or linear"},
                 FIELD(schedule.kind), schedules),
          Single({"warmup-steps", "N", kOptimizer, kTrain, "Climb to the rate over N steps"},
                 FIELD(schedule.warmup_steps)),
          Single({"decay-steps", "N", kOptimizer, kTrain,
                  "step: steps between drops; cosine, linear: length (default: the whole run)"},
                 FIELD(schedule.decay_steps)),
          Single({"decay-factor", "FACTOR", kOptimizer, kTrain,
                  "step: what each drop multiplies the rate by (default 0.1)"},
                 FIELD(schedule.decay_factor)),
          Single({"final-learning-rate", "RATE", kOptimizer, kTrain,
                  "cosine, linear: the rate at the end (default 0)"},
                 FIELD(schedule.final_learning_rate)),
      });
}

void AddRunFlags(std::vector<Flag>* flags) {
  flags->insert(
      flags->end(),
      {
          Single({"epochs", "N", kRun, kTrain, "Passes over the data (default 1)"}, FIELD(epochs)),
          Single({"steps", "N", kRun, kTrain, "Stop after N steps, wherever in an epoch"},
                 FIELD(steps)),
          Single({"batch-size", "N", kRun, kRuns,
                  "Samples per batch over all devices together (default 32)"},
                 FIELD(batch_size)),
          Single({"accumulate", "N", kRun, kTrains, "Batches per optimizer step (default 1)"},
                 FIELD(accumulate)),
          Single({"seed", "N", kRun, kTrains, "Seed of shuffling and dropout (default 0)"},
                 FIELD(seed)),
          Custom({"devices", "LIST", kDevices, kRuns,
                  "cpu:0,cpu:1,... or auto (default): chosen, and printed"},
                 true, SetDevices, GetDevices),
          Single({"threads", "N", kDevices, kRuns,
                  "Threads of all devices together (default 0: one per core)"},
                 FIELD(threads)),
          Single({"shards", "N", kDevices, kTrains,
                  "Cut the batch into N shards: then the result depends, bit for bit, neither on "
                  "the number of devices nor of threads"},
                 FIELD(shards)),
          Single({"sync-batch-norm", "", kDevices, kTrains,
                  "BatchNormalization over the whole batch instead of each shard"},
                 FIELD(sync_batch_norm)),
          Single({"bucket-mb", "MIB", kDevices, kTrains,
                  "Gradients are reduced in buckets of this size (default 25)"},
                 FIELD(bucket_mb)),
      });
}

void AddCallbackFlags(std::vector<Flag>* flags) {
  flags->insert(
      flags->end(),
      {
          Single({"monitor", "METRIC", kCallbacks, kTrain,
                  "What the callbacks watch (default: val_loss, else loss)"},
                 FIELD(monitor)),
          Optional({"min-delta", "NUMBER", kCallbacks, kTrain,
                    "Smaller changes are none (default 0; 1e-4 for --reduce-lr-on-plateau)"},
                   FIELD(min_delta), [](const RunConfig&) { return false; }),
          Single({"early-stopping", "", kCallbacks, kTrain,
                  "Stop when nothing has improved for --patience epochs"},
                 FIELD(early_stopping)),
          Single({"patience", "EPOCHS", kCallbacks, kTrain, "Of --early-stopping (default 10)"},
                 FIELD(patience)),
          Single({"restore-best", "", kCallbacks, kTrain,
                  "Early stopping gives back the best epoch's parameters (default)"},
                 FIELD(restore_best)),
          Single({"reduce-lr-on-plateau", "", kCallbacks, kTrain,
                  "Lower the learning rate when nothing improves"},
                 FIELD(reduce_lr_on_plateau)),
          Single({"reduce-lr-factor", "FACTOR", kCallbacks, kTrain,
                  "What it is multiplied by (default 0.5)"},
                 FIELD(reduce_lr_factor)),
          Single({"reduce-lr-patience", "EPOCHS", kCallbacks, kTrain,
                  "Epochs without improvement before that (default 5)"},
                 FIELD(reduce_lr_patience)),
          Optional({"reduce-lr-min-delta", "NUMBER", kCallbacks, kTrain,
                    "--min-delta of --reduce-lr-on-plateau alone"},
                   FIELD(reduce_lr_min_delta), [](const RunConfig&) { return false; }),
          Single({"min-learning-rate", "RATE", kCallbacks, kTrain, "It stays above this"},
                 FIELD(min_learning_rate)),
      });
}

void AddOutputFlags(std::vector<Flag>* flags) {
  flags->insert(
      flags->end(),
      {
          Single({"checkpoint-dir", "FOLDER", kCheckpoints, kTrain | kExport,
                  "Where checkpoints are written"},
                 FIELD(checkpoint_dir)),
          Single({"save-every", "N", kCheckpoints, kTrain,
                  "Write one every N steps (default: every epoch)"},
                 FIELD(save_every)),
          Single({"keep", "N", kCheckpoints, kTrain, "Keep the newest N (default 3; 0: all)"},
                 FIELD(keep)),
          Custom({"resume", "WHICH", kCheckpoints, kTrain,
                  "auto: go on from the newest if there is one; latest: there must be one; never "
                  "(default); or a checkpoint's folder"},
                 false, SetResume, GetResume),
          Single({"checkpoint", "FOLDER", kCheckpoints, kEvaluate | kPredict | kExport,
                  "Take the parameters from this checkpoint"},
                 FIELD(checkpoint)),
          Single({"output", "FILE", kOutput, kTrain | kPredict | kPlan | kExport,
                  "train, export: the trained model; predict: .npy, .npz or .csv; plan: the "
                  "planned graph as .onnx"},
                 FIELD(output)),
          List({"dump", "STAGE,...", kOutput, kTrains,
                "Write these stages as text (graphs as .onnx too): import, training, loss, "
                "gradients, optimizer, simplified, fused, replicated, plan, or all"},
               FIELD(dump)),
          Single({"dump-dir", "FOLDER", kOutput, kTrains, "Where to (default: here)"},
                 FIELD(dump_dir)),
          Single({"trace", "FILE", kOutput, kTrain,
                  "Write what ran when and where, for Chrome's trace viewer"},
                 FIELD(trace)),
          Single({"json", "", kOutput, kAll, "One JSON object per line instead of text"},
                 FIELD(json)),
      });
}

#undef FIELD

// What other tools call our flags.
constexpr std::pair<const char*, const char*> kOtherNames[] = {
    {"lr", "learning-rate"},
    {"wd", "weight-decay"},
    {"bs", "batch-size"},
    {"gpus", "devices"},
    {"num-epochs", "epochs"},
    {"max-steps", "steps"},
    {"val-data", "validation-data"},
    {"val-labels", "validation-labels"},
    {"val-split", "validation-split"},
    {"scale", "rescale"},
    {"normalize", "standardize"},
    {"out", "output"},
    {"early-stop", "early-stopping"},
    {"criterion", "loss"},
    {"x", "data"},
    {"y", "labels"},
    {"inputs", "data"},
    {"targets", "labels"},
    {"gradient-accumulation-steps", "accumulate"},
    {"grad-clip", "clip-norm"},
    {"logits", "loss-input"},
};

}  // namespace

const std::vector<Flag>& Flags() {
  static const auto* const flags = [] {
    auto* list = new std::vector<Flag>();
    AddDataFlags(list);
    AddLearningFlags(list);
    AddOptimizerFlags(list);
    AddRunFlags(list);
    AddCallbackFlags(list);
    AddOutputFlags(list);
    return list;
  }();
  return *flags;
}

const Flag* FindFlag(absl::string_view name) {
  std::string dashed(name);
  std::replace(dashed.begin(), dashed.end(), '_', '-');
  for (const Flag& flag : Flags()) {
    if (flag.name == dashed) return &flag;
  }
  return nullptr;
}

std::string SuggestFlag(absl::string_view name, absl::string_view prefix, const Command* command) {
  std::string dashed = absl::AsciiStrToLower(name);
  std::replace(dashed.begin(), dashed.end(), '_', '-');
  std::string nearest;
  for (const auto& [other, ours] : kOtherNames) {
    if (dashed == other) nearest = ours;
  }
  if (nearest.empty()) {
    std::vector<std::string> names = {"config", "print-config", "help"};
    for (const Flag& flag : Flags()) {
      if (command == nullptr || flag.OfCommand(*command)) names.push_back(flag.name);
    }
    nearest = NearestName(dashed, names);
  }
  return nearest.empty() ? "" : absl::StrCat("; did you mean ", prefix, nearest, "?");
}

}  // namespace onward
