#include "backend/training/trainer.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backend/training/forecast.h"
#include "backend/training/free_batch.h"
#include "graph/base/errors.h"
#include "graph/base/status_macros.h"
#include "graph/onnx/export.h"
#include "kernels/threads/team.h"

namespace onward {
namespace {

OptimizerSpec OptimizerSpecOf(const OptimizerConfig& given) {
  const OptimizerConfig config = ResolveOptimizer(given);
  OptimizerSpec spec;
  switch (config.kind) {
    case OptimizerKind::kSgd:
      spec.rule = OptimizerSpec::Rule::kSgd;
      break;
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamW:
      spec.rule = OptimizerSpec::Rule::kAdam;
      break;
    case OptimizerKind::kRmsprop:
      spec.rule = OptimizerSpec::Rule::kRmsProp;
      break;
    case OptimizerKind::kAdagrad:
      spec.rule = OptimizerSpec::Rule::kAdagrad;
      break;
  }
  spec.formula = config.form == OptimizerForm::kKeras ? FormulaOf::kKeras : FormulaOf::kPyTorch;
  spec.decoupled = config.form == OptimizerForm::kKeras || config.kind == OptimizerKind::kAdamW;
  spec.momentum = config.momentum;
  spec.nesterov = config.nesterov;
  spec.beta1 = config.beta_1;
  spec.beta2 = config.beta_2;
  spec.rho = config.rho.value_or(0.9);
  spec.epsilon = config.epsilon.value_or(1e-7);
  spec.initial_accumulator = config.initial_accumulator.value_or(0);
  spec.weight_decay = config.weight_decay.value_or(0);
  spec.clip_value = config.clip_value;
  return spec;
}

MetricRequest RequestOf(const MetricConfig& metric) {
  return {static_cast<MetricRequest::Kind>(metric.kind), metric.k};
}

}  // namespace

Placement PlacementOf(const RunConfig& config) {
  Placement placement;
  placement.devices = config.devices;
  if (placement.devices.empty()) placement.devices = {Device{}};
  const int devices = static_cast<int>(placement.devices.size());
  placement.threads = std::max(devices, config.threads > 0 ? config.threads : CoresOfThisProcess());
  placement.fixed_shards = config.shards > 0;
  placement.shards = placement.fixed_shards ? std::max(config.shards, devices)
                                            : devices * static_cast<int>(config.accumulate);
  placement.bucket_bytes = static_cast<int64_t>(config.bucket_mb * (1 << 20));
  return placement;
}

WalkOptions WalkOptionsOf(const RunConfig& config, const RunData& data) {
  WalkOptions options;
  options.inputs = data.inputs;
  options.loss = data.loss;
  options.loss_model = data.loss_model;
  options.restore_biases = config.restore_biases;
  for (const MetricConfig& m : config.metrics) options.metrics.push_back(RequestOf(m));
  options.parameters = {config.freeze, config.train_only, config.untie, config.keep_tied,
                        config.also_train};
  options.optimizer = OptimizerSpecOf(config.optimizer);
  options.clip_norm = config.optimizer.clip_norm;
  options.seed = static_cast<int64_t>(config.seed);
  options.sync_batch_norm = config.sync_batch_norm;
  options.placement = PlacementOf(config);
  return options;
}

Trainer::Trainer(const RunConfig& config, RunListener listener)
    : config_(config), listener_(std::move(listener)) {}
Trainer::~Trainer() = default;

void Trainer::Say(const std::string& line) const {
  if (listener_.note) listener_.note(line);
}

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(const RunConfig& config, Command command,
                                                         RunListener listener) {
  std::unique_ptr<Trainer> trainer(new Trainer(config, std::move(listener)));
  RETURN_IF_ERROR(trainer->Prepare(command));
  return trainer;
}

namespace {

// What can be asked for but is not there yet: said before anything is read.
absl::Status CheckSupported(const RunConfig& config) {
  for (const Device& device : config.devices) {
    if (device.kind == Device::Kind::kCpu) continue;
    return WithExitCode(
        absl::UnimplementedError(absl::StrCat(ToString(device),
                                              ": this build has no kernels for GPUs; --devices "
                                              "cpu:0 trains on the processor")),
        ExitCode::kUntrainable);
  }
  return absl::OkStatus();
}

// Checkpoints of another run are neither written over nor mixed with this one's.
absl::Status CheckFolderIsOurs(const RunConfig& config) {
  if (config.checkpoint_dir.empty() || config.resume == ResumeMode::kAuto ||
      config.resume == ResumeMode::kLatest) {
    return absl::OkStatus();
  }
  const std::vector<int64_t> steps = CheckpointSteps(config.checkpoint_dir);
  if (steps.empty()) return absl::OkStatus();
  const std::string newest = absl::StrCat(config.checkpoint_dir, "/", CheckpointName(steps[0]));
  std::error_code ignored;
  const bool goes_on = config.resume == ResumeMode::kPath &&
                       std::filesystem::equivalent(newest, config.resume_path, ignored);
  if (goes_on) return absl::OkStatus();
  return WithExitCode(
      absl::FailedPreconditionError(absl::StrCat(
          config.checkpoint_dir, ": holds the checkpoints of a run up to step ", steps[0],
          "; --resume auto goes on from there, another --checkpoint-dir begins anew")),
      ExitCode::kUsage);
}

}  // namespace

std::string DevicesNote(const Placement& placement) {
  std::vector<std::string> names;
  for (const Device& device : placement.devices) names.push_back(ToString(device));
  return absl::StrCat("devices: ", absl::StrJoin(names, ", "), " (", placement.threads,
                      placement.threads == 1 ? " thread" : " threads", "), chosen by auto");
}

absl::Status Trainer::Prepare(Command command) {
  RETURN_IF_ERROR(CheckSupported(config_));
  if (command == Command::kTrain) RETURN_IF_ERROR(CheckFolderIsOurs(config_));
  if (config_.devices.empty()) Say(DevicesNote(PlacementOf(config_)));
  ASSIGN_OR_RETURN(model_, OnnxModel::Load(config_.model));
  const std::string batch_note = FreeBatchOf(model_.get());
  if (!batch_note.empty()) Say(batch_note);
  ASSIGN_OR_RETURN(data_, ReadRunData(config_, command, *model_));
  for (const std::string& note : data_->notes) Say(note);
  WalkOptions options = WalkOptionsOf(config_, *data_);
  if (!config_.checkpoint.empty()) {
    ASSIGN_OR_RETURN(const CheckpointReader reader, OpenCheckpoint(config_.checkpoint));
    ASSIGN_OR_RETURN(options.known_parameters, OriginsOf(reader));
    for (const Parameter& p : options.known_parameters->list) {
      options.restore_biases = options.restore_biases || p.bias_of >= 0;
    }
  }
  ASSIGN_OR_RETURN(walk_, Walk::Create(model_.get(), std::move(options), listener_.stage));
  if (command != Command::kPredict) {
    for (const std::string& note : walk_->notes()) Say(note);
  }
  if (command == Command::kTrain) {
    for (const std::string& note : walk_->training_notes()) Say(note);
  }
  session_ = std::make_unique<Session>(walk_.get());
  const int64_t rows = data_->train.data.rows();
  if (command != Command::kTrain) {
    RETURN_IF_ERROR(
        MakeLoader(data_->train, {0, rows}, false, &validation_loader_, &validation_buffers_));
    const int64_t batch = std::min(config_.batch_size, std::max<int64_t>(rows, 1));
    return (command == Command::kPredict
                ? session_->PredictionExecutor(*validation_buffers_, batch)
                : session_->EvaluationExecutor(*validation_buffers_, batch))
        .status();
  }
  const int64_t kept = TrainingRows(config_, rows);
  RETURN_IF_ERROR(MakeLoader(data_->train, {0, kept}, true, &train_loader_, &train_buffers_));
  const int64_t batch = std::min(config_.batch_size * config_.accumulate, kept);
  RETURN_IF_ERROR(session_->TrainingExecutor(*train_buffers_, batch).status());
  if (data_->validation.has_value()) {
    return MakeLoader(*data_->validation, {0, data_->validation->data.rows()}, false,
                      &validation_loader_, &validation_buffers_);
  }
  if (kept == rows) return absl::OkStatus();
  return MakeLoader(data_->train, {kept, rows}, false, &validation_loader_, &validation_buffers_);
}

absl::Status Trainer::CheckFixedBatch(int64_t rows, bool training) const {
  const int64_t fixed = model_->FixedBatch(0);
  const int64_t batch = config_.batch_size * (training ? config_.accumulate : 1);
  if (fixed == 0 || rows % batch == 0 || (training && config_.drop_last)) return absl::OkStatus();
  return WithExitCode(
      absl::FailedPreconditionError(absl::StrCat(
          model_->path(), ": has the batch size ", fixed,
          " written into it, but the last batch of ", rows, " samples has ", rows % batch, "; ",
          training ? "leave it out by --drop-last, or " : "", "export with a dynamic batch")),
      ExitCode::kUntrainable);
}

absl::Status Trainer::MakeLoader(const FittedData& data, RowRange rows, bool training,
                                 std::unique_ptr<Loader>* loader,
                                 std::unique_ptr<FeedBuffers>* buffers) const {
  std::vector<FeedSpec> feeds;
  for (const LoaderColumn& c : data.columns) {
    feeds.push_back({c.name, c.transform.dtype, c.transform.dims});
  }
  RETURN_IF_ERROR(CheckFixedBatch(rows.size(), training));
  LoaderOptions options;
  // The buffers are sized by the batch: it is no larger than what there is.
  options.batch_size = std::min(config_.batch_size * (training ? config_.accumulate : 1),
                                std::max<int64_t>(rows.size(), 1));
  options.first_row = rows.begin;
  options.end_row = rows.end;
  options.shuffle = training && config_.shuffle;
  options.seed = config_.seed;
  options.drop_last = training && config_.drop_last;
  options.shards = PlacementOf(config_).shards;
  options.buffers = kFeedSets;
  // With several devices one of them often waits for another: that core is free.
  const Placement placement = PlacementOf(config_);
  const bool free_core = placement.devices.size() > 1 || placement.threads < CoresOfThisProcess();
  options.foreground_threads = free_core ? 0 : placement.threads;
  options.for_team = [](int count, absl::FunctionRef<void(int)> body) { ForTeam(count, body); };
  ASSIGN_OR_RETURN(*buffers,
                   FeedBuffers::Create(feeds, options.batch_size, options.shards, kFeedSets));
  ASSIGN_OR_RETURN(*loader,
                   Loader::Create(&data.data, data.columns, options, (*buffers)->ForLoader()));
  return absl::OkStatus();
}

MetricSums Trainer::EmptySums() const {
  std::vector<std::string> names = {"loss"};
  for (const MetricConfig& m : config_.metrics) names.push_back(m.name);
  return MetricSums(std::move(names));
}

absl::StatusOr<Measured> Trainer::EvaluateAll(const std::string& prefix) {
  MetricSums sums = EmptySums();
  std::vector<MetricSum> step;
  RETURN_IF_ERROR(validation_loader_->Start(0, 0, 1));
  for (;;) {
    ASSIGN_OR_RETURN(Batch batch, validation_loader_->Next());
    if (!batch) return sums.Values(prefix);
    RETURN_IF_ERROR(session_->Evaluate(*validation_buffers_, batch.buffer(), batch.rows(), &step));
    RETURN_IF_ERROR(Annotate(sums.Add(0, step), "evaluation"));
  }
}

int64_t Trainer::bytes() const {
  int64_t sum = session_->bytes() + BytesOf(*model_) + data_->train.data.bytes();
  if (data_->validation.has_value()) sum += data_->validation->data.bytes();
  for (const auto* buffers : {&train_buffers_, &validation_buffers_}) {
    if (*buffers != nullptr) sum += (*buffers)->bytes();
  }
  for (const auto* loader : {&train_loader_, &validation_loader_}) {
    if (*loader != nullptr) sum += (*loader)->bytes();
  }
  return sum;
}

absl::StatusOr<Measured> Trainer::Evaluate() { return EvaluateAll(""); }

absl::StatusOr<std::vector<std::pair<std::string, Tensor>>> Trainer::Predict() {
  std::vector<std::pair<std::string, Tensor>> all;
  const int64_t rows = data_->train.data.rows();
  int64_t done = 0;
  RETURN_IF_ERROR(validation_loader_->Start(0, 0, 1));
  for (;;) {
    ASSIGN_OR_RETURN(Batch batch, validation_loader_->Next());
    if (!batch) return all;
    const int64_t batch_rows = batch.rows();
    ASSIGN_OR_RETURN(auto outputs,
                     session_->Predict(*validation_buffers_, batch.buffer(), batch_rows));
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Tensor& part = outputs[i].second;
      if (all.size() <= i) {
        Dims dims = part.dims();
        if (!dims.empty()) dims[0] = rows * dims[0] / batch_rows;
        ASSIGN_OR_RETURN(Tensor whole, Tensor::Allocate(part.dtype(), dims));
        all.emplace_back(outputs[i].first, std::move(whole));
      }
      Tensor& whole = all[i].second;
      const int64_t offset = part.dims().empty() ? 0 : part.bytes() / batch_rows * done;
      std::memcpy(static_cast<char*>(whole.data()) + offset, part.data(), part.bytes());
    }
    done += batch_rows;
  }
}

