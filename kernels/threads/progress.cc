#include "kernels/threads/progress.h"

#include <linux/futex.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>

namespace onward {
namespace {

// A pause takes some 40 nanoseconds on the processors of today.
constexpr int kMostSpins = 4000;
constexpr int kLeastSpins = 100;
std::atomic<int> spins{kMostSpins};
std::atomic<int64_t> switches_seen{0};

int32_t* Address(std::atomic<int32_t>& value) { return reinterpret_cast<int32_t*>(&value); }

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

// Before a thread sleeps: how long shall the next one spin? A thread that spins keeps
// from its core the one that it waits for, where others want that core as well; they
// are seen by the switches that the kernel forced upon this process.
void Adapt() {
  rusage usage;
  if (getrusage(RUSAGE_SELF, &usage) != 0) return;
  const int64_t switches = usage.ru_nivcsw;
  const bool forced = switches_seen.exchange(switches, std::memory_order_relaxed) != switches;
  const int now = spins.load(std::memory_order_relaxed);
  spins.store(forced ? kLeastSpins : std::min(2 * now, kMostSpins), std::memory_order_relaxed);
}

bool Reached(int32_t value, int32_t wanted) {
  return static_cast<int32_t>(static_cast<uint32_t>(value) - static_cast<uint32_t>(wanted)) >= 0;
}

}  // namespace

void Progress::Publish(int32_t value) {
  value_.store(value, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) > 0) Wake();
}

void Progress::Wake() {
  syscall(SYS_futex, Address(value_), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

bool Progress::WaitFor(int32_t value, const std::atomic<bool>& stop, bool spin) {
  const int most = spin ? spins.load(std::memory_order_relaxed) : 1;
  for (int i = 0; i < most; ++i) {
    if (Reached(value_.load(std::memory_order_acquire), value)) return true;
    Pause();
  }
  if (spin) Adapt();
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  for (;;) {
    const int32_t now = value_.load(std::memory_order_seq_cst);
    if (Reached(now, value) || stop.load(std::memory_order_acquire)) break;
    // The time limit only bounds how late a `stop` is seen that raced with us.
    const timespec limit{0, 50 * 1000 * 1000};
    syscall(SYS_futex, Address(value_), FUTEX_WAIT_PRIVATE, now, &limit, nullptr, 0);
  }
  sleepers_.fetch_sub(1, std::memory_order_seq_cst);
  return Reached(value_.load(std::memory_order_acquire), value);
}

}  // namespace onward
