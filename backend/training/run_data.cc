#include "backend/training/run_data.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backend/data/read_dataset.h"
#include "backend/runtime/interpreter.h"
#include "graph/base/errors.h"
#include "graph/base/status_macros.h"
#include "graph/ops/operators.h"
#include "graph/passes/loss_model.h"
#include "kernels/kernel.h"

namespace onward {
namespace {

std::string JoinFiles(const std::vector<NamedFile>& files) {
  std::vector<std::string> parts;
  for (const NamedFile& f : files) {
    parts.push_back(f.name.empty() ? f.path : absl::StrCat(f.name, "=", f.path));
  }
  return absl::StrJoin(parts, ",");
}

// The model's inputs as data must fit them.
std::vector<InputSpec> InputSpecs(const RunConfig& config, const OnnxModel& model) {
  std::vector<InputSpec> specs;
  for (const ModelInput& input : model.inputs()) {
    InputSpec spec;
    spec.name = input.name;
    spec.dtype = input.dtype;
    for (size_t i = 1; i < input.extents.size(); ++i) {
      int64_t size = input.extents[i].size;
      for (const auto& [name, given] : config.dims) {
        if (name == input.extents[i].symbol || name == absl::StrCat(input.name, ".", i)) {
          size = given;
        }
      }
      spec.dims.push_back(size);
    }
    specs.push_back(std::move(spec));
  }
  return specs;
}

// Extents of the prediction for some batch.
absl::StatusOr<TensorType> PredictionType(const RunConfig& config, const OnnxModel& model,
                                          const std::vector<FeedSpec>& inputs) {
  Binding binding;
  for (const FeedSpec& feed : inputs) {
    Dims dims = {model.FixedBatch(2)};
    dims.insert(dims.end(), feed.dims.begin(), feed.dims.end());
    binding.inputs[feed.name] = std::move(dims);
  }
  Interpreter evaluator(&StandardOperators(), &CpuKernels());
  ASSIGN_OR_RETURN(std::unique_ptr<Graph> graph,
                   model.Build(StandardOperators(), &evaluator, binding));
  const std::string& wanted =
      config.loss.kind == LossKind::kModelOutput ? config.loss.target : config.prediction;
  if (wanted.empty() && graph->outputs().size() == 1) return graph->outputs()[0].value->type;
  const Value* value = graph->FindOutput(wanted);
  if (value != nullptr) return value->type;
  std::vector<std::string> names;
  for (const Graph::Output& o : graph->outputs()) names.push_back(o.name);
  return WithExitCode(absl::InvalidArgumentError(absl::StrCat(
                          wanted.empty() ? "say by --prediction which output the loss reads"
                                         : absl::StrCat("the model has no output '", wanted, "'"),
                          "; it has ", absl::StrJoin(names, ", "))),
                      ExitCode::kUsage);
}

LossRequest::Kind KindOf(LossKind kind) {
  switch (kind) {
    case LossKind::kCrossEntropy:
      return LossRequest::Kind::kCrossEntropy;
    case LossKind::kBinaryCrossEntropy:
      return LossRequest::Kind::kBinaryCrossEntropy;
    case LossKind::kMeanSquared:
      return LossRequest::Kind::kMeanSquared;
    case LossKind::kMeanAbsolute:
      return LossRequest::Kind::kMeanAbsolute;
    case LossKind::kHuber:
      return LossRequest::Kind::kHuber;
    case LossKind::kModelOutput:
      return LossRequest::Kind::kModelOutput;
    case LossKind::kModelFile:
      return LossRequest::Kind::kModelFile;
    case LossKind::kNone:
      break;
  }
  return LossRequest::Kind::kNone;
}

LossRequest RequestOf(const RunConfig& config) {
  const LossConfig& loss = config.loss;
  LossRequest request;
  request.kind = KindOf(loss.kind);
  request.input = static_cast<LossRequest::Input>(loss.input);
  request.prediction = loss.kind == LossKind::kModelOutput ? loss.target : config.prediction;
  request.label_smoothing = loss.label_smoothing;
  request.class_weights = loss.class_weights;
  request.ignore_index = loss.ignore_index;
  request.huber_delta = loss.huber_delta;
  return request;
}

// How the label column enters: class numbers, or values of the prediction's extents.
LabelSpec LabelSpecFor(const Column& column, const TensorType& prediction,
                       const LossRequest& loss) {
  LabelSpec spec;
  Dims sample(prediction.dims.begin() + 1, prediction.dims.end());
  const bool rows_of_shares =
      IsFloating(column.dtype()) && column.dims() == sample && Elements(sample) > 1;
  if (!TakesClassNumbers(loss.kind) || rows_of_shares) {
    spec.form = LabelSpec::Form::kValues;
    spec.dtype = prediction.dtype;
    spec.dims = sample;
    return spec;
  }
  spec.form = LabelSpec::Form::kClassIndex;
  spec.dtype = DataType::kInt64;
  spec.ignore_index = loss.ignore_index;
  if (sample.size() == 1) {
    spec.classes = sample[0];
    return spec;
  }
  // One number per position: classes lie on the axis that the labels lack.
  const Dims without_last(sample.begin(), sample.end() - 1);
  spec.dims = column.dims();
  spec.classes = column.dims() == without_last || sample.empty() ? sample.back() : sample[0];
  return spec;
}

// How the labels enter a loss model: as its input has them; what that leaves open the
// data decides.
LabelSpec LabelSpecFor(const ModelInput& input, const LossRequest& loss) {
  LabelSpec spec;
  spec.form = IsInteger(input.dtype) ? LabelSpec::Form::kClassIndex : LabelSpec::Form::kValues;
  spec.dtype = input.dtype;
  for (size_t i = 1; i < input.extents.size(); ++i) spec.dims.push_back(input.extents[i].size);
  spec.ignore_index = loss.ignore_index;
  return spec;
}

// The loss model of the run, where it has one, and which of its inputs takes the labels.
struct LossFile {
  std::shared_ptr<const OnnxModel> model;
  int labels = -1;
};

absl::StatusOr<LossFile> OpenLoss(const RunConfig& config, const OnnxModel& model) {
  LossFile out;
  if (config.loss.kind != LossKind::kModelFile) return out;
  ASSIGN_OR_RETURN(out.model, OnnxModel::Load(config.loss.target));
  std::vector<std::string> outputs;
  for (const ModelOutput& output : model.outputs()) outputs.push_back(output.name);
  if (!config.prediction.empty()) outputs = {config.prediction};
  ASSIGN_OR_RETURN(const LossInputs inputs, MatchLossInputs(*out.model, outputs));
  out.labels = inputs.labels;
  if (out.labels < 0 && !config.labels.empty()) {
    return WithExitCode(absl::InvalidArgumentError(absl::StrCat(
                            config.loss.target,
                            ": none of its inputs takes the labels; name one 'labels', or say "
                            "by --prediction which output of the model it reads")),
                        ExitCode::kUsage);
  }
  return out;
}

class Reader {
 public:
  Reader(const RunConfig& config, Command command, const OnnxModel& model, Standardization known)
      : config_(config), command_(command), model_(model), out_(std::make_unique<RunData>()) {
    out_->standardization = std::move(known);
  }