namespace {

// Which changes to the file a parameter's value means.
class ChangeList {
 public:
  explicit ChangeList(const OnnxModel& model) : model_(model) {
    for (const auto& [name, tensor] : model.initializers()) {
      initializers_.insert(name);
      if (IsFloating(tensor->dtype())) types_[name] = tensor->dtype();
    }
  }

  void Add(const Parameter& p, Tensor tensor) {
    auto value = std::make_shared<const Tensor>(InTypeOfFile(p.initializer, std::move(tensor)));
    for (const auto& [ordinal, input] : p.uses) {
      changes_.splits.push_back({model_.NodeOutput(ordinal), input, p.state, value});
    }
    if (!p.uses.empty()) return;
    if (p.bias_of >= 0) {
      changes_.biases.push_back({model_.NodeOutput(p.bias_of), p.initializer, std::move(value)});
      return;
    }
    auto& list = initializers_.contains(p.initializer) ? changes_.values : changes_.restored;
    list.emplace_back(p.initializer, std::move(value));
  }

  void SetMetadata(std::string key, std::string value) {
    changes_.metadata.emplace_back(std::move(key), std::move(value));
  }

  const ExportChanges& changes() const { return changes_; }

 private:
  // A half of the file has been trained in float32. What the file does not have under this
  // name is a half where all of its weights are.
  Tensor InTypeOfFile(const std::string& name, Tensor tensor) const {
    const auto known = types_.find(name);
    DataType type = known == types_.end() ? DataType::kUndefined : known->second;
    for (const auto& [other, of_other] : types_) {
      if (known != types_.end()) break;
      if (type != DataType::kUndefined && type != of_other) return tensor;
      type = of_other;
    }
    const bool half = type == DataType::kFloat16 || type == DataType::kBfloat16;
    if (!half || tensor.dtype() != DataType::kFloat32) return tensor;
    Tensor rounded(type, tensor.dims());
    for (int64_t i = 0; i < tensor.elements(); ++i) {
      const float x = tensor.values<float>()[i];
      rounded.mutable_values<uint16_t>()[i] =
          type == DataType::kFloat16 ? FloatToHalf(x) : FloatToBfloat(x);
    }
    return rounded;
  }

