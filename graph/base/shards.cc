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

RowRange PartOfElements(int64_t elements, int64_t bytes_of_one, int part, int parts) {
  constexpr int64_t kLineBytes = 64;
  const int64_t line = std::max<int64_t>(1, kLineBytes / bytes_of_one);
  const int64_t lines = (elements + line - 1) / line;
  return {std::min(elements, lines * part / parts * line),
          std::min(elements, lines * (part + 1) / parts * line)};
}

}  // namespace onward
