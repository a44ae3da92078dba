// Decisions between epochs: stop early, lower the learning rate.
//
// Both count as Keras 3 does (keras.callbacks.EarlyStopping, ReduceLROnPlateau), with
// one difference: a value that is NaN or infinite never is an improvement. They are
// plain state machines: fed one reduced value per epoch, on one thread, once for all
// replicas, they have no other input, and their state goes into the checkpoint, so that
// a resumed run decides as the uninterrupted one.
#ifndef ONWARD_BACKEND_TRAINING_CALLBACKS_H_
#define ONWARD_BACKEND_TRAINING_CALLBACKS_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace onward {

// Which way a monitored value gets better.
enum class Direction { kMin, kMax };

// By the metric's name, "val_" in front or not: accuracies (accuracy, top_5_accuracy)
// grow; all others (loss, mae, mse) shrink.
Direction DirectionOf(absl::string_view metric);

// Is `value` better than `best` by more than `min_delta`? Everything finite is better
// than no best. Keras' rule: value + min_delta < best, or value - min_delta > best.
bool Improves(Direction direction, double min_delta, double value,
              const std::optional<double>& best);

class EarlyStopping {
 public:
  struct Options {
    Direction direction = Direction::kMin;
    double min_delta = 0;   // >= 0
    int64_t patience = 10;  // epochs, >= 0
  };
  struct Decision {
    // The epoch's parameters are the best so far, and what is to be kept for the end
    // where the best are given back (which is done however training ends). True for
    // the first epoch whatever its value.
    bool best = false;
    // `patience` epochs in a row without improvement. Never after the first epoch.
    bool stop = false;
  };

  explicit EarlyStopping(const Options& options) : options_(options) {}

  // `epoch` counts from 0; `value` is that of the monitored metric.
  Decision OnEpochEnd(int64_t epoch, double value);

  const std::optional<double>& best() const { return best_; }
  int64_t best_epoch() const { return best_epoch_; }  // from 0; -1 before the first
  int64_t wait() const { return wait_; }

  nlohmann::json ToJson() const;
  // InvalidArgument (kNoCheckpoint) where it is not what ToJson writes; nothing is
  // changed then.
  absl::Status FromJson(const nlohmann::json& json);

 private:
  Options options_;
  std::optional<double> best_;
  int64_t best_epoch_ = -1;
  int64_t wait_ = 0;
};

class ReduceLROnPlateau {
 public:
  struct Options {
    Direction direction = Direction::kMin;
    double min_delta = 1e-4;       // >= 0; Keras' default, other than EarlyStopping's
    double factor = 0.5;           // in (0, 1)
    int64_t patience = 5;          // epochs, >= 0
    double min_learning_rate = 0;  // >= 0
  };

  explicit ReduceLROnPlateau(const Options& options) : options_(options) {}

  // The rate to train with where the schedule says `scheduled`: times what has been
  // taken off, but not below min_learning_rate (nor above `scheduled`, where that is
  // below it, as in a warm-up).
  double Apply(double scheduled) const;

  // `value` is that of the monitored metric, `scheduled` the schedule's rate now. True
  // where the rate was lowered. At min_learning_rate it is not, and waiting goes on.
  bool OnEpochEnd(double value, double scheduled);

  double scale() const { return scale_; }
  int64_t wait() const { return wait_; }

  nlohmann::json ToJson() const;
  // As in EarlyStopping.
  absl::Status FromJson(const nlohmann::json& json);

 private:
  Options options_;
  std::optional<double> best_;
  int64_t wait_ = 0;
  double scale_ = 1;
};

}  // namespace onward

#endif  // ONWARD_BACKEND_TRAINING_CALLBACKS_H_