  absl::StatusOr<std::unique_ptr<RunData>> Read() {
    out_->loss = RequestOf(config_);
    ASSIGN_OR_RETURN(loss_file_, OpenLoss(config_, model_));
    out_->loss_model = loss_file_.model;
    labelled_ = command_ != Command::kPredict &&
                out_->loss.kind != LossRequest::Kind::kModelOutput &&
                (loss_file_.model == nullptr || loss_file_.labels >= 0);
    ASSIGN_OR_RETURN(out_->train.data, ReadOne(config_.data, config_.labels));
    RETURN_IF_ERROR(FitInputs(&out_->train, true));
    if (labelled_) RETURN_IF_ERROR(FitLabel(&out_->train, true));
    if (!config_.validation_data.empty()) {
      out_->validation.emplace();
      ASSIGN_OR_RETURN(out_->validation->data,
                       ReadOne(config_.validation_data, config_.validation_labels));
      RETURN_IF_ERROR(FitInputs(&*out_->validation, false));
      if (labelled_) RETURN_IF_ERROR(FitLabel(&*out_->validation, false));
    }
    return std::move(out_);
  }

 private:
  absl::StatusOr<Dataset> ReadOne(const std::vector<NamedFile>& data,
                                  const std::vector<NamedFile>& labels) {
    DataSpec spec;
    spec.data = JoinFiles(data);
    spec.labels = JoinFiles(labels);
    spec.want_labels = labelled_;
    spec.inputs = InputSpecs(config_, model_);
    spec.labels_name = kLabelsFeed;
    absl::StatusOr<Dataset> dataset = ReadDataset(spec);
    if (!dataset.ok()) return WithExitCode(dataset.status(), ExitCode::kData);
    Note(dataset->notes);
    return dataset;
  }

