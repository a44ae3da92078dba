#include "backend/training/forecast.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "backend/training/trainer.h"
#include "graph/base/memory.h"
#include "graph/base/status_macros.h"

namespace onward {
namespace {

// Buffers for batches of so many rows of the columns, and the loader's own memory.
int64_t BatchBytes(const RunData& run, const FittedData& data, RowRange range, int64_t rows,
                   bool shuffle, int shards) {
  std::vector<FeedSpec> feeds = run.inputs;
  if (run.labels.has_value()) feeds.push_back(*run.labels);
  int64_t bytes = 0;
  for (int64_t size : ShardSizes(rows, shards)) {
    for (const FeedSpec& feed : feeds) {
      bytes += AlignedBytes(size * Elements(feed.dims) * static_cast<int64_t>(SizeOf(feed.dtype)));
    }
  }
  LoaderOptions options;
  options.batch_size = rows;
  options.first_row = range.begin;
  options.end_row = range.end;
  options.shuffle = shuffle;
  options.shards = shards;
  options.buffers = kFeedSets;
  return bytes * kFeedSets + Loader::Forecast(data.data, data.columns, options, false);
}

// The executor's own feeds: scalars, once per shard or once per device.
int64_t ScalarBytes(const Plan& plan) {
  int64_t bytes = 0;
  for (const PlanFeed& feed : plan.feeds) {
    if (!feed.type.dims.empty()) continue;
    int64_t places = feed.shard_size < 0 ? 1 : 0;
    for (const PlanEntry& e : plan.order) {
      places += feed.shard_size >= 0 && e.device == feed.device && e.shard >= 0 && e.segment == 0 &&
                plan.shard_sizes[e.shard] == feed.shard_size;
    }
    bytes += AlignedBytes(feed.type.bytes()) * places * kFeedSets;
  }
  return bytes;
}

// Adds what a Session takes for a plan, but for the states, which plans share.
void AddPlan(const Plan& plan, MemoryForecast* forecast) {
  for (int d = 0; d < static_cast<int>(plan.devices.size()); ++d) {
    forecast->arenas += plan.ArenaBytes(d);
    forecast->partials += plan.PartialBytes(d);
    forecast->outputs += plan.OutputBytes(d);
  }
  forecast->scalars += ScalarBytes(plan);
  forecast->constants += plan.ConstantBytes();
}

// The sizes of the batches of an epoch over so many rows, the usual one first.
std::vector<int64_t> BatchSizes(int64_t rows, int64_t batch, bool drop_last) {
  std::vector<int64_t> sizes = {batch};
  if (rows % batch != 0 && !drop_last) sizes.push_back(rows % batch);
  return sizes;
}

}  // namespace

int64_t BytesOf(const OnnxModel& model) {
  int64_t bytes = 0;
  for (const auto& [name, tensor] : model.initializers()) bytes += tensor->bytes();
  return bytes;
}

absl::StatusOr<MemoryForecast> ForecastMemory(const RunConfig& config, const OnnxModel& model,
                                              const RunData& data) {
  MemoryForecast forecast;
  forecast.model = BytesOf(model);
  forecast.data = data.train.data.bytes();
  ASSIGN_OR_RETURN(std::unique_ptr<Walk> walk, Walk::Create(&model, WalkOptionsOf(config, data)));
  const int shards = PlacementOf(config).shards;
  const int64_t step = config.batch_size * config.accumulate;
  // Without data: one batch.
  const int64_t rows = data.train.columns.empty() ? step : data.train.data.rows();
  const int64_t kept = TrainingRows(config, rows);
  const int64_t whole = std::min(step, kept);
  forecast.batches += BatchBytes(data, data.train, {0, kept}, whole, config.shuffle, shards);
  // The plan of whole batches is the first: it decides in which layouts states are kept.
  for (int64_t size : BatchSizes(kept, whole, config.drop_last)) {
    ASSIGN_OR_RETURN(const Plan plan, walk->TrainingPlan(size));
    AddPlan(plan, &forecast);
    forecast.states = 0;
    for (size_t d = 0; d < plan.devices.size(); ++d) {
      forecast.states += plan.StateBytes(static_cast<int>(d));
    }
  }
  const FittedData* validation = &data.train;
  RowRange range = {kept, rows};
  if (data.validation.has_value()) {
    validation = &*data.validation;
    range = {0, validation->data.rows()};
    forecast.data += validation->data.bytes();
  }
  if (range.size() == 0) return forecast;
  const int64_t batch = std::min(config.batch_size, range.size());
  forecast.batches += BatchBytes(data, *validation, range, batch, false, shards);
  for (int64_t size : BatchSizes(range.size(), batch, false)) {
    ASSIGN_OR_RETURN(const Plan plan, walk->EvaluationPlan(size));
    AddPlan(plan, &forecast);
  }
  return forecast;
}

}  // namespace onward
