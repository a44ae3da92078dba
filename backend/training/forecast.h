// What memory a training run takes, told from its plans before it runs.
#ifndef ONWARD_BACKEND_TRAINING_FORECAST_H_
#define ONWARD_BACKEND_TRAINING_FORECAST_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "backend/training/config.h"
#include "backend/training/run_data.h"
#include "graph/onnx/import.h"

namespace onward {

// Batches that wait, are used and are filled.
inline constexpr int kFeedSets = 3;

// Tensors of the file.
int64_t BytesOf(const OnnxModel& model);

// In bytes, over all devices. Exact, but for what the program itself takes (code, stacks
// of threads, the primitives of libraries): some tens of megabytes.
struct MemoryForecast {
  int64_t arenas = 0;    // of all plans: batches, a smaller last one, those of validation
  int64_t states = 0;    // a copy on every device
  int64_t partials = 0;  // sums of shards
  int64_t outputs = 0;
  int64_t constants = 0;
  int64_t scalars = 0;  // feeds that are no samples
  int64_t batches = 0;  // buffers that loaders fill, and what those need besides
  int64_t data = 0;     // columns in memory
  int64_t model = 0;    // tensors of the file, which the export needs

  int64_t total() const {
    return arenas + states + partials + outputs + constants + scalars + batches + data + model;
  }
};

// Of a run of `train` with this configuration. Makes the plans that the run will make.
absl::StatusOr<MemoryForecast> ForecastMemory(const RunConfig& config, const OnnxModel& model,
                                              const RunData& data);

}  // namespace onward

#endif  // ONWARD_BACKEND_TRAINING_FORECAST_H_
