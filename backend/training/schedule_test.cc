#include "backend/training/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

namespace onward {
namespace {

// (step, rate), for a run of 100 steps with learning rate 0.1.
void Expect(const ScheduleConfig& schedule, const std::vector<std::pair<int64_t, double>>& table) {
  for (const auto& [step, rate] : table) {
    EXPECT_NEAR(LearningRateAt(schedule, 0.1, step, 100), rate, 1e-15) << "step " << step;
  }
}

TEST(Schedule, Constant) {
  ScheduleConfig s;
  Expect(s, {{0, 0.1}, {1, 0.1}, {99, 0.1}, {1000, 0.1}});
  EXPECT_TRUE(IsConstant(s));
  s.warmup_steps = 4;
  EXPECT_FALSE(IsConstant(s));
  Expect(s, {{0, 0}, {1, 0.025}, {2, 0.05}, {3, 0.075}, {4, 0.1}, {5, 0.1}});
}

TEST(Schedule, StepDropsAtTheBorder) {
  ScheduleConfig s;
  s.kind = ScheduleKind::kStep;
  EXPECT_FALSE(IsConstant(s));
  s.decay_steps = 10;
  s.decay_factor = 0.5;
  Expect(s, {{0, 0.1}, {9, 0.1}, {10, 0.05}, {19, 0.05}, {20, 0.025}, {45, 0.00625}});
  s.warmup_steps = 5;
  Expect(s, {{0, 0}, {4, 0.08}, {5, 0.1}, {14, 0.1}, {15, 0.05}, {25, 0.025}});
}

TEST(Schedule, CosineOverTheRestOfTheRun) {
  ScheduleConfig s;
  s.kind = ScheduleKind::kCosine;
  Expect(s, {{0, 0.1},
             {25, 0.1 * (0.5 + 0.25 * std::sqrt(2.0))},
             {50, 0.05},
             {75, 0.1 * (0.5 - 0.25 * std::sqrt(2.0))},
             {100, 0},
             {150, 0}});
  s.warmup_steps = 20;
  s.final_learning_rate = 0.02;
  Expect(s, {{10, 0.05}, {20, 0.1}, {60, 0.06}, {100, 0.02}, {101, 0.02}});
}

TEST(Schedule, LinearOverGivenSteps) {
  ScheduleConfig s;
  s.kind = ScheduleKind::kLinear;
  s.decay_steps = 10;
  s.final_learning_rate = 0.01;
  Expect(s, {{0, 0.1}, {1, 0.091}, {5, 0.055}, {10, 0.01}, {11, 0.01}, {100, 0.01}});
}

TEST(Schedule, AWarmUpAsLongAsTheRunLeavesNoWayDown) {
  ScheduleConfig s;
  s.kind = ScheduleKind::kLinear;
  s.warmup_steps = 100;
  s.final_learning_rate = 0.03;
  Expect(s, {{50, 0.05}, {99, 0.099}, {100, 0.03}, {200, 0.03}});
}

}  // namespace
}  // namespace onward
