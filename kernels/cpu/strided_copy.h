// Copies between strided views of memory.
#ifndef ONWARD_KERNELS_CPU_STRIDED_COPY_H_
#define ONWARD_KERNELS_CPU_STRIDED_COPY_H_

#include <cstdint>

#include "kernels/cpu/index_space.h"

namespace onward {

// to[i, j, ...] = from[i, j, ...] over loops whose strides are {to, from}; a stride of
// the source may be 0 (a repetition) or negative. Whatever can be is done in long runs
// or square tiles.
class StridedCopy {
 public:
  // `size`: bytes of an element, 1, 2, 4 or 8. Views do not overlap.
  StridedCopy(const Loops& loops, int64_t size, char* to, const char* from);

  // On up to `threads` threads, as many as are worth it.
  void Run(int threads) const;

 private:
  enum class Kind { kRun, kTile, kStride };
  void RunTask(int64_t task) const;

  Loops outer_;  // all but those of one task's inside
  Loop inner_;   // what a run or a row of a tile goes along
  Loop across_;  // of tiles: {d, 1}
  Kind kind_ = Kind::kRun;
  int64_t size_;
  char* to_;
  const char* from_;
  int64_t piece_ = 1;  // of the inner loop (of tiles: the loop across) in one task
  int64_t pieces_ = 1;
  int64_t tasks_ = 1;
  int64_t task_bytes_ = 0;  // read and written by one task
};

}  // namespace onward

#endif  // ONWARD_KERNELS_CPU_STRIDED_COPY_H_
