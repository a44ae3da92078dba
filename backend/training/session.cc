#include "backend/training/session.h"

#include <cstring>

#include "graph/base/memory.h"
#include "graph/base/status_macros.h"
#include "graph/passes/optimizer.h"
#include "graph/passes/training_mode.h"

namespace onward {

absl::StatusOr<std::unique_ptr<FeedBuffers>> FeedBuffers::Create(const std::vector<FeedSpec>& feeds,
                                                                 int64_t rows, int shards,
                                                                 int sets) {
  auto out = std::make_unique<FeedBuffers>();
  out->feeds_ = feeds;
  const std::vector<int64_t> sizes = ShardSizes(rows, shards);
  for (int set = 0; set < sets; ++set) {
    out->memory_.emplace_back();
    for (const FeedSpec& feed : feeds) {
      out->memory_.back().emplace_back();
      for (int64_t size : sizes) {
        const int64_t bytes = size * Elements(feed.dims) * static_cast<int64_t>(SizeOf(feed.dtype));
        ASSIGN_OR_RETURN(DeviceMemory memory, DeviceMemory::Allocate(bytes));
        out->memory_.back().back().push_back(std::move(memory));
        out->bytes_ += AlignedBytes(bytes);
      }
    }
  }
  return out;
}

std::vector<BatchBuffers> FeedBuffers::ForLoader() const {
  std::vector<BatchBuffers> out;
  for (const auto& set : memory_) {
    out.emplace_back();
    for (const auto& feed : set) {
      out.back().emplace_back();
      for (const DeviceMemory& shard : feed) out.back().back().push_back(shard.data());
    }
  }
  return out;
}

void* FeedBuffers::Memory(const std::string& feed, int shard, int set) const {
  for (size_t f = 0; f < feeds_.size(); ++f) {
    if (feeds_[f].name == feed) return memory_[set][f][shard].data();
  }
  return nullptr;
}

Session::Session(Walk* walk)
    : walk_(walk), states_(static_cast<int>(walk->options().placement.devices.size())) {}

absl::StatusOr<Session::Stepper*> Session::Get(Mode mode, const FeedBuffers& buffers,
                                               int64_t rows) {
  const Key key = std::make_tuple(mode, rows, &buffers);
  if (last_ != nullptr && key == last_key_) return last_;
  auto it = steppers_.find(key);
  if (it == steppers_.end()) {
    ASSIGN_OR_RETURN(Stepper made, Make(mode, buffers, rows));
    it = steppers_.emplace(key, std::move(made)).first;
  }
  last_key_ = key;
  last_ = &it->second;
  return last_;
}

absl::StatusOr<Session::Stepper> Session::Make(Mode mode, const FeedBuffers& buffers,
                                               int64_t rows) {
  absl::StatusOr<Plan> plan = mode == Mode::kTrain      ? walk_->TrainingPlan(rows)
                              : mode == Mode::kEvaluate ? walk_->EvaluationPlan(rows)
                                                        : walk_->PredictionPlan(rows);
  if (!plan.ok()) return plan.status();
  RETURN_IF_ERROR(states_.Add(*plan));
  ExecutorOptions options;
  options.feed_sets = buffers.sets();
  options.feed_memory = [&buffers](const std::string& feed, int shard, int set) {
    return buffers.Memory(feed, shard, set);
  };
  Stepper stepper;
  ASSIGN_OR_RETURN(stepper.executor,
                   Executor::Create(*std::move(plan), walk_->kernels(), &states_, options));
  stepper.learning_rate = stepper.executor->Scalar(kLearningRateFeed);
  stepper.metrics = stepper.executor->Output(kMetricsOutput);
  // Where each shard's samples begin in the batch: for random numbers.
  const std::vector<int64_t>& sizes = stepper.executor->plan().shard_sizes;
  int64_t offset = 0;
  for (size_t s = 0; s < sizes.size(); ++s) {
    const ScalarFeed feed = stepper.executor->ShardScalar(kSampleOffsetFeed, static_cast<int>(s));
    for (int set = 0; set < buffers.sets(); ++set) feed.Set(static_cast<double>(offset), set);
    offset += sizes[s];
  }
  return stepper;
}

int64_t Session::bytes() const {
  int64_t sum = states_.bytes();
  for (const auto& [key, stepper] : steppers_) sum += stepper.executor->bytes();
  return sum;
}

absl::StatusOr<Executor*> Session::TrainingExecutor(const FeedBuffers& buffers, int64_t rows) {
  ASSIGN_OR_RETURN(Stepper * stepper, Get(Mode::kTrain, buffers, rows));
  return stepper->executor.get();
}

absl::StatusOr<Executor*> Session::EvaluationExecutor(const FeedBuffers& buffers, int64_t rows) {
  ASSIGN_OR_RETURN(Stepper * stepper, Get(Mode::kEvaluate, buffers, rows));
  return stepper->executor.get();
}

absl::StatusOr<Executor*> Session::PredictionExecutor(const FeedBuffers& buffers, int64_t rows) {
  ASSIGN_OR_RETURN(Stepper * stepper, Get(Mode::kPredict, buffers, rows));
  return stepper->executor.get();
}

absl::Status Session::Measure(Mode mode, const FeedBuffers& buffers, int set, int64_t rows,
                              double learning_rate, std::vector<MetricSum>* sums) {
  ASSIGN_OR_RETURN(Stepper * stepper, Get(mode, buffers, rows));
  stepper->learning_rate.Set(learning_rate, set);
  RETURN_IF_ERROR(stepper->executor->Run(set));
  const auto* numbers = stepper->metrics.as<double>();
  sums->resize(stepper->metrics.type.elements() / 2);
  for (size_t i = 0; i < sums->size(); ++i) (*sums)[i] = {numbers[2 * i], numbers[2 * i + 1]};
  return absl::OkStatus();
}

absl::Status Session::Train(const FeedBuffers& buffers, int set, int64_t rows, double learning_rate,
                            std::vector<MetricSum>* sums) {
  return Measure(Mode::kTrain, buffers, set, rows, learning_rate, sums);
}

absl::Status Session::Evaluate(const FeedBuffers& buffers, int set, int64_t rows,
                               std::vector<MetricSum>* sums) {
  return Measure(Mode::kEvaluate, buffers, set, rows, 0, sums);
}

absl::StatusOr<std::vector<std::pair<std::string, Tensor>>> Session::Predict(
    const FeedBuffers& buffers, int set, int64_t rows) {
  ASSIGN_OR_RETURN(Stepper * stepper, Get(Mode::kPredict, buffers, rows));
  const std::unique_ptr<Executor>& executor = stepper->executor;
  RETURN_IF_ERROR(executor->Run(set));
  std::vector<std::pair<std::string, Tensor>> out;
  const Plan& plan = executor->plan();
  for (const PlanOutput& o : plan.outputs) {
    if (o.device != 0) continue;
    // The devices' rows, one behind the other.
    TensorType type = executor->Output(o.name, 0).type;
    if (type.dims.empty()) {
      Tensor scalar(type.dtype, {});
      std::memcpy(scalar.data(), executor->Output(o.name, 0).data, scalar.bytes());
      out.emplace_back(o.name, std::move(scalar));
      continue;
    }
    type.dims[0] = 0;
    for (size_t d = 0; d < plan.devices.size(); ++d) {
      type.dims[0] += executor->Output(o.name, static_cast<int>(d)).type.dims[0];
    }
    Tensor all(type.dtype, type.dims);
    char* to = static_cast<char*>(all.data());
    for (size_t d = 0; d < plan.devices.size(); ++d) {
      const TensorView part = executor->Output(o.name, static_cast<int>(d));
      std::memcpy(to, part.data, part.type.bytes());
      to += part.type.bytes();
    }
    out.emplace_back(o.name, std::move(all));
  }
  return out;
}

}  // namespace onward
