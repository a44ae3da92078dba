// Fused graphs compute what the unfused ones do: random graphs of elementwise nodes
// with broadcasting, values read twice, and nodes between that cannot be fused.
#include <gtest/gtest.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backend/runtime/interpreter.h"
#include "graph/ir/verifier.h"
#include "graph/onnx/text.h"
#include "graph/ops/operators.h"
#include "graph/passes/fuse_elementwise.h"
#include "kernels/kernel.h"

namespace onward {
namespace {

uint64_t Next(uint64_t* state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return *state >> 33;
}

// Each node reads earlier values; every value that nothing reads is an output.
std::string RandomGraph(uint64_t seed, int nodes) {
  uint64_t state = seed;
  std::vector<std::string> full = {"a", "b"};
  const std::vector<std::string> small = {"bias", "channel", "half"};
  std::vector<std::string> lines, outputs;
  const char* const unary[] = {"Relu", "Sigmoid", "Tanh", "Abs", "Neg", "Softplus"};
  const char* const binary[] = {"Add", "Sub", "Max", "Min"};
  for (int n = 0; n < nodes; ++n) {
    const std::string y = absl::StrCat("v", n);
    const std::string x = full[Next(&state) % full.size()];
    const std::string z = Next(&state) % 3 == 0 ? small[Next(&state) % small.size()]
                                                : full[Next(&state) % full.size()];
    switch (Next(&state) % 8) {
      case 0:
      case 1:
      case 2:
        lines.push_back(absl::StrCat(y, " = ", unary[Next(&state) % 6], "(", x, ")"));
        break;
      case 3:
        lines.push_back(absl::StrCat(y, " = Transpose<perm = [0, 1, 3, 2]>(", x, ")"));
        break;
      case 4:
        lines.push_back(absl::StrCat("m", n, " = Greater(", x, ", half)"));
        lines.push_back(absl::StrCat(y, " = Where(m", n, ", ", x, ", ", z, ")"));
        break;
      case 5:
        lines.push_back(absl::StrCat(y, " = Mul(", x, ", ", small[Next(&state) % 3], ")"));
        break;
      default:
        lines.push_back(absl::StrCat(y, " = ", binary[Next(&state) % 4], "(", x, ", ", z, ")"));
        break;
    }
    full.push_back(y);
  }
  for (int n = 0; n < nodes; ++n) {
    const std::string y = absl::StrCat("v", n);
    if (n + 1 == nodes || Next(&state) % 6 == 0) outputs.push_back("float[2, 3, 5, 5] " + y);
  }
  return absl::StrCat(
      "g (float[2, 3, 5, 5] a, float[2, 3, 5, 5] b, float[5] bias, float[3, 1, 1] channel) => (",
      absl::StrJoin(outputs, ", "), ") <float half = {0.5}> { ", absl::StrJoin(lines, "\n"), " }");
}

std::vector<Tensor> Feeds(const Graph& graph) {
  std::vector<Tensor> feeds;
  uint64_t state = 99;
  for (const auto& input : graph.inputs()) {
    feeds.emplace_back(input->dtype(), input->dims());
    for (float& x : feeds.back().mutable_values<float>()) {
      x = static_cast<float>(Next(&state) % 4000) / 1000 - 2;
    }
  }
  return feeds;
}

TEST(Fusion, FusedGraphsGiveTheSameNumbers) {
  int fused = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const std::string text = RandomGraph(seed, 5 + static_cast<int>(seed % 40));
    auto graph = ParseGraph(text, StandardOperators());
    ASSERT_TRUE(graph.ok()) << graph.status();
    const std::vector<Tensor> feeds = Feeds(**graph);
    std::vector<const Tensor*> pointers;
    for (const Tensor& t : feeds) pointers.push_back(&t);
    Interpreter reference(&StandardOperators(), &CpuKernels());
    const auto expected = reference.Run(**graph, pointers);
    ASSERT_TRUE(expected.ok()) << expected.status();
    const int before = (*graph)->num_nodes();
    const auto changed = FuseElementwise(graph->get(), StandardOperators());
    ASSERT_TRUE(changed.ok()) << changed.status() << "\n" << text;
    ASSERT_TRUE(Verify(**graph).ok()) << Verify(**graph) << "\n" << text;
    fused += before - (*graph)->num_nodes();
    Interpreter best(&StandardOperators(), &CpuKernels(), KernelRows::kBest);
    const auto made = best.Run(**graph, pointers);
    ASSERT_TRUE(made.ok()) << made.status();
    ASSERT_EQ(made->size(), expected->size());
    for (size_t k = 0; k < made->size(); ++k) {
      double largest = 1;
      for (int64_t i = 0; i < (*made)[k].elements(); ++i) {
        largest = std::max(largest, std::fabs((*expected)[k].At(i)));
      }
      for (int64_t i = 0; i < (*made)[k].elements(); ++i) {
        ASSERT_NEAR((*made)[k].At(i), (*expected)[k].At(i), 1e-5 * largest)
            << "output " << k << " element " << i << " of\n"
            << text << "\nfused:\n"
            << ToText(**graph);
      }
    }
  }
  EXPECT_GT(fused, 300);
}

}  // namespace
}  // namespace onward
