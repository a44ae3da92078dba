#include "backend/runtime/progress.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace onward {
namespace {

// About 20 microseconds.
constexpr int kSpins = 1000;

int32_t* Address(std::atomic<int32_t>& value) { return reinterpret_cast<int32_t*>(&value); }

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

void Progress::Publish(int32_t value) {
  value_.store(value, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) > 0) Wake();
}

void Progress::Wake() {
  syscall(SYS_futex, Address(value_), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

bool Progress::WaitFor(int32_t value, const std::atomic<bool>& stop) {
  for (int i = 0; i < kSpins; ++i) {
    if (value_.load(std::memory_order_acquire) >= value) return true;
    Pause();
  }
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  for (;;) {
    const int32_t now = value_.load(std::memory_order_seq_cst);
    if (now >= value || stop.load(std::memory_order_acquire)) break;
    // The time limit only bounds how late a `stop` is seen that raced with us.
    const timespec limit{0, 50 * 1000 * 1000};
    syscall(SYS_futex, Address(value_), FUTEX_WAIT_PRIVATE, now, &limit, nullptr, 0);
  }
  sleepers_.fetch_sub(1, std::memory_order_seq_cst);
  return value_.load(std::memory_order_acquire) >= value;
}

}  // namespace onward
