#include "kernels/cpu/elementwise.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "graph/base/expression.h"
#include "graph/base/status_macros.h"
#include "kernels/cpu/index_space.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vector_function.h"

namespace onward {
namespace {

constexpr int kMostRegisters = 192;
constexpr int kMostWorkspace = 32 * 1024;  // bytes per thread, on its stack: they stay in L1
constexpr int kMostBlock = 1024;           // elements
constexpr int kLeastBlock = 64;
constexpr size_t kMostAxes = 16;
constexpr int64_t kLeastRow = 256;  // elements

// ---- What a call means.

absl::StatusOr<ElementwiseProgram> ProgramOf(const KernelCall& call) {
  if (call.op == "onward.Elementwise") {
    ASSIGN_OR_RETURN(ElementwiseProgram program,
                     ParseProgram(call.attributes->String("program", "")));
    if (program.inputs.size() != call.inputs.size() ||
        program.outputs.size() != call.outputs.size()) {
      return absl::InvalidArgumentError("the program has other inputs or outputs than the node");
    }
    for (size_t i = 0; i < program.inputs.size(); ++i) {
      if (call.inputs[i] == nullptr || call.inputs[i]->dtype != program.inputs[i]) {
        return absl::InvalidArgumentError(
            absl::StrCat("input ", i, " is not of the program's type"));
      }
    }
    return program;
  }
  ElementwiseProgram program;
  std::vector<int> operands;
  for (const TensorType* t : call.inputs) {
    operands.push_back(t == nullptr ? -1 : static_cast<int>(program.inputs.size()));
    // An absent input keeps its place, so that register i is input i.
    program.inputs.push_back(t == nullptr ? DataType::kBool : t->dtype);
  }
  if (call.op == "Pow" && call.constant(1) != nullptr && call.constant(1)->elements() == 1) {
    operands[1] = program.AppendConstant(program.inputs[0], call.constant(1)->At(0));
  }
  ASSIGN_OR_RETURN(int result, AppendOperator(&program, call.op, *call.attributes, operands,
                                              call.outputs[0]->dtype));
  program.outputs = {result};
  return program;
}

VectorFunction FunctionOf(const ElementwiseProgram& program, const Instruction& i) {
  return FindVectorFunction(i, i.operands.empty() ? i.dtype : program.TypeOf(i.operands.back()));
}

// Inputs of the extents of the outputs are streamed, others are expanded on the way.
bool IsFull(const TensorType& input, const KernelCall& call) {
  return input.dims == call.outputs[0]->dims;
}

bool IsPadded(const Dims& dims, const Layout& layout) {
  return PaddedElements(dims, layout) != Elements(dims);
}

// May all full operands lie in `layout`?
absl::Status CheckLayout(const KernelCall& call, const ElementwiseProgram& program,
                         const Layout& layout) {
  const Dims& dims = call.outputs[0]->dims;
  if (dims.size() + layout.blocks.size() > kMostAxes) {
    return absl::UnimplementedError(absl::StrCat("more than ", kMostAxes, " axes"));
  }
  std::vector<bool> zero(call.inputs.size(), false);
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (call.inputs[i] == nullptr) continue;
    const TensorType& t = *call.inputs[i];
    const bool open = ((call.open_inputs >> i) & 1) != 0;
    zero[i] = IsFull(t, call);
    if (!open && t.layout != (zero[i] ? layout : Layout{})) {
      return absl::UnimplementedError(absl::StrCat("input ", i, " has layout ", ToString(t.layout),
                                                   ", others ", ToString(layout)));
    }
    if (zero[i] || t.elements() == 1) continue;
    // Padding has no element of a broadcast operand.
    const Dims strides = BroadcastStrides(t.dims, dims);
    for (const MemoryAxis& m : MemoryAxes(dims, layout)) {
      if (strides[m.axis] != 0 && dims[m.axis] % m.step != 0) {
        return absl::UnimplementedError(
            absl::StrCat("input ", i, " varies along the padded axis ", m.axis));
      }
    }
  }
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    if (((call.open_outputs >> i) & 1) == 0 && call.outputs[i]->layout != layout) {
      return absl::UnimplementedError(
          absl::StrCat("output ", i, " has layout ", ToString(call.outputs[i]->layout)));
    }
  }
  if (!IsPadded(dims, layout)) return absl::OkStatus();
  for (bool keeps : KeepsZero(program, zero)) {
    if (!keeps) {
      return absl::UnimplementedError(
          absl::StrCat("the padding of layout ", ToString(layout), " would not stay zero"));
    }
  }
  return absl::OkStatus();
}

