// How a thread's floating-point unit works: rounding, denormals.
#ifndef ONWARD_KERNELS_THREADS_FLOAT_CONTROL_H_
#define ONWARD_KERNELS_THREADS_FLOAT_CONTROL_H_

#include <cstdint>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace onward {

// The register that says so, and its bits that make denormal operands and results zero
// (Intel SDM vol. 1, 10.2.3; Arm ARM, FPCR.FZ); no bits where there is none.
#if defined(__SSE2__)
constexpr uint64_t kFlushToZero = 0x8040;
inline uint64_t FloatControl() { return _mm_getcsr(); }
inline void SetFloatControl(uint64_t bits) { _mm_setcsr(static_cast<unsigned>(bits)); }
#elif defined(__aarch64__)
constexpr uint64_t kFlushToZero = uint64_t{1} << 24;
inline uint64_t FloatControl() {
  uint64_t bits;
  asm volatile("mrs %0, fpcr" : "=r"(bits));
  return bits;
}
inline void SetFloatControl(uint64_t bits) { asm volatile("msr fpcr, %0" ::"r"(bits)); }
#else
constexpr uint64_t kFlushToZero = 0;
inline uint64_t FloatControl() { return 0; }
inline void SetFloatControl(uint64_t) {}
#endif

}  // namespace onward

#endif  // ONWARD_KERNELS_THREADS_FLOAT_CONTROL_H_
