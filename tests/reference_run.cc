#include "tests/reference_run.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "backend/runtime/executor.h"
#include "backend/training/session.h"
#include "backend/training/walk.h"
#include "graph/base/status_macros.h"
#include "graph/passes/optimizer.h"

namespace onward {
namespace {

std::string NewName(const Setting& setting, const std::string& name) {
  for (const auto& [renamed, old] : setting.names) {
    if (old == name) return renamed;
  }
  return name;
}

// A moment is called as what it belongs to, and more: "w/mean". '~' makes names differ.
std::string OldName(const Setting& setting, std::string state, State::Kind kind) {
  if (kind == State::Kind::kCounter) return state;
  state.erase(std::remove(state.begin(), state.end(), '~'), state.end());
  const size_t end = kind == State::Kind::kMoment ? state.rfind('/') : state.size();
  const auto it = setting.names.find(state.substr(0, end));
  return it == setting.names.end() ? state : it->second + state.substr(end);
}

WalkOptions OptionsFor(const TrainingReference& reference, const TrainingRun& run,
                       const Setting& setting) {
  WalkOptions options;
  for (const auto& input : reference.inputs) {
    options.inputs.push_back({NewName(setting, input.name), setting.dtype,
                              Dims(input.dims.begin() + 1, input.dims.end())});
  }
  options.loss.kind = LossRequest::Kind::kCrossEntropy;
  options.dropout = setting.dropout;
  options.sync_batch_norm = setting.sync_batch_norm;
  const bool keras = absl::StartsWith(reference.framework, "Keras");
  options.optimizer.formula = keras ? FormulaOf::kKeras : FormulaOf::kPyTorch;
  if (run.optimizer == "adam") {
    options.optimizer.rule = OptimizerSpec::Rule::kAdam;
    options.optimizer.beta1 = run.beta_1;
    options.optimizer.beta2 = run.beta_2;
    options.optimizer.epsilon = run.epsilon;
  } else {
    options.optimizer.momentum = run.momentum;
  }
  for (int d = 0; d < setting.devices; ++d) {
    options.placement.devices.push_back({Device::Kind::kCpu, d});
  }
  options.placement.threads = setting.threads;
  options.placement.shards = setting.shards == 0 ? setting.devices : setting.shards;
  options.placement.fixed_shards = setting.fixed_shards;
  options.placement.bucket_bytes = static_cast<int64_t>(setting.bucket_bytes);
  options.kernels = setting.kernels;
  return options;
}

// Writes a batch into set 0, shard by shard.
void FillBatch(const TrainingReference& reference, int64_t step, int64_t rows,
               const Setting& setting, const std::vector<FeedSpec>& feeds,
               const FeedBuffers& buffers, int shards) {
  std::vector<Tensor> tensors = SyntheticInputs(reference, step, setting.dtype);
  tensors.push_back(SyntheticLabels(reference, step));
  const std::vector<int64_t> sizes = ShardSizes(rows, shards);
  for (size_t f = 0; f < feeds.size(); ++f) {
    const int64_t row = tensors[f].bytes() / reference.batch;
    int64_t begin = 0;
    for (int s = 0; s < shards; ++s) {
      std::memcpy(buffers.Memory(feeds[f].name, s, 0),
                  static_cast<const char*>(tensors[f].data()) + begin * row, sizes[s] * row);
      begin += sizes[s];
    }
  }
}

}  // namespace

std::vector<std::string> References() {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator("tests/reference")) {
    const std::string name = entry.path().filename().string();
    if (absl::StartsWith(name, "training-")) paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

namespace {

// All that a run needs but its states and executors.
struct Prepared {
  std::unique_ptr<OnnxModel> model;
  std::unique_ptr<Walk> walk;
  std::vector<FeedSpec> feeds;
  std::unique_ptr<FeedBuffers> buffers;
  int shards = 1;
  int64_t rows = 0;
  int64_t steps = 0;
};

absl::StatusOr<Prepared> Prepare(const TrainingReference& reference, const TrainingRun& run,
                                 const Setting& setting) {
  Prepared p;
  if (setting.model_bytes.empty()) {
    ASSIGN_OR_RETURN(p.model, OnnxModel::Load(absl::StrCat("tests/models/", reference.model)));
  } else {
    ASSIGN_OR_RETURN(p.model, OnnxModel::FromBytes(setting.model_bytes, reference.model));
  }
  if (setting.dtype == DataType::kFloat64) RETURN_IF_ERROR(p.model->WidenToFloat64());
  WalkOptions options = OptionsFor(reference, run, setting);
  p.feeds = options.inputs;
  p.feeds.push_back({kLabelsFeed, DataType::kInt64, {}});
  p.shards = options.placement.shards;
  p.rows = setting.rows < 0 ? reference.batch : setting.rows;
  p.steps = setting.steps < 0 ? reference.steps : setting.steps;
  ASSIGN_OR_RETURN(p.walk, Walk::Create(p.model.get(), std::move(options)));
  ASSIGN_OR_RETURN(p.buffers, FeedBuffers::Create(p.feeds, p.rows, p.shards, 2));
  return p;
}

void TakeStates(const Setting& setting, const Prepared& p, const StateStore& states,
                Result* result) {
  for (const auto& named : states.names()) {
    result->states.emplace(OldName(setting, named.name, named.kind), states.Read(named.name));
  }
  for (const Parameter& parameter : p.walk->parameters().list) {
    if (!parameter.frozen)
      result->parameters.insert(OldName(setting, parameter.state, State::Kind::kParameter));
  }
}

}  // namespace

absl::StatusOr<Result> TrainOn(const TrainingReference& reference, const TrainingRun& run,
                               const Setting& setting) {
  ASSIGN_OR_RETURN(const Prepared p, Prepare(reference, run, setting));
  Session session(p.walk.get());
  Result result;
  std::vector<MetricSum> sums;
  for (int64_t step = 0; step < p.steps; ++step) {
    const std::vector<int64_t>& sizes = setting.batch_sizes;
    const int64_t rows = sizes.empty() ? p.rows : sizes[step % sizes.size()];
    FillBatch(reference, step, rows, setting, p.feeds, *p.buffers, p.shards);
    if (setting.watch) setting.watch(step, true);
    const absl::Status trained = session.Train(*p.buffers, 0, rows, run.learning_rate, &sums);
    if (setting.watch) setting.watch(step, false);
    RETURN_IF_ERROR(trained);
    result.losses.push_back(sums[0].numerator / sums[0].denominator);
  }
  TakeStates(setting, p, session.states(), &result);
  ASSIGN_OR_RETURN(const Executor* executor, session.TrainingExecutor(*p.buffers, p.rows));
  result.plan = ToText(executor->plan());
  return result;
}

absl::StatusOr<Result> TrainByChangedPlan(const TrainingReference& reference,
                                          const TrainingRun& run, const Setting& setting,
                                          const std::function<void(Plan*)>& change) {
  ASSIGN_OR_RETURN(const Prepared p, Prepare(reference, run, setting));
  ASSIGN_OR_RETURN(Plan plan, p.walk->TrainingPlan(p.rows));
  change(&plan);
  Result result;
  result.plan = ToText(plan);
  StateStore states(setting.devices);
  RETURN_IF_ERROR(states.Add(plan));
  ExecutorOptions options;
  options.feed_memory = [&p](const std::string& feed, int shard, int set) {
    return p.buffers->Memory(feed, shard, set);
  };
  options.collective_threads = setting.collective_threads;
  ASSIGN_OR_RETURN(std::unique_ptr<Executor> executor,
                   Executor::Create(std::move(plan), p.walk->kernels(), &states, options));
  for (int64_t step = 0; step < p.steps; ++step) {
    FillBatch(reference, step, p.rows, setting, p.feeds, *p.buffers, p.shards);
    executor->Scalar(kLearningRateFeed).Set(run.learning_rate, 0);
    RETURN_IF_ERROR(executor->Run(0));
    const double* sums = executor->Output(kMetricsOutput).as<double>();
    result.losses.push_back(sums[0] / sums[1]);
  }
  TakeStates(setting, p, states, &result);
  return result;
}

std::string FirstDifference(const Result& a, const Result& b, double tolerance) {
  if (a.losses.size() != b.losses.size()) return "one has more losses";
  if (a.losses.empty()) return "there is no loss";
  // Written so that NaN differs from everything.
  for (size_t i = 0; i < a.losses.size(); ++i) {
    if (std::fabs(a.losses[i] - b.losses[i]) <= tolerance * std::fabs(b.losses[i])) continue;
    return absl::StrCat("loss of step ", i, ": ", a.losses[i], " and ", b.losses[i]);
  }
  if (a.states.size() != b.states.size()) return "one has more states";
  for (const auto& [name, tensor] : b.states) {
    const auto it = a.states.find(name);
    if (it == a.states.end()) return absl::StrCat("there is no state ", name);
    for (int64_t i = 0; i < tensor.elements(); ++i) {
      const double x = it->second.At(i), y = tensor.At(i);
      if (std::fabs(x - y) <= tolerance * std::max(1.0, std::fabs(y))) continue;
      return absl::StrCat(name, " element ", i, ": ", x, " and ", y);
    }
  }
  return "";
}

bool SameBits(const Result& a, const Result& b) {
  if (a.losses != b.losses || a.states.size() != b.states.size()) return false;
  for (const auto& [name, tensor] : a.states) {
    const auto it = b.states.find(name);
    if (it == b.states.end() || it->second.bytes() != tensor.bytes() ||
        std::memcmp(it->second.data(), tensor.data(), tensor.bytes()) != 0) {
      return false;
    }
  }
  return true;
}

}  // namespace onward
