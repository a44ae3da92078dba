#include "backend/runtime/flush_denormals.h"

#include "kernels/threads/team.h"

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace onward {
namespace {

// The register that says how this thread's floating-point unit works, and its bits
// for denormal inputs and results (Intel SDM vol. 1, 10.2.3; Arm ARM, FPCR.FZ).
#if defined(__SSE2__)
constexpr uint64_t kFlush = 0x8040;
uint64_t Control() { return _mm_getcsr(); }
void SetControl(uint64_t bits) { _mm_setcsr(static_cast<unsigned>(bits)); }
#elif defined(__aarch64__)
constexpr uint64_t kFlush = uint64_t{1} << 24;
uint64_t Control() {
  uint64_t bits;
  asm volatile("mrs %0, fpcr" : "=r"(bits));
  return bits;
}
void SetControl(uint64_t bits) { asm volatile("msr fpcr, %0" ::"r"(bits)); }
#else
constexpr uint64_t kFlush = 0;
uint64_t Control() { return 0; }
void SetControl(uint64_t) {}
#endif

void SetTeam(int threads, uint64_t bits) {
  ForTeam(threads, [bits](int) { SetControl(bits); });
}

}  // namespace

FlushDenormals::FlushDenormals(int threads) : threads_(threads), before_(Control()) {
  if ((before_ & kFlush) != kFlush) SetTeam(threads_, before_ | kFlush);
}

FlushDenormals::~FlushDenormals() {
  if ((before_ & kFlush) != kFlush) SetTeam(threads_, before_);
}

}  // namespace onward
