// The learning rate as training goes on.
#ifndef ONWARD_BACKEND_TRAINING_SCHEDULE_H_
#define ONWARD_BACKEND_TRAINING_SCHEDULE_H_

#include <cstdint>

#include "backend/training/config.h"

namespace onward {

// The rate of optimizer step `step` (from 0) of a run of `total_steps`. With W =
// warmup_steps, D = decay_steps (0 for kCosine and kLinear: total_steps - W), R =
// learning_rate and F = final_learning_rate:
//   s < W      R * s / W                     (so step 0 of a warm-up has rate 0)
//   else, with t = s - W, u = min(t / D, 1), as Keras' CosineDecay counts them:
//   kConstant  R
//   kStep      R * decay_factor ^ floor(t / D)
//   kCosine    F + (R - F) * (1 + cos(pi * u)) / 2
//   kLinear    F + (R - F) * (1 - u)
// Where no step is left for the way down, the rate is F from step W on. A pure
// function: a resumed run needs no state of it. What ReduceLROnPlateau has taken off
// comes on top (ReduceLROnPlateau::Apply).
// REQUIRES: a valid config (backend/training/config.h), step >= 0, and for kCosine and
// kLinear with decay_steps 0 a known total_steps.
double LearningRateAt(const ScheduleConfig& schedule, double learning_rate, int64_t step,
                      int64_t total_steps);

// Whether every step has the same rate, as far as the schedule goes.
bool IsConstant(const ScheduleConfig& schedule);

}  // namespace onward

#endif  // ONWARD_BACKEND_TRAINING_SCHEDULE_H_
