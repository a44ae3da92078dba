#include "kernels/cpu/strided_copy.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/parallel.h"

#ifdef __SSE2__
#include <xmmintrin.h>
#endif

namespace onward {
namespace {

constexpr int64_t kRunBytes = 64 * 1024;
constexpr int64_t kTile = 64;  // rows of a tile's task

// to[j * to_stride + i] = from[i * from_stride + j] for i < n, j < m.
template <typename T>
void Transpose(T* to, int64_t to_stride, const T* from, int64_t from_stride, int64_t n, int64_t m) {
  for (int64_t j = 0; j < m; ++j) {
    for (int64_t i = 0; i < n; ++i) to[j * to_stride + i] = from[i * from_stride + j];
  }
}

#ifdef __SSE2__
template <>
void Transpose(uint32_t* to, int64_t to_stride, const uint32_t* from, int64_t from_stride,
               int64_t n, int64_t m) {
  const int64_t n4 = n / 4 * 4, m4 = m / 4 * 4;
  const auto load = [](const uint32_t* p) {
    return _mm_loadu_ps(reinterpret_cast<const float*>(p));
  };
  const auto store = [](uint32_t* p, __m128 v) { _mm_storeu_ps(reinterpret_cast<float*>(p), v); };
  for (int64_t j = 0; j < m4; j += 4) {
    for (int64_t i = 0; i < n4; i += 4) {
      const uint32_t* f = from + i * from_stride + j;
      __m128 a = load(f), b = load(f + from_stride), c = load(f + 2 * from_stride),
             d = load(f + 3 * from_stride);
      _MM_TRANSPOSE4_PS(a, b, c, d);
      uint32_t* t = to + j * to_stride + i;
      store(t, a);
      store(t + to_stride, b);
      store(t + 2 * to_stride, c);
      store(t + 3 * to_stride, d);
    }
    for (int64_t i = n4; i < n; ++i) {
      for (int64_t k = j; k < j + 4; ++k) to[k * to_stride + i] = from[i * from_stride + k];
    }
  }
  for (int64_t j = m4; j < m; ++j) {
    for (int64_t i = 0; i < n; ++i) to[j * to_stride + i] = from[i * from_stride + j];
  }
}
#endif

// In tiles that stay in L1 on both sides.
template <typename T>
void TransposeTiled(char* to, int64_t to_stride, const char* from, int64_t from_stride, int64_t n,
                    int64_t m) {
  constexpr int64_t kSide = 32;
  for (int64_t i = 0; i < n; i += kSide) {
    for (int64_t j = 0; j < m; j += kSide) {
      Transpose<T>(reinterpret_cast<T*>(to) + j * to_stride + i, to_stride,
                   reinterpret_cast<const T*>(from) + i * from_stride + j, from_stride,
                   std::min(kSide, n - i), std::min(kSide, m - j));
    }
  }
}

template <typename T>
void StepThrough(char* to, int64_t to_stride, const char* from, int64_t from_stride, int64_t n) {
  T* y = reinterpret_cast<T*>(to);
  const T* x = reinterpret_cast<const T*>(from);
  if (to_stride == 1 && from_stride == 0) {
    std::fill_n(y, n, *x);
  } else {
    for (int64_t i = 0; i < n; ++i) y[i * to_stride] = x[i * from_stride];
  }
}

template <typename Body>
void BySize(int64_t size, Body body) {
  switch (size) {
    case 1:
      return body(uint8_t());
    case 2:
      return body(uint16_t());
    case 4:
      return body(uint32_t());
    default:
      return body(uint64_t());
  }
}

}  // namespace

StridedCopy::StridedCopy(const Loops& loops, int64_t size, char* to, const char* from)
    : outer_(Collapse(loops)), size_(size), to_(to), from_(from) {
  if (outer_.empty()) outer_.push_back({1, {1, 1}});
  inner_ = outer_.back();
  outer_.pop_back();
  const bool in_order = inner_.strides[0] == 1;
  kind_ = in_order && inner_.strides[1] == 1 ? Kind::kRun : Kind::kStride;
  const bool jumps = in_order && kind_ == Kind::kStride && inner_.strides[1] != 0;
  for (size_t a = 0; jumps && kind_ == Kind::kStride && a < outer_.size(); ++a) {
    if (outer_[a].strides[1] != 1) continue;
    across_ = outer_[a];
    outer_.erase(outer_.begin() + static_cast<std::ptrdiff_t>(a));
    kind_ = Kind::kTile;
  }
  const int64_t length = kind_ == Kind::kTile ? across_.extent : inner_.extent;
  piece_ = kind_ == Kind::kTile ? kTile : kRunBytes / size_;
  pieces_ = (length + piece_ - 1) / piece_;
  tasks_ = pieces_;
  for (const Loop& loop : outer_) tasks_ *= loop.extent;
  task_bytes_ = 2 * size_ * std::min(piece_, length) * (kind_ == Kind::kTile ? inner_.extent : 1);
}

void StridedCopy::RunTask(int64_t task) const {
  const int64_t first = task % pieces_ * piece_;
  int64_t rest = task / pieces_, t = 0, f = 0;
  for (size_t a = outer_.size(); a-- > 0;) {
    const int64_t index = rest % outer_[a].extent;
    rest /= outer_[a].extent;
    t += index * outer_[a].strides[0];
    f += index * outer_[a].strides[1];
  }
  if (kind_ == Kind::kTile) {
    char* to = to_ + (t + first * across_.strides[0]) * size_;
    const char* from = from_ + (f + first) * size_;
    const int64_t rows = std::min(piece_, across_.extent - first);
    BySize(size_, [&](auto element) {
      TransposeTiled<decltype(element)>(to, across_.strides[0], from, inner_.strides[1],
                                        inner_.extent, rows);
    });
    return;
  }
  const int64_t n = std::min(piece_, inner_.extent - first);
  char* to = to_ + (t + first * inner_.strides[0]) * size_;
  const char* from = from_ + (f + first * inner_.strides[1]) * size_;
  if (kind_ == Kind::kRun) {
    std::memcpy(to, from, n * size_);
    return;
  }
  BySize(size_, [&](auto element) {
    StepThrough<decltype(element)>(to, inner_.strides[0], from, inner_.strides[1], n);
  });
}

void StridedCopy::Run(int threads) const {
  if (tasks_ == 0) return;
  const double bytes = static_cast<double>(tasks_) * static_cast<double>(task_bytes_);
  const int team = static_cast<int>(std::min<int64_t>(UsefulThreads(threads, bytes), tasks_));
  ParallelRows(tasks_, 1, team, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) RunTask(task);
  });
}

}  // namespace onward
