// Trains a model of tests/models on the batches of its reference, in any setting.
#ifndef ONWARD_TESTS_REFERENCE_RUN_H_
#define ONWARD_TESTS_REFERENCE_RUN_H_

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "backend/runtime/executor.h"
#include "graph/base/tensor.h"
#include "graph/plan/plan.h"
#include "kernels/kernel.h"
#include "tests/reference/training_reference.h"

namespace onward {

struct Setting {
  DataType dtype = DataType::kFloat64;
  int devices = 1;
  int threads = 1;
  int shards = 0;             // 0: one per device
  bool fixed_shards = false;  // --shards
  bool dropout = false;
  bool sync_batch_norm = false;
  int64_t steps = -1;  // -1: the reference's
  int64_t rows = -1;   // of each batch that are used; -1: all
  // Of the steps in turn, none over `rows`; empty: all have `rows`. For TrainOn.
  std::vector<int64_t> batch_sizes;
  double bucket_bytes = 25 << 20;
  const KernelTable* kernels = nullptr;  // null: all
  // By a changed plan only.
  CollectiveThreads collective_threads = CollectiveThreads::kWhereCoresAreFree;
  // Called before a step (begins) and after it, its batch being in place.
  std::function<void(int64_t step, bool begins)> watch;
  // Another model that does the same; empty: the reference's. `names` gives the old names
  // of what has a new one in it: results have the old ones.
  std::string model_bytes;
  std::map<std::string, std::string> names;
};

struct Result {
  std::vector<double> losses;
  std::map<std::string, Tensor> states;
  std::set<std::string> parameters;  // that are trained, by state
  std::string plan;                  // as text
};

// Paths of all references.
std::vector<std::string> References();

absl::StatusOr<Result> TrainOn(const TrainingReference& reference, const TrainingRun& run,
                               const Setting& setting);

// The same by a plan that was changed: what a fault in a strategy, the planner or the
// executor would do. Without dropout.
absl::StatusOr<Result> TrainByChangedPlan(const TrainingReference& reference,
                                          const TrainingRun& run, const Setting& setting,
                                          const std::function<void(Plan*)>& change);

// Where two results differ by more than `tolerance` (of a loss, relative; of a state's
// element, relative to at least 1), for people; empty where they do not.
std::string FirstDifference(const Result& a, const Result& b, double tolerance);

bool SameBits(const Result& a, const Result& b);

}  // namespace onward

#endif  // ONWARD_TESTS_REFERENCE_RUN_H_
