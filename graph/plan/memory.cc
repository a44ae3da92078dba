#include "graph/plan/memory.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

namespace onward {
namespace {

constexpr int64_t kAlignment = 64;

// Free pieces of the arena, by place and by size.
class FreeList {
 public:
  int64_t Take(int64_t bytes) {
    const auto fit = by_size_.lower_bound({bytes, 0});
    if (fit == by_size_.end()) {
      // At the end: a free piece that reaches it is used up first.
      int64_t offset = top_;
      if (!by_offset_.empty()) {
        const auto last = std::prev(by_offset_.end());
        if (last->first + last->second == top_) {
          offset = last->first;
          Erase(last);
        }
      }
      top_ = offset + bytes;
      return offset;
    }
    const auto [size, offset] = *fit;
    Erase(by_offset_.find(offset));
    if (size > bytes) Insert(offset + bytes, size - bytes);
    return offset;
  }

  void Give(int64_t offset, int64_t bytes) {
    auto next = by_offset_.lower_bound(offset);
    if (next != by_offset_.end() && next->first == offset + bytes) {
      bytes += next->second;
      Erase(next);
    }
    next = by_offset_.lower_bound(offset);
    if (next != by_offset_.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == offset) {
        offset = before->first;
        bytes += before->second;
        Erase(before);
      }
    }
    Insert(offset, bytes);
  }

  int64_t top() const { return top_; }

 private:
  void Insert(int64_t offset, int64_t bytes) {
    by_offset_[offset] = bytes;
    by_size_.insert({bytes, offset});
  }
  void Erase(std::map<int64_t, int64_t>::iterator it) {
    by_size_.erase({it->second, it->first});
    by_offset_.erase(it);
  }

  std::map<int64_t, int64_t> by_offset_;
  std::set<std::pair<int64_t, int64_t>> by_size_;
  int64_t top_ = 0;
};

}  // namespace

int64_t PlaceInArena(std::vector<MemoryRequest>& requests) {
  std::vector<int> starts(requests.size());
  std::iota(starts.begin(), starts.end(), 0);
  std::vector<int> ends = starts;
  std::stable_sort(starts.begin(), starts.end(), [&](int a, int b) {
    return requests[a].first != requests[b].first ? requests[a].first < requests[b].first
                                                  : requests[a].bytes > requests[b].bytes;
  });
  std::stable_sort(ends.begin(), ends.end(),
                   [&](int a, int b) { return requests[a].last < requests[b].last; });
  FreeList free;
  size_t ended = 0;
  const auto rounded = [](int64_t bytes) {
    return std::max<int64_t>(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  };
  for (int i : starts) {
    while (ended < ends.size() && requests[ends[ended]].last < requests[i].first) {
      const MemoryRequest& done = requests[ends[ended++]];
      free.Give(done.offset, rounded(done.bytes));
    }
    requests[i].offset = free.Take(rounded(requests[i].bytes));
  }
  return free.top();
}

}  // namespace onward
