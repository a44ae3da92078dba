// Elementwise operators on broadcast inputs.
#include "kernels/cpu/elementwise_list.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/reference.h"

namespace onward {
namespace {

template <typename T, typename Functor>
void MapOne(const KernelMemory& memory, Functor functor) {
  using R = decltype(functor(T()));
  const T* x = memory.inputs[0].as<T>();
  R* y = memory.outputs[0].as<R>();
  for (int64_t i = 0; i < memory.outputs[0].type.elements(); ++i) y[i] = functor(x[i]);
}

template <typename A, typename B, typename Functor>
void MapTwo(const KernelMemory& memory, Functor functor) {
  using R = decltype(functor(A(), B()));
  const A* a = memory.inputs[0].as<A>();
  const B* b = memory.inputs[1].as<B>();
  R* y = memory.outputs[0].as<R>();
  const Dims& dims = memory.outputs[0].type.dims;
  ForEachIndex<2>(
      dims,
      {RepeatingStrides(memory.inputs[0].type.dims, dims),
       RepeatingStrides(memory.inputs[1].type.dims, dims)},
      [&](int64_t i, const std::array<int64_t, 2>& at) { y[i] = functor(a[at[0]], b[at[1]]); });
}

// Element i of numbers of any type, as an E.
template <typename E>
E NumberAt(const TensorView& view, int64_t i) {
  E number = 0;
  (void)ForType(NumberTypes(), view.type.dtype, [&](auto t) {
    number = static_cast<E>(view.as<decltype(t)>()[i]);
    return absl::OkStatus();
  });
  return number;
}

template <typename Functor, typename List>
absl::Status Unary(const KernelCall& call, const KernelMemory& memory, const Execution&) {
  return ForType(List(), memory.inputs[0].type.dtype, [&](auto t) {
    MapOne<decltype(t)>(memory, FunctorOf<Functor>(*call.attributes));
    return absl::OkStatus();
  });
}

template <typename Functor, typename List>
absl::Status Binary(const KernelCall& call, const KernelMemory& memory, const Execution&) {
  return ForType(List(), memory.inputs[0].type.dtype, [&](auto t) {
    MapTwo<decltype(t), decltype(t)>(memory, FunctorOf<Functor>(*call.attributes));
    return absl::OkStatus();
  });
}

// The exponent's type is its own: read as the widest integer or real.
template <typename E>
void PowBy(const KernelMemory& memory) {
  const TensorView& exponents = memory.inputs[1];
  const Dims& dims = memory.outputs[0].type.dims;
  (void)ForType(NumberTypes(), memory.inputs[0].type.dtype, [&](auto t) {
    using T = decltype(t);
    const T* x = memory.inputs[0].as<T>();
    T* y = memory.outputs[0].as<T>();
    ForEachIndex<2>(dims,
                    {RepeatingStrides(memory.inputs[0].type.dims, dims),
                     RepeatingStrides(exponents.type.dims, dims)},
                    [&](int64_t i, const std::array<int64_t, 2>& at) {
                      y[i] = PowFunctor()(x[at[0]], NumberAt<E>(exponents, at[1]));
                    });
    return absl::OkStatus();
  });
}

absl::Status Pow(const KernelCall&, const KernelMemory& memory, const Execution&) {
  if (IsFloating(memory.inputs[1].type.dtype)) {
    PowBy<double>(memory);
  } else {
    PowBy<int64_t>(memory);
  }
  return absl::OkStatus();
}

absl::Status Mod(const KernelCall& call, const KernelMemory& memory, const Execution&) {
  const bool fmod = call.attributes->Int("fmod", 0) != 0;
  return ForType(NumberTypes(), memory.inputs[0].type.dtype, [&](auto t) {
    using T = decltype(t);
    if (fmod) {
      MapTwo<T, T>(memory, FmodFunctor());
    } else {
      MapTwo<T, T>(memory, ModFunctor());
    }
    return absl::OkStatus();
  });
}

absl::Status BitShift(const KernelCall& call, const KernelMemory& memory, const Execution&) {
  const bool left = StringOf(*call.attributes, "direction", "LEFT") == "LEFT";
  using Integers =
      TypeList<uint8_t, uint16_t, uint32_t, uint64_t, int8_t, int16_t, int32_t, int64_t>;
  return ForType(Integers(), memory.inputs[0].type.dtype, [&](auto t) {
    using T = decltype(t);
    if (left) {
      MapTwo<T, T>(memory, ShiftLeftFunctor());
    } else {
      MapTwo<T, T>(memory, ShiftRightFunctor());
    }
    return absl::OkStatus();
  });
}

// Strings are equal where their handles are.
absl::Status EqualStrings(const KernelCall&, const KernelMemory& memory, const Execution&) {
  MapTwo<uint64_t, uint64_t>(memory, EqualFunctor());
  return absl::OkStatus();
}

// Max, Min, Sum and Mean of any number of inputs: folds them from the left.
template <typename Functor, typename List>
absl::Status Variadic(const KernelCall& call, const KernelMemory& memory, const Execution&) {
  const Dims& dims = memory.outputs[0].type.dims;
  return ForType(List(), memory.outputs[0].type.dtype, [&](auto t) {
    using T = decltype(t);
    T* y = memory.outputs[0].as<T>();
    for (size_t k = 0; k < memory.inputs.size(); ++k) {
      const T* x = memory.inputs[k].as<T>();
      ForEachIndex<1>(dims, {RepeatingStrides(memory.inputs[k].type.dims, dims)},
                      [&](int64_t i, const std::array<int64_t, 1>& at) {
                        y[i] = k == 0 ? x[at[0]] : Functor()(y[i], x[at[0]]);
                      });
    }
    if (call.op == "Mean") {
      for (int64_t i = 0; i < Elements(dims); ++i) y[i] /= static_cast<T>(memory.inputs.size());
    }
    return absl::OkStatus();
  });
}

absl::Status Where(const KernelCall&, const KernelMemory& memory, const Execution&) {
  const Dims& dims = memory.outputs[0].type.dims;
  return ForSizeOf(memory.outputs[0].type.dtype, [&](auto t) {
    using T = decltype(t);
    const bool* condition = memory.inputs[0].as<bool>();
    const T* a = memory.inputs[1].as<T>();
    const T* b = memory.inputs[2].as<T>();
    T* y = memory.outputs[0].as<T>();
    ForEachIndex<3>(dims,
                    {RepeatingStrides(memory.inputs[0].type.dims, dims),
                     RepeatingStrides(memory.inputs[1].type.dims, dims),
                     RepeatingStrides(memory.inputs[2].type.dims, dims)},
                    [&](int64_t i, const std::array<int64_t, 3>& at) {
                      y[i] = condition[at[0]] ? a[at[1]] : b[at[2]];
                    });
    return absl::OkStatus();
  });
}

// y = min(max(x, low), high), the bounds being scalars: where low > high, high.
absl::Status Clip(const KernelCall&, const KernelMemory& memory, const Execution&) {
  return ForType(NumberTypes(), memory.inputs[0].type.dtype, [&](auto t) {
    using T = decltype(t);
    const T* low = IsPresent(memory, 1) ? memory.inputs[1].as<T>() : nullptr;
    const T* high = IsPresent(memory, 2) ? memory.inputs[2].as<T>() : nullptr;
    MapOne<T>(memory, [&](T x) {
      if (low != nullptr && x < *low) x = *low;
      if (high != nullptr && *high < x) x = *high;
      return x;
    });
    return absl::OkStatus();
  });
}

absl::Status Cast(const KernelCall&, const KernelMemory& memory, const Execution&) {
  return ForType(AllTypes(), memory.inputs[0].type.dtype, [&](auto from) {
    return ForType(AllTypes(), memory.outputs[0].type.dtype, [&](auto to) {
      MapOne<decltype(from)>(memory, [](auto x) { return ConvertTo<decltype(to)>(x); });
      return absl::OkStatus();
    });
  });
}

absl::Status AcceptCast(const KernelCall& call) {
  if (!Contains(AllTypes(), call.inputs[0]->dtype) ||
      !Contains(AllTypes(), call.outputs[0]->dtype)) {
    return absl::UnimplementedError(absl::StrCat("from ", std::string(Name(call.inputs[0]->dtype)),
                                                 " to ",
                                                 std::string(Name(call.outputs[0]->dtype))));
  }
  return AcceptPlain(call);
}

}  // namespace

void AddElementwiseReference(KernelTable& table) {
  ForEachRealFunctor([&](const char* op, auto functor) {
    table.push_back(TypedReference<Unary<decltype(functor), FloatTypes>, FloatTypes>(op));
  });
  ForEachNumberFunctor([&](const char* op, auto functor) {
    table.push_back(TypedReference<Unary<decltype(functor), NumberTypes>, NumberTypes>(op));
  });
  ForEachBinaryFunctor([&](const char* op, auto functor) {
    table.push_back(TypedReference<Binary<decltype(functor), NumberTypes>, NumberTypes>(op));
  });
  table.push_back(TypedReference<Binary<EqualFunctor, AllTypes>, AllTypes>("Equal"));
  table.push_back(TypedReference<EqualStrings, TypeList<StringRef>>("Equal"));
  table.back().name = "reference.EqualStrings";
  table.push_back(TypedReference<Binary<AndFunctor, BoolTypes>, BoolTypes>("And"));
  table.push_back(TypedReference<Binary<OrFunctor, BoolTypes>, BoolTypes>("Or"));
  table.push_back(TypedReference<Binary<XorFunctor, BoolTypes>, BoolTypes>("Xor"));
  table.push_back(TypedReference<Unary<NotFunctor, BoolTypes>, BoolTypes>("Not"));
  table.push_back(
      TypedReference<Binary<BitwiseAndFunctor, IntegerTypes>, IntegerTypes>("BitwiseAnd"));
  table.push_back(
      TypedReference<Binary<BitwiseOrFunctor, IntegerTypes>, IntegerTypes>("BitwiseOr"));
  table.push_back(
      TypedReference<Binary<BitwiseXorFunctor, IntegerTypes>, IntegerTypes>("BitwiseXor"));
  table.push_back(
      TypedReference<Unary<BitwiseNotFunctor, IntegerTypes>, IntegerTypes>("BitwiseNot"));
  table.push_back(ReferenceKernel<BitShift>("BitShift"));
  table.push_back(TypedReference<Pow, NumberTypes>("Pow"));
  table.push_back(TypedReference<Mod, NumberTypes>("Mod"));
  table.push_back(TypedReference<Variadic<MaxFunctor, NumberTypes>, NumberTypes>("Max"));
  table.push_back(TypedReference<Variadic<MinFunctor, NumberTypes>, NumberTypes>("Min"));
  table.push_back(TypedReference<Variadic<AddFunctor, FloatTypes>, FloatTypes>("Sum"));
  table.push_back(TypedReference<Variadic<AddFunctor, FloatTypes>, FloatTypes>("Mean"));
  table.push_back(ReferenceKernel<Where>("Where"));
  table.push_back(TypedReference<Clip, NumberTypes>("Clip"));
  Kernel cast = ReferenceKernel<Cast>("Cast");
  cast.accepts = AcceptCast;
  table.push_back(cast);
}

}  // namespace onward
