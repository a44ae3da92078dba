// The training loop: Trainer::Fit.
#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backend/training/callbacks.h"
#include "backend/training/checkpoint.h"
#include "backend/training/metrics.h"
#include "backend/training/schedule.h"
#include "backend/training/trace.h"
#include "backend/training/trainer.h"
#include "graph/base/atomic_file.h"
#include "graph/base/errors.h"
#include "graph/base/status_macros.h"

namespace onward {
namespace {

// States of the best epoch travel in checkpoints under this prefix.
constexpr char kBest[] = "best/";

double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool IsRestored(State::Kind kind) {
  return kind == State::Kind::kParameter || kind == State::Kind::kStatistic;
}

}  // namespace

class FitLoop {
 public:
  explicit FitLoop(Trainer* trainer)
      : t_(*trainer),
        config_(trainer->config_),
        sums_(trainer->EmptySums()),
        steps_per_epoch_(trainer->train_loader_->batches_per_epoch()),
        rate_(*ResolveOptimizer(config_.optimizer).learning_rate) {
    total_steps_ = config_.epochs * steps_per_epoch_;
    if (config_.steps > 0) total_steps_ = std::min(total_steps_, config_.steps);
    monitor_ = !config_.monitor.empty()           ? config_.monitor
               : t_.validation_loader_ != nullptr ? "val_loss"
                                                  : "loss";
    const Direction direction = DirectionOf(monitor_);
    if (config_.early_stopping) {
      EarlyStopping::Options options;
      options.direction = direction;
      options.min_delta = config_.min_delta.value_or(options.min_delta);
      options.patience = config_.patience;
      stopping_.emplace(options);
    }
    if (config_.reduce_lr_on_plateau) {
      ReduceLROnPlateau::Options options;
      options.direction = direction;
      options.min_delta =
          config_.reduce_lr_min_delta.value_or(config_.min_delta.value_or(options.min_delta));
      options.factor = config_.reduce_lr_factor;
      options.patience = config_.reduce_lr_patience;
      options.min_learning_rate = config_.min_learning_rate;
      plateau_.emplace(options);
    }
  }

