// Reads training-*.json (README.md): what training does to a model of tests/models
// in the framework that exported it, and the batches that it was trained on.
#ifndef ONWARD_TESTS_REFERENCE_TRAINING_REFERENCE_H_
#define ONWARD_TESTS_REFERENCE_TRAINING_REFERENCE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/base/tensor.h"

namespace onward {

// What is kept of an array: sums, and the elements at floor(k * size / 8), k = 0..7,
// of the flat array (all of them where there are fewer than 8).
struct ArrayStatistics {
  double sum = 0;
  double sum_of_squares = 0;
  std::vector<double> values;
};

// Of a tensor of any floating-point type.
ArrayStatistics StatisticsOf(const Tensor& tensor);

// The largest difference of an element, relative to max(|expected|, floor).
// NaN where one is; infinite where there is not the same number of them.
double Difference(const ArrayStatistics& actual, const ArrayStatistics& expected, double floor);

struct TrainingRun {
  std::string name;       // "sgd", "adam", "sgd_gentle", "adam_gentle"
  std::string optimizer;  // "sgd" or "adam"
  double learning_rate = 0;
  double momentum = 0;                         // of sgd
  double beta_1 = 0, beta_2 = 0, epsilon = 0;  // of adam
  std::vector<double> losses;                  // before each step
  // How far the framework's own float32 leaves these numbers, which are float64's:
  // the largest relative difference of a loss. Above 1e-4 only float64 can follow.
  double float32_loss_difference = 0;
  std::vector<std::string> zero_gradient;                     // parameters not to be compared
  std::map<std::string, ArrayStatistics> parameters;          // by name in the model's file
  std::map<std::string, ArrayStatistics> running_statistics;  // as ONNX defines them
};

struct TrainingReference {
  struct Input {
    std::string name;
    Dims dims;  // with the batch
  };
  std::string model;      // file in tests/models
  std::string framework;  // "Keras 3.15.1 (TensorFlow 2.21.0)"
  std::string loss;       // "cross_entropy" (logits), "nll", "sparse_categorical_crossentropy"
  int64_t classes = 0;
  int64_t batch = 0;
  int64_t distinct_batches = 0;
  int64_t steps = 0;
  std::vector<Input> inputs;
  std::vector<TrainingRun> runs;
};

absl::StatusOr<TrainingReference> ReadTrainingReference(const std::string& path);

// What step `step` is trained on: one tensor of `dtype` (kFloat32 or kFloat64) per
// input, and int64 labels [batch]. The numbers are exact in both types.
std::vector<Tensor> SyntheticInputs(const TrainingReference& reference, int64_t step,
                                    DataType dtype);
Tensor SyntheticLabels(const TrainingReference& reference, int64_t step);

// The formula behind them: 24 random bits.
uint64_t SyntheticDraw(uint64_t stream, uint64_t index);

}  // namespace onward

#endif  // ONWARD_TESTS_REFERENCE_TRAINING_REFERENCE_H_