  const OnnxModel& model_;
  absl::flat_hash_set<std::string> initializers_;
  absl::flat_hash_map<std::string, DataType> types_;  // of the floating ones
  ExportChanges changes_;
};

}  // namespace

absl::StatusOr<std::vector<std::string>> Trainer::Export(const std::string& path) const {
  ChangeList list(*model_);
  for (const auto* parameters : {&walk_->parameters().list, &walk_->statistics()}) {
    for (const Parameter& p : *parameters) {
      if (p.frozen || !session_->states().Has(p.state)) continue;
      list.Add(p, session_->states().Read(p.state));
    }
  }
  if (!data_->standardization.empty()) {
    list.SetMetadata(kStandardizeKey, ToJson(data_->standardization).dump());
  }
  return ExportModel(*model_, list.changes(), path);
}

nlohmann::json OriginsToJson(const Walk& walk) {
  nlohmann::json origins = nlohmann::json::array();
  for (const auto* parameters : {&walk.parameters().list, &walk.statistics()}) {
    for (const Parameter& p : *parameters) {
      if (p.frozen) continue;
      origins.push_back({{"state", p.state},
                         {"initializer", p.initializer},
                         {"uses", p.uses},
                         {"bias_of", p.bias_of}});
    }
  }
  return origins;
}

