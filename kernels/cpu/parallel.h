// Loops over the threads of a device.
#ifndef ONWARD_KERNELS_CPU_PARALLEL_H_
#define ONWARD_KERNELS_CPU_PARALLEL_H_

#include <algorithm>
#include <cstdint>

#include "kernels/threads/team.h"

namespace onward {

// Calls body(begin, end) for pieces that cover [0, count), on up to `threads`
// threads, each of which gets at least `least` items; pieces but the last are
// multiples of 64 items, so that threads share no cache line. Which piece an item
// falls into must not matter to the result.
template <typename Body>
void ParallelFor(int64_t count, int64_t least, int threads, const Body& body) {
  if (count <= 0) return;
  const int64_t pieces = std::max<int64_t>(1, std::min<int64_t>(threads, count / least));
  if (pieces == 1) {
    body(int64_t{0}, count);
    return;
  }
  const int64_t piece = (count / pieces + 63) / 64 * 64;
  ForTeam(static_cast<int>(pieces), [&](int i) {
    const int64_t begin = std::min(i * piece, count);
    const int64_t end = i + 1 == pieces ? count : std::min(begin + piece, count);
    if (begin < end) body(begin, end);
  });
}

// The same for few large items (rows): pieces are not rounded.
template <typename Body>
void ParallelRows(int64_t count, int64_t least, int threads, const Body& body) {
  if (count <= 0) return;
  const int64_t pieces = std::max<int64_t>(1, std::min<int64_t>(threads, count / least));
  if (pieces == 1) {
    body(int64_t{0}, count);
    return;
  }
  ForTeam(static_cast<int>(pieces), [&](int i) {
    const int64_t begin = count * i / pieces;
    const int64_t end = count * (i + 1) / pieces;
    if (begin < end) body(begin, end);
  });
}

}  // namespace onward

#endif  // ONWARD_KERNELS_CPU_PARALLEL_H_
