// The rate of a large float32 matrix product by Onward's own kernel, oneDNN's, as one
// line of JSON: gemm_rate [THREADS]. tools/benchmark measures the machine with it.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "kernels/kernel.h"

namespace onward {
namespace {

constexpr int64_t kSize = 1536;
constexpr double kSeconds = 0.6;

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The best of many, in GFLOP/s; 0 where no kernel takes it.
double BestRate(const char** by, int threads) {
  const Tensor a = Tensor::Full(DataType::kFloat32, {kSize, kSize}, 0.5);
  const Tensor b = Tensor::Full(DataType::kFloat32, {kSize, kSize}, 0.25);
  Tensor out(DataType::kFloat32, {kSize, kSize});
  const Attributes attributes;
  KernelCall call;
  call.op = "MatMul";
  call.attributes = &attributes;
  call.inputs = {&a.type(), &b.type()};
  call.constants = {nullptr, nullptr};
  call.outputs = {&out.type()};
  for (const Kernel& row : CpuKernels()) {
    if (row.op != call.op || row.reference || !row.accepts(call).ok()) continue;
    std::vector<char> scratch;
    if (row.describe != nullptr) scratch.resize(row.describe(call).scratch_bytes + 64);
    KernelMemory memory;
    memory.inputs = {a.view(), b.view()};
    memory.outputs = {out.view()};
    memory.scratch = scratch.data();
    Execution execution;
    execution.threads = threads;
    auto bound = row.prepare(call, memory, execution);
    if (!bound.ok()) return 0;
    *by = row.name.c_str();
    double best = 0;
    for (const double begin = Now(); Now() - begin < kSeconds;) {
      const double start = Now();
      if (!(*bound)->Run().ok()) return 0;
      best = std::max(best, 2e-9 * kSize * kSize * kSize / (Now() - start));
    }
    return best;
  }
  return 0;
}

}  // namespace
}  // namespace onward

int main(int argc, char** argv) {
  const char* by = "";
  const double rate = onward::BestRate(&by, argc > 1 ? std::max(1, std::atoi(argv[1])) : 1);
  if (rate == 0) {
    std::fprintf(stderr, "gemm_rate: no kernel takes the product\n");
    return 1;
  }
  std::printf("{\"event\": \"gemm\", \"gflops\": %.3f, \"by\": \"Onward's kernel %s\"}\n", rate,
              by);
}
