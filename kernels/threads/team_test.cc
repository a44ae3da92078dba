#include "kernels/threads/team.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "kernels/threads/progress.h"

namespace onward {
namespace {

TEST(ForTeam, RunsEveryIndexOnceOnThreadsOfItsOwn) {
  for (int threads : {1, 2, 5, 3, 8, 2}) {
    for (int round = 0; round < 200; ++round) {
      std::vector<std::thread::id> ids(threads);
      std::vector<int> runs(threads, 0);
      ForTeam(threads, [&](int index) {
        ++runs[index];
        ids[index] = std::this_thread::get_id();
        EXPECT_EQ(ThreadsInTeam(), threads);
        EXPECT_EQ(IndexInTeam(), index);
      });
      EXPECT_EQ(runs, std::vector<int>(threads, 1));
      for (int i = 0; i < threads; ++i) {
        for (int k = 0; k < i; ++k) ASSERT_NE(ids[i], ids[k]);
      }
    }
  }
  EXPECT_EQ(ThreadsInTeam(), 1);
  EXPECT_FALSE(InRegion());
}

TEST(ForTeam, KeepsItsWorkers) {
  std::thread::id first, second;
  ForTeam(2, [&](int i) {
    if (i == 1) first = std::this_thread::get_id();
  });
  ForTeam(2, [&](int i) {
    if (i == 1) second = std::this_thread::get_id();
  });
  EXPECT_EQ(first, second);
}

TEST(ForTeam, WithinARegionRunsOnOneThread) {
  std::atomic<int> runs{0};
  ForTeam(3, [&](int) {
    const auto outer = std::this_thread::get_id();
    ForTeam(4, [&](int) {
      EXPECT_EQ(std::this_thread::get_id(), outer);
      ++runs;
    });
    // As oneDNN would begin one.
    BeginRegion(
        4, [](void*) { FAIL() << "on a worker"; }, nullptr);
    EXPECT_EQ(ThreadsInTeam(), 1);
    EXPECT_TRUE(InRegion());
    EndRegion();
    EXPECT_EQ(ThreadsInTeam(), 3);
  });
  EXPECT_EQ(runs, 12);
}

TEST(TeamBarrier, LetsNobodyPassBeforeAllHaveCome) {
  constexpr int kThreads = 4, kRounds = 500;
  std::atomic<int> come{0};
  ForTeam(kThreads, [&](int) {
    for (int round = 1; round <= kRounds; ++round) {
      ++come;
      TeamBarrier();
      EXPECT_GE(come.load(), round * kThreads);
      TeamBarrier();
    }
  });
  EXPECT_EQ(come, kThreads * kRounds);
}

TEST(Teams, OfSeveralThreadsDoNotMeet) {
  std::vector<std::thread> leaders;
  std::atomic<int> sum{0};
  for (int l = 0; l < 4; ++l) {
    leaders.emplace_back([&] {
      const TeamSizeScope size(3);
      for (int round = 0; round < 300; ++round) {
        ForTeam(TeamSize(), [&](int index) {
          TeamBarrier();
          sum += index;
        });
      }
    });
  }
  for (std::thread& leader : leaders) leader.join();
  EXPECT_EQ(sum, 4 * 300 * (0 + 1 + 2));
  EXPECT_EQ(TeamSize(), 1);
}

TEST(Progress, IsWaitedForAwakeAndAsleepAndPastItsLargestValue) {
  const std::atomic<bool> never{false};
  Progress progress;
  progress.Publish(2147483647);
  std::thread waiter([&] { EXPECT_TRUE(progress.WaitFor(-2147483647 - 1, never)); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // until it sleeps
  progress.Publish(-2147483647 - 1);
  waiter.join();
  EXPECT_TRUE(progress.WaitFor(-2147483647 - 1, never));
}

TEST(Progress, IsNoLongerWaitedForWhenAskedToStop) {
  std::atomic<bool> stop{false};
  Progress progress;
  std::thread waiter([&] { EXPECT_FALSE(progress.WaitFor(1, stop)); });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  stop = true;
  progress.Wake();
  waiter.join();
}

}  // namespace
}  // namespace onward
