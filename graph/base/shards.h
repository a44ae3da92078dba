// How a global batch is cut into logical shards, and a tensor into parts: the rules that
// data, plans, feeds and devices share.
#ifndef ONWARD_GRAPH_BASE_SHARDS_H_
#define ONWARD_GRAPH_BASE_SHARDS_H_

#include <cstdint>
#include <vector>

namespace onward {

// Rows [begin, end) of a global batch.
struct RowRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
};

// The rows of shard `shard` out of `shards` of a batch of `rows` rows: sizes
// differ by at most one, the larger first; a shard may be empty.
// REQUIRES: 0 <= shard < shards, rows >= 0.
RowRange ShardRows(int64_t rows, int shards, int shard);

// The sizes of all of them, in order.
std::vector<int64_t> ShardSizes(int64_t rows, int shards);

// Part `part` of `parts` of the elements of one tensor, as those who share the work on
// its memory cut it: ranges end at cache lines, so that no two parts write to one.
// REQUIRES: memory begins at a cache line, 0 <= part < parts.
RowRange PartOfElements(int64_t elements, int64_t bytes_of_one, int part, int parts);

}  // namespace onward

#endif  // ONWARD_GRAPH_BASE_SHARDS_H_
