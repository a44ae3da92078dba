// A training run: data, steps, validation, callbacks, checkpoints.
#ifndef ONWARD_BACKEND_TRAINING_TRAINER_H_
#define ONWARD_BACKEND_TRAINING_TRAINER_H_

#include <atomic>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backend/training/checkpoint.h"
#include "backend/training/config.h"
#include "backend/training/progress_line.h"
#include "backend/training/run_data.h"
#include "backend/training/session.h"
#include "backend/training/walk.h"
#include "graph/onnx/import.h"

namespace onward {

// Where a run says what it does. All of it may be empty.
struct RunListener {
  std::function<void(const std::string& line)> note;  // what was decided
  ProgressLine* progress = nullptr;                   // the caller's
  StageObserver stage;                                // graphs of the walk
  // The number of the signal that asks the run to stop, or 0. Looked at between steps.
  const std::atomic<int>* signal = nullptr;
};

// Names and values of the loss and the metrics.
using Measured = NamedNumbers;

class Trainer {
 public:
  // Loads the model and the data, decides what is trained, makes the first plan and
  // its memory: everything that can go wrong before a sample is trained on does so
  // here. REQUIRES: Validate(config, command) is ok.
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(const RunConfig& config, Command command,
                                                         RunListener listener);
  ~Trainer();

  // Trains to the end of the run, or until it is stopped: by early stopping (ok), by
  // divergence (kDiverged), by a signal (kInterrupted for SIGINT, else kPreempted;
  // saved before where there is a checkpoint folder). Goes on from a checkpoint where
  // the configuration says so.
  absl::Status Fit();

  // Takes the states' values from a checkpoint. Errors: kNoCheckpoint.
  absl::Status LoadStates(const std::string& checkpoint);

  // Loss and metrics over the validation data (over the data, for Command::kEvaluate).
  absl::StatusOr<Measured> Evaluate();

  // The model's outputs for all samples, in their order.
  absl::StatusOr<std::vector<std::pair<std::string, Tensor>>> Predict();

  // Writes the user's model with the values of the states; returns what was changed.
  absl::StatusOr<std::vector<std::string>> Export(const std::string& path) const;

  // After Fit: the metrics of the last epoch, validation's with "val_" before them.
  const Measured& last() const { return last_; }
  Session& session() { return *session_; }
  const Walk& walk() const { return *walk_; }
  const RunData& data() const { return *data_; }
  // Memory that it holds now: what ForecastMemory (forecast.h) foretells, once the plans
  // of every size of batch have been made.
  int64_t bytes() const;

 private:
  friend class FitLoop;

  Trainer(const RunConfig& config, RunListener listener);
  absl::Status Prepare(Command command);
  // A model whose batch size is fixed has no plan for an epoch's smaller last batch.
  absl::Status CheckFixedBatch(int64_t rows, bool training) const;
  absl::Status MakeLoader(const FittedData& data, RowRange rows, bool training,
                          std::unique_ptr<Loader>* loader,
                          std::unique_ptr<FeedBuffers>* buffers) const;
  MetricSums EmptySums() const;
  absl::StatusOr<Measured> EvaluateAll(const std::string& prefix);
  absl::Status TakeStates(const CheckpointReader& checkpoint);
  void Say(const std::string& line) const;

  RunConfig config_;
  RunListener listener_;
  std::unique_ptr<OnnxModel> model_;
  std::unique_ptr<RunData> data_;
  std::unique_ptr<Walk> walk_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<FeedBuffers> train_buffers_;
  std::unique_ptr<Loader> train_loader_;
  std::unique_ptr<FeedBuffers> validation_buffers_;
  std::unique_ptr<Loader> validation_loader_;
  Measured last_;
};

// Which initializer of the file, or which use of one, each trained state is: kept in
// checkpoints for ExportCheckpoint.
nlohmann::json OriginsToJson(const Walk& walk);

// The trained states of a checkpoint. kNoCheckpoint where it does not say.
absl::StatusOr<Parameters> OriginsOf(const CheckpointReader& checkpoint);

// Writes `model` to `path` with the values of the checkpoint in folder `checkpoint`;
// returns what was changed. Errors: kNoCheckpoint where it is of another model.
absl::StatusOr<std::vector<std::string>> ExportCheckpoint(const OnnxModel& model,
                                                          const std::string& checkpoint,
                                                          const std::string& path);

// Devices, threads and shards that a configuration means on this machine.
Placement PlacementOf(const RunConfig& config);

// "devices: cpu:0 (2 threads), chosen by auto"
std::string DevicesNote(const Placement& placement);

// What a walk is asked for by a configuration and its data.
WalkOptions WalkOptionsOf(const RunConfig& config, const RunData& data);

}  // namespace onward

#endif  // ONWARD_BACKEND_TRAINING_TRAINER_H_
