#include "kernels/cpu/copy.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "graph/base/errors.h"
#include "graph/base/status_macros.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/strided_copy.h"

namespace onward {
namespace {

// One copy of a call: from input `input`, `from` elements in, to output `output`, `to`
// elements in.
struct Move {
  int input = 0, output = 0;
  int64_t from = 0, to = 0;
  Loops loops;
};

Loops LoopsOf(absl::Span<const int64_t> extents, absl::Span<const int64_t> to,
              absl::Span<const int64_t> from) {
  Loops loops;
  for (size_t i = 0; i < extents.size(); ++i) loops.push_back({extents[i], {to[i], from[i]}});
  return loops;
}

using Moves = std::vector<Move>;

absl::StatusOr<Moves> TransposeMoves(const KernelCall& call) {
  const Dims& in = call.inputs[0]->dims;
  const Dims& out = call.outputs[0]->dims;
  const Dims strides = Strides(in);
  std::vector<int64_t> order = call.attributes->Ints("perm");
  if (order.empty()) {
    for (size_t i = in.size(); i-- > 0;) order.push_back(static_cast<int64_t>(i));
  }
  Dims from;
  for (int64_t axis : order) from.push_back(strides[axis]);
  return Moves{{0, 0, 0, 0, LoopsOf(out, Strides(out), from)}};
}

absl::StatusOr<Moves> ExpandMoves(const KernelCall& call) {
  const Dims& out = call.outputs[0]->dims;
  return Moves{
      {0, 0, 0, 0, LoopsOf(out, Strides(out), BroadcastStrides(call.inputs[0]->dims, out))}};
}

absl::StatusOr<Moves> TileMoves(const KernelCall& call) {
  const Dims& in = call.inputs[0]->dims;
  const Dims to = Strides(call.outputs[0]->dims), from = Strides(in);
  Move move;
  for (size_t i = 0; i < in.size(); ++i) {
    const int64_t times = in[i] == 0 ? 0 : call.outputs[0]->dims[i] / in[i];
    move.loops.push_back({times, {to[i] * in[i], 0}});
    move.loops.push_back({in[i], {to[i], from[i]}});
  }
  return Moves{move};
}

absl::StatusOr<Moves> SliceMoves(const KernelCall& call) {
  const Tensor* starts = call.constant(1);
  const Tensor* axes = call.has_input(3) ? call.constant(3) : nullptr;
  const Tensor* steps = call.has_input(4) ? call.constant(4) : nullptr;
  if (starts == nullptr || (call.has_input(3) && axes == nullptr) ||
      (call.has_input(4) && steps == nullptr)) {
    return absl::UnimplementedError("the slice is not known when the plan is made");
  }
  const Dims& in = call.inputs[0]->dims;
  const Dims& out = call.outputs[0]->dims;
  Dims from = Strides(in);
  Move move;
  for (int64_t i = 0; i < starts->elements(); ++i) {
    ASSIGN_OR_RETURN(const int64_t axis, NormalizeAxis(axes == nullptr ? i : axes->IntAt(i),
                                                       static_cast<int64_t>(in.size())));
    const int64_t step = steps == nullptr ? 1 : steps->IntAt(i);
    int64_t start = starts->IntAt(i);
    if (start < 0) start = std::max<int64_t>(start, -in[axis]) + in[axis];
    start = std::min(start, step > 0 ? in[axis] : in[axis] - 1);
    move.from += start * from[axis];
    from[axis] *= step;
  }
  move.loops = LoopsOf(out, Strides(out), from);
  return Moves{move};
}

absl::StatusOr<Moves> ConcatMoves(const KernelCall& call) {
  const Dims& out = call.outputs[0]->dims;
  const Dims to = Strides(out);
  ASSIGN_OR_RETURN(const int64_t axis, NormalizeAxis(call.attributes->Int("axis", 0),
                                                     static_cast<int64_t>(out.size())));
  Moves moves;
  int64_t place = 0;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const Dims& in = call.inputs[i]->dims;
    moves.push_back({static_cast<int>(i), 0, 0, place * to[axis], LoopsOf(in, to, Strides(in))});
    place += in[axis];
  }
  return moves;
}

absl::StatusOr<Moves> SplitMoves(const KernelCall& call) {
  const Dims& in = call.inputs[0]->dims;
  const Dims from = Strides(in);
  ASSIGN_OR_RETURN(const int64_t axis,
                   NormalizeAxis(call.attributes->Int("axis", 0), static_cast<int64_t>(in.size())));
  Moves moves;
  int64_t place = 0;
  for (size_t o = 0; o < call.outputs.size(); ++o) {
    if (call.outputs[o] == nullptr) return absl::UnimplementedError("an output is not wanted");
    const Dims& out = call.outputs[o]->dims;
    moves.push_back(
        {0, static_cast<int>(o), place * from[axis], 0, LoopsOf(out, Strides(out), from)});
    place += out[axis];
  }
  return moves;
}

// The border is written by PadKernel before.
absl::StatusOr<Moves> PadMoves(const KernelCall& call) {
  const Tensor* pads = call.constant(1);
  const Tensor* axes = call.has_input(3) ? call.constant(3) : nullptr;
  if (call.attributes->String("mode", "constant") != "constant" || pads == nullptr ||
      (call.has_input(3) && axes == nullptr)) {
    return absl::UnimplementedError("only padding with a constant by known amounts");
  }
  const Dims& in = call.inputs[0]->dims;
  const Dims to = Strides(call.outputs[0]->dims);
  Move move;
  const int64_t n = pads->elements() / 2;
  for (int64_t i = 0; i < n; ++i) {
    ASSIGN_OR_RETURN(const int64_t axis, NormalizeAxis(axes == nullptr ? i : axes->IntAt(i),
                                                       static_cast<int64_t>(in.size())));
    if (pads->IntAt(i) < 0 || pads->IntAt(n + i) < 0) {
      return absl::UnimplementedError("negative padding");
    }
    move.to += pads->IntAt(i) * to[axis];
  }
  move.loops = LoopsOf(in, to, Strides(in));
  return Moves{move};
}

absl::StatusOr<Moves> MovesOf(const KernelCall& call) {
  if (call.op == "Transpose") return TransposeMoves(call);
  if (call.op == "Expand") return ExpandMoves(call);
  if (call.op == "Tile") return TileMoves(call);
  if (call.op == "Slice") return SliceMoves(call);
  if (call.op == "Concat") return ConcatMoves(call);
  if (call.op == "Split") return SplitMoves(call);
  return PadMoves(call);
}

absl::Status AcceptMoves(const KernelCall& call) {
  RETURN_IF_ERROR(AcceptPlain(call));
  if (SizeOf(call.inputs[0]->dtype) == 0) return absl::UnimplementedError("not on this type");
  return MovesOf(call).status();
}

class MoveKernel : public BoundKernel {
 public:
  MoveKernel(const Moves& moves, const KernelCall& call, const KernelMemory& memory,
             const Execution& execution)
      : threads_(execution.threads) {
    const int64_t size = static_cast<int64_t>(SizeOf(call.inputs[0]->dtype));
    for (const Move& m : moves) {
      copies_.emplace_back(m.loops, size, memory.outputs[m.output].as<char>() + m.to * size,
                           memory.inputs[m.input].as<char>() + m.from * size);
    }
    if (call.op != "Pad") return;
    // The whole output as one repetition, of zero where no value is given.
    const void* value = call.has_input(2) ? memory.inputs[2].data : nullptr;
    border_.emplace_back(
        Loops{{call.outputs[0]->elements(), {1, 0}}}, size, memory.outputs[0].as<char>(),
        value == nullptr ? reinterpret_cast<const char*>(&zero_) : static_cast<const char*>(value));
  }
  absl::Status Run() override {
    for (const StridedCopy& c : border_) c.Run(threads_);
    for (const StridedCopy& c : copies_) c.Run(threads_);
    return absl::OkStatus();
  }