  absl::StatusOr<TransformOptions> Options() const {
    TransformOptions options;
    ASSIGN_OR_RETURN(options.rescale, ParseRatio(config_.rescale));
    options.allow_non_finite = config_.allow_nan;
    if (config_.channels == ImageChannels::kFirst) options.channels = ChannelOrder::kFirst;
    if (config_.channels == ImageChannels::kLast) options.channels = ChannelOrder::kLast;
    return options;
  }

  // The first data set decides extents that the model leaves open; later ones must fit.
  absl::Status FitInputs(FittedData* fitted, bool first) {
    std::vector<InputSpec> specs = InputSpecs(config_, model_);
    for (size_t i = 0; i < specs.size(); ++i) {
      const Column* column = fitted->data.Find(specs[i].name);
      if (column == nullptr) {
        return WithExitCode(absl::NotFoundError(absl::StrCat("no data for the model's input '",
                                                             specs[i].name, "'")),
                            ExitCode::kData);
      }
      if (!first) specs[i].dims = out_->inputs[i].dims;
      ASSIGN_OR_RETURN(TransformOptions options, Options());
      if (config_.standardize && IsFloating(specs[i].dtype)) {
        RETURN_IF_ERROR(Standardize(*column, specs[i].name, &options));
      }
      std::vector<std::string> notes;
      absl::StatusOr<ColumnTransform> transform = FitInput(*column, specs[i], options, &notes);
      if (!transform.ok()) return WithExitCode(transform.status(), ExitCode::kData);
      if (first) Note(notes);
      if (first) out_->inputs.push_back({specs[i].name, transform->dtype, transform->dims});
      fitted->columns.push_back({specs[i].name, *std::move(transform)});
    }
    return absl::OkStatus();
  }

  // Mean and deviation of the training data serve all.
  absl::Status Standardize(const Column& column, const std::string& input,
                           TransformOptions* options) {
    for (const auto& [name, statistics] : out_->standardization) {
      if (name == input) options->standardise = statistics;
    }
    if (options->standardise.has_value()) return absl::OkStatus();
    if (command_ == Command::kEvaluate || command_ == Command::kPredict) {
      return WithExitCode(
          absl::InvalidArgumentError(absl::StrCat(
              "--standardize: what mean and deviation the training data had is not known for '",
              input,
              "'; give a file that `onward train --standardize` has written, or "
              "--checkpoint")),
          ExitCode::kUsage);
    }
    std::vector<std::string> notes;
    ASSIGN_OR_RETURN(Statistics statistics,
                     ComputeStatistics(column, StatisticsPer::kChannel, *options, &notes,
                                       TrainingRows(config_, column.rows())));
    Note(notes);
    options->standardise = statistics;
    out_->standardization.emplace_back(input, std::move(statistics));
    return absl::OkStatus();
  }

  absl::Status FitLabel(FittedData* fitted, bool first) {
    const Column* column = fitted->data.Find(kLabelsFeed);
    if (column == nullptr) {
      return WithExitCode(
          absl::InvalidArgumentError(absl::StrCat(first ? "--labels is missing: --data"
                                                        : "--validation-labels is missing: "
                                                          "--validation-data",
                                                  " holds no labels; ", kOwnLabelsAdvice)),
          ExitCode::kUsage);
    }
    if (loss_file_.model != nullptr) {
      const ModelInput& input = loss_file_.model->inputs()[loss_file_.labels];
      return FitLabelTo(fitted, *column, LabelSpecFor(input, out_->loss), first);
    }
    if (first) {
      ASSIGN_OR_RETURN(prediction_, PredictionType(config_, model_, out_->inputs));
    }
    if (prediction_.dims.empty()) {
      return WithExitCode(
          absl::InvalidArgumentError("the model's output is a single number, not one per sample"),
          ExitCode::kUsage);
    }
    return FitLabelTo(fitted, *column, LabelSpecFor(*column, prediction_, out_->loss), first);
  }

