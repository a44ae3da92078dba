// What the operator suite cannot see of the rows that pass over memory once: equal
// bits for any number of threads, outputs in the memory of inputs, padded and permuted
// layouts, no allocation in Run.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <new>

#include "kernels/cpu/copy.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/reduce.h"
#include "kernels/kernel.h"

namespace {
thread_local int64_t allocations = 0;
}  // namespace

void* operator new(size_t bytes) {
  ++allocations;
  void* p = std::malloc(bytes);
  if (p == nullptr) std::abort();
  return p;
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }

namespace onward {
namespace {

constexpr char kChain[] =
    "float32 x0, float32 x1, float32 x2 -> t3, t1: t0:float32 = Mul(x0, x1); t1:float32 = Add(t0, "
    "x2); t2:float32 = Sigmoid(t1); t3:float32 = Mul(t1, t2)";

const KernelTable& Rows() {
  static const KernelTable* const rows = [] {
    auto* table = new KernelTable;
    AddElementwiseKernels(*table);
    AddReduceKernels(*table);
    AddCopyKernels(*table);
    return table;
  }();
  return *rows;
}

// A call with memory of its own.
struct Bound {
  std::string op;
  Attributes attributes;
  std::vector<TensorType> in_types, out_types;
  std::vector<std::vector<char>> memory;  // inputs, then outputs
  std::vector<Tensor> constants;          // by input; without elements: none
  std::vector<char> scratch;

  const Kernel& row() const {
    for (const Kernel& k : Rows()) {
      if (k.op == op) return k;
    }
    std::abort();
  }
  KernelCall Call(uint64_t open = 0) const {
    KernelCall call;
    call.op = op;
    call.attributes = &attributes;
    for (const TensorType& t : in_types) call.inputs.push_back(&t);
    for (const TensorType& t : out_types) call.outputs.push_back(&t);
    for (const Tensor& t : constants) {
      call.constants.push_back(t.dtype() == DataType::kUndefined ? nullptr : &t);
    }
    call.open_inputs = call.open_outputs = open;
    return call;
  }
  // Fills inputs with numbers in (-2, 2); output memory is that of input `alias[o]`
  // where one is given.
  std::unique_ptr<BoundKernel> Prepare(int threads, const std::vector<int>& alias = {}) {
    memory.clear();
    KernelMemory m;
    uint64_t state = 12345;
    for (size_t i = 0; i < in_types.size(); ++i) {
      memory.emplace_back(in_types[i].bytes() + 64);
      char* data = memory.back().data();
      if (i < constants.size() && constants[i].dtype() != DataType::kUndefined) {
        std::memcpy(data, constants[i].data(), constants[i].bytes());
      } else if (in_types[i].dtype == DataType::kFloat32) {
        // Element by element, so that padding stays zero.
        Dims index(in_types[i].dims.size(), 0);
        for (int64_t e = 0; e < in_types[i].elements(); ++e) {
          state = state * 6364136223846793005u + 1442695040888963407u;
          const float x = static_cast<float>(static_cast<double>(state >> 40) / (1 << 22) - 2);
          const int64_t offset = OffsetOf(in_types[i].dims, in_types[i].layout, index);
          std::memcpy(data + offset * 4, &x, 4);
          for (size_t a = index.size(); a-- > 0;) {
            if (++index[a] < in_types[i].dims[a]) break;
            index[a] = 0;
          }
        }
      }
      m.inputs.push_back({in_types[i], data});
    }
    for (size_t o = 0; o < out_types.size(); ++o) {
      if (o < alias.size() && alias[o] >= 0) {
        m.outputs.push_back({out_types[o], m.inputs[alias[o]].data});
        memory.emplace_back();
        continue;
      }
      memory.emplace_back(out_types[o].bytes() + 64, 0x55);
      m.outputs.push_back({out_types[o], memory.back().data()});
    }
    outputs_ = m.outputs;
    const KernelCall call = Call();
    EXPECT_TRUE(row().accepts(call).ok()) << row().accepts(call);
    scratch.assign(row().describe(call).scratch_bytes + 64, 0x33);
    m.scratch = scratch.data();
    Execution execution;
    execution.threads = threads;
    auto bound = row().prepare(call, m, execution);
    EXPECT_TRUE(bound.ok()) << bound.status();
    return std::move(*bound);
  }
  std::vector<float> Output(int o) const {
    std::vector<float> out(outputs_[o].type.bytes() / 4);
    std::memcpy(out.data(), outputs_[o].data, out.size() * 4);
    return out;
  }

