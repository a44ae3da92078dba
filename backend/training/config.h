// What a run is asked to do: one plain struct, filled by the command's flags, by
// a YAML file, or by a program that uses the library.
#ifndef ONWARD_BACKEND_TRAINING_CONFIG_H_
#define ONWARD_BACKEND_TRAINING_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/base/device.h"

namespace onward {

// What the command is asked for. Which fields of RunConfig matter, and which
// must be given, depends on it.
enum class Command { kTrain, kEvaluate, kPredict, kInspect, kPlan, kExport };

// "train", "evaluate", ...
absl::string_view Name(Command command);
// All six, in the order in which help lists them.
const std::vector<Command>& AllCommands();

// A data file, and the model input (or column) that it feeds; an empty name
// leaves the choice to the reader: the only input, or the names in an npz. Several
// files without a name, or with the same, are joined by rows.
struct NamedFile {
  std::string name;
  std::string path;
  bool operator==(const NamedFile& o) const { return name == o.name && path == o.path; }
};

// Ends the errors of missing labels.
inline constexpr char kOwnLabelsAdvice[] =
    "only CIFAR's batches, and .npz and .csv files that call them labels, label, fine_labels, y, "
    "target, targets or class, hold their own";

// ---- losses

enum class LossKind {
  kNone,
  kCrossEntropy,
  kBinaryCrossEntropy,
  kMeanSquared,
  kMeanAbsolute,
  kHuber,
  kModelOutput,  // an output of the model is the loss
  kModelFile,    // another ONNX file computes it
};

// What a cross-entropy takes from the model. kAuto: told from the operator at the
// model's end (Softmax, LogSoftmax or Sigmoid, or none of them).
enum class LossInput { kAuto, kLogits, kProbabilities, kLogProbabilities };

// How classes are written in the labels. kAuto: told from the labels' type and shape.
enum class LabelForm { kAuto, kInteger, kOneHot };

struct LossConfig {
  LossKind kind = LossKind::kNone;
  // As the user wrote it, for messages and for printing the configuration.
  std::string name;
  LossInput input = LossInput::kAuto;
  LabelForm labels = LabelForm::kAuto;
  // kModelOutput: the output's name; kModelFile: the file's path.
  std::string target;
  // Huber: where the square ends and the line begins. > 0. Default: 1, as in Keras
  // and PyTorch.
  double huber_delta = 1.0;
  // Cross-entropies: the share of a label that is spread over all classes, in
  // [0, 1). Default: none.
  double label_smoothing = 0.0;
  // Cross-entropies: one weight (>= 0) per class; empty: all 1. The mean is divided
  // by the sum of the weights of the batch's labels, as in PyTorch.
  std::vector<double> class_weights;
  // Integer labels that count for nothing, not even in the denominator. Default:
  // none; PyTorch's is -100.
  std::optional<int64_t> ignore_index;
};

// Understands Keras' and PyTorch's names, in any case and with or without '_':
// sparse_categorical_crossentropy, categorical_crossentropy, cross_entropy,
// CrossEntropyLoss, NLLLoss, binary_crossentropy, BCELoss, BCEWithLogitsLoss, mse,
// MSELoss, mae, L1Loss, huber, HuberLoss, ...; "output:NAME" is an output of the
// model, "FILE.onnx" a second model. Sets kind, name, input, labels and target.
// InvalidArgument (kUsage) for another, with the nearest right name.
absl::StatusOr<LossConfig> ParseLoss(absl::string_view text);

// ---- optimizers

enum class OptimizerKind { kSgd, kAdam, kAdamW, kRmsprop, kAdagrad };

// Keras and PyTorch give some optimizers different formulas and defaults under one
// name. What differs:
//              Keras 3                                 PyTorch
//   SGD        m' = mu*m - lr*g; p += m'               b' = mu*b + g; p -= lr*b'
//   Adam(W)    lr*sqrt(1-b2^t)/(1-b1^t)*m/(sqrt(v)+e)  lr*mhat/(sqrt(vhat)+e)
//   RMSprop    g/sqrt(v+e), momentum over lr*step      g/(sqrt(v)+e), lr over momentum
//   Adagrad    g/sqrt(a+e), a starts at 0.1            g/(sqrt(a)+e), a starts at 0
//   decay      p -= lr*decay*p, in all of them         g += decay*p; in AdamW as Keras
enum class OptimizerForm { kKeras, kPyTorch };

struct OptimizerConfig {
  OptimizerKind kind = OptimizerKind::kSgd;
  OptimizerForm form = OptimizerForm::kKeras;
  // The optionals without a value take the default of kind and form, which
  // ResolveOptimizer writes into them.
  std::optional<double> learning_rate;        // >= 0
  double momentum = 0.0;                      // SGD and RMSprop; in [0, 1)
  bool nesterov = false;                      // SGD with momentum > 0
  double beta_1 = 0.9;                        // Adam, AdamW; in [0, 1)
  double beta_2 = 0.999;                      // Adam, AdamW; in [0, 1)
  std::optional<double> rho;                  // RMSprop's share of the old mean square; in [0, 1)
  std::optional<double> epsilon;              // all but SGD; > 0
  std::optional<double> initial_accumulator;  // Adagrad; >= 0
  std::optional<double> weight_decay;  // >= 0; default 0, but AdamW 0.004 (Keras), 0.01 (PyTorch)
  // Gradients are scaled so that their common L2 norm is at most this; 0: off.
  double clip_norm = 0.0;
  // Each element of a gradient is cut to [-x, x]; 0: off.
  double clip_value = 0.0;
};

// sgd, adam, adamw, rmsprop, adagrad, in any case.
absl::StatusOr<OptimizerKind> ParseOptimizer(absl::string_view text);
absl::string_view Name(OptimizerKind kind);

// `config` with a value in every optional.
OptimizerConfig ResolveOptimizer(OptimizerConfig config);

// ---- learning-rate schedules

enum class ScheduleKind { kConstant, kStep, kCosine, kLinear };

struct ScheduleConfig {
  ScheduleKind kind = ScheduleKind::kConstant;
  // Steps in which the rate climbs from 0 to the learning rate in equal parts.
  int64_t warmup_steps = 0;
  // After warm-up. kStep: steps between two drops (must be given). kCosine, kLinear:
  // steps that the way down takes; 0: the rest of the run.
  int64_t decay_steps = 0;
  // kStep: what each drop multiplies the rate by, in (0, 1].
  double decay_factor = 0.1;
  // kCosine, kLinear: the rate at the end and ever after. >= 0.
  double final_learning_rate = 0.0;
};

// ---- metrics

enum class MetricKind { kAccuracy, kTopK, kMeanAbsolute, kMeanSquared };

// The loss is always measured and stands in no list.
struct MetricConfig {
  MetricKind kind = MetricKind::kAccuracy;
  int k = 1;         // kTopK only; >= 1
  std::string name;  // as printed: "accuracy", "top_5_accuracy", "mae", "mse"
  bool operator==(const MetricConfig& o) const { return kind == o.kind && k == o.k; }
};

// accuracy (also acc, Keras' sparse_categorical_accuracy, categorical_accuracy and
// binary_accuracy: the labels decide which), top_5_accuracy with any number (Keras'
// top_k_categorical_accuracy is 5), mae, mse and their long names.
absl::StatusOr<MetricConfig> ParseMetric(absl::string_view text);

// ---- the run

enum class ResumeMode {
  kNever,   // start anew
  kAuto,    // the newest usable checkpoint of checkpoint_dir, or anew where there is none
  kLatest,  // the same, but none is an error (kNoCheckpoint)
  kPath,    // the checkpoint at resume_path
};

enum class ImageChannels { kAuto, kFirst, kLast };

// "1/255", "0.1", "2" as a number. InvalidArgument (kUsage) for other text, zero, NaN
// and infinity.
absl::StatusOr<double> ParseRescale(absl::string_view text);

// Copyable; no field owns anything but its value. Numbers are checked by Validate,
// not as they are set.
struct RunConfig {
  // The model as its exporter wrote it; never written to.
  std::string model;

