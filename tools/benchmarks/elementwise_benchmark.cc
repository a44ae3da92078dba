// Bytes per second of the rows that pass over memory once, beside memcpy on as many
// bytes. Run: bazel run -c opt //tools/benchmarks:elementwise_benchmark
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/kernel.h"

namespace onward {
namespace {

struct Bench {
  std::string op;
  Attributes attributes;
  std::vector<Dims> inputs;
  Dims output;
  std::vector<int64_t> axes;  // of reductions: input 1
};

void RunRow(benchmark::State& state, const Bench& bench, int threads) {
  const DataType f = DataType::kFloat32;
  std::vector<Tensor> tensors;
  for (const Dims& d : bench.inputs) tensors.push_back(Tensor::Full(f, d, 0.5));
  if (!bench.axes.empty()) {
    tensors.push_back(Tensor::Of<int64_t>({static_cast<int64_t>(bench.axes.size())}, bench.axes));
  }
  Tensor out(f, bench.output);
  KernelCall call;
  call.op = bench.op;
  call.attributes = &bench.attributes;
  KernelMemory memory;
  double bytes = static_cast<double>(out.bytes());
  for (const Tensor& t : tensors) {
    call.inputs.push_back(&t.type());
    call.constants.push_back(t.dtype() == DataType::kInt64 ? &t : nullptr);
    memory.inputs.push_back(t.view());
    bytes += static_cast<double>(t.bytes());
  }
  call.outputs.push_back(&out.type());
  memory.outputs.push_back(out.view());
  for (const Kernel& row : CpuKernels()) {
    if (row.op != bench.op || row.reference || !row.accepts(call).ok()) continue;
    std::vector<char> scratch;
    if (row.describe != nullptr) scratch.resize(row.describe(call).scratch_bytes + 64);
    memory.scratch = scratch.data();
    Execution execution;
    execution.threads = threads;
    auto bound = row.prepare(call, memory, execution);
    for (auto _ : state) {
      if (!(*bound)->Run().ok()) state.SkipWithError("the kernel failed");
    }
    state.SetLabel(row.name);
    state.counters["GB/s"] = benchmark::Counter(
        bytes * static_cast<double>(state.iterations()) / 1e9, benchmark::Counter::kIsRate);
    return;
  }
  state.SkipWithError("no row takes it");
}

void Memcpy(benchmark::State& state) {
  const size_t bytes = static_cast<size_t>(state.range(0));
  std::vector<char> from(bytes, 1), to(bytes);
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), bytes);
    benchmark::ClobberMemory();
  }
  state.counters["GB/s"] = benchmark::Counter(
      2e-9 * static_cast<double>(bytes) * static_cast<double>(state.iterations()),
      benchmark::Counter::kIsRate);
}

template <float (*kFunction)(float)>
void Scalar(benchmark::State& state) {
  std::vector<float> x(static_cast<size_t>(state.range(0)), 0.5f), y(x.size());
  for (auto _ : state) {
    for (size_t i = 0; i < x.size(); ++i) y[i] = kFunction(x[i]);
    benchmark::ClobberMemory();
  }
  state.counters["GB/s"] = benchmark::Counter(
      8e-9 * static_cast<double>(x.size()) * static_cast<double>(state.iterations()),
      benchmark::Counter::kIsRate);
}
float ExpOne(float x) { return std::exp(x); }
float TanhOne(float x) { return std::tanh(x); }
float SigmoidOne(float x) { return 1 / (1 + std::exp(-x)); }

constexpr char kBiasRelu[] =
    "float32 x0, float32 x1 -> t1: t0:float32 = Add(x0, x1); t1:float32 = Relu(t0)";
constexpr char kReluGradient[] =
    "float32 x0, float32 x1 -> t2: t0:float32 = Constant<0>(); t1:bool = Greater(x0, t0); "
    "t2:float32 = Where(t1, x1, t0)";
constexpr char kResidual[] =
    "float32 x0, float32 x1, float32 x2, float32 x3 -> t3: t0:float32 = Mul(x0, x1); t1:float32 = "
    "Add(t0, x2); t2:float32 = Add(t1, x3); t3:float32 = Relu(t2)";

void RegisterAll() {
  const Dims small = {128, 512}, large = {64, 64, 56, 56};
  struct {
    std::string name;
    Bench bench;
  } const cases[] = {
      {"Add/large", {"Add", {}, {large, large}, large, {}}},
      {"Add/small", {"Add", {}, {small, small}, small, {}}},
      {"Relu/large", {"Relu", {}, {large}, large, {}}},
      {"Exp/small", {"Exp", {}, {small}, small, {}}},
      {"Tanh/small", {"Tanh", {}, {small}, small, {}}},
      {"Sigmoid/small", {"Sigmoid", {}, {small}, small, {}}},
      {"BiasRelu/small",
       {"onward.Elementwise",
        {{"program", std::string(kBiasRelu)}},
        {small, Dims{512}},
        small,
        {}}},
      {"BiasRelu/columns of 10",
       {"onward.Elementwise",
        {{"program", std::string(kBiasRelu)}},
        {Dims{65536, 10}, Dims{10}},
        {65536, 10},
        {}}},
      {"ReluGradient/large",
       {"onward.Elementwise",
        {{"program", std::string(kReluGradient)}},
        {large, large},
        large,
        {}}},
      {"NormResidualRelu/large",
       {"onward.Elementwise",
        {{"program", std::string(kResidual)}},
        {large, Dims{64, 1, 1}, Dims{64, 1, 1}, large},
        large,
        {}}},
      {"BiasGradient/small", {"ReduceSum", {}, {small}, {1, 512}, {0}}},
      {"SumPerChannel/large", {"ReduceSum", {}, {large}, {1, 64, 1, 1}, {0, 2, 3}}},
      {"SumAll/large", {"ReduceSum", {}, {large}, {1, 1, 1, 1}, {0, 1, 2, 3}}},
      {"Transpose/matrix",
       {"Transpose", {{"perm", std::vector<int64_t>{1, 0}}}, {Dims{4096, 2048}}, {2048, 4096}, {}}},
      {"Transpose/to channels last",
       {"Transpose", {{"perm", std::vector<int64_t>{0, 2, 3, 1}}}, {large}, {64, 56, 56, 64}, {}}},
  };
  for (const auto& c : cases) {
    for (int threads : {1, 2}) {
      benchmark::RegisterBenchmark(
          (c.name + "/threads:" + std::to_string(threads)).c_str(),
          [bench = c.bench, threads](benchmark::State& s) { RunRow(s, bench, threads); })
          ->UseRealTime();
    }
  }
  benchmark::RegisterBenchmark("memcpy", Memcpy)->Arg(128 * 512 * 4)->Arg(64 * 64 * 56 * 56 * 4);
  benchmark::RegisterBenchmark("libm exp", Scalar<ExpOne>)->Arg(128 * 512);
  benchmark::RegisterBenchmark("libm tanh", Scalar<TanhOne>)->Arg(128 * 512);
  benchmark::RegisterBenchmark("libm sigmoid", Scalar<SigmoidOne>)->Arg(128 * 512);
}

[[maybe_unused]] const bool kRegistered = (RegisterAll(), true);

}  // namespace
}  // namespace onward
