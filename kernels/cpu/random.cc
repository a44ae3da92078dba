// Dropout with the vectors of the processor it runs on: the same bits as the
// reference, whatever their width.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/random_elements.h"
#include "kernels/cpu/vector_rows.h"
#include "kernels/philox.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/random.cc"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace onward {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Words are made in pieces of this many blocks: enough for four vectors of
// eight counters in flight, few enough for the nearest cache.
constexpr int kPieceBlocks = 128;
constexpr int kPieceHalves = 8 * kPieceBlocks;

#if HWY_TARGET == HWY_SCALAR

class WordMaker {
 public:
  explicit WordMaker(const RandomStream& stream) : stream_(stream) {}
  void Fill(uint64_t block, uint16_t* halves) const {
    for (int i = 0; i < kPieceBlocks; ++i) {
      const PhiloxBlock made = stream_.Block(block + i);
      std::memcpy(halves + 8 * i, made.word, sizeof(made.word));
    }
  }

 private:
  RandomStream stream_;
};

#else

// A word of Philox lies in the lower half of a 64-bit lane; what stands in the
// upper half is never looked at (MulEven takes the lower halves).
using D64 = hn::ScalableTag<uint64_t>;
using D32 = hn::ScalableTag<uint32_t>;
using V64 = hn::Vec<D64>;

struct Words {
  V64 w0, w1, w2, w3;
};

// Makes the half words of kPieceBlocks consecutive blocks of a stream, in the order
// of their elements.
class WordMaker {
 public:
  explicit WordMaker(const RandomStream& stream) : step_(stream.step), node_(stream.node) {
    const D64 d;
    const size_t lanes = hn::Lanes(d);
    uint32_t key0 = stream.key0, key1 = stream.key1;
    for (int round = 0; round < kPhiloxRounds; ++round) {
      hn::Store(hn::Set(d, key0), d, keys_ + 2 * round * lanes);
      hn::Store(hn::Set(d, key1), d, keys_ + (2 * round + 1) * lanes);
      key0 += kPhiloxWeyl0;
      key1 += kPhiloxWeyl1;
    }
    // Lane 2i has counter i, lane 2i + 1 counter i + half the lanes: then
    // interleaving within 128-bit blocks brings the words into their order.
    for (size_t i = 0; i < lanes; ++i) order_[i] = i / 2 + (i % 2) * (lanes / 2);
  }

  void Fill(uint64_t block, uint16_t* HWY_RESTRICT halves) const {
    const D64 d;
    const size_t lanes = hn::Lanes(d);
    const V64 m0 = hn::Set(d, kPhiloxMultiplier0);
    const V64 m1 = hn::Set(d, kPhiloxMultiplier1);
    const V64 next = hn::Set(d, lanes);
    const V64 step = hn::Set(d, step_);
    const V64 node = hn::Set(d, node_);
    V64 counter = hn::Add(hn::Set(d, block), hn::Load(d, order_));
    // Four vectors at once hide the latency of the multiplications. They are named,
    // not an array, so that the compiler keeps them in registers.
    for (size_t done = 0; done < kPieceBlocks; done += 4 * lanes) {
      Words a = Start(counter, step, node);
      counter = hn::Add(counter, next);
      Words b = Start(counter, step, node);
      counter = hn::Add(counter, next);
      Words c = Start(counter, step, node);
      counter = hn::Add(counter, next);
      Words e = Start(counter, step, node);
      counter = hn::Add(counter, next);
      for (size_t key = 0; key < 2 * kPhiloxRounds * lanes; key += 2 * lanes) {
        const V64 key0 = hn::Load(d, keys_ + key);
        const V64 key1 = hn::Load(d, keys_ + key + lanes);
        Round(a, m0, m1, key0, key1);
        Round(b, m0, m1, key0, key1);
        Round(c, m0, m1, key0, key1);
        Round(e, m0, m1, key0, key1);
      }
      uint16_t* out = halves + 8 * done;
      Store(a, out);
      Store(b, out + 8 * lanes);
      Store(c, out + 16 * lanes);
      Store(e, out + 24 * lanes);
    }
  }

 private:
  static HWY_INLINE Words Start(V64 counter, V64 step, V64 node) {
    return {counter, hn::ShiftRight<32>(counter), step, node};
  }

