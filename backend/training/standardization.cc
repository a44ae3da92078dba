#include "backend/training/standardization.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "backend/training/checkpoint.h"
#include "graph/base/errors.h"
#include "graph/base/status_macros.h"

namespace onward {

nlohmann::json ToJson(const Standardization& standardization) {
  nlohmann::json out = nlohmann::json::object();
  for (const auto& [input, statistics] : standardization) {
    out[input] = {{"mean", statistics.mean}, {"deviation", statistics.deviation}};
  }
  return out;
}

absl::StatusOr<Standardization> StandardizationFromJson(const nlohmann::json& json) {
  Standardization out;
  const auto broken = [] {
    return absl::InvalidArgumentError(
        absl::StrCat("'", kStandardizeKey, "' holds no means and deviations"));
  };
  if (!json.is_object()) return broken();
  try {
    for (const auto& [input, entry] : json.items()) {
      Statistics s;
      s.mean = entry.at("mean").get<std::vector<double>>();
      s.deviation = entry.at("deviation").get<std::vector<double>>();
      if (s.mean.empty() || s.mean.size() != s.deviation.size()) return broken();
      for (double d : s.deviation) {
        if (!(d > 0)) return broken();
      }
      out.emplace_back(input, std::move(s));
    }
  } catch (const nlohmann::json::exception&) {
    return broken();
  }
  return out;
}

bool SameStatistics(const Standardization& a, const Standardization& b) {
  return ToJson(a) == ToJson(b);
}

absl::StatusOr<Standardization> KnownStandardization(const OnnxModel& model,
                                                     const std::string& checkpoint) {
  nlohmann::json json;
  std::string where = model.path();
  if (!checkpoint.empty()) {
    ASSIGN_OR_RETURN(const CheckpointReader reader, OpenCheckpoint(checkpoint));
    where = checkpoint;
    const auto it = reader.training().find(kStandardizeKey);
    if (it == reader.training().end()) return Standardization();
    json = *it;
  } else {
    const std::string text = model.Metadata(kStandardizeKey);
    if (text.empty()) return Standardization();
    json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  }
  absl::StatusOr<Standardization> known = StandardizationFromJson(json);
  if (known.ok()) return known;
  return WithExitCode(Annotate(known.status(), where),
                      checkpoint.empty() ? ExitCode::kUntrainable : ExitCode::kNoCheckpoint);
}

}  // namespace onward
