#include "kernels/cpu/reduce.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "graph/base/status_macros.h"
#include "kernels/cpu/index_space.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vector_reduce.h"

namespace onward {
namespace {

constexpr int64_t kPiece = 8192;         // elements of a block of rows
constexpr int64_t kBlockRows = 128;      // rows of a block of columns
constexpr int64_t kChunkColumns = 2048;  // columns of a task: their results stay in L1

// What is done to the fold's result.
enum class Finish { kNone, kMean, kSqrt, kLog };

struct Recipe {
  const char* op;
  Fold fold;
  Finish finish;
};
constexpr Recipe kRecipes[] = {
    {"ReduceSum", Fold::kSum, Finish::kNone},
    {"ReduceMean", Fold::kSum, Finish::kMean},
    {"ReduceMax", Fold::kMax, Finish::kNone},
    {"ReduceMin", Fold::kMin, Finish::kNone},
    {"ReduceSumSquare", Fold::kSumSquare, Finish::kNone},
    {"ReduceL1", Fold::kSumAbs, Finish::kNone},
    {"ReduceL2", Fold::kSumSquare, Finish::kSqrt},
    {"ReduceLogSum", Fold::kSum, Finish::kLog},
};
const Recipe& RecipeOf(const std::string& op) {
  for (const Recipe& r : kRecipes) {
    if (op == r.op) return r;
  }
  ONWARD_CHECK(false);
  return kRecipes[0];
}

// A reduction as `outer` equal problems on consecutive memory, each either
//   rows:    [r1, k, r2] -> [k], the last axis reduced, or
//   columns: [r1, k] -> [k].
struct Problem {
  int64_t outer = 1, r1 = 1, k = 1, r2 = 1;
  bool columns = false;

