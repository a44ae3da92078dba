// Loss and metrics of an epoch, out of those of its steps.
#ifndef ONWARD_BACKEND_TRAINING_METRICS_H_
#define ONWARD_BACKEND_TRAINING_METRICS_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace onward {

// One metric's share of a step: a sum over the samples of all shards and replicas, and
// what it is to be divided by (samples, elements, or the weights of the kept labels).
struct MetricSum {
  double numerator = 0;
  double denominator = 0;
  bool operator==(const MetricSum& o) const {
    return numerator == o.numerator && denominator == o.denominator;
  }
};

// Sums numerators and denominators apart, in double and in the order of steps, and
// divides once: the means are exact over batches of any sizes. Not thread-safe.
class MetricSums {
 public:
  // `names` as they are shown, the loss among them: "loss", "accuracy", ...
  explicit MetricSums(std::vector<std::string> names)
      : names_(std::move(names)), sums_(names_.size()) {}

  // `step` is the optimizer step, for the message. One pair per name, in their order.
  // InvalidArgument (kDiverged) where one is NaN or infinite: it names the first such
  // metric; nothing is added then. REQUIRES: sums.size() == names().size().
  absl::Status Add(int64_t step, absl::Span<const MetricSum> sums);

  // A new epoch.
  void Clear();

  const std::vector<std::string>& names() const { return names_; }
  // The mean so far: NaN where nothing counted (no samples, or all labels ignored).
  double Value(size_t i) const;
  // All of them, `prefix` ("val_") before each name.
  std::vector<std::pair<std::string, double>> Values(const std::string& prefix = "") const;

  // For a resume in the middle of an epoch; exact.
  nlohmann::json ToJson() const;
  // InvalidArgument (kNoCheckpoint) where it is not what ToJson wrote for the same
  // names; nothing is changed then.
  absl::Status FromJson(const nlohmann::json& json);

 private:
  std::vector<std::string> names_;
  std::vector<MetricSum> sums_;
};

}  // namespace onward

#endif  // ONWARD_BACKEND_TRAINING_METRICS_H_
