// Steps over one set of states: executors for every size of batch, made when needed.
#ifndef ONWARD_BACKEND_TRAINING_SESSION_H_
#define ONWARD_BACKEND_TRAINING_SESSION_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backend/data/loader.h"
#include "backend/runtime/executor.h"
#include "backend/runtime/state_store.h"
#include "backend/training/metrics.h"
#include "backend/training/walk.h"

namespace onward {

// Memory for batches of up to `rows` rows, cut into shards as steps will cut them.
class FeedBuffers {
 public:
  // REQUIRES: rows >= 1, sets >= 2.
  static absl::StatusOr<std::unique_ptr<FeedBuffers>> Create(const std::vector<FeedSpec>& feeds,
                                                             int64_t rows, int shards, int sets);
  // As the loader takes them: one per set.
  std::vector<BatchBuffers> ForLoader() const;
  void* Memory(const std::string& feed, int shard, int set) const;
  int sets() const { return static_cast<int>(memory_.size()); }
  int64_t bytes() const { return bytes_; }  // each piece rounded up to 64

 private:
  std::vector<FeedSpec> feeds_;
  std::vector<std::vector<std::vector<DeviceMemory>>> memory_;  // set, feed, shard
  int64_t bytes_ = 0;
};

class Session {
 public:
  // The walk must outlive it. Makes no plan yet.
  explicit Session(Walk* walk);

  // One training step on the rows that are in set `set` of `buffers`. `sums` becomes the
  // step's: of the loss, then of every metric.
  absl::Status Train(const FeedBuffers& buffers, int set, int64_t rows, double learning_rate,
                     std::vector<MetricSum>* sums);
  absl::Status Evaluate(const FeedBuffers& buffers, int set, int64_t rows,
                        std::vector<MetricSum>* sums);
  // The model's outputs for the rows, in the order of the model's outputs.
  absl::StatusOr<std::vector<std::pair<std::string, Tensor>>> Predict(const FeedBuffers& buffers,
                                                                      int set, int64_t rows);

  // Makes the executor for batches of `rows` now.
  absl::StatusOr<Executor*> TrainingExecutor(const FeedBuffers& buffers, int64_t rows);
  absl::StatusOr<Executor*> EvaluationExecutor(const FeedBuffers& buffers, int64_t rows);
  absl::StatusOr<Executor*> PredictionExecutor(const FeedBuffers& buffers, int64_t rows);

  // Memory of the states on all devices and of the executors that were made.
  int64_t bytes() const;

  StateStore& states() { return states_; }
  const StateStore& states() const { return states_; }

 private:
  enum class Mode { kTrain, kEvaluate, kPredict };
  // An executor, with what every step asks of it at hand.
  struct Stepper {
    std::unique_ptr<Executor> executor;
    ScalarFeed learning_rate;
    TensorView metrics;
  };
  // By mode, rows and the buffers that it is bound to.
  using Key = std::tuple<Mode, int64_t, const FeedBuffers*>;
  absl::StatusOr<Stepper*> Get(Mode mode, const FeedBuffers& buffers, int64_t rows);
  absl::StatusOr<Stepper> Make(Mode mode, const FeedBuffers& buffers, int64_t rows);
  absl::Status Measure(Mode mode, const FeedBuffers& buffers, int set, int64_t rows,
                       double learning_rate, std::vector<MetricSum>* sums);

  Walk* walk_;
  StateStore states_;
  std::map<Key, Stepper> steppers_;
  // That of the last step, which is mostly that of the next.
  Key last_key_;
  Stepper* last_ = nullptr;
};

}  // namespace onward

#endif  // ONWARD_BACKEND_TRAINING_SESSION_H_