 private:
  const int threads_;
  const uint64_t zero_ = 0;
  std::vector<StridedCopy> border_, copies_;
};

absl::StatusOr<std::unique_ptr<BoundKernel>> PrepareMoves(const KernelCall& call,
                                                          const KernelMemory& memory,
                                                          const Execution& execution) {
  ASSIGN_OR_RETURN(const Moves moves, MovesOf(call));
  return std::make_unique<MoveKernel>(moves, call, memory, execution);
}

// ---- Reshape and its like: the same elements in the same order.

absl::Status AcceptSame(const KernelCall& call) {
  if (SizeOf(call.inputs[0]->dtype) == 0) return absl::UnimplementedError("not on this type");
  return AcceptPlain(call);
}

KernelNeeds DescribeSame(const KernelCall& call) {
  KernelNeeds needs = WantPlain(call);
  needs.aliases = {{0, 0}};
  return needs;
}

class SameKernel : public BoundKernel {
 public:
  SameKernel(const KernelMemory& memory, const Execution& execution)
      : nothing_(memory.inputs[0].data == memory.outputs[0].data),
        copy_(Loops{{memory.inputs[0].type.bytes(), {1, 1}}}, 1, memory.outputs[0].as<char>(),
              memory.inputs[0].as<char>()),
        threads_(execution.threads) {}
  absl::Status Run() override {
    if (!nothing_) copy_.Run(threads_);
    return absl::OkStatus();
  }

