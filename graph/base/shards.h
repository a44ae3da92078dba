// How a global batch is cut into logical shards: the one rule that data, plans and
// feeds share.
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

}  // namespace onward

#endif  // ONWARD_GRAPH_BASE_SHARDS_H_
