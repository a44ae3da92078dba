#include "backend/runtime/flush_denormals.h"

#include <vector>

#include "gtest/gtest.h"
#include "kernels/threads/team.h"

namespace onward {
namespace {

// The smallest normal number times 1/4 on every thread of a team.
std::vector<float> Quarters(int threads) {
  std::vector<float> out(threads, -1);
  ForTeam(threads, [&](int index) {
    volatile float smallest = 1.17549435e-38f, quarter = 0.25f;
    out[index] = smallest * quarter;
  });
  return out;
}

TEST(FlushDenormals, OnEveryThreadOfTheTeamWhileItLives) {
#if !defined(__SSE2__) && !defined(__aarch64__)
  GTEST_SKIP() << "this processor has no such setting that we know";
#endif
  const std::vector<float> denormal(3, 2.93873588e-39f);
  EXPECT_EQ(Quarters(3), denormal);
  {
    const FlushDenormals scope;
    EXPECT_EQ(Quarters(3), std::vector<float>(3, 0));
    const FlushDenormals inner;  // changes nothing
  }
  EXPECT_EQ(Quarters(3), denormal);
}

}  // namespace
}  // namespace onward
