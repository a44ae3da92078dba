// Softmax with cross-entropy on integer labels, float32, with the vectors of the
// processor. Few classes, or classes that are not neighbours in memory: a vector
// holds one class of several positions, so that nothing is summed across lanes.
// Many neighbouring classes: a vector holds several classes of one position. Either
// way a position's bits depend on its own scores alone.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "kernels/cpu/cross_entropy_call.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vector_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/loss.cc"
// foreach_target.h must come first.
// clang-format off
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "hwy/contrib/math/math-inl.h"
// clang-format on

#ifndef ONWARD_KERNELS_CPU_LOSS_ONCE
#define ONWARD_KERNELS_CPU_LOSS_ONCE

namespace onward {

// From this many neighbouring classes on, vectors go along the classes.
inline constexpr int64_t kManyClasses = 64;

struct CrossEntropyArguments {
  CrossEntropyCall call;
  float own_share = 1;  // 1 - smoothing
  float share = 0;      // smoothing / C
  float weight_sum = 0;
  // Forward: loss and weight (may be null). Gradient: dloss and dx.
  float* loss = nullptr;
  float* weight = nullptr;
  const float* dloss = nullptr;
  float* dx = nullptr;
  // The lowest position whose label is neither a class nor ignored.
  std::atomic<int64_t>* bad = nullptr;

  const float* scores() const { return static_cast<const float*>(call.scores); }
  const float* weights() const { return static_cast<const float*>(call.weights); }

  // A position's class and weight; class 0 with weight 0 where it does not count.
  void Look(int64_t position, int32_t* label, float* own) const {
    const int64_t given = call.Label(position);
    const bool valid = call.Valid(given), ignored = call.Ignored(given);
    if (!valid && !ignored) {
      int64_t lowest = bad->load();
      while (position < lowest && !bad->compare_exchange_weak(lowest, position)) {
      }
    }
    *label = valid && !ignored ? static_cast<int32_t>(given) : 0;
    *own = !valid || ignored ? 0.0f : call.weights == nullptr ? 1.0f : weights()[given];
  }
  // Does a position count? A weight of 0 alone does not say so: smoothing still acts.
  bool Counts(int64_t position) const {
    const int64_t given = call.Label(position);
    return call.Valid(given) && !call.Ignored(given);
  }
};

}  // namespace onward

#endif  // ONWARD_KERNELS_CPU_LOSS_ONCE

HWY_BEFORE_NAMESPACE();
namespace onward {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using DI = hn::RebindToSigned<D>;
using V = hn::Vec<D>;

constexpr int kMostLanes = HWY_MAX_BYTES / sizeof(float);

// exp for arguments <= 0; NaN stays NaN, which Highway's own loses.
HWY_INLINE V ExpBelowZero(V x) {
  const D d;
  return hn::IfThenElse(hn::Eq(x, x), hn::Exp(d, x), x);
}

HWY_INLINE V LogOf(V x) {
  const D d;
  return hn::IfThenElse(hn::Eq(x, x), hn::Log(d, x), x);
}

// One class of up to a vector of positions. Lanes past the last position repeat it:
// they compute and store what it does.
class Lanes {
 public:
  HWY_INLINE Lanes(const CrossEntropyArguments& a, int64_t position, int64_t count)
      : inner_(a.call.inner), contiguous_(inner_ > 1 && count == Size()) {
    const D d;
    const DI di;
    const int64_t stride = inner_ == 1 ? a.call.classes : 1;
    HWY_ALIGN int32_t places[kMostLanes];
    HWY_ALIGN int32_t labels[kMostLanes];
    HWY_ALIGN float own[kMostLanes];
    HWY_ALIGN float counts[kMostLanes];
    for (int64_t i = 0; i < Size(); ++i) {
      const int64_t lane = std::min(i, count - 1);
      places[i] = static_cast<int32_t>(lane * stride);
      int32_t label;
      a.Look(position + lane, &label, &own[i]);
      labels[i] = places[i] + label * static_cast<int32_t>(inner_);
      counts[i] = a.Counts(position + lane) ? 1.0f : 0.0f;
    }
    place_ = hn::Load(di, places);
    label_ = hn::Load(di, labels);
    own_ = hn::Load(d, own);
    counts_ = hn::Gt(hn::Load(d, counts), hn::Zero(d));
    offset_ = a.call.Offset(position);
    scores_ = a.scores() + offset_;
  }

  static HWY_INLINE int64_t Size() { return static_cast<int64_t>(hn::Lanes(D())); }