// That of the first full operand whose layout is settled; else of the first one.
absl::StatusOr<Layout> ChooseLayout(const KernelCall& call, const ElementwiseProgram& program) {
  const Layout* wish = nullptr;
  bool settled = false;
  const auto look = [&](const TensorType& t, bool open) {
    if (settled || (wish != nullptr && open)) return;
    wish = &t.layout;
    settled = !open;
  };
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (call.inputs[i] != nullptr && IsFull(*call.inputs[i], call)) {
      look(*call.inputs[i], ((call.open_inputs >> i) & 1) != 0);
    }
  }
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    look(*call.outputs[i], ((call.open_outputs >> i) & 1) != 0);
  }
  const absl::Status fits = CheckLayout(call, program, *wish);
  if (fits.ok()) return *wish;
  RETURN_IF_ERROR(settled ? fits : CheckLayout(call, program, Layout{}));
  return Layout{};
}

absl::Status Accepts(const KernelCall& call) {
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    if (call.outputs[i] == nullptr || call.outputs[i]->dims != call.outputs[0]->dims) {
      return absl::UnimplementedError(absl::StrCat("output ", i, " has other extents"));
    }
  }
  ASSIGN_OR_RETURN(ElementwiseProgram program, ProgramOf(call));
  if (program.num_registers() > kMostRegisters) {
    return absl::UnimplementedError(absl::StrCat("more than ", kMostRegisters, " registers"));
  }
  for (const Instruction& i : program.instructions) {
    if (FunctionOf(program, i) == nullptr) {
      return absl::UnimplementedError(
          absl::StrCat("no vector function for ", RowOf(i.opcode).name));
    }
  }
  return ChooseLayout(call, program).status();
}

KernelNeeds Describe(const KernelCall& call) {
  KernelNeeds needs;
  const auto program = ProgramOf(call);
  ONWARD_CHECK(program.ok());
  const auto layout = ChooseLayout(call, *program);
  ONWARD_CHECK(layout.ok());
  const int inputs = static_cast<int>(call.inputs.size());
  for (const TensorType* t : call.inputs) {
    needs.input_layouts.push_back(t != nullptr && IsFull(*t, call) ? *layout : Layout{});
  }
  for (int o = 0; o < static_cast<int>(call.outputs.size()); ++o) {
    needs.output_layouts.push_back(*layout);
    if (program->IsInput(program->outputs[o])) continue;
    for (int i = 0; i < inputs; ++i) {
      if (call.inputs[i] != nullptr && IsFull(*call.inputs[i], call) &&
          SizeOf(call.inputs[i]->dtype) == SizeOf(call.outputs[o]->dtype)) {
        needs.aliases.push_back({o, i});
      }
    }
  }
  return needs;
}

// ---- Broadcast operands.

void FillRun(char* to, const char* value, int64_t n, size_t size) {
  if (size == 4) {
    uint32_t v;
    std::memcpy(&v, value, 4);
    std::fill_n(reinterpret_cast<uint32_t*>(to), n, v);
  } else if (size == 8) {
    uint64_t v;
    std::memcpy(&v, value, 8);
    std::fill_n(reinterpret_cast<uint64_t*>(to), n, v);
  } else {
    std::memset(to, *value, n);
  }
}

void GatherRun(char* to, const char* from, int64_t n, int64_t stride, size_t size) {
  for (int64_t i = 0; i < n; ++i) std::memcpy(to + i * size, from + i * stride * size, size);
}

// An operand with its own loops over the linear index space.
struct Expansion {
  const char* data = nullptr;
  size_t size = 0;
  Loops loops;
  int reg = -1;

  bool scalar() const { return loops.empty() || (loops.size() == 1 && loops[0].strides[0] == 0); }