  static HWY_INLINE V64 Product(V64 word, V64 multiplier) {
    const D32 d32;
    return hn::MulEven(hn::BitCast(d32, word), hn::BitCast(d32, multiplier));
  }

  // The upper half in the lower one. A shuffle, because shifts want the port that
  // the multiplications keep busy.
  static HWY_INLINE V64 Upper(V64 product) {
    const D32 d32;
    const D64 d;
    return hn::BitCast(d, hn::Shuffle2301(hn::BitCast(d32, product)));
  }

  static HWY_INLINE void Round(Words& c, V64 m0, V64 m1, V64 key0, V64 key1) {
    const V64 p0 = Product(c.w0, m0);
    const V64 p1 = Product(c.w2, m1);
    c.w0 = hn::Xor3(Upper(p1), c.w1, key0);
    c.w1 = p1;
    c.w2 = hn::Xor3(Upper(p0), c.w3, key1);
    c.w3 = p0;
  }

  static HWY_INLINE void Store(const Words& c, uint16_t* out) {
    const D64 d;
    const hn::Repartition<uint16_t, D64> d16;
    const V64 low_half = hn::Set(d, 0xffffffffu);
    const V64 w01 = hn::OrAnd(hn::ShiftLeft<32>(c.w1), c.w0, low_half);
    const V64 w23 = hn::OrAnd(hn::ShiftLeft<32>(c.w3), c.w2, low_half);
    hn::StoreU(hn::BitCast(d16, hn::InterleaveLower(d, w01, w23)), d16, out);
    hn::StoreU(hn::BitCast(d16, hn::InterleaveUpper(d, w01, w23)), d16, out + hn::Lanes(d16));
  }

  uint32_t step_;
  uint32_t node_;
  HWY_ALIGN uint64_t keys_[2 * kPhiloxRounds * HWY_MAX_BYTES / 8];
  HWY_ALIGN uint64_t order_[HWY_MAX_BYTES / 8];
};

#endif

// An element is kept where its number, of two halves, is not below a threshold.
struct Threshold {
  explicit Threshold(uint32_t threshold)
      : upper(static_cast<int32_t>(threshold >> 16)),
        lower(threshold & 0xffff),
        above(lower == 0 ? upper - 1 : upper) {}
  int32_t upper;
  uint32_t lower;
  int32_t above;  // upper halves greater than this are kept, whatever the lower ones

  bool Keeps(const RandomStream& stream, int32_t half, uint64_t index) const {
    return half > above || (half == upper && stream.LowerHalf(index) >= lower);
  }
};

template <typename T>
HWY_INLINE void ApplyEach(const RandomStream& stream, uint64_t index, const uint16_t* halves,
                          const Threshold& threshold, T scale, const T* x, T* y, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    y[i] = threshold.Keeps(stream, halves[i], index + i) ? x[i] * scale : T(0);
  }
}

// y = kept ? x * scale : 0
HWY_INLINE void Apply(const RandomStream& stream, uint64_t index,
                      const uint16_t* HWY_RESTRICT halves, const Threshold& threshold, float scale,
                      const float* x, float* y, int64_t count) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<uint16_t, decltype(d)> dh;
  const int64_t lanes = hn::Lanes(d);
  const auto above = hn::Set(di, threshold.above);
  const auto upper = hn::Set(di, threshold.upper);
  const auto factor = hn::Set(d, scale);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto half = hn::PromoteTo(di, hn::LoadU(dh, halves + i));
    if (threshold.lower != 0 && HWY_UNLIKELY(!hn::AllFalse(di, hn::Eq(half, upper)))) {
      ApplyEach(stream, index + i, halves + i, threshold, scale, x + i, y + i, lanes);
      continue;
    }
    const auto keep = hn::RebindMask(d, hn::Gt(half, above));
    hn::StoreU(hn::IfThenElseZero(keep, hn::Mul(hn::LoadU(d, x + i), factor)), d, y + i);
  }
  ApplyEach(stream, index + i, halves + i, threshold, scale, x + i, y + i, count - i);
}

HWY_INLINE void Apply(const RandomStream& stream, uint64_t index,
                      const uint16_t* HWY_RESTRICT halves, const Threshold& threshold, double scale,
                      const double* x, double* y, int64_t count) {
  ApplyEach(stream, index, halves, threshold, scale, x, y, count);
}