 private:
  std::vector<TensorView> outputs_;
};

Bound Chain(Dims dims, Dims scale, Dims shift) {
  Bound b;
  b.op = "onward.Elementwise";
  b.attributes = {{"program", std::string(kChain)}};
  const DataType f = DataType::kFloat32;
  b.in_types = {{f, dims, {}}, {f, scale, {}}, {f, shift, {}}};
  b.out_types = {{f, dims, {}}, {f, dims, {}}};
  return b;
}

Bound OfOne(const char* op, const TensorType& type) {
  Bound b;
  b.op = op;
  b.in_types = {type};
  b.out_types = {type};
  return b;
}

Bound Reduction(const char* op, Dims dims, std::vector<int64_t> axes, Dims out) {
  Bound b;
  b.op = op;
  const int64_t n = static_cast<int64_t>(axes.size());
  b.in_types = {{DataType::kFloat32, dims, {}}, {DataType::kInt64, {n}, {}}};
  b.out_types = {{DataType::kFloat32, out, {}}};
  b.constants.resize(2);
  b.constants[1] = Tensor::Of<int64_t>({n}, axes);
  return b;
}

Bound Transposition(Dims in, std::vector<int64_t> perm) {
  Bound b;
  b.op = "Transpose";
  b.attributes = {{"perm", perm}};
  Dims out;
  for (int64_t p : perm) out.push_back(in[p]);
  b.in_types = {{DataType::kFloat32, in, {}}};
  b.out_types = {{DataType::kFloat32, out, {}}};
  return b;
}

std::vector<Bound> Large() {
  std::vector<Bound> out;
  out.push_back(Chain({64, 37, 101}, {37, 1}, {}));
  out.push_back(Chain({4001, 10}, {10}, {4001, 1}));
  out.push_back(Chain({16, 32, 33, 31}, {1, 32, 1, 1}, {16, 32, 33, 31}));
  out.push_back(Reduction("ReduceSum", {500003}, {0}, {1}));
  out.push_back(Reduction("ReduceMean", {3001, 130}, {0}, {1, 130}));
  out.push_back(Reduction("ReduceL2", {130, 3001}, {1}, {130, 1}));
  out.push_back(Reduction("ReduceSum", {64, 17, 20, 21}, {0, 2, 3}, {1, 17, 1, 1}));
  out.push_back(Reduction("ReduceMax", {5, 300, 301}, {1}, {5, 1, 301}));
  out.push_back(Transposition({313, 511}, {1, 0}));
  out.push_back(Transposition({8, 33, 65, 17}, {0, 2, 3, 1}));
  return out;
}

TEST(OnePass, SameBitsForAnyNumberOfThreads) {
  for (Bound& b : Large()) {
    auto one = b.Prepare(1);
    ASSERT_TRUE(one->Run().ok());
    const std::vector<float> expected = b.Output(0);
    for (int threads : {2, 3, 7}) {
      auto many = b.Prepare(threads);
      ASSERT_TRUE(many->Run().ok());
      EXPECT_EQ(std::memcmp(b.Output(0).data(), expected.data(), expected.size() * 4), 0)
          << b.op << " on " << threads << " threads";
    }
  }
}

TEST(OnePass, RunAllocatesNothing) {
  for (Bound& b : Large()) {
    for (int threads : {1, 2}) {
      auto bound = b.Prepare(threads);
      ASSERT_TRUE(bound->Run().ok());
      const int64_t before = allocations;
      ASSERT_TRUE(bound->Run().ok());
      EXPECT_EQ(allocations, before) << b.op;
    }
  }
}

// Each output in the memory of each input that may hold it.
TEST(OnePass, OutputsInTheMemoryOfInputs) {
  Bound b = Chain({700, 9}, {700, 9}, {9});
  ASSERT_TRUE(b.Prepare(1)->Run().ok());
  const std::vector<float> y = b.Output(0), s = b.Output(1);
  const KernelNeeds needs = b.row().describe(b.Call());
  EXPECT_EQ(needs.aliases.size(), 4u);  // two outputs, two inputs of full size
  for (const auto& [output, input] : needs.aliases) {
    std::vector<int> alias = {-1, -1};
    alias[output] = input;
    ASSERT_TRUE(b.Prepare(2, alias)->Run().ok());
    EXPECT_EQ(b.Output(0), y) << output << " in " << input;
    EXPECT_EQ(b.Output(1), s) << output << " in " << input;
  }
  for (const std::vector<int>& alias : {std::vector<int>{0, 1}, std::vector<int>{1, 0}}) {
    ASSERT_TRUE(b.Prepare(2, alias)->Run().ok());
    EXPECT_EQ(b.Output(0), y);
    EXPECT_EQ(b.Output(1), s);
  }
}

// An input that is still read after an output's instruction must not be overwritten.
TEST(OnePass, AnInputReadLaterIsNotOverwritten) {
  Bound b;
  b.op = "onward.Elementwise";
  b.attributes = {
      {"program", std::string("float32 x0 -> t0, t1: t0:float32 = Neg(x0); t1:float32 = "
                              "Exp(x0)")}};
  const TensorType t{DataType::kFloat32, {3000}, {}};
  b.in_types = {t};
  b.out_types = {t, t};
  ASSERT_TRUE(b.Prepare(1)->Run().ok());
  const std::vector<float> negative = b.Output(0), power = b.Output(1);
  ASSERT_TRUE(b.Prepare(1, {0, -1})->Run().ok());
  EXPECT_EQ(b.Output(0), negative);
  EXPECT_EQ(b.Output(1), power);
}

float At(const std::vector<float>& memory, const TensorType& type, Dims index) {
  return memory[OffsetOf(type.dims, type.layout, index)];
}

TEST(OnePass, EqualLayoutsAndChannels) {
  Layout blocked;
  blocked.order = {0, 1, 2, 3};
  blocked.blocks = {{1, 8}};
  for (const Layout& layout : {Layout::ChannelsLast(4), blocked}) {
    Bound plain = Chain({2, 16, 5, 3}, {16, 1, 1}, {2, 16, 5, 3});
    Bound other = Chain({2, 16, 5, 3}, {16, 1, 1}, {2, 16, 5, 3});
    other.in_types[0].layout = other.in_types[2].layout = layout;
    other.out_types[0].layout = other.out_types[1].layout = layout;
    ASSERT_TRUE(plain.Prepare(1)->Run().ok());
    ASSERT_TRUE(other.Prepare(1)->Run().ok());
    const std::vector<float> a = plain.Output(0), b = other.Output(0);
    for (int64_t n = 0; n < 2; ++n) {
      for (int64_t c = 0; c < 16; ++c) {
        EXPECT_EQ(At(a, plain.out_types[0], {n, c, 4, 1}), At(b, other.out_types[0], {n, c, 4, 1}))
            << ToString(layout);
      }
    }
    // All but one settled on another layout: refused.
    other.in_types[2].layout = {};
    EXPECT_FALSE(other.row().accepts(other.Call()).ok());
  }
}

// In padded memory the padding stays zero, or the layout is refused.
TEST(OnePass, PaddingStaysZero) {
  Layout blocked;
  blocked.order = {0, 1, 2, 3};
  blocked.blocks = {{1, 8}};
  const TensorType t{DataType::kFloat32, {2, 3, 4, 4}, blocked};
  Bound relu = OfOne("Relu", t);
  ASSERT_TRUE(relu.Prepare(1)->Run().ok());
  const std::vector<float> y = relu.Output(0);
  ASSERT_EQ(y.size(), 2u * 8 * 4 * 4);
  for (size_t i = 0; i < y.size(); ++i) {
    EXPECT_TRUE(i % 8 < 3 || y[i] == 0) << i;
  }
  const Bound exponential = OfOne("Exp", t);
  EXPECT_FALSE(exponential.row().accepts(exponential.Call()).ok());
  // With open layouts it asks for plain ones.
  const KernelNeeds needs = exponential.row().describe(exponential.Call(~uint64_t{0}));
  EXPECT_TRUE(needs.input_layouts[0].plain() && needs.output_layouts[0].plain());
}

TEST(OnePass, SumsAreAccurate) {
  Bound b = Reduction("ReduceSum", {1 << 20}, {0}, {1});
  auto kernel = b.Prepare(1);
  float* x = reinterpret_cast<float*>(b.memory[0].data());
  std::fill_n(x, 1 << 20, 0.1f);
  ASSERT_TRUE(kernel->Run().ok());
  const double exact = static_cast<double>(0.1f) * (1 << 20);
  // One after the other would be off by 1e-3 relative.
  EXPECT_NEAR(b.Output(0)[0], exact, 1e-6 * exact);
}

TEST(OnePass, ChannelsLastSumsPerChannel) {
  Bound plain = Reduction("ReduceSum", {4, 6, 5, 7}, {0, 2, 3}, {6});
  plain.attributes = {{"keepdims", int64_t{0}}};
  Bound last = Reduction("ReduceSum", {4, 6, 5, 7}, {0, 2, 3}, {6});
  last.attributes = plain.attributes;
  last.in_types[0].layout = Layout::ChannelsLast(4);
  ASSERT_TRUE(plain.Prepare(1)->Run().ok());
  ASSERT_TRUE(last.Prepare(1)->Run().ok());
  for (int c = 0; c < 6; ++c) EXPECT_NEAR(plain.Output(0)[c], last.Output(0)[c], 1e-4);
}

TEST(OnePass, TransposesEveryElement) {
  for (const std::vector<int64_t>& perm :
       {std::vector<int64_t>{1, 0, 2}, {2, 1, 0}, {0, 2, 1}, {2, 0, 1}, {1, 2, 0}}) {
    Bound b = Transposition({37, 70, 11}, perm);
    ASSERT_TRUE(b.Prepare(2)->Run().ok());
    const std::vector<float> y = b.Output(0);
    const float* x = reinterpret_cast<const float*>(b.memory[0].data());
    Dims index(3);
    for (index[0] = 0; index[0] < 37; ++index[0]) {
      for (index[1] = 0; index[1] < 70; ++index[1]) {
        for (index[2] = 0; index[2] < 11; ++index[2]) {
          const Dims to = {index[perm[0]], index[perm[1]], index[perm[2]]};
          ASSERT_EQ(At(y, b.out_types[0], to), x[OffsetOf(b.in_types[0].dims, {}, index)]);
        }
      }
    }
  }
}

}  // namespace
}  // namespace onward
