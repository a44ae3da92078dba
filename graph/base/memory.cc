#include "graph/base/memory.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

namespace onward {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kPage = 4096;
constexpr int64_t kLargePage = int64_t{1} << 21;

// AddressSanitizer watches the borders of what malloc gives.
#ifdef __SANITIZE_ADDRESS__
constexpr bool kWatched = true;
#else
constexpr bool kWatched = false;
#endif

bool IsLarge(int64_t bytes) { return !kWatched && bytes >= 2 * kLargePage; }

int64_t RoundedUp(int64_t bytes, int64_t unit) { return (bytes + unit - 1) / unit * unit; }

void* MapLargePages(int64_t bytes) {
  const int64_t size = RoundedUp(bytes, kPage);
  if (size > INT64_MAX - kLargePage) return nullptr;
  void* const mapped = mmap(nullptr, static_cast<size_t>(size + kLargePage), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  // Of what was mapped, the part that begins at a large page.
  char* const from = static_cast<char*>(mapped);
  const int64_t before = -reinterpret_cast<int64_t>(mapped) & (kLargePage - 1);
  if (before > 0) munmap(from, static_cast<size_t>(before));
  munmap(from + before + size, static_cast<size_t>(kLargePage - before));
  madvise(from + before, static_cast<size_t>(size), MADV_HUGEPAGE);
  return from + before;
}

}  // namespace

void* AllocateZeroed(int64_t bytes) {
  if (IsLarge(bytes)) return MapLargePages(bytes);
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
