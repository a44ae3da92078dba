#include "backend/training/callbacks.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph/base/errors.h"
#include "graph/base/status_macros.h"

namespace onward {
namespace {

absl::Status Broken(absl::string_view field) {
  return WithExitCode(
      absl::InvalidArgumentError(absl::StrCat("callback state: '", field, "' is missing or wrong")),
      ExitCode::kNoCheckpoint);
}

nlohmann::json BestToJson(const std::optional<double>& best) {
  return best.has_value() ? nlohmann::json(*best) : nlohmann::json();
}

absl::Status ReadBest(const nlohmann::json& json, std::optional<double>* best) {
  const auto it = json.find("best");
  if (it == json.end() || !(it->is_null() || it->is_number())) return Broken("best");
  best->reset();
  if (it->is_number()) *best = it->get<double>();
  return absl::OkStatus();
}

absl::Status ReadCount(const nlohmann::json& json, const char* field, int64_t least,
                       int64_t* count) {
  const auto it = json.find(field);
  if (it == json.end() || !it->is_number_integer()) return Broken(field);
  *count = it->get<int64_t>();
  return *count >= least ? absl::OkStatus() : Broken(field);
}

}  // namespace

Direction DirectionOf(absl::string_view metric) {
  return absl::StrContains(metric, "acc") ? Direction::kMax : Direction::kMin;
}

bool Improves(Direction direction, double min_delta, double value,
              const std::optional<double>& best) {
  if (!std::isfinite(value)) return false;
  if (!best.has_value()) return true;
  return direction == Direction::kMin ? value + min_delta < *best : value - min_delta > *best;
}

EarlyStopping::Decision EarlyStopping::OnEpochEnd(int64_t epoch, double value) {
  Decision decision;
  decision.best = best_epoch_ < 0;
  if (decision.best) best_epoch_ = epoch;
  ++wait_;
  if (Improves(options_.direction, options_.min_delta, value, best_)) {
    best_ = value;
    best_epoch_ = epoch;
    wait_ = 0;
    decision.best = true;
  } else {
    decision.stop = wait_ >= options_.patience && epoch > 0;
  }
  return decision;
}

nlohmann::json EarlyStopping::ToJson() const {
  return {{"best", BestToJson(best_)}, {"best_epoch", best_epoch_}, {"wait", wait_}};
}

absl::Status EarlyStopping::FromJson(const nlohmann::json& json) {
  EarlyStopping read(options_);
  if (!json.is_object()) return Broken("early stopping");
  RETURN_IF_ERROR(ReadBest(json, &read.best_));
  RETURN_IF_ERROR(ReadCount(json, "best_epoch", -1, &read.best_epoch_));
  RETURN_IF_ERROR(ReadCount(json, "wait", 0, &read.wait_));
  *this = read;
  return absl::OkStatus();
}

double ReduceLROnPlateau::Apply(double scheduled) const {
  return std::max(scheduled * scale_, std::min(scheduled, options_.min_learning_rate));
}

bool ReduceLROnPlateau::OnEpochEnd(double value, double scheduled) {
  if (Improves(options_.direction, options_.min_delta, value, best_)) {
    best_ = value;
    wait_ = 0;
    return false;
  }
  ++wait_;
  if (wait_ < options_.patience || Apply(scheduled) <= options_.min_learning_rate) return false;
  scale_ *= options_.factor;
  wait_ = 0;
  return true;
}

nlohmann::json ReduceLROnPlateau::ToJson() const {
  return {{"best", BestToJson(best_)}, {"wait", wait_}, {"scale", scale_}};
}

absl::Status ReduceLROnPlateau::FromJson(const nlohmann::json& json) {
  ReduceLROnPlateau read(options_);
  if (!json.is_object()) return Broken("learning rate on plateau");
  RETURN_IF_ERROR(ReadBest(json, &read.best_));
  RETURN_IF_ERROR(ReadCount(json, "wait", 0, &read.wait_));
  const auto scale = json.find("scale");
  if (scale == json.end() || !scale->is_number()) return Broken("scale");
  read.scale_ = scale->get<double>();
  if (!(read.scale_ >= 0 && read.scale_ <= 1)) return Broken("scale");
  *this = read;
  return absl::OkStatus();
}

}  // namespace onward
