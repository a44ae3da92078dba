#include "graph/base/shards.h"

#include <algorithm>

namespace onward {

RowRange ShardRows(int64_t rows, int shards, int shard) {
  const int64_t each = rows / shards, more = rows % shards;
  RowRange r;
  r.begin = shard * each + std::min<int64_t>(shard, more);
  r.end = r.begin + each + (shard < more ? 1 : 0);
  return r;
}

std::vector<int64_t> ShardSizes(int64_t rows, int shards) {
  std::vector<int64_t> sizes;
  for (int s = 0; s < shards; ++s) sizes.push_back(ShardRows(rows, shards, s).size());
  return sizes;
}

}  // namespace onward