  absl::Status Run() {
    RETURN_IF_ERROR(CheckMonitor());
    RETURN_IF_ERROR(Resume());
    if (finished_) {
      t_.Say("the run in this checkpoint is finished: nothing to do");
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(t_.train_loader_->Start(epoch_, position_, config_.epochs - epoch_));
    while (!finished_) {
      RETURN_IF_ERROR(RunEpoch());
    }
    if (tracing_ != nullptr) {
      return WriteFileAtomically(config_.trace,
                                 ChromeTrace(tracing_->plan(), tracing_->StopTrace()));
    }
    return absl::OkStatus();
  }

 private:
  ProgressLine* progress() { return t_.listener_.progress; }

  absl::Status CheckMonitor() {
    if (!config_.early_stopping && !config_.reduce_lr_on_plateau) return absl::OkStatus();
    std::vector<std::string> names;
    for (const char* prefix : {"", "val_"}) {
      if (*prefix != 0 && t_.validation_loader_ == nullptr) continue;
      for (const std::string& name : sums_.names()) names.push_back(prefix + name);
    }
    if (std::find(names.begin(), names.end(), monitor_) != names.end()) return absl::OkStatus();
    return WithExitCode(absl::InvalidArgumentError(absl::StrCat(
                            "--monitor ", monitor_, " is not measured; this run measures ",
                            absl::StrJoin(names, ", "))),
                        ExitCode::kUsage);
  }

  absl::Status RunEpoch() {
    const double begin = Seconds();
    int64_t done = (position_ + step_rows() - 1) / step_rows();
    if (progress() != nullptr) {
      progress()->BeginEpoch(epoch_ + 1, steps_per_epoch_, done, begin);
    }
    int64_t samples = 0;
    bool over = done >= steps_per_epoch_;
    while (!over) {
      ASSIGN_OR_RETURN(Batch batch, t_.train_loader_->Next());
      if (!batch) break;
      RETURN_IF_ERROR(RunStep(batch));
      samples += batch.rows();
      position_ = batch.position() + batch.rows();
      whole_epoch_ = batch.last();
      over = whole_epoch_ || step_ >= total_steps_;
      batch.Release();
      if (progress() != nullptr) progress()->Step(++done, samples, sums_.Values(), Seconds());
      if (!over) RETURN_IF_ERROR(BetweenSteps());
    }
    return EndEpoch();
  }

  int64_t step_rows() const { return config_.batch_size * config_.accumulate; }

  absl::Status RunStep(const Batch& batch) {
    const double scheduled = LearningRateAt(config_.schedule, rate_, step_, total_steps_);
    const double rate = plateau_.has_value() ? plateau_->Apply(scheduled) : scheduled;
    RETURN_IF_ERROR(
        t_.session_->Train(*t_.train_buffers_, batch.buffer(), batch.rows(), rate, &step_sums_));
    const absl::Status finite = sums_.Add(step_ + 1, step_sums_);
    if (!finite.ok()) {
      absl::Status told(finite.code(),
                        absl::StrCat(finite.message(),
                                     "; lower --learning-rate, clip gradients by --clip-norm, or "
                                     "look for extreme values in the data"));
      return WithExitCode(std::move(told), ExitCode::kDiverged);
    }
    ++step_;
    if (progress() != nullptr && (plateau_.has_value() || !IsConstant(config_.schedule))) {
      progress()->LearningRate(rate);
    }
    return config_.trace.empty() ? absl::OkStatus() : Trace(batch.rows());
  }

  // Records steps 3 to 20 of this process (or fewer, if there are no more), when all is
  // warm. Only steps of whole batches: those of a smaller one are another plan's.
  absl::Status Trace(int64_t rows) {
    constexpr int64_t kFirst = 2;
    constexpr int64_t kLast = 20;
    ++traced_steps_;
    ASSIGN_OR_RETURN(Executor* const executor,
                     t_.session_->TrainingExecutor(*t_.train_buffers_, rows));
    if (traced_steps_ == kFirst) {
      tracing_ = executor;
      tracing_->StartTrace(100000);
    } else if (traced_steps_ == kLast && tracing_ != nullptr) {
      const std::string text = ChromeTrace(tracing_->plan(), tracing_->StopTrace());
      tracing_ = nullptr;
      return WriteFileAtomically(config_.trace, text);
    }
    return absl::OkStatus();
  }

  // A step that is done may be saved, and a signal is heard.
  absl::Status BetweenSteps() {
    if (config_.save_every > 0 && step_ % config_.save_every == 0) RETURN_IF_ERROR(Save(false));
    return HearSignal();
  }

  absl::Status HearSignal() {
    const int signal = t_.listener_.signal == nullptr ? 0 : t_.listener_.signal->load();
    if (signal == 0) return absl::OkStatus();
    std::string saved = "nothing was saved (no --checkpoint-dir)";
    if (!config_.checkpoint_dir.empty()) {
      RETURN_IF_ERROR(Save(false));
      saved =
          absl::StrCat("saved in ", config_.checkpoint_dir, "; --resume auto goes on from there");
    }
    const bool interrupted = signal == SIGINT;
    return WithExitCode(absl::CancelledError(absl::StrCat(interrupted ? "interrupted" : "preempted",
                                                          " after step ", step_, ": ", saved)),
                        interrupted ? ExitCode::kInterrupted : ExitCode::kPreempted);
  }

  absl::Status EndEpoch() {
    if (progress() != nullptr) progress()->EndSteps(Seconds());
    t_.last_ = sums_.Values();
    if (t_.validation_loader_ != nullptr) {
      ASSIGN_OR_RETURN(const Measured measured, t_.EvaluateAll("val_"));
      t_.last_.insert(t_.last_.end(), measured.begin(), measured.end());
    }
    // Stopped by --steps in the middle of an epoch, the run goes on there another time.
    const bool stop = whole_epoch_ && Decide();
    if (whole_epoch_) {
      ++epoch_;
      position_ = 0;
      sums_.Clear();
    }
    finished_ = stop || epoch_ >= config_.epochs || step_ >= total_steps_;
    if (progress() != nullptr) progress()->EndEpoch(t_.last_, finished_, Seconds());
    for (const std::string& line : said_) t_.Say(line);
    said_.clear();
    if (finished_) RestoreBest();
    const bool due = finished_ || config_.save_every == 0;
    if (!config_.checkpoint_dir.empty() && due) RETURN_IF_ERROR(Save(best_now_));
    return finished_ ? absl::OkStatus() : HearSignal();
  }

  // Once, from reduced values. True: stop.
  bool Decide() {
    double value = 0;
    for (const auto& [name, v] : t_.last_) {
      if (name == monitor_) value = v;
    }
    best_now_ = false;
    bool stop = false;
    std::optional<double> lowered;
    if (plateau_.has_value()) {
      const double scheduled = LearningRateAt(config_.schedule, rate_, step_, total_steps_);
      if (plateau_->OnEpochEnd(value, scheduled)) lowered = plateau_->Apply(scheduled);
    }
    if (stopping_.has_value()) {
      const EarlyStopping::Decision decision = stopping_->OnEpochEnd(epoch_, value);
      best_now_ = decision.best;
      stop = decision.stop;
      if (decision.best && config_.restore_best) KeepBest();
      if (stop) {
        said_.push_back(absl::StrCat("early stopping: ", monitor_, " has not improved for ",
                                     config_.patience, " epochs"));
      }
    }
    // With a lower rate nothing trains any more where the run ends here.
    if (lowered.has_value() && !stop && epoch_ + 1 < config_.epochs) {
      said_.push_back(absl::StrCat("learning rate lowered to ", FormatLearningRate(*lowered)));
    }
    return stop;
  }

  void KeepBest() {
    best_.clear();
    for (const StateStore::Named& named : t_.session_->states().names()) {
      if (!IsRestored(named.kind)) continue;
      best_.push_back({named.name, named.kind, t_.session_->states().Read(named.name)});
    }
  }

  void RestoreBest() {
    if (best_.empty()) return;
    for (const NamedTensor& state : best_) {
      ONWARD_CHECK(t_.session_->states().Write(state.name, state.value).ok());
    }
    t_.Say(absl::StrCat("the parameters of epoch ", stopping_->best_epoch() + 1,
                        ", the best, are given back"));
    best_.clear();
    gave_back_best_ = true;
  }

  // ---- Checkpoints.

  absl::Status Save(bool best) {
    std::vector<NamedTensor> states;
    for (const StateStore::Named& named : t_.session_->states().names()) {
      states.push_back({named.name, named.kind, t_.session_->states().Read(named.name)});
    }
    for (const NamedTensor& b : best_) {
      states.push_back({absl::StrCat(kBest, b.name), b.kind, b.value.Clone()});
    }
    nlohmann::json training = {{"epoch", epoch_},           {"position", position_},
                               {"seed", config_.seed},      {"shards", PlacementOf(config_).shards},
                               {"batch_size", step_rows()}, {"finished", finished_},
                               {"sums", sums_.ToJson()},    {"origins", OriginsToJson(*t_.walk_)}};
    if (!t_.data_->standardization.empty()) {
      training[kStandardizeKey] = ToJson(t_.data_->standardization);
    }
    if (stopping_.has_value()) training["early_stopping"] = stopping_->ToJson();
    if (gave_back_best_) training["holds_best"] = true;
    if (plateau_.has_value()) training["plateau"] = plateau_->ToJson();
    CheckpointOptions options;
    options.dir = config_.checkpoint_dir;
    options.step = step_;
    options.keep = config_.keep;
    options.best = best;
    std::vector<std::string> warnings;
    const absl::Status written = WriteCheckpoint(options, states, training, &warnings).status();
    for (const std::string& warning : warnings) t_.Say(warning);
    return written;
  }

  absl::StatusOr<std::optional<CheckpointReader>> FindCheckpoint() {
    if (config_.resume == ResumeMode::kNever) return std::optional<CheckpointReader>();
    if (config_.resume == ResumeMode::kPath) {
      ASSIGN_OR_RETURN(CheckpointReader reader, OpenCheckpoint(config_.resume_path));
      return std::optional<CheckpointReader>(std::move(reader));
    }
    std::vector<std::string> warnings;
    absl::StatusOr<CheckpointReader> newest = NewestCheckpoint(config_.checkpoint_dir, &warnings);
    for (const std::string& warning : warnings) t_.Say(warning);
    if (newest.ok()) return std::optional<CheckpointReader>(*std::move(newest));
    // A first run has no checkpoint; one whose checkpoints are all broken must not
    // silently start anew.
    if (config_.resume == ResumeMode::kAuto && absl::IsNotFound(newest.status()) &&
        warnings.empty()) {
      return std::optional<CheckpointReader>();
    }
    return newest.status();
  }

  absl::Status Resume() {
    ASSIGN_OR_RETURN(std::optional<CheckpointReader> found, FindCheckpoint());
    if (!found.has_value()) return absl::OkStatus();
    const absl::Status taken = Annotate(Take(*found), found->path());
    RETURN_IF_ERROR(WithExitCode(taken, ExitCode::kNoCheckpoint));
    t_.Say(absl::StrCat("resumed from ", found->path(), ": epoch ", epoch_ + 1, ", ", position_,
                        " samples into it"));
    return absl::OkStatus();
  }

  absl::Status Take(const CheckpointReader& checkpoint) {
    const nlohmann::json& training = checkpoint.training();
    const auto number = [&](const char* name) -> absl::StatusOr<int64_t> {
      const auto it = training.find(name);
      if (it == training.end() || !it->is_number_integer() || it->get<int64_t>() < 0) {
        return absl::InvalidArgumentError(absl::StrCat("holds no '", name, "'"));
      }
      return it->get<int64_t>();
    };
    ASSIGN_OR_RETURN(const int64_t batch, number("batch_size"));
    ASSIGN_OR_RETURN(const int64_t seed, number("seed"));
    if (batch != step_rows() || static_cast<uint64_t>(seed) != config_.seed) {
      return absl::FailedPreconditionError(
          absl::StrCat("is of a run with --batch-size times --accumulate ", batch, " and --seed ",
                       seed, "; this run has ", step_rows(), " and ", config_.seed));
    }
    Standardization before;
    if (training.contains(kStandardizeKey)) {
      ASSIGN_OR_RETURN(before, StandardizationFromJson(training[kStandardizeKey]));
    }
    if (!SameStatistics(before, t_.data_->standardization)) {
      return absl::FailedPreconditionError(
          "is of a run whose data was standardised otherwise: --standardize, the data or "
          "--validation-split differs");
    }
    ASSIGN_OR_RETURN(epoch_, number("epoch"));
    ASSIGN_OR_RETURN(position_, number("position"));
    step_ = checkpoint.step();
    RETURN_IF_ERROR(sums_.FromJson(training.value("sums", nlohmann::json())));
    if (stopping_.has_value() && training.contains("early_stopping")) {
      RETURN_IF_ERROR(stopping_->FromJson(training["early_stopping"]));
    }
    if (plateau_.has_value() && training.contains("plateau")) {
      RETURN_IF_ERROR(plateau_->FromJson(training["plateau"]));
    }
    const bool stopped = stopping_.has_value() && stopping_->wait() >= config_.patience;
    finished_ = training.value("finished", false) &&
                (stopped || epoch_ >= config_.epochs || step_ >= total_steps_);
    RETURN_IF_ERROR(t_.TakeStates(checkpoint));
    for (const CheckpointReader::Entry& entry : checkpoint.states()) {
      if (entry.name.rfind(kBest, 0) != 0) continue;
      ASSIGN_OR_RETURN(Tensor value, checkpoint.Read(entry.name));
      best_.push_back({entry.name.substr(sizeof(kBest) - 1), entry.kind, std::move(value)});
    }
    // A run that had ended and goes on (more epochs, more patience) began from its best.
    if (training.value("holds_best", false) && stopping_.has_value() && config_.restore_best) {
      KeepBest();
    }
    return absl::OkStatus();
  }

  Trainer& t_;
  const RunConfig& config_;
  MetricSums sums_;
  std::vector<MetricSum> step_sums_;
  const int64_t steps_per_epoch_;
  const double rate_;
  int64_t total_steps_ = 0;
  std::string monitor_;
  std::optional<EarlyStopping> stopping_;
  std::optional<ReduceLROnPlateau> plateau_;
  std::vector<std::string> said_;  // by callbacks, printed under the epoch's line
  std::vector<NamedTensor> best_;  // states of the best epoch so far
  bool best_now_ = false;
  bool gave_back_best_ = false;  // the states are those of the best epoch
  bool whole_epoch_ = true;
  Executor* tracing_ = nullptr;  // whose steps are being recorded
  int64_t traced_steps_ = 0;
  int64_t epoch_ = 0;
  int64_t position_ = 0;  // global samples of the epoch that are done
  int64_t step_ = 0;      // optimizer steps that are done
  bool finished_ = false;
};

absl::Status Trainer::Fit() { return FitLoop(this).Run(); }

absl::Status Trainer::TakeStates(const CheckpointReader& checkpoint) {
  for (const StateStore::Named& named : session_->states().names()) {
    const CheckpointReader::Entry* entry = checkpoint.Find(named.name);
    if (entry == nullptr) {
      return absl::FailedPreconditionError(
          absl::StrCat("holds no '", named.name, "': it is of another model or optimizer"));
    }
    ASSIGN_OR_RETURN(const Tensor value, checkpoint.Read(named.name));
    RETURN_IF_ERROR(session_->states().Write(named.name, value));
  }
  return absl::OkStatus();
}

absl::Status Trainer::LoadStates(const std::string& checkpoint) {
  ASSIGN_OR_RETURN(const CheckpointReader reader, OpenCheckpoint(checkpoint));
  return WithExitCode(Annotate(TakeStates(reader), checkpoint), ExitCode::kNoCheckpoint);
}

}  // namespace onward