  // Elements [first, first + n) of the broadcast operand: where they lie, or copied
  // to `buffer`.
  const void* Read(int64_t first, int64_t n, char* buffer) const {
    if (Periodic(n)) return ReadPeriods(first, n, buffer);
    int64_t index[kMostAxes];
    int64_t offset = 0, rest = first;
    const int rank = static_cast<int>(loops.size());
    for (int a = rank; a-- > 0;) {
      index[a] = a == 0 ? rest : rest % loops[a].extent;
      rest /= loops[a].extent;
      offset += index[a] * loops[a].strides[0];
    }
    const Loop& inner = loops[rank - 1];
    int64_t done = 0;
    while (true) {
      const int64_t run = std::min(inner.extent - index[rank - 1], n - done);
      const char* from = data + offset * static_cast<int64_t>(size);
      if (run == n && inner.strides[0] == 1) return from;
      char* to = buffer + done * size;
      if (inner.strides[0] == 0) {
        FillRun(to, from, run, size);
      } else if (inner.strides[0] == 1) {
        std::memcpy(to, from, run * size);
      } else {
        GatherRun(to, from, run, inner.strides[0], size);
      }
      done += run;
      if (done == n) return buffer;
      offset -= index[rank - 1] * inner.strides[0];
      index[rank - 1] = 0;
      for (int a = rank - 1; a-- > 0;) {
        offset += loops[a].strides[0];
        if (++index[a] < loops[a].extent) break;
        offset -= loops[a].extent * loops[a].strides[0];
        index[a] = 0;
      }
    }
  }

 private:
  // A short row repeated, as a bias is.
  bool Periodic(int64_t n) const {
    return loops.size() == 2 && loops[0].strides[0] == 0 && loops[1].strides[0] == 1 &&
           loops[1].extent * 2 <= n;
  }
  const void* ReadPeriods(int64_t first, int64_t n, char* buffer) const {
    const int64_t period = loops[1].extent, phase = first % period;
    std::memcpy(buffer, data + phase * size, (period - phase) * size);
    std::memcpy(buffer + (period - phase) * size, data, phase * size);
    int64_t done = period;
    while (done < n) {
      const int64_t more = std::min(done, n - done);
      std::memcpy(buffer + done * size, buffer, more * size);
      done += more;
    }
    return buffer;
  }
};

// ---- The bound program.

struct Step {
  VectorFunction function;
  std::array<double, 2> immediates;
  absl::InlinedVector<int, 3> operands;  // registers
  int result;                            // register
};

struct CopyOut {
  int reg;
  int output;
};

class ElementwiseKernel : public BoundKernel {
 public:
  ElementwiseKernel(const ElementwiseProgram& program, const KernelCall& call,
                    const KernelMemory& memory, const Execution& execution)
      : elements_(PaddedElements(call.outputs[0]->dims, memory.outputs[0].type.layout)),
        registers_(program.num_registers()) {
    BindInputs(call, memory);
    BindOutputs(program, memory);
    AssignSlots(program);
    double work = 0;
    for (const TensorView& v : memory.outputs) work += static_cast<double>(v.type.bytes());
    work *= 1 + 2 * static_cast<double>(steps_.size());
    threads_ = UsefulThreads(execution.threads, work);
  }

  absl::Status Run() override {
    if (elements_ == 0) return absl::OkStatus();
    const int64_t blocks = elements_ / row_ * row_blocks();
    const int threads = static_cast<int>(std::min<int64_t>(threads_, blocks));
    ForTeam(threads, [&](int t) { RunBlocks(blocks * t / threads, blocks * (t + 1) / threads); });
    return absl::OkStatus();
  }

 private:
  // An input of full size: element i of the index space is element i of memory.
  struct Stream {
    int reg;
    const char* data;
    size_t size;
  };