absl::StatusOr<Parameters> OriginsOf(const CheckpointReader& checkpoint) {
  Parameters out;
  try {
    for (const nlohmann::json& origin : checkpoint.training().at("origins")) {
      Parameter p;
      p.state = origin.at("state").get<std::string>();
      p.initializer = origin.at("initializer").get<std::string>();
      p.uses = origin.at("uses").get<std::vector<std::pair<int64_t, int>>>();
      p.bias_of = origin.value("bias_of", int64_t{-1});
      out.list.push_back(std::move(p));
    }
  } catch (const nlohmann::json::exception&) {
    return WithExitCode(absl::InvalidArgumentError(absl::StrCat(
                            checkpoint.path(), ": does not say which initializers it holds")),
                        ExitCode::kNoCheckpoint);
  }
  return out;
}

absl::StatusOr<std::vector<std::string>> ExportCheckpoint(const OnnxModel& model,
                                                          const std::string& checkpoint,
                                                          const std::string& path) {
  ASSIGN_OR_RETURN(const CheckpointReader reader, OpenCheckpoint(checkpoint));
  ASSIGN_OR_RETURN(const Parameters parameters, OriginsOf(reader));
  ChangeList list(model);
  for (const Parameter& p : parameters.list) {
    ASSIGN_OR_RETURN(Tensor value, reader.Read(p.state));
    list.Add(p, std::move(value));
  }
  const auto standardization = reader.training().find(kStandardizeKey);
  if (standardization != reader.training().end()) {
    list.SetMetadata(kStandardizeKey, standardization->dump());
  }
  absl::StatusOr<std::vector<std::string>> changes = ExportModel(model, list.changes(), path);
  if (changes.ok() || ExitCodeOf(changes.status()) != ExitCode::kInternal) return changes;
  // What does not fit was made from another model.
  return absl::Status(
      WithExitCode(absl::FailedPreconditionError(absl::StrCat(
                       checkpoint, ": is not of ", model.path(), ": ", changes.status().message())),
                   ExitCode::kNoCheckpoint));
}

}  // namespace onward
