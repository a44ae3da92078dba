// Trains a model of tests/models on the batches of its reference, in any setting.
#ifndef ONWARD_TESTS_REFERENCE_RUN_H_
#define ONWARD_TESTS_REFERENCE_RUN_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/base/tensor.h"
#include "tests/reference/training_reference.h"

namespace onward {

struct Setting {
  DataType dtype = DataType::kFloat64;
  int devices = 1;
  int threads = 1;
  int shards = 0;             // 0: one per device
  bool fixed_shards = false;  // --shards
  bool dropout = false;
  int64_t steps = -1;  // -1: the reference's
  int64_t rows = -1;   // of each batch that are used; -1: all
  double bucket_bytes = 25 << 20;
};

struct Result {
  std::vector<double> losses;
  std::map<std::string, Tensor> states;
  std::string plan;  // as text
};

// Paths of all references.
std::vector<std::string> References();

absl::StatusOr<Result> TrainOn(const TrainingReference& reference, const TrainingRun& run,
                               const Setting& setting);

}  // namespace onward

#endif  // ONWARD_TESTS_REFERENCE_RUN_H_
