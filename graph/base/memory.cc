#include "graph/base/memory.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

namespace onward {
namespace {

constexpr int64_t kLarge = int64_t{1} << 22;

// AddressSanitizer watches the borders of what malloc gives.
#ifdef __SANITIZE_ADDRESS__
constexpr bool kWatched = true;
#else
constexpr bool kWatched = false;
#endif

bool IsLarge(int64_t bytes) { return !kWatched && bytes >= kLarge; }

// The system's pages are zero already. Large ones are not asked for: on virtual machines
// that give free memory back to their host it takes longer to be had in large pieces.
void* MapZeroed(int64_t bytes) {
  void* const mapped = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return mapped == MAP_FAILED ? nullptr : mapped;
}

}  // namespace

void* AllocateZeroed(int64_t bytes) {
  if (IsLarge(bytes)) return MapZeroed(bytes);
  // One more than asked for, so that nothing is a piece of its own, too.
  const size_t rounded = static_cast<size_t>(AlignedBytes(bytes + 1));
  void* const memory = std::aligned_alloc(kMemoryAlignment, rounded);
  if (memory != nullptr) std::memset(memory, 0, rounded);
  return memory;
}

void FreeZeroed(void* memory, int64_t bytes) {
  if (memory == nullptr) return;
  if (IsLarge(bytes)) {
    munmap(memory, static_cast<size_t>(bytes));
  } else {
    std::free(memory);
  }
}

}  // namespace onward