// Elements [0, count), the first of which has global index `index`.
template <typename T>
void DropoutRun(const RandomStream& stream, uint64_t index, uint32_t threshold, T scale, const T* x,
                T* y, int64_t count) {
  const WordMaker maker(stream);
  const Threshold split(threshold);
  HWY_ALIGN uint16_t halves[kPieceHalves];
  int64_t skip = index % 8;
  for (int64_t done = 0; done < count;) {
    maker.Fill((index + done) / 8, halves);
    const int64_t piece = std::min<int64_t>(kPieceHalves - skip, count - done);
    Apply(stream, index + done, halves + skip, split, scale, x + done, y + done, piece);
    done += piece;
    skip = 0;
  }
}

void DropoutFloat(const RandomStream& stream, uint64_t index, uint32_t threshold, double scale,
                  const void* x, void* y, int64_t count) {
  DropoutRun(stream, index, threshold, static_cast<float>(scale), static_cast<const float*>(x),
             static_cast<float*>(y), count);
}

void DropoutDouble(const RandomStream& stream, uint64_t index, uint32_t threshold, double scale,
                   const void* x, void* y, int64_t count) {
  DropoutRun(stream, index, threshold, scale, static_cast<const double*>(x),
             static_cast<double*>(y), count);
}

}  // namespace HWY_NAMESPACE
}  // namespace onward
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace onward {
namespace {

HWY_EXPORT(DropoutFloat);
HWY_EXPORT(DropoutDouble);

absl::StatusOr<std::unique_ptr<BoundKernel>> PrepareDropout(const KernelCall& call,
                                                            const KernelMemory& memory,
                                                            const Execution& execution) {
  const TensorView& x = memory.inputs[0];
  const double ratio = call.attributes->Float("ratio", 0.5);
  // word / 2^32 >= ratio  <=>  word >= ratio * 2^32, rounded up. Where everything is
  // dropped no word is large enough, and there is no such threshold.
  const double threshold = std::ceil(ratio * 4294967296.0);
  char* const y = memory.outputs[0].as<char>();
  if (threshold > 4294967295.0) {
    return BoundTo([y, bytes = x.type.bytes()] {
      std::memset(y, 0, bytes);
      return absl::OkStatus();
    });
  }
  const bool single = x.type.dtype == DataType::kFloat32;
  const auto size = static_cast<int64_t>(SizeOf(x.type.dtype));
  const RandomSource source(call, memory, 1, x.type.dims);
  return BoundTo([=, from = x.as<char>(), threads = execution.threads] {
    const auto run =
        single ? HWY_DYNAMIC_DISPATCH(DropoutFloat) : HWY_DYNAMIC_DISPATCH(DropoutDouble);
    const RandomCall random(source);
    const RandomElements& e = random.elements;
    const int64_t length = e.RunLength();
    // Threads share the elements in memory order, whatever the runs are.
    ParallelFor(e.Runs() * length, 8192, threads, [&](int64_t begin, int64_t end) {
      while (begin < end) {
        const int64_t r = begin / length, within = begin % length;
        const int64_t count = std::min(length - within, end - begin);
        run(random.stream, e.RunIndex(r) + within, static_cast<uint32_t>(threshold),
            1 / (1 - ratio), from + begin * size, y + begin * size, count);
        begin += count;
      }
    });
    return absl::OkStatus();
  });
}

absl::Status AcceptDropout(const KernelCall& call) {
  const DataType dtype = call.inputs[0]->dtype;
  if (dtype != DataType::kFloat32 && dtype != DataType::kFloat64) {
    return absl::UnimplementedError("float32 and float64 only");
  }
  return AcceptPlain(call);
}

KernelNeeds DescribeDropout(const KernelCall& call) {
  KernelNeeds needs = WantPlain(call);
  needs.aliases = {{0, 0}};
  return needs;
}

}  // namespace

void AddRandomVector(KernelTable& table) {
  table.push_back(
      {"cpu.dropout", "onward.Dropout", false, AcceptDropout, DescribeDropout, PrepareDropout});
}

}  // namespace onward

#endif  // HWY_ONCE
