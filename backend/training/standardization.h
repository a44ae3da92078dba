// Means and deviations of the training data, which go where the parameters go.
#ifndef ONWARD_BACKEND_TRAINING_STANDARDIZATION_H_
#define ONWARD_BACKEND_TRAINING_STANDARDIZATION_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "backend/data/transform.h"
#include "graph/onnx/import.h"

namespace onward {

// By input of the model; empty: nothing is standardised.
using Standardization = std::vector<std::pair<std::string, Statistics>>;

// Under this name in a trained file's metadata, and in checkpoints.
inline constexpr char kStandardizeKey[] = "onward.standardize";

// {"x": {"mean": [...], "deviation": [...]}}; numbers keep all their bits.
nlohmann::json ToJson(const Standardization& standardization);
// InvalidArgument for anything that ToJson does not write.
absl::StatusOr<Standardization> StandardizationFromJson(const nlohmann::json& json);

bool SameStatistics(const Standardization& a, const Standardization& b);

// Those that the parameters were trained with: of the checkpoint where one is given
// (its folder, else empty), else of the file's metadata. Empty where there are none.
absl::StatusOr<Standardization> KnownStandardization(const OnnxModel& model,
                                                     const std::string& checkpoint);

}  // namespace onward

#endif  // ONWARD_BACKEND_TRAINING_STANDARDIZATION_H_
