#include "backend/training/metrics.h"

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "graph/base/errors.h"
#include "graph/base/status_macros.h"

namespace onward {

absl::Status MetricSums::Add(int64_t step, absl::Span<const MetricSum> sums) {
  ONWARD_CHECK(sums.size() == sums_.size());
  for (size_t i = 0; i < sums.size(); ++i) {
    if (std::isfinite(sums[i].numerator) && std::isfinite(sums[i].denominator)) continue;
    return WithExitCode(
        absl::InvalidArgumentError(absl::StrCat(
            "step ", step, ": ", names_[i], " is ",
            std::isnan(sums[i].numerator) || std::isnan(sums[i].denominator) ? "NaN" : "infinite",
            "; lower the learning rate, clip gradients, or scale the data")),
        ExitCode::kDiverged);
  }
  for (size_t i = 0; i < sums.size(); ++i) {
    sums_[i].numerator += sums[i].numerator;
    sums_[i].denominator += sums[i].denominator;
  }
  return absl::OkStatus();
}

void MetricSums::Clear() { sums_.assign(names_.size(), MetricSum()); }

double MetricSums::Value(size_t i) const {
  const MetricSum& sum = sums_[i];
  if (sum.denominator == 0) return std::numeric_limits<double>::quiet_NaN();
  return sum.numerator / sum.denominator;
}

std::vector<std::pair<std::string, double>> MetricSums::Values(const std::string& prefix) const {
  std::vector<std::pair<std::string, double>> out;
  for (size_t i = 0; i < names_.size(); ++i) out.emplace_back(prefix + names_[i], Value(i));
  return out;
}

nlohmann::json MetricSums::ToJson() const {
  nlohmann::json out = nlohmann::json::array();
  for (size_t i = 0; i < names_.size(); ++i) {
    out.push_back({{"name", names_[i]},
                   {"numerator", sums_[i].numerator},
                   {"denominator", sums_[i].denominator}});
  }
  return out;
}

absl::Status MetricSums::FromJson(const nlohmann::json& json) {
  const auto broken = [] {
    return WithExitCode(absl::InvalidArgumentError("metric sums: not those of this run's metrics"),
                        ExitCode::kNoCheckpoint);
  };
  if (!json.is_array() || json.size() != names_.size()) return broken();
  std::vector<MetricSum> sums;
  for (size_t i = 0; i < names_.size(); ++i) {
    const nlohmann::json& one = json[i];
    if (!one.is_object()) return broken();
    const auto name = one.find("name");
    const auto numerator = one.find("numerator");
    const auto denominator = one.find("denominator");
    if (name == one.end() || *name != names_[i] || numerator == one.end() ||
        !numerator->is_number() || denominator == one.end() || !denominator->is_number()) {
      return broken();
    }
    sums.push_back({numerator->get<double>(), denominator->get<double>()});
  }
  sums_ = std::move(sums);
  return absl::OkStatus();
}

}  // namespace onward
