// The data of a run, fitted to the model.
#ifndef ONWARD_BACKEND_TRAINING_RUN_DATA_H_
#define ONWARD_BACKEND_TRAINING_RUN_DATA_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "backend/data/dataset.h"
#include "backend/data/loader.h"
#include "backend/training/config.h"
#include "backend/training/standardization.h"
#include "backend/training/walk.h"
#include "graph/onnx/import.h"

namespace onward {

// A data set and the way of its columns into batches: the model's inputs in order,
// then the labels where there are any.
struct FittedData {
  Dataset data;
  std::vector<LoaderColumn> columns;
};

struct RunData {
  FittedData train;  // evaluate and predict: the data given
  std::optional<FittedData> validation;
  std::vector<FeedSpec> inputs;
  std::optional<FeedSpec> labels;
  std::shared_ptr<const OnnxModel> loss_model;  // null: the loss is none of a file
  LossRequest loss;                             // with the labels' form filled in
  Standardization standardization;              // empty without config.standardize, when training
  std::vector<std::string> notes;               // what was chosen, one printable line each
};

// How many of the first rows of the data train: those that --validation-split leaves.
int64_t TrainingRows(const RunConfig& config, int64_t rows);

// Reads what `config` names for `command` and fits it to the model's inputs and to
// the loss. Where inputs are standardised, it is by the mean and deviation of the rows
// that train; evaluate and predict take those from the checkpoint or the model. Errors: kData for
// files and shapes, kUsage for what is missing.
absl::StatusOr<std::unique_ptr<RunData>> ReadRunData(const RunConfig& config, Command command,
                                                     const OnnxModel& model);

// What a step is fed with where no data is read: the model's own extents, those of
// config.dims, and labels of the loss's usual form (one class number, or values of the
// prediction's shape). kUsage, naming the flag, where an extent is open.
absl::StatusOr<std::unique_ptr<RunData>> AssumeRunData(const RunConfig& config,
                                                       const OnnxModel& model);

}  // namespace onward

#endif  // ONWARD_BACKEND_TRAINING_RUN_DATA_H_
