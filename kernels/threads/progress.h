// A counter that one thread raises and others wait for.
#ifndef ONWARD_KERNELS_THREADS_PROGRESS_H_
#define ONWARD_KERNELS_THREADS_PROGRESS_H_

#include <atomic>
#include <cstdint>

namespace onward {

// Publishing takes no lock and, while nobody sleeps, no system call. A waiter
// spins briefly (a hand-over between running threads takes less than a
// microsecond) and then sleeps: up to some 100 microseconds where the process has its
// cores to itself, a few where its threads are found to be put off them, so that a
// shared core does no harm.
//
// Values are compared by their difference, so that a counter may run past 2^31.
class Progress {
 public:
  // Raises the counter to `value` (it never falls) and wakes waiters.
  void Publish(int32_t value);
  int32_t value() const { return value_.load(std::memory_order_acquire); }

  // Returns true once the counter is at least `value`; false once `stop` is set. Sleeps
  // at once where not told to `spin` before: for long waits, and where somebody else
  // needs the core.
  bool WaitFor(int32_t value, const std::atomic<bool>& stop, bool spin = true);

  // Wakes sleepers without raising the counter (after `stop` has been set).
  void Wake();
  // REQUIRES: nobody waits.
  void Reset() { value_.store(0, std::memory_order_release); }

 private:
  alignas(64) std::atomic<int32_t> value_{0};
  std::atomic<int32_t> sleepers_{0};
};

}  // namespace onward

#endif  // ONWARD_KERNELS_THREADS_PROGRESS_H_
