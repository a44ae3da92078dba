#include "tests/operator_values.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "graph/base/status_macros.h"
#include "graph/ir/builder.h"
#include "graph/onnx/text.h"
#include "graph/ops/operators.h"
#include "graph/passes/autodiff.h"
#include "kernels/kernel.h"

namespace onward {
namespace {

// Numbers of any type in the extents of an input.
Tensor FeedOf(const Value& input, const Numbers& numbers) {
  EXPECT_EQ(Elements(input.dims()), static_cast<int64_t>(numbers.size())) << input.name;
  Tensor t(input.dtype(), input.dims());
  for (int64_t i = 0; i < t.elements(); ++i) {
    const Tensor one = Tensor::Full(input.dtype(), {}, numbers[i]);
    std::memcpy(static_cast<char*>(t.data()) + i * one.bytes(), one.data(), one.bytes());
  }
  return t;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Graph>> ParseFolded(const std::string& text) {
  static Interpreter folding(&StandardOperators(), &CpuKernels());
  return ParseGraph(text, StandardOperators(), &folding);
}

absl::StatusOr<std::vector<Numbers>> RunWith(KernelRows choice, const Graph& graph,
                                             const std::vector<Numbers>& feeds) {
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    tensors.push_back(FeedOf(*graph.inputs()[i], feeds[i]));
  }
  std::vector<const Tensor*> pointers;
  for (const Tensor& t : tensors) pointers.push_back(&t);
  Interpreter interpreter(&StandardOperators(), &CpuKernels(), choice);
  ASSIGN_OR_RETURN(const std::vector<Tensor> results, interpreter.Run(graph, pointers));
  std::vector<Numbers> out;
  for (const Tensor& t : results) {
    out.emplace_back();
    for (int64_t i = 0; i < t.elements(); ++i) out.back().push_back(t.At(i));
  }
  return out;
}

void ExpectNumbers(const Numbers& actual, const Numbers& expected, const std::string& where) {
  ASSERT_EQ(actual.size(), expected.size()) << where;
  for (size_t i = 0; i < actual.size(); ++i) {
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(actual[i])) << where << "\n element " << i << ": " << actual[i];
    } else if (std::isinf(expected[i])) {
      EXPECT_EQ(actual[i], expected[i]) << where << "\n element " << i;
    } else {
      EXPECT_NEAR(actual[i], expected[i], 1e-6 * std::max(1.0, std::fabs(expected[i])))
          << where << "\n element " << i;
    }
  }
}

void ExpectOutput(const std::string& text, const std::vector<Numbers>& feeds,
                  const Numbers& expected) {
  for (KernelRows choice : {KernelRows::kReference, KernelRows::kBest}) {
    auto graph = ParseFolded(text);
    ASSERT_TRUE(graph.ok()) << text << "\n" << graph.status();
    auto results = RunWith(choice, **graph, feeds);
    ASSERT_TRUE(results.ok()) << text << "\n" << results.status();
    ExpectNumbers((*results)[0], expected, text);
  }
}

void ExpectGradients(const std::string& text, const std::vector<Numbers>& feeds, const Numbers& dy,
                     const std::vector<Numbers>& expected) {
  for (KernelRows choice : {KernelRows::kReference, KernelRows::kBest}) {
    auto graph = ParseFolded(text);
    ASSERT_TRUE(graph.ok()) << text << "\n" << graph.status();
    std::vector<Value*> targets;
    for (const auto& input : (*graph)->inputs()) {
      if (IsFloating(input->dtype())) targets.push_back(input.get());
    }
    Builder builder(graph->get(), &StandardOperators());
    Expr y = builder.Op("Identity", {builder.Wrap((*graph)->outputs()[0].value)});
    const GradientSeed seed{y.value(), builder.Constant(FeedOf(*y.value(), dy)).value()};
    auto gradients = AppendGradients(graph->get(), StandardOperators(), {seed}, targets);
    ASSERT_TRUE(gradients.ok()) << text << "\n" << gradients.status();
    const size_t first = (*graph)->outputs().size();
    for (Value* gradient : *gradients) {
      ASSERT_NE(gradient, nullptr) << text;
      (*graph)->AddOutput("d", gradient);
    }
    auto results = RunWith(choice, **graph, feeds);
    ASSERT_TRUE(results.ok()) << text << "\n" << results.status();
    for (size_t i = 0; i < expected.size(); ++i) {
      ExpectNumbers((*results)[first + i], expected[i],
                    absl::StrCat("gradient of ", targets[i]->name, " in ", text));
    }
  }
}

}  // namespace onward
