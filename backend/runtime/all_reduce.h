// Sums over the devices of one process.
#ifndef ONWARD_BACKEND_RUNTIME_ALL_REDUCE_H_
#define ONWARD_BACKEND_RUNTIME_ALL_REDUCE_H_

#include <cstdint>
#include <vector>

#include "graph/base/data_type.h"
#include "graph/plan/plan.h"

namespace onward {

// a[i] += b[i]. float32, float64, int32 or int64.
void AddInto(DataType dtype, void* a, const void* b, int64_t elements);

// Adds the blocks of partial sums of one tensor along the binary tree over shard
// numbers and gives every device the total.
//
// The tree cuts a range of shards at the largest power of two below its size, so
// the order of additions depends on the number of shards alone, not on how many
// devices or lanes hold them. Work is cut by elements: part p of n works on its own
// slice of every block, so parts need no lock and give the same bits for any n.
class TreeReduction {
 public:
  // `blocks`: in shard order. Sums are formed in the memory of the blocks. `outputs`: by
  // device. With `scatter`, part p of as many as there are outputs gives its slice of the
  // total (PartOfElements) to output p alone; the rest of that output is undefined.
  TreeReduction(DataType dtype, int64_t elements, const std::vector<ShardBlock>& blocks,
                std::vector<void*> block_memory, std::vector<void*> outputs, bool scatter = false);

  // Part `part` of `parts`. All parts together do the reduction; REQUIRES: all
  // blocks are complete before the first part runs.
  void Run(int part, int parts) const;

 private:
  struct Fold {
    int to;
    int from;
  };
  DataType dtype_;
  bool scatter_;
  int64_t elements_;
  std::vector<void*> memory_;
  std::vector<void*> outputs_;
  std::vector<Fold> folds_;
};

}  // namespace onward

#endif  // ONWARD_BACKEND_RUNTIME_ALL_REDUCE_H_