  void BindInputs(const KernelCall& call, const KernelMemory& memory) {
    const Dims& dims = call.outputs[0]->dims;
    const Layout& layout = memory.outputs[0].type.layout;
    for (int i = 0; i < static_cast<int>(call.inputs.size()); ++i) {
      if (call.inputs[i] == nullptr) continue;
      const TensorType& t = *call.inputs[i];
      const char* data = memory.inputs[i].as<char>();
      if (IsFull(t, call)) {
        streams_.push_back({i, data, SizeOf(t.dtype)});
        continue;
      }
      Expansion e;
      e.data = data;
      e.size = SizeOf(t.dtype);
      e.reg = i;
      const Dims strides = BroadcastStrides(t.dims, dims);
      Loops loops;
      for (const MemoryAxis& m : MemoryAxes(dims, layout)) {
        loops.push_back({m.extent, {strides[m.axis] * m.step}});
      }
      e.loops = Collapse(loops);
      (e.scalar() ? scalars_ : expansions_).push_back(std::move(e));
    }
    row_ = elements_;
    for (const Expansion& e : expansions_) {
      const Loop& inner = e.loops.back();
      const bool first = &e == &expansions_[0];
      if (inner.strides[0] != 0 || inner.extent < kLeastRow || (!first && inner.extent != row_)) {
        row_ = elements_;
        return;
      }
      row_ = inner.extent;
    }
  }

  // An output is written where it belongs by the instruction that makes it, unless its
  // memory is that of an input which is still to be read.
  void BindOutputs(const ElementwiseProgram& program, const KernelMemory& memory) {
    const int inputs = static_cast<int>(program.inputs.size());
    std::vector<int> last_use(registers_, -1);
    for (int reg = inputs; reg < registers_; ++reg) {
      for (int r : program.Producer(reg).operands) last_use[r] = reg;
    }
    for (int r : program.outputs) {
      if (r < inputs) last_use[r] = registers_;
    }
    direct_output_.assign(registers_, -1);
    for (int o = 0; o < static_cast<int>(program.outputs.size()); ++o) {
      const int reg = program.outputs[o];
      char* data = memory.outputs[o].as<char>();
      outputs_.push_back({data, SizeOf(program.TypeOf(reg))});
      bool direct = reg >= inputs && direct_output_[reg] < 0 &&
                    program.Producer(reg).opcode != Opcode::kConstant;
      for (const Stream& s : streams_) {
        if (s.data == data && last_use[s.reg] > reg) direct = false;
      }
      if (direct) {
        direct_output_[reg] = o;
      } else if (reg < inputs) {
        copies_.insert(copies_.begin(), {reg, o});  // before anything is overwritten
      } else {
        copies_.push_back({reg, o});
      }
    }
  }

  // Registers that are neither streamed nor written in place get room in the workspace;
  // those of constants and scalars for the whole run, others until their last use.
  void AssignSlots(const ElementwiseProgram& program) {
    const int inputs = static_cast<int>(program.inputs.size());
    std::vector<int> last_use(registers_, -1);
    for (int reg = inputs; reg < registers_; ++reg) {
      for (int r : program.Producer(reg).operands) last_use[r] = reg;
    }
    for (const CopyOut& c : copies_) last_use[c.reg] = registers_;
    slots_.assign(registers_, -1);
    int count = 0;
    std::vector<int> free;
    const auto take = [&] {
      if (free.empty()) return count++;
      const int slot = free.back();
      free.pop_back();
      return slot;
    };
    std::vector<bool> pinned(registers_, false);
    for (const Expansion& e : scalars_) {
      slots_[e.reg] = take();
      pinned[e.reg] = true;
    }
    for (const Expansion& e : expansions_) {
      slots_[e.reg] = take();
      pinned[e.reg] = in_rows();
    }
    for (int reg = inputs; reg < registers_; ++reg) {
      if (program.Producer(reg).opcode != Opcode::kConstant) continue;
      slots_[reg] = take();
      pinned[reg] = true;
    }
    for (int reg = inputs; reg < registers_; ++reg) {
      const Instruction& i = program.Producer(reg);
      Step step{FunctionOf(program, i), i.immediates, i.operands, reg};
      if (i.opcode == Opcode::kConstant) {
        constants_.push_back(step);
        continue;
      }
      if (direct_output_[reg] < 0) slots_[reg] = take();
      for (int r : i.operands) {
        if (last_use[r] != reg || pinned[r] || slots_[r] < 0) continue;
        if (std::find(free.begin(), free.end(), slots_[r]) == free.end()) {
          free.push_back(slots_[r]);
        }
      }
      // A result that nobody reads.
      if (last_use[reg] < 0 && slots_[reg] >= 0) free.push_back(slots_[reg]);
      steps_.push_back(step);
    }
    size_t widest = 1;
    for (int reg = 0; reg < registers_; ++reg) {
      if (slots_[reg] >= 0) widest = std::max(widest, SizeOf(program.TypeOf(reg)));
    }
    block_ = kMostBlock;
    while (block_ > kLeastBlock && block_ * static_cast<int64_t>(widest) * count > kMostWorkspace) {
      block_ /= 2;
    }
    slot_bytes_ = block_ * static_cast<int64_t>(widest);
    ONWARD_CHECK(slot_bytes_ * count <= kWorkspace);
  }