  // -- data
  std::vector<NamedFile> data;
  std::vector<NamedFile> labels;
  std::vector<NamedFile> validation_data;
  std::vector<NamedFile> validation_labels;
  // The last part of the training data, set aside before shuffling; in [0, 1).
  // Excludes validation_data.
  double validation_split = 0.0;
  // Inputs of floating type are multiplied by this: a number, or a ratio A/B, kept as
  // text so that 1/255 divides by 255.
  std::string rescale = "1";
  // Inputs of floating type are shifted and scaled to mean 0 and deviation 1, per
  // channel, as measured on the training data after rescale.
  bool standardize = false;
  // Where the channels of the data's images are, where their extents leave it open.
  ImageChannels channels = ImageChannels::kAuto;
  // NaN and infinity in the data are values, not errors.
  bool allow_nan = false;
  // Leave out an epoch's last batch where it is smaller than the others (training only).
  bool drop_last = false;
  // A new order in every epoch, from `seed`.
  bool shuffle = true;
  // Sizes of the model's symbolic dimensions that data does not give: name, size >= 1.
  std::vector<std::pair<std::string, int64_t>> dims;

  // -- what is learnt
  LossConfig loss;
  // The model's output that loss and metrics read. Empty: the only one.
  std::string prediction;
  std::vector<MetricConfig> metrics;
  // Patterns ('*' and '?') of names of initializers. freeze: these do not train;
  // train_only: only these do. At most one of the two is given.
  std::vector<std::string> freeze;
  std::vector<std::string> train_only;
  // An exporter may merge equal initializers. By default one whose elements are all
  // equal gets a copy per use, and others stay shared; the patterns override that.
  std::vector<std::string> untie;
  std::vector<std::string> keep_tied;
  // What looks like a constant (a single number, a mask, what standardises an input) and
  // is to train.
  std::vector<std::string> also_train;
  // Give back the all-zero biases that an exporter dropped, as parameters.
  bool restore_biases = false;

