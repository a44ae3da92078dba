#include "tests/reference/training_reference.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"

namespace onward {
namespace {

constexpr int64_t kSamples = 8;
constexpr uint64_t kSlots = 8;  // streams per batch: inputs, and the labels last
constexpr uint64_t kLabelSlot = 7;

uint64_t Mix(uint64_t z) {  // SplitMix64
  z += 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

std::map<std::string, ArrayStatistics> ReadArrays(const nlohmann::json& object) {
  std::map<std::string, ArrayStatistics> arrays;
  for (const auto& [name, numbers] : object.items()) {
    auto all = numbers.get<std::vector<double>>();
    arrays[name] = {all.at(0), all.at(1), {all.begin() + 2, all.end()}};
  }
  return arrays;
}

TrainingRun ReadRun(const std::string& name, const nlohmann::json& object) {
  TrainingRun run;
  run.name = name;
  run.optimizer = object.at("optimizer");
  run.learning_rate = object.at("learning_rate");
  run.momentum = object.value("momentum", 0.0);
  run.beta_1 = object.value("beta_1", 0.0);
  run.beta_2 = object.value("beta_2", 0.0);
  run.epsilon = object.value("epsilon", 0.0);
  run.losses = object.at("losses").get<std::vector<double>>();
  run.float32_loss_difference = object.at("float32_loss_difference");
  run.zero_gradient = object.at("zero_gradient").get<std::vector<std::string>>();
  run.parameters = ReadArrays(object.at("parameters"));
  run.running_statistics = ReadArrays(object.at("running_statistics"));
  return run;
}

TrainingReference ReadReference(const nlohmann::json& object) {
  TrainingReference reference;
  reference.model = object.at("model");
  reference.framework = object.at("framework");
  reference.loss = object.at("loss");
  reference.classes = object.at("classes");
  reference.batch = object.at("batch");
  reference.distinct_batches = object.at("distinct_batches");
  reference.steps = object.at("steps");
  for (const auto& input : object.at("inputs")) {
    const auto dims = input.at("shape").get<std::vector<int64_t>>();
    reference.inputs.push_back({input.at("name"), Dims(dims.begin(), dims.end())});
  }
  for (const auto& [name, run] : object.at("runs").items()) {
    reference.runs.push_back(ReadRun(name, run));
  }
  return reference;
}

template <typename T>
void Fill(uint64_t stream, absl::Span<T> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<T>(static_cast<double>(SyntheticDraw(stream, i)) / (1 << 22) - 2);
  }
}

}  // namespace

uint64_t SyntheticDraw(uint64_t stream, uint64_t index) {
  return Mix((stream << 32) + index) >> 40;
}

ArrayStatistics StatisticsOf(const Tensor& tensor) {
  ArrayStatistics statistics;
  const int64_t size = tensor.elements();
  for (int64_t i = 0; i < size; ++i) {
    statistics.sum += tensor.At(i);
    statistics.sum_of_squares += tensor.At(i) * tensor.At(i);
  }
  const int64_t count = std::min(kSamples, size);
  for (int64_t k = 0; k < count; ++k) statistics.values.push_back(tensor.At(k * size / count));
  return statistics;
}

double Difference(const ArrayStatistics& actual, const ArrayStatistics& expected, double floor) {
  if (actual.values.size() != expected.values.size()) {
    return std::numeric_limits<double>::infinity();
  }
  double largest = 0;
  for (size_t i = 0; i < expected.values.size(); ++i) {
    const double difference = std::abs(actual.values[i] - expected.values[i]) /
                              std::max(std::abs(expected.values[i]), floor);
    if (std::isnan(difference)) return difference;
    largest = std::max(largest, difference);
  }
  return largest;
}

absl::StatusOr<TrainingReference> ReadTrainingReference(const std::string& path) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(absl::StrCat(path, ": cannot be read"));
  try {
    return ReadReference(nlohmann::json::parse(file));
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", error.what()));
  }
}

std::vector<Tensor> SyntheticInputs(const TrainingReference& reference, int64_t step,
                                    DataType dtype) {
  const uint64_t batch = step % reference.distinct_batches;
  std::vector<Tensor> tensors;
  for (size_t k = 0; k < reference.inputs.size(); ++k) {
    Tensor tensor(dtype, reference.inputs[k].dims);
    if (dtype == DataType::kFloat64) {
      Fill(kSlots * batch + k, tensor.mutable_values<double>());
    } else {
      Fill(kSlots * batch + k, tensor.mutable_values<float>());
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

Tensor SyntheticLabels(const TrainingReference& reference, int64_t step) {
  const uint64_t batch = step % reference.distinct_batches;
  Tensor labels(DataType::kInt64, {reference.batch});
  auto values = labels.mutable_values<int64_t>();
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<int64_t>(SyntheticDraw(kSlots * batch + kLabelSlot, i) %
                                     static_cast<uint64_t>(reference.classes));
  }
  return labels;
}

}  // namespace onward
