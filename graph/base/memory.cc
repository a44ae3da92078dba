#include "graph/base/memory.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

namespace onward {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kPage = 4096;
constexpr int64_t kLarge = int64_t{1} << 22;

// AddressSanitizer watches the borders of what malloc gives.
#ifdef __SANITIZE_ADDRESS__
constexpr bool kWatched = true;
#else
constexpr bool kWatched = false;
#endif

bool IsLarge(int64_t bytes) { return !kWatched && bytes >= kLarge; }

int64_t RoundedUp(int64_t bytes, int64_t unit) { return (bytes + unit - 1) / unit * unit; }

// The system's pages are zero already. Large ones are not asked for: on virtual machines
// that give free memory back to their host it takes longer to be had in large pieces.
void* MapZeroed(int64_t bytes) {
  if (bytes > INT64_MAX - kPage) return nullptr;
  void* const mapped = mmap(nullptr, static_cast<size_t>(RoundedUp(bytes, kPage)),
                            PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return mapped == MAP_FAILED ? nullptr : mapped;
}

}  // namespace

void* AllocateZeroed(int64_t bytes) {
  if (IsLarge(bytes)) return MapZeroed(bytes);
  // One more than asked for, so that nothing is a piece of its own, too.
  const size_t rounded = static_cast<size_t>(RoundedUp(bytes + 1, kAlignment));
  void* const memory = std::aligned_alloc(kAlignment, rounded);
  if (memory != nullptr) std::memset(memory, 0, rounded);
  return memory;
}

void FreeZeroed(void* memory, int64_t bytes) {
  if (memory == nullptr) return;
  if (IsLarge(bytes)) {
    munmap(memory, static_cast<size_t>(RoundedUp(bytes, kPage)));
  } else {
    std::free(memory);
  }
}

}  // namespace onward