  int64_t elements() const { return r1 * k * r2; }
  // How many rows (pieces of rows) make a block, and how many blocks there are.
  int64_t pieces() const { return columns ? 1 : (r2 + kPiece - 1) / kPiece; }
  int64_t block_rows() const {
    return columns ? kBlockRows : std::max<int64_t>(1, kPiece / std::min(kPiece, r2));
  }
  int64_t blocks() const { return (r1 * pieces() + block_rows() - 1) / block_rows(); }
};

absl::StatusOr<std::vector<bool>> ReducedAxes(const KernelCall& call) {
  const int rank = static_cast<int>(call.inputs[0]->dims.size());
  std::vector<bool> reduced(rank, false);
  if (call.has_input(1) && call.constant(1) == nullptr) {
    return absl::UnimplementedError("the axes are not known when the plan is made");
  }
  const Tensor* axes = call.has_input(1) ? call.constant(1) : nullptr;
  if (axes == nullptr || axes->elements() == 0) {
    if (call.attributes->Int("noop_with_empty_axes", 0) != 0) {
      return absl::UnimplementedError("nothing is reduced");
    }
    return std::vector<bool>(rank, true);
  }
  for (int64_t i = 0; i < axes->elements(); ++i) {
    ASSIGN_OR_RETURN(const int64_t axis, NormalizeAxis(axes->IntAt(i), rank));
    reduced[axis] = true;
  }
  return reduced;
}

absl::StatusOr<Problem> ProblemOf(const KernelCall& call, const Layout& layout) {
  ASSIGN_OR_RETURN(const std::vector<bool> reduced, ReducedAxes(call));
  const Dims& dims = call.inputs[0]->dims;
  if (!layout.blocks.empty()) return absl::UnimplementedError("the input's layout has blocks");
  // Alternating runs of kept (even) and reduced (odd places) axes, as they lie in memory.
  std::vector<int64_t> runs = {1};
  int last_kept = -1;
  for (const MemoryAxis& m : MemoryAxes(dims, layout)) {
    if (m.extent == 1) continue;
    const bool odd = reduced[m.axis];
    if (!odd && m.axis < last_kept) {
      return absl::UnimplementedError("the layout changes the order of kept axes");
    }
    if (!odd) last_kept = m.axis;
    if (((runs.size() - 1) % 2 == 1) != odd) runs.push_back(1);
    runs.back() *= m.extent;
  }
  Problem p;
  switch (runs.size()) {  // k0 r1 k1 r2
    case 1:
      p.columns = true;
      p.k = runs[0];
      break;
    case 2:
      p.k = runs[0];
      p.r2 = runs[1];
      break;
    case 3:
      p.columns = true;
      p.outer = runs[0];
      p.r1 = runs[1];
      p.k = runs[2];
      break;
    case 4:
      p.outer = runs[0];
      p.r1 = runs[1];
      p.k = runs[2];
      p.r2 = runs[3];
      break;
    default:
      return absl::UnimplementedError("reduced and kept axes alternate too often");
  }
  return p;
}

// The layout of the input: as it is if it is settled or serves, else plain.
Layout ChooseInputLayout(const KernelCall& call) {
  const Layout& layout = call.inputs[0]->layout;
  return (call.open_inputs & 1) == 0 || ProblemOf(call, layout).ok() ? layout : Layout{};
}

// At most one extent is not 1: every layout without blocks is the plain one.
bool OrderIsNothing(const TensorType& type) {
  return type.layout.blocks.empty() &&
         std::count_if(type.dims.begin(), type.dims.end(), [](int64_t d) { return d != 1; }) <= 1;
}

absl::Status Accepts(const KernelCall& call) {
  if (FindReduce(RecipeOf(call.op).fold, call.inputs[0]->dtype).rows == nullptr ||
      (!IsFloating(call.inputs[0]->dtype) && RecipeOf(call.op).finish != Finish::kNone)) {
    return absl::UnimplementedError(absl::StrCat("not on ", Name(call.inputs[0]->dtype)));
  }
  if (call.inputs[0]->elements() == 0) return absl::UnimplementedError("nothing to reduce");
  if ((call.open_outputs & 1) == 0 && !call.outputs[0]->layout.plain() &&
      !OrderIsNothing(*call.outputs[0])) {
    return absl::UnimplementedError(
        absl::StrCat("output 0 has layout ", ToString(call.outputs[0]->layout)));
  }
  return ProblemOf(call, ChooseInputLayout(call)).status();
}

KernelNeeds Describe(const KernelCall& call) {
  KernelNeeds needs;
  needs.input_layouts.resize(call.inputs.size());
  needs.input_layouts[0] = ChooseInputLayout(call);
  const bool keep = OrderIsNothing(*call.outputs[0]);
  needs.output_layouts = {keep ? call.outputs[0]->layout : Layout{}};
  const auto p = ProblemOf(call, needs.input_layouts[0]);
  ONWARD_CHECK(p.ok());
  if (p->blocks() > 1) {
    needs.scratch_bytes =
        p->outer * p->k * p->blocks() * static_cast<int64_t>(SizeOf(call.inputs[0]->dtype));
  }
  return needs;
}

template <typename T>
void FinishResults(Finish finish, T* y, int64_t n, int64_t count) {
  for (int64_t i = 0; i < n; ++i) {
    if (finish == Finish::kMean) y[i] /= static_cast<T>(count);
    if (finish == Finish::kSqrt) y[i] = std::sqrt(y[i]);
    if (finish == Finish::kLog) y[i] = std::log(y[i]);
  }
}

class ReduceKernel : public BoundKernel {
 public:
  ReduceKernel(const KernelCall& call, const Problem& problem, const KernelMemory& memory,
               const Execution& execution)
      : p_(problem),
        finish_(RecipeOf(call.op).finish),
        dtype_(call.inputs[0]->dtype),
        size_(static_cast<int64_t>(SizeOf(dtype_))),
        functions_(FindReduce(RecipeOf(call.op).fold, dtype_)),
        x_(memory.inputs[0].as<char>()),
        y_(memory.outputs[0].as<char>()),
        partials_(p_.blocks() > 1 ? static_cast<char*>(memory.scratch) : y_),
        threads_(UsefulThreads(execution.threads,
                               static_cast<double>(p_.outer * p_.elements() * size_))) {}

