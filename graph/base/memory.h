// Where tensors and devices on the host get their memory from.
#ifndef ONWARD_GRAPH_BASE_MEMORY_H_
#define ONWARD_GRAPH_BASE_MEMORY_H_

#include <cstdint>

namespace onward {

// Where tensors begin: at a cache line, which is also the longest vector.
constexpr int64_t kMemoryAlignment = 64;

// The bytes that a piece takes where another follows it. REQUIRES: bytes >= 0.
constexpr int64_t AlignedBytes(int64_t bytes) {
  return (bytes + kMemoryAlignment - 1) / kMemoryAlignment * kMemoryAlignment;
}

// Zeroed memory, aligned; null where there is none. Pieces of several megabytes
// come from the system as they are: their pages are not touched. REQUIRES: bytes >= 0.
void* AllocateZeroed(int64_t bytes);

// Gives it back. `bytes` as it was allocated; `memory` may be null.
void FreeZeroed(void* memory, int64_t bytes);

}  // namespace onward

#endif  // ONWARD_GRAPH_BASE_MEMORY_H_
