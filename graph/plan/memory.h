// Which buffers share memory.
#ifndef ONWARD_GRAPH_PLAN_MEMORY_H_
#define ONWARD_GRAPH_PLAN_MEMORY_H_

#include <cstdint>
#include <vector>

namespace onward {

// A piece of an arena that is needed from step `first` to step `last`, both included.
struct MemoryRequest {
  int64_t bytes = 0;
  int first = 0;
  int last = 0;
  int64_t offset = 0;  // the answer
};

// Gives every request an offset (64-byte aligned) so that no two that live at the
// same time overlap, and returns the bytes of the arena. Best fit along the
// schedule, with the larger of those that start together first; O(n log n).
int64_t PlaceInArena(std::vector<MemoryRequest>& requests);

}  // namespace onward

#endif  // ONWARD_GRAPH_PLAN_MEMORY_H_