 private:
  const bool nothing_;
  const StridedCopy copy_;
  const int threads_;
};

absl::StatusOr<std::unique_ptr<BoundKernel>> PrepareSame(const KernelCall&,
                                                         const KernelMemory& memory,
                                                         const Execution& execution) {
  return std::make_unique<SameKernel>(memory, execution);
}

// ---- Gather: rows by number.

absl::Status AcceptGather(const KernelCall& call) {
  if (SizeOf(call.inputs[0]->dtype) == 0) return absl::UnimplementedError("not on this type");
  return AcceptPlain(call);
}

template <typename Index>
absl::Status GatherRows(const KernelCall& call, const KernelMemory& memory, int64_t axis,
                        int threads) {
  const Dims& in = call.inputs[0]->dims;
  int64_t outer = 1, inner = static_cast<int64_t>(SizeOf(call.inputs[0]->dtype));
  for (int64_t a = 0; a < axis; ++a) outer *= in[a];
  for (size_t a = axis + 1; a < in.size(); ++a) inner *= in[a];
  const int64_t extent = in[axis], count = call.inputs[1]->elements();
  const Index* indices = memory.inputs[1].as<Index>();
  for (int64_t i = 0; i < count; ++i) {
    if (indices[i] < -extent || indices[i] >= extent) {
      return WithExitCode(absl::InvalidArgumentError(absl::StrCat(
                              "Gather: index ", indices[i], " at ", i,
                              " is out of range, expected -", extent, " to ", extent - 1)),
                          ExitCode::kData);
    }
  }
  const char* x = memory.inputs[0].as<char>();
  char* y = memory.outputs[0].as<char>();
  const auto row = [&](int64_t t) {
    const int64_t index = indices[t % count];
    std::memcpy(y + t * inner,
                x + (t / count * extent + (index < 0 ? index + extent : index)) * inner, inner);
  };
  const int64_t rows = outer * count;
  const int team = static_cast<int>(std::min<int64_t>(
      UsefulThreads(threads, 2.0 * static_cast<double>(rows * inner)), std::max<int64_t>(1, rows)));
  ParallelRows(rows, 1, team, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) row(t);
  });
  return absl::OkStatus();
}

absl::Status RunGather(const KernelCall& call, const KernelMemory& memory,
                       const Execution& execution) {
  ASSIGN_OR_RETURN(const int64_t axis,
                   NormalizeAxis(call.attributes->Int("axis", 0),
                                 static_cast<int64_t>(call.inputs[0]->dims.size())));
  if (call.inputs[1]->dtype == DataType::kInt32) {
    return GatherRows<int32_t>(call, memory, axis, execution.threads);
  }
  return GatherRows<int64_t>(call, memory, axis, execution.threads);
}

absl::StatusOr<std::unique_ptr<BoundKernel>> PrepareGather(const KernelCall& call,
                                                           const KernelMemory& memory,
                                                           const Execution& execution) {
  return Bind(RunGather, call, memory, execution);
}

}  // namespace

void AddCopyKernels(KernelTable& table) {
  for (const char* op : {"Reshape", "Flatten", "Squeeze", "Unsqueeze"}) {
    table.push_back({"cpu.copy", op, false, AcceptSame, DescribeSame, PrepareSame});
  }
  for (const char* op : {"Transpose", "Expand", "Tile", "Slice", "Concat", "Split", "Pad"}) {
    table.push_back({"cpu.copy", op, false, AcceptMoves, WantPlain, PrepareMoves});
  }
  table.push_back({"cpu.copy", "Gather", false, AcceptGather, WantPlain, PrepareGather});
}

}  // namespace onward
