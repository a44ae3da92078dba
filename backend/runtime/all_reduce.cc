#include "backend/runtime/all_reduce.h"

#include <algorithm>
#include <cstring>

#include "graph/base/shards.h"
#include "graph/base/status_macros.h"

#define ONWARD_CLONES __attribute__((target_clones("avx512f", "avx2", "default"), optimize("O3")))

namespace onward {
namespace {

ONWARD_CLONES void AddFloats(float* __restrict a, const float* __restrict b, int64_t n) {
  for (int64_t i = 0; i < n; ++i) a[i] += b[i];
}
ONWARD_CLONES void AddDoubles(double* __restrict a, const double* __restrict b, int64_t n) {
  for (int64_t i = 0; i < n; ++i) a[i] += b[i];
}
ONWARD_CLONES void AddInts(int32_t* __restrict a, const int32_t* __restrict b, int64_t n) {
  for (int64_t i = 0; i < n; ++i) a[i] += b[i];
}
ONWARD_CLONES void AddLongs(int64_t* __restrict a, const int64_t* __restrict b, int64_t n) {
  for (int64_t i = 0; i < n; ++i) a[i] += b[i];
}

}  // namespace

void AddInto(DataType dtype, void* a, const void* b, int64_t n) {
  switch (dtype) {
    case DataType::kFloat32:
      return AddFloats(static_cast<float*>(a), static_cast<const float*>(b), n);
    case DataType::kFloat64:
      return AddDoubles(static_cast<double*>(a), static_cast<const double*>(b), n);
    case DataType::kInt32:
      return AddInts(static_cast<int32_t*>(a), static_cast<const int32_t*>(b), n);
    case DataType::kInt64:
      return AddLongs(static_cast<int64_t*>(a), static_cast<const int64_t*>(b), n);
    default:
      ONWARD_CHECK(false);
  }
}

TreeReduction::TreeReduction(DataType dtype, int64_t elements,
                             const std::vector<ShardBlock>& blocks, std::vector<void*> block_memory,
                             std::vector<void*> outputs, bool scatter)
    : dtype_(dtype),
      scatter_(scatter),
      elements_(elements),
      memory_(std::move(block_memory)),
      outputs_(std::move(outputs)) {
  // Halves are joined as on a stack; what remains are complete subtrees of falling
  // sizes, which the tree joins from the right.
  struct Held {
    int block;
    int first;
    int shards;
  };
  std::vector<Held> held;
  for (size_t i = 0; i < blocks.size(); ++i) {
    held.push_back({static_cast<int>(i), blocks[i].first_shard, blocks[i].shards});
    while (held.size() > 1) {
      Held& left = held[held.size() - 2];
      const Held& right = held.back();
      if (left.shards != right.shards || left.first % (2 * left.shards) != 0) break;
      folds_.push_back({left.block, right.block});
      left.shards *= 2;
      held.pop_back();
    }
  }
  while (held.size() > 1) {
    folds_.push_back({held[held.size() - 2].block, held.back().block});
    held.pop_back();
  }
}

void TreeReduction::Run(int part, int parts) const {
  const int64_t size = static_cast<int64_t>(SizeOf(dtype_));
  // In pieces that stay in the first cache over all additions.
  constexpr int64_t kPieceBytes = 8192;
  const RowRange range = PartOfElements(elements_, size, part, parts);
  for (int64_t at = range.begin; at < range.end; at += kPieceBytes / size) {
    const int64_t n = std::min(range.end - at, kPieceBytes / size);
    const auto place = [&](void* base) { return static_cast<char*>(base) + at * size; };
    for (const Fold& f : folds_) AddInto(dtype_, place(memory_[f.to]), place(memory_[f.from]), n);
    for (size_t o = 0; o < outputs_.size(); ++o) {
      if (outputs_[o] == memory_[0] || (scatter_ && static_cast<int>(o) != part)) continue;
      std::memcpy(place(outputs_[o]), place(memory_[0]), n * size);
    }
  }
}

}  // namespace onward
