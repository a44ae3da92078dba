// Reductions, searches and running sums along axes.
#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/cpu/elementwise_functors.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/reference.h"

namespace onward {
namespace {

// Reals are summed in double, integers in themselves (and wrap).
template <typename T>
using Wide = std::conditional_t<std::is_floating_point_v<T>, double, T>;

// Which axes are reduced: the second input, or all where there is none (unless
// noop_with_empty_axes asks for no axis at all).
struct ReducedExtents {
  Dims outer, outer_strides;  // the axes that stay, in order
  Dims inner, inner_strides;  // the axes that go
  ReducedExtents(const KernelCall& call, const KernelMemory& memory) {
    const Dims& dims = memory.inputs[0].type.dims;
    const int64_t rank = static_cast<int64_t>(dims.size());
    const Dims axes = IntsAt(memory, 1), strides = Strides(dims);
    const bool all = axes.empty() && call.attributes->Int("noop_with_empty_axes", 0) == 0;
    for (int64_t i = 0; i < rank; ++i) {
      bool reduced = all;
      for (int64_t axis : axes) reduced |= (axis < 0 ? axis + rank : axis) == i;
      (reduced ? inner : outer).push_back(dims[i]);
      (reduced ? inner_strides : outer_strides).push_back(strides[i]);
    }
  }
};

// A reduction has a start, a step for each element and a finish.
struct SumOf {
  template <typename T>
  static Wide<T> Start() {
    return 0;
  }
  template <typename T>
  static Wide<T> Step(Wide<T> sum, T x) {
    return AddFunctor()(sum, Wide<T>(x));
  }
  template <typename T>
  static T Finish(Wide<T> sum, int64_t) {
    return static_cast<T>(sum);
  }
};
struct MeanOf : SumOf {
  template <typename T>
  static T Finish(Wide<T> sum, int64_t n) {
    return static_cast<T>(DivFunctor()(sum, static_cast<Wide<T>>(n)));
  }
};
struct ProductOf {
  template <typename T>
  static Wide<T> Start() {
    return 1;
  }
  template <typename T>
  static Wide<T> Step(Wide<T> product, T x) {
    return MulFunctor()(product, Wide<T>(x));
  }
  template <typename T>
  static T Finish(Wide<T> product, int64_t) {
    return static_cast<T>(product);
  }
};
struct L1Of : SumOf {
  template <typename T>
  static Wide<T> Step(Wide<T> sum, T x) {
    return AddFunctor()(sum, AbsFunctor()(Wide<T>(x)));
  }
};
struct SquaresOf : SumOf {
  template <typename T>
  static Wide<T> Step(Wide<T> sum, T x) {
    return AddFunctor()(sum, MulFunctor()(Wide<T>(x), Wide<T>(x)));
  }
};
struct L2Of : SquaresOf {
  template <typename T>
  static T Finish(Wide<T> sum, int64_t) {
    return ConvertTo<T>(std::sqrt(static_cast<double>(sum)));
  }
};
struct LogSumOf : SumOf {
  template <typename T>
  static T Finish(Wide<T> sum, int64_t) {
    return ConvertTo<T>(std::log(static_cast<double>(sum)));
  }
};
// Without elements: the least value there is (for ReduceMin the greatest).
struct MaxOf {
  template <typename T>
  static Wide<T> Start() {
    if constexpr (std::is_floating_point_v<T>) return -std::numeric_limits<double>::infinity();
    return std::numeric_limits<T>::lowest();
  }
  template <typename T>
  static Wide<T> Step(Wide<T> best, T x) {
    return MaxFunctor()(best, Wide<T>(x));
  }
  template <typename T>
  static T Finish(Wide<T> best, int64_t) {
    return static_cast<T>(best);
  }
};
struct MinOf {
  template <typename T>
  static Wide<T> Start() {
    if constexpr (std::is_floating_point_v<T>) return std::numeric_limits<double>::infinity();
    return std::numeric_limits<T>::max();
  }
  template <typename T>
  static Wide<T> Step(Wide<T> best, T x) {
    return MinFunctor()(best, Wide<T>(x));
  }
  template <typename T>
  static T Finish(Wide<T> best, int64_t) {
    return static_cast<T>(best);
  }
};

// Every element of the output is result(each), in which each(body) calls body(x) for all
// elements x of type T that belong to it.
template <typename T, typename Result>
void ForEachResult(const KernelCall& call, const KernelMemory& memory, Result result) {
  const ReducedExtents extents(call, memory);
  const T* x = memory.inputs[0].as<T>();
  T* y = memory.outputs[0].as<T>();
  ForEachIndex<1>(
      extents.outer, {extents.outer_strides}, [&](int64_t i, const std::array<int64_t, 1>& at) {
        y[i] = result([&](auto body) {
          ForEachIndex<1>(
              extents.inner, {extents.inner_strides},
              [&](int64_t, const std::array<int64_t, 1>& in) { body(x[at[0] + in[0]]); });
        });
      });
}

template <typename Reduction, typename List>
absl::Status Reduce(const KernelCall& call, const KernelMemory& memory, const Execution&) {
  const int64_t count = Elements(ReducedExtents(call, memory).inner);
  return ForType(List(), memory.inputs[0].type.dtype, [&](auto t) {
    using T = decltype(t);
    ForEachResult<T>(call, memory, [&](auto each) {
      Wide<T> value = Reduction::template Start<T>();
      each([&](T x) { value = Reduction::template Step<T>(value, x); });
      return Reduction::template Finish<T>(value, count);
    });
    return absl::OkStatus();
  });
}

// m + log(sum of exp(x - m)) with the greatest element m, so that nothing overflows.
absl::Status LogSumExp(const KernelCall& call, const KernelMemory& memory, const Execution&) {
  return ForType(NumberTypes(), memory.inputs[0].type.dtype, [&](auto t) {
    using T = decltype(t);
    ForEachResult<T>(call, memory, [](auto each) {
      double most = -std::numeric_limits<double>::infinity(), sum = 0;
      each([&](T x) { most = MaxFunctor()(most, static_cast<double>(x)); });
      // An infinite greatest element is the result itself.
      if (!std::isfinite(most)) return ConvertTo<T>(most);
      each([&](T x) { sum += std::exp(static_cast<double>(x) - most); });
      return ConvertTo<T>(most + std::log(sum));
    });
    return absl::OkStatus();
  });
}

// The index of the greatest (least) element; of equal ones the first or the last.
template <bool kMax>
absl::Status ArgExtreme(const KernelCall& call, const KernelMemory& memory, const Execution&) {
  const AxisView view(memory.inputs[0].type.dims, call.attributes->Int("axis", 0));
  const bool last = call.attributes->Int("select_last_index", 0) != 0;
  return ForType(NumberTypes(), memory.inputs[0].type.dtype, [&](auto t) {
    using T = decltype(t);
    const T* x = memory.inputs[0].as<T>();
    int64_t* y = memory.outputs[0].as<int64_t>();
    for (int64_t o = 0; o < view.outer; ++o) {
      for (int64_t i = 0; i < view.inner; ++i) {
        const T* line = x + o * view.extent * view.inner + i;
        int64_t best = 0;
        for (int64_t k = 1; k < view.extent; ++k) {
          const T a = line[k * view.inner], b = line[best * view.inner];
          const bool better = kMax ? a > b : a < b;
          if (better || (last && a == b)) best = k;
        }
        y[o * view.inner + i] = best;
      }
    }
    return absl::OkStatus();
  });
}

// An order of all numbers: the wanted ones first, of equal ones that with the lower
// index; NaN counts as the greatest.
template <typename T>
struct RankOrder {
  const T* line;
  int64_t stride;
  bool largest;
  bool Before(int64_t i, int64_t j) const {
    const T a = line[i * stride], b = line[j * stride];
    const bool above = a > b || (a != a && b == b), below = b > a || (b != b && a == a);
    if (above || below) return largest ? above : below;
    return i < j;
  }
};

// The k first of each line, in order (which is right where `sorted` is 0 too): each
// is the first of those behind the one before it.
absl::Status TopK(const KernelCall& call, const KernelMemory& memory, const Execution&) {
  const int64_t axis = call.attributes->Int("axis", -1);
  const AxisView view(memory.inputs[0].type.dims, axis);
  const int64_t count = AxisView(memory.outputs[0].type.dims, axis).extent;
  const bool largest = call.attributes->Int("largest", 1) != 0;
  return ForType(NumberTypes(), memory.inputs[0].type.dtype, [&](auto t) {
    using T = decltype(t);
    T* values = memory.outputs[0].as<T>();
    int64_t* indices = memory.outputs.size() > 1 ? memory.outputs[1].as<int64_t>() : nullptr;
    for (int64_t n = 0; n < view.outer * view.inner; ++n) {
      const int64_t o = n / view.inner, i = n % view.inner;
      const T* line = memory.inputs[0].as<T>() + o * view.extent * view.inner + i;
      const RankOrder<T> order{line, view.inner, largest};
      int64_t previous = -1;
      for (int64_t rank = 0; rank < count; ++rank) {
        int64_t best = -1;
        for (int64_t k = 0; k < view.extent; ++k) {
          const bool left = previous < 0 || order.Before(previous, k);
          if (left && (best < 0 || order.Before(k, best))) best = k;
        }
        values[(o * count + rank) * view.inner + i] = line[best * view.inner];
        if (indices != nullptr) indices[(o * count + rank) * view.inner + i] = best;
        previous = best;
      }
    }
    return absl::OkStatus();
  });
}

absl::Status CumSum(const KernelCall& call, const KernelMemory& memory, const Execution&) {
  const AxisView view(memory.inputs[0].type.dims, IntAt(memory.inputs[1], 0));
  const bool exclusive = call.attributes->Int("exclusive", 0) != 0;
  const bool reverse = call.attributes->Int("reverse", 0) != 0;
  return ForType(NumberTypes(), memory.inputs[0].type.dtype, [&](auto t) {
    using T = decltype(t);
    for (int64_t o = 0; o < view.outer; ++o) {
      for (int64_t i = 0; i < view.inner; ++i) {
        Wide<T> sum = 0;
        for (int64_t k = 0; k < view.extent; ++k) {
          const int64_t step = reverse ? view.extent - 1 - k : k;
          const int64_t at = (o * view.extent + step) * view.inner + i;
          const Wide<T> with = AddFunctor()(sum, Wide<T>(memory.inputs[0].as<T>()[at]));
          memory.outputs[0].as<T>()[at] = static_cast<T>(exclusive ? sum : with);
          sum = with;
        }
      }
    }
    return absl::OkStatus();
  });
}

}  // namespace

void AddReduceReference(KernelTable& table) {
  table.push_back(TypedReference<Reduce<SumOf, NumberTypes>, NumberTypes>("ReduceSum"));
  table.push_back(TypedReference<Reduce<MeanOf, NumberTypes>, NumberTypes>("ReduceMean"));
  table.push_back(TypedReference<Reduce<ProductOf, NumberTypes>, NumberTypes>("ReduceProd"));
  table.push_back(TypedReference<Reduce<L1Of, NumberTypes>, NumberTypes>("ReduceL1"));
  table.push_back(TypedReference<Reduce<L2Of, NumberTypes>, NumberTypes>("ReduceL2"));
  table.push_back(TypedReference<Reduce<SquaresOf, NumberTypes>, NumberTypes>("ReduceSumSquare"));
  table.push_back(TypedReference<Reduce<LogSumOf, NumberTypes>, NumberTypes>("ReduceLogSum"));
  table.push_back(TypedReference<Reduce<MaxOf, AllTypes>, AllTypes>("ReduceMax"));
  table.push_back(TypedReference<Reduce<MinOf, AllTypes>, AllTypes>("ReduceMin"));
  table.push_back(TypedReference<LogSumExp, NumberTypes>("ReduceLogSumExp"));
  table.push_back(TypedReference<ArgExtreme<true>, NumberTypes>("ArgMax"));
  table.push_back(TypedReference<ArgExtreme<false>, NumberTypes>("ArgMin"));
  table.push_back(TypedReference<TopK, NumberTypes>("TopK"));
  table.push_back(TypedReference<CumSum, NumberTypes>("CumSum"));
}

}  // namespace onward