  // -- how
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  // Passes over the data, >= 1.
  int64_t epochs = 1;
  // Stop after this many optimizer steps in all; 0: no limit but epochs.
  int64_t steps = 0;
  // Samples of one forward and backward pass over all devices together, >= 1. The
  // last batch of an epoch may be smaller.
  int64_t batch_size = 32;
  // Batches per optimizer step, >= 1: a step sees batch_size * accumulate samples.
  int64_t accumulate = 1;
  // Seeds shuffling, dropout and random operators.
  uint64_t seed = 0;

  // -- where
  // Empty: chosen, and printed ("auto").
  std::vector<Device> devices;
  // Compute threads of all CPU devices together; 0: one per core.
  int threads = 0;
  // Logical shards of the batch: the bits of the result then depend neither on the
  // number of devices nor of threads. 0: as many as devices, without that promise.
  int shards = 0;
  // BatchNormalization with the statistics of the whole batch instead of a shard's.
  bool sync_batch_norm = false;
  // Size at which a bucket of gradients is closed and reduced, in MiB (2^20 bytes), > 0.
  double bucket_mb = 25.0;

  // -- callbacks; `monitor` is "loss", "val_loss", "accuracy", "val_accuracy", ...
  // Empty: val_loss where there is validation data, else loss.
  std::string monitor;
  // Smaller changes are none, for both callbacks. >= 0. Default: Keras' own, which are 0
  // for early stopping and 1e-4 for the plateau.
  std::optional<double> min_delta;
  // Stop when `monitor` has not improved for `patience` epochs, and give back the
  // best epoch's parameters unless !restore_best.
  bool early_stopping = false;
  int64_t patience = 10;
  bool restore_best = true;
  // Multiply the learning rate by reduce_lr_factor, in (0, 1), when `monitor` has not
  // improved for reduce_lr_patience epochs, down to min_learning_rate.
  bool reduce_lr_on_plateau = false;
  double reduce_lr_factor = 0.5;
  int64_t reduce_lr_patience = 5;
  std::optional<double> reduce_lr_min_delta;  // instead of min_delta, for the plateau; >= 0
  double min_learning_rate = 0.0;

  // -- checkpoints
  // Empty: none are written.
  std::string checkpoint_dir;
  // In optimizer steps; 0: at the end of every epoch.
  int64_t save_every = 0;
  // Newest checkpoints that stay; 0: all.
  int64_t keep = 3;
  ResumeMode resume = ResumeMode::kNever;
  std::string resume_path;
  // evaluate, predict, export: take the parameters from this checkpoint.
  std::string checkpoint;

  // -- what comes out
  // train, export: the trained ONNX; predict: the predictions (.npy, .npz or .csv);
  // plan: the planned graph.
  std::string output;
  // Stages of the walk to write to dump_dir: of StageNames(), or "all".
  std::vector<std::string> dump;
  std::string dump_dir = ".";
  // Chrome's trace format; empty: none.
  std::string trace;
  // One JSON object per line on standard output instead of text for people.
  bool json = false;
};

// The stages of the walk in their order, from "import" to "plan".
const std::vector<std::string>& StageNames();

// One clear line (InvalidArgument, kUsage) for the first field that is out of its
// range, is missing for `command`, or contradicts another; flags are named as the
// command spells them. Looks at no file.
absl::Status Validate(const RunConfig& config, Command command);

// The name in `names` that is nearest to `name`, or empty where none is near: for
// "did you mean". '-', '_' and case do not count.
std::string NearestName(absl::string_view name, const std::vector<std::string>& names);

}  // namespace onward

#endif  // ONWARD_BACKEND_TRAINING_CONFIG_H_
