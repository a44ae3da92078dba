#include "backend/training/schedule.h"

#include <algorithm>
#include <cmath>

namespace onward {
namespace {

constexpr double kPi = 3.14159265358979323846;

// How much of the way down is done, in [0, 1].
double ShareDone(const ScheduleConfig& schedule, int64_t step, int64_t total_steps) {
  const int64_t length =
      schedule.decay_steps > 0 ? schedule.decay_steps : total_steps - schedule.warmup_steps;
  if (length <= 0) return 1;
  return std::min(1.0, static_cast<double>(step) / static_cast<double>(length));
}

}  // namespace

double LearningRateAt(const ScheduleConfig& schedule, double learning_rate, int64_t step,
                      int64_t total_steps) {
  if (step < schedule.warmup_steps) {
    return learning_rate * static_cast<double>(step) / static_cast<double>(schedule.warmup_steps);
  }
  step -= schedule.warmup_steps;
  const double end = schedule.final_learning_rate;
  switch (schedule.kind) {
    case ScheduleKind::kConstant:
      return learning_rate;
    case ScheduleKind::kStep: {
      const int64_t drops = step / std::max<int64_t>(schedule.decay_steps, 1);
      return learning_rate * std::pow(schedule.decay_factor, static_cast<double>(drops));
    }
    case ScheduleKind::kCosine: {
      const double u = ShareDone(schedule, step, total_steps);
      return end + (learning_rate - end) * 0.5 * (1 + std::cos(kPi * u));
    }
    case ScheduleKind::kLinear: {
      const double u = ShareDone(schedule, step, total_steps);
      return end + (learning_rate - end) * (1 - u);
    }
  }
  return learning_rate;
}

bool IsConstant(const ScheduleConfig& schedule) {
  return schedule.kind == ScheduleKind::kConstant && schedule.warmup_steps == 0;
}

}  // namespace onward