  void RunBlocks(int64_t begin, int64_t end) const {
    alignas(64) char workspace[kWorkspace];
    const void* regs[kMostRegisters];
    for (int reg = 0; reg < registers_; ++reg) {
      regs[reg] = slots_[reg] < 0 ? nullptr : workspace + slots_[reg] * slot_bytes_;
    }
    const auto room = [&](int reg) { return workspace + slots_[reg] * slot_bytes_; };
    const int64_t longest = std::min(block_, row_);
    for (const Expansion& e : scalars_) FillRun(room(e.reg), e.data, longest, e.size);
    for (const Step& s : constants_) {
      s.function(nullptr, room(s.result), longest, s.immediates.data());
    }
    for (int64_t b = begin; b < end; ++b) {
      const int64_t row = b / row_blocks() * row_, place = b % row_blocks() * block_;
      const int64_t first = row + place;
      const int64_t n = std::min(block_, row_ - place);
      for (const Stream& s : streams_) regs[s.reg] = s.data + first * s.size;
      if (!in_rows()) {
        for (const Expansion& e : expansions_) regs[e.reg] = e.Read(first, n, room(e.reg));
      } else if (place == 0 || b == begin) {
        for (const Expansion& e : expansions_) e.Read(row, longest, room(e.reg));
      }
      for (const Step& s : steps_) {
        const void* operands[3] = {nullptr, nullptr, nullptr};
        for (size_t k = 0; k < s.operands.size(); ++k) operands[k] = regs[s.operands[k]];
        const int o = direct_output_[s.result];
        char* result = o < 0 ? room(s.result) : outputs_[o].data + first * outputs_[o].size;
        s.function(operands, result, n, s.immediates.data());
        regs[s.result] = result;
      }
      for (const CopyOut& c : copies_) {
        const Output& o = outputs_[c.output];
        std::memmove(o.data + first * o.size, regs[c.reg], n * o.size);
      }
    }
  }

  // Where all expanded operands are constant along rows of one length (a number per
  // channel), blocks keep within rows, and the operands are expanded once a row.
  bool in_rows() const { return row_ < elements_; }
  int64_t row_blocks() const { return (row_ + block_ - 1) / block_; }

  // Room for kMostRegisters of the shortest block.
  static constexpr int64_t kWorkspace = int64_t{kMostRegisters} * kLeastBlock * 8;

  struct Output {
    char* data;
    size_t size;
  };

  int64_t elements_;
  int registers_;
  int threads_ = 1;
  int64_t row_ = 1;  // elements; all of them unless in_rows()
  int64_t block_ = kMostBlock;
  int64_t slot_bytes_ = 0;
  std::vector<Stream> streams_;
  std::vector<Expansion> scalars_, expansions_;
  std::vector<Output> outputs_;
  std::vector<int> direct_output_;  // by register: the output that it is written to, or -1
  std::vector<int> slots_;          // by register: its room in the workspace, or -1
  std::vector<Step> constants_, steps_;
  std::vector<CopyOut> copies_;
};

absl::StatusOr<std::unique_ptr<BoundKernel>> Prepare(const KernelCall& call,
                                                     const KernelMemory& memory,
                                                     const Execution& execution) {
  ASSIGN_OR_RETURN(ElementwiseProgram program, ProgramOf(call));
  return std::make_unique<ElementwiseKernel>(program, call, memory, execution);
}

}  // namespace

void AddElementwiseKernels(KernelTable& table) {
  table.push_back({"cpu.elementwise", "onward.Elementwise", false, Accepts, Describe, Prepare});
  for (const std::string& op : ProgrammableOperators()) {
    table.push_back({"cpu.elementwise", op, false, Accepts, Describe, Prepare});
  }
}

}  // namespace onward