  HWY_INLINE V Class(const float* base, int64_t k) const {
    const D d;
    const float* at = base + k * inner_;
    return contiguous_ ? hn::LoadU(d, at) : hn::GatherIndex(d, at, place_);
  }
  HWY_INLINE V Scores(int64_t k) const { return Class(scores_, k); }
  HWY_INLINE void Store(V value, float* base, int64_t k) const {
    const D d;
    float* at = base + k * inner_;
    if (contiguous_) {
      hn::StoreU(value, d, at);
    } else {
      hn::ScatterIndex(value, d, at, place_);
    }
  }
  HWY_INLINE V Labelled() const { return hn::GatherIndex(D(), scores_, label_); }
  HWY_INLINE V own() const { return own_; }
  HWY_INLINE hn::Mask<D> counts() const { return counts_; }
  // The lane's label is class k.
  HWY_INLINE hn::Mask<D> IsLabel(int64_t k) const {
    const DI di;
    const auto at = hn::Add(place_, hn::Set(di, static_cast<int32_t>(k * inner_)));
    return hn::RebindMask(D(), hn::Eq(at, label_));
  }
  int64_t offset() const { return offset_; }

 private:
  int64_t inner_;
  bool contiguous_;
  hn::Vec<DI> place_, label_;
  V own_;
  hn::Mask<D> counts_;
  int64_t offset_;
  const float* scores_;
};

HWY_INLINE V MostOf(const Lanes& lanes, int64_t classes) {
  V most = lanes.Scores(0);
  for (int64_t k = 1; k < classes; ++k) most = hn::Max(most, lanes.Scores(k));
  return most;
}

HWY_INLINE void Put(V value, float* to, int64_t count) {
  HWY_ALIGN float buffer[kMostLanes];
  hn::Store(value, D(), buffer);
  std::memcpy(to, buffer, count * sizeof(float));
}

void ForwardLanes(const CrossEntropyArguments& a, int64_t position, int64_t count) {
  const D d;
  const int64_t classes = a.call.classes;
  const Lanes lanes(a, position, count);
  const V most = MostOf(lanes, classes);
  V sum = hn::Zero(d), weighted = hn::Zero(d);
  for (int64_t k = 0; k < classes; ++k) {
    const V x = hn::Sub(lanes.Scores(k), most);
    sum = hn::Add(sum, ExpBelowZero(x));
    if (a.share != 0) {
      weighted =
          hn::MulAdd(hn::Set(d, a.weights() == nullptr ? 1.0f : a.weights()[k]), x, weighted);
    }
  }
  const V log_sum = LogOf(sum);
  const V own_loss = hn::Sub(log_sum, hn::Sub(lanes.Labelled(), most));
  V loss = hn::Mul(hn::Mul(hn::Set(d, a.own_share), lanes.own()), own_loss);
  if (a.share != 0) {
    const V spread = hn::MulSub(hn::Set(d, a.weight_sum), log_sum, weighted);
    loss = hn::MulAdd(hn::Set(d, a.share), spread, loss);
  }
  Put(hn::IfThenElseZero(lanes.counts(), loss), a.loss + position, count);
  if (a.weight != nullptr) Put(lanes.own(), a.weight + position, count);
}

void GradientLanes(const CrossEntropyArguments& a, int64_t position, int64_t count) {
  const D d;
  const int64_t classes = a.call.classes;
  const Lanes lanes(a, position, count);
  float* dx = a.dx + lanes.offset();
  const V most = MostOf(lanes, classes);
  // Exponentials wait in a buffer or, where there are too many, in the result.
  HWY_ALIGN float buffer[kManyClasses * kMostLanes];
  const bool buffered = classes <= kManyClasses;
  V sum = hn::Zero(d);
  for (int64_t k = 0; k < classes; ++k) {
    const V e = ExpBelowZero(hn::Sub(lanes.Scores(k), most));
    sum = hn::Add(sum, e);
    if (buffered) {
      hn::Store(e, d, buffer + k * Lanes::Size());
    } else {
      lanes.Store(e, dx, k);
    }
  }
  HWY_ALIGN float dloss[kMostLanes];
  for (int64_t i = 0; i < Lanes::Size(); ++i) dloss[i] = a.dloss[position + std::min(i, count - 1)];
  const V dy = hn::IfThenElseZero(lanes.counts(), hn::Load(d, dloss));
  // dx_k = dy (p_k (own + share W) - own [k = y] - share w_k)
  const V own = hn::Mul(hn::Set(d, a.own_share), lanes.own());
  const V scale = hn::Div(hn::Add(own, hn::Set(d, a.share * a.weight_sum)), sum);
  for (int64_t k = 0; k < classes; ++k) {
    const V e = buffered ? hn::Load(d, buffer + k * Lanes::Size()) : lanes.Class(dx, k);
    V taken = hn::IfThenElseZero(lanes.IsLabel(k), own);
    if (a.share != 0) {
      const float weight = a.weights() == nullptr ? 1.0f : a.weights()[k];
      taken = hn::Add(taken, hn::Set(d, a.share * weight));
    }
    const V value = hn::Mul(dy, hn::MulSub(e, scale, taken));
    lanes.Store(hn::IfThenElseZero(lanes.counts(), value), dx, k);
  }
}

// Calls use(vector, first class, number of classes) along one position's classes;
// the last vector is filled up with `filler`.
template <class Use>
HWY_INLINE void Along(const float* x, int64_t classes, float filler, const Use& use) {
  const D d;
  const int64_t lanes = Lanes::Size();
  int64_t k = 0;
  for (; k + lanes <= classes; k += lanes) use(hn::LoadU(d, x + k), k, lanes);
  if (k == classes) return;
  HWY_ALIGN float buffer[kMostLanes];
  std::fill(buffer, buffer + lanes, filler);
  std::memcpy(buffer, x + k, (classes - k) * sizeof(float));
  use(hn::Load(d, buffer), k, classes - k);
}

HWY_INLINE V WeightsAt(const CrossEntropyArguments& a, int64_t k, int64_t count) {
  const D d;
  if (a.weights() != nullptr && count == Lanes::Size()) return hn::LoadU(d, a.weights() + k);
  HWY_ALIGN float buffer[kMostLanes] = {};
  for (int64_t i = 0; i < count; ++i) buffer[i] = a.weights() == nullptr ? 1 : a.weights()[k + i];
  return hn::Load(d, buffer);
}

constexpr float kLowest = std::numeric_limits<float>::lowest();

void ForwardRow(const CrossEntropyArguments& a, int64_t position) {
  const D d;
  const int64_t classes = a.call.classes;
  const float* x = a.scores() + position * classes;
  int32_t label;
  float own;
  a.Look(position, &label, &own);
  V most = hn::Set(d, kLowest);
  Along(x, classes, kLowest, [&](V v, int64_t, int64_t) { most = hn::Max(most, v); });
  most = hn::MaxOfLanes(d, most);
  V sum = hn::Zero(d), weighted = hn::Zero(d);
  Along(x, classes, kLowest, [&](V v, int64_t k, int64_t count) {
    const V below = hn::Sub(v, most);
    sum = hn::Add(sum, ExpBelowZero(below));
    if (a.share == 0) return;
    // Lanes past the last class: 0 times a finite number.
    const V kept = hn::Max(below, hn::Set(d, kLowest));
    weighted = hn::MulAdd(WeightsAt(a, k, count), count == Lanes::Size() ? below : kept, weighted);
  });
  const V log_sum = LogOf(hn::SumOfLanes(d, sum));
  const float log_total = hn::GetLane(log_sum), largest = hn::GetLane(most);
  float loss = a.own_share * own * (log_total - (x[label] - largest));
  if (a.share != 0) {
    loss += a.share * (a.weight_sum * log_total - hn::GetLane(hn::SumOfLanes(d, weighted)));
  }
  a.loss[position] = a.Counts(position) ? loss : 0.0f;
  if (a.weight != nullptr) a.weight[position] = own;
}

void GradientRow(const CrossEntropyArguments& a, int64_t position) {
  const D d;
  const int64_t classes = a.call.classes;
  const float* x = a.scores() + position * classes;
  float* dx = a.dx + position * classes;
  int32_t label;
  float own;
  a.Look(position, &label, &own);
  if (!a.Counts(position)) {
    std::fill(dx, dx + classes, 0.0f);
    return;
  }
  const auto put = [&](V v, int64_t k, int64_t count) {
    if (count == Lanes::Size()) {
      hn::StoreU(v, d, dx + k);
    } else {
      Put(v, dx + k, count);
    }
  };
  V most = hn::Set(d, kLowest);
  Along(x, classes, kLowest, [&](V v, int64_t, int64_t) { most = hn::Max(most, v); });
  most = hn::MaxOfLanes(d, most);
  V sum = hn::Zero(d);
  Along(x, classes, kLowest, [&](V v, int64_t k, int64_t count) {
    const V e = ExpBelowZero(hn::Sub(v, most));
    sum = hn::Add(sum, e);
    put(e, k, count);
  });
  const float dy = a.dloss[position];
  const float taken = a.own_share * own;
  const V scale =
      hn::Div(hn::Set(d, dy * (taken + a.share * a.weight_sum)), hn::SumOfLanes(d, sum));
  const V share = hn::Set(d, dy * a.share);
  Along(dx, classes, 0, [&](V e, int64_t k, int64_t count) {
    V value = hn::Mul(e, scale);
    if (a.share != 0) value = hn::NegMulAdd(share, WeightsAt(a, k, count), value);
    put(value, k, count);
  });
  dx[label] -= dy * taken;
}

template <void (*kLanes)(const CrossEntropyArguments&, int64_t, int64_t),
          void (*kRow)(const CrossEntropyArguments&, int64_t)>
void Positions(const CrossEntropyArguments& a, int64_t begin, int64_t end) {
  const int64_t inner = a.call.inner;
  if (inner == 1 && a.call.classes >= kManyClasses) {
    for (int64_t i = begin; i < end; ++i) kRow(a, i);
    return;
  }
  for (int64_t i = begin; i < end;) {
    int64_t count = std::min(Lanes::Size(), end - i);
    if (inner > 1) count = std::min(count, inner - i % inner);
    kLanes(a, i, count);
    i += count;
  }
}

void Forward(const CrossEntropyArguments& a, int64_t begin, int64_t end) {
  Positions<ForwardLanes, ForwardRow>(a, begin, end);
}

void Gradient(const CrossEntropyArguments& a, int64_t begin, int64_t end) {
  Positions<GradientLanes, GradientRow>(a, begin, end);
}

}  // namespace HWY_NAMESPACE
}  // namespace onward
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace onward {
namespace {

HWY_EXPORT(Forward);
HWY_EXPORT(Gradient);

CrossEntropyArguments Arguments(const KernelCall& call, const KernelMemory& memory, int first) {
  CrossEntropyArguments a{CrossEntropyCall(call, memory, first)};
  a.own_share = static_cast<float>(1 - a.call.smoothing);
  a.share = static_cast<float>(a.call.smoothing / static_cast<double>(a.call.classes));
  return a;
}

constexpr int64_t kNoneBad = std::numeric_limits<int64_t>::max();

using PositionsFunction = void (*)(const CrossEntropyArguments&, int64_t, int64_t);
std::unique_ptr<BoundKernel> BindPositions(PositionsFunction function,
                                           const CrossEntropyArguments& bound,
                                           const Execution& execution) {
  // An exponential costs some ten times what a thread's start spreads over.
  const int64_t least = std::max<int64_t>(1, 8192 / std::max<int64_t>(1, bound.call.classes));
  return BoundTo([=, threads = execution.threads] {
    CrossEntropyArguments a = bound;
    double sum = 0;
    for (int64_t k = 0; k < a.call.classes; ++k) sum += a.weights() == nullptr ? 1 : a.weights()[k];
    a.weight_sum = static_cast<float>(sum);
    std::atomic<int64_t> bad{kNoneBad};
    a.bad = &bad;
    ParallelRows(a.call.positions(), least, threads,
                 [&](int64_t begin, int64_t end) { function(a, begin, end); });
    return bad.load() == kNoneBad ? absl::OkStatus() : a.call.BadLabel(bad.load());
  });
}

absl::StatusOr<std::unique_ptr<BoundKernel>> PrepareForward(const KernelCall& call,
                                                            const KernelMemory& memory,
                                                            const Execution& execution) {
  CrossEntropyArguments a = Arguments(call, memory, 0);
  a.loss = memory.outputs[0].as<float>();
  if (call.has_output(1)) a.weight = memory.outputs[1].as<float>();
  return BindPositions(HWY_DYNAMIC_DISPATCH(Forward), a, execution);
}

absl::StatusOr<std::unique_ptr<BoundKernel>> PrepareGradient(const KernelCall& call,
                                                             const KernelMemory& memory,
                                                             const Execution& execution) {
  CrossEntropyArguments a = Arguments(call, memory, 1);
  a.dloss = memory.inputs[0].as<float>();
  a.dx = memory.outputs[0].as<float>();
  return BindPositions(HWY_DYNAMIC_DISPATCH(Gradient), a, execution);
}

template <int kScores>
absl::Status Accept(const KernelCall& call) {
  const TensorType& scores = *call.inputs[kScores];
  if (scores.dtype != DataType::kFloat32) return absl::UnimplementedError("float32 only");
  if (scores.dims[1] < 1) return absl::UnimplementedError("there are no classes");
  // Places within a vector of positions are 32-bit numbers.
  const int64_t sample = scores.dims[0] == 0 ? 0 : scores.elements() / scores.dims[0];
  if (sample > (int64_t{1} << 31) / 64) return absl::UnimplementedError("samples are too large");
  return AcceptPlain(call);
}

template <int kScores>
KernelNeeds Describe(const KernelCall& call) {
  KernelNeeds needs = WantPlain(call);
  return needs;
}

}  // namespace

void AddLossVector(KernelTable& table) {
  table.push_back({"cpu.softmax_cross_entropy", "onward.SoftmaxCrossEntropy", false, Accept<0>,
                   Describe<0>, PrepareForward});
  table.push_back({"cpu.softmax_cross_entropy_gradient", "onward.SoftmaxCrossEntropyGradient",
                   false, Accept<1>, Describe<1>, PrepareGradient});
}

}  // namespace onward

#endif  // HWY_ONCE