  absl::Status FitLabelTo(FittedData* fitted, const Column& column, const LabelSpec& spec,
                          bool first) {
    std::vector<std::string> notes;
    absl::StatusOr<ColumnTransform> transform = FitLabels(column, spec, &notes);
    if (!transform.ok()) return WithExitCode(transform.status(), ExitCode::kData);
    if (first) Note(notes);
    if (first) {
      out_->labels = FeedSpec{kLabelsFeed, transform->dtype, transform->dims};
      out_->loss.label_dtype = transform->dtype;
      out_->loss.label_dims = transform->dims;
    }
    fitted->columns.push_back({kLabelsFeed, *std::move(transform)});
    return absl::OkStatus();
  }

  void Note(const std::vector<std::string>& notes) {
    for (const std::string& note : notes) {
      if (std::find(out_->notes.begin(), out_->notes.end(), note) == out_->notes.end()) {
        out_->notes.push_back(note);
      }
    }
  }

  const RunConfig& config_;
  Command command_;
  const OnnxModel& model_;
  LossFile loss_file_;
  bool labelled_ = false;  // the labels are read by the loss
  TensorType prediction_;
  std::unique_ptr<RunData> out_;
};

}  // namespace

int64_t TrainingRows(const RunConfig& config, int64_t rows) {
  return rows - static_cast<int64_t>(static_cast<double>(rows) * config.validation_split);
}

absl::StatusOr<std::unique_ptr<RunData>> ReadRunData(const RunConfig& config, Command command,
                                                     const OnnxModel& model) {
  Standardization known;
  if (command == Command::kEvaluate || command == Command::kPredict) {
    ASSIGN_OR_RETURN(known, KnownStandardization(model, config.checkpoint));
  }
  const bool forgotten = !known.empty() && !config.standardize;
  ASSIGN_OR_RETURN(std::unique_ptr<RunData> data,
                   Reader(config, command, model, std::move(known)).Read());
  if (forgotten) {
    data->notes.push_back(
        "the model was trained on standardised inputs; --standardize gives it such");
  }
  return data;
}

absl::StatusOr<std::unique_ptr<RunData>> AssumeRunData(const RunConfig& config,
                                                       const OnnxModel& model) {
  auto out = std::make_unique<RunData>();
  out->loss = RequestOf(config);
  const std::vector<InputSpec> specs = InputSpecs(config, model);
  for (size_t i = 0; i < specs.size(); ++i) {
    for (size_t axis = 0; axis < specs[i].dims.size(); ++axis) {
      if (specs[i].dims[axis] != kDynamic) continue;
      const std::string& symbol = model.inputs()[i].extents[axis + 1].symbol;
      return WithExitCode(
          absl::InvalidArgumentError(absl::StrCat(
              "input '", specs[i].name, "': axis ", axis + 1, " has no size; give --dim ",
              symbol.empty() ? absl::StrCat(specs[i].name, ".", axis + 1) : symbol, "=SIZE")),
          ExitCode::kUsage);
    }
    out->inputs.push_back({specs[i].name, specs[i].dtype, specs[i].dims});
  }
  if (out->loss.kind == LossRequest::Kind::kModelOutput) return out;
  ASSIGN_OR_RETURN(const LossFile file, OpenLoss(config, model));
  out->loss_model = file.model;
  if (file.model != nullptr) {
    if (file.labels < 0) return out;
    const LabelSpec spec = LabelSpecFor(file.model->inputs()[file.labels], out->loss);
    if (std::find(spec.dims.begin(), spec.dims.end(), kDynamic) != spec.dims.end()) {
      return WithExitCode(
          absl::InvalidArgumentError(absl::StrCat(config.loss.target,
                                                  ": leaves the extents of the labels open; give "
                                                  "--data and --labels")),
          ExitCode::kUsage);
    }
    out->loss.label_dtype = spec.dtype;
    out->loss.label_dims = spec.dims;
    out->labels = FeedSpec{kLabelsFeed, spec.dtype, spec.dims};
    return out;
  }
  ASSIGN_OR_RETURN(const TensorType prediction, PredictionType(config, model, out->inputs));
  FeedSpec labels{kLabelsFeed, prediction.dtype, {}};
  if (!prediction.dims.empty()) {
    labels.dims.assign(prediction.dims.begin() + 1, prediction.dims.end());
  }
  if (TakesClassNumbers(out->loss.kind)) {
    labels.dtype = DataType::kInt64;
    if (!labels.dims.empty()) labels.dims.pop_back();
  }
  out->loss.label_dtype = labels.dtype;
  out->loss.label_dims = labels.dims;
  out->labels = std::move(labels);
  return out;
}

}  // namespace onward