  absl::Status Run() override {
    const int64_t tasks = p_.outer * p_.blocks() * (p_.columns ? chunks() : p_.k);
    const auto task = [this](int64_t t) { p_.columns ? ColumnsTask(t) : RowsTask(t); };
    ForAll(tasks, task);
    const int64_t ends = p_.outer * chunks();
    ForAll(ends, [this](int64_t t) { End(t); });
    return absl::OkStatus();
  }

 private:
  int64_t chunks() const { return (p_.k + kChunkColumns - 1) / kChunkColumns; }

  template <typename Task>
  void ForAll(int64_t tasks, Task task) const {
    ParallelRows(tasks, 1, threads_, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) task(t);
    });
  }

  // Partial results lie as [outer, block, k].
  char* Partial(int64_t outer, int64_t block, int64_t k) const {
    return partials_ + ((outer * p_.blocks() + block) * p_.k + k) * size_;
  }

  void RowsTask(int64_t t) const {
    const int64_t k = t % p_.k, block = t / p_.k % p_.blocks(), outer = t / p_.k / p_.blocks();
    const char* x = x_ + (outer * p_.elements() + k * p_.r2) * size_;
    const int64_t stride = p_.k * p_.r2;
    char* result = Partial(outer, block, k);
    if (p_.pieces() > 1) {  // a block is a piece of one row
      const int64_t row = block / p_.pieces(), first = block % p_.pieces() * kPiece;
      functions_.rows(x + (row * stride + first) * size_, 1, 0, std::min(kPiece, p_.r2 - first),
                      result);
      return;
    }
    const int64_t row = block * p_.block_rows();
    functions_.rows(x + row * stride * size_, std::min(p_.block_rows(), p_.r1 - row), stride, p_.r2,
                    result);
  }

  void ColumnsTask(int64_t t) const {
    const int64_t first = t % chunks() * kChunkColumns;
    const int64_t block = t / chunks() % p_.blocks(), outer = t / chunks() / p_.blocks();
    const int64_t row = block * kBlockRows;
    functions_.columns(x_ + (outer * p_.elements() + row * p_.k + first) * size_,
                       std::min(kBlockRows, p_.r1 - row), p_.k,
                       std::min(kChunkColumns, p_.k - first), Partial(outer, block, first));
  }

  // The binary tree over blocks, and what is done to its root.
  void End(int64_t t) const {
    const int64_t outer = t / chunks(), first = t % chunks() * kChunkColumns;
    const int64_t n = std::min(kChunkColumns, p_.k - first);
    for (int64_t step = 1; step < p_.blocks(); step *= 2) {
      for (int64_t b = 0; b + step < p_.blocks(); b += 2 * step) {
        functions_.merge(Partial(outer, b, first), Partial(outer, b + step, first), n);
      }
    }
    char* y = y_ + (outer * p_.k + first) * size_;
    if (p_.blocks() > 1) std::memcpy(y, Partial(outer, 0, first), n * size_);
    if (finish_ == Finish::kNone) return;
    const int64_t count = p_.r1 * p_.r2;
    if (dtype_ == DataType::kFloat32) {
      FinishResults(finish_, reinterpret_cast<float*>(y), n, count);
    } else {
      FinishResults(finish_, reinterpret_cast<double*>(y), n, count);
    }
  }

  const Problem p_;
  const Finish finish_;
  const DataType dtype_;
  const int64_t size_;
  const ReduceFunctions functions_;
  const char* const x_;
  char* const y_;
  char* const partials_;  // [outer, blocks, k]; the output itself where there is one block
  const int threads_;
};

absl::StatusOr<std::unique_ptr<BoundKernel>> Prepare(const KernelCall& call,
                                                     const KernelMemory& memory,
                                                     const Execution& execution) {
  ASSIGN_OR_RETURN(const Problem problem, ProblemOf(call, memory.inputs[0].type.layout));
  return std::make_unique<ReduceKernel>(call, problem, memory, execution);
}

}  // namespace

void AddReduceKernels(KernelTable& table) {
  for (const Recipe& r : kRecipes) {
    table.push_back({"cpu.reduce", r.op, false, Accepts, Describe, Prepare});
  }
}

}  // namespace onward
