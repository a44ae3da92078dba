// Models in which data decides shapes, branches and numbers of iterations: their graphs, and
// gradients through regions against finite differences.
#include <cmath>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backend/runtime/interpreter.h"
#include "backend/runtime/regions.h"
#include "graph/ir/builder.h"
#include "graph/onnx/import.h"
#include "graph/onnx/text.h"
#include "graph/ops/operators.h"
#include "graph/passes/autodiff.h"
#include "gtest/gtest.h"

namespace onward {
namespace {

struct Case {
  std::string name;
  std::string text;    // inputs: doubles that are differentiated, then others
  int differentiated;  // how many
  std::vector<Tensor> (*inputs)();
};

Tensor Doubles(Dims dims, std::vector<double> values) {
  return Tensor::Of<double>(std::move(dims), values);
}
Tensor Ints(Dims dims, std::vector<int64_t> values) {
  return Tensor::Of<int64_t>(std::move(dims), values);
}

template <typename... T>
std::vector<Tensor> List(T&&... tensors) {
  std::vector<Tensor> list;
  (list.push_back(std::forward<T>(tensors)), ...);
  return list;
}

constexpr char kBranches[] = R"(
g (double[2, 2] w, double[2] x) => (double[2] y) {
  zero = Constant<value = double {0}>()
  s = ReduceSum<keepdims = 0>(x)
  c = Greater(s, zero)
  h = MatMul(w, x)
  y = If(c) <then_branch = t () => (double[2] a) { q = Mul(h, h) a = Mul(q, x) },
             else_branch = e () => (double[2] b) { b = Sin(h) }>
})";

const std::vector<Case>& Cases() {
  static const auto* const cases = new std::vector<Case>{
      {"AConditionOfData", kBranches, 2,
       [] {
         return List(Doubles({2, 2}, {1, 2, -1, .5}), Doubles({2}, {.3, .9}));
       }},
      {"TheOtherBranch", kBranches, 2,
       [] {
         return List(Doubles({2, 2}, {1, 2, -1, .5}), Doubles({2}, {.3, -.9}));
       }},
      {"ALoopUntilDataSaysEnough", R"(
g (double[2] w, double[2] x) => (double[2] y) {
  forever = Constant<value = int64 {100}>()
  yes = Constant<value = bool {1}>()
  y, all = Loop<body = b (int64 i, bool go, double[2] v) => (bool on, double[2] u, double[2] o) {
    ten = Constant<value = double {10}>()
    u = Mul(v, w)
    o = Identity(u)
    s = ReduceSum<keepdims = 0>(u)
    on = Less(s, ten)
  }>(forever, yes, x)
})",
       2,
       [] {
         return List(Doubles({2}, {1.5, 1.2}), Doubles({2}, {.7, .9}));
       }},
      {"StackedResultsOfSuchALoop", R"(
g (double[2] w, double[2] x, int64 n) => (double[1, 2] y) {
  last, all = Loop<body = b (int64 i, bool go, double[2] v) => (bool on, double[2] u, double[2] o) {
    on = Identity(go)
    u = Mul(v, w)
    o = Sin(u)
  }>(n, "", x)
  axes = Constant<value = int64[1] {0}>()
  y = ReduceSum(all, axes)
})",
       2,
       [] {
         return List(Doubles({2}, {1.5, 1.2}), Doubles({2}, {.7, .9}), Ints({}, {4}));
       }},
      {"RowsThatDataPicks", R"(
g (double[4, 3] x, double[3] w) => (double[3] y) {
  zero = Constant<value = double {0}>()
  one = Constant<value = int64[1] {1}>()
  first = Constant<value = int64[1] {0}>()
  h = Mul(x, w)
  s = ReduceSum<keepdims = 0>(h, one)
  c = Greater(s, zero)
  rows = Compress<axis = 0>(h, c)
  square = Mul(rows, rows)
  y = ReduceSum<keepdims = 0>(square, first)
})",
       2,
       [] {
         return List(Doubles({4, 3}, {1, 2, 3, -1, -2, -3, .5, .1, .2, -4, 1, 1}),
                     Doubles({3}, {1, .5, 2}));
       }},
      // As PyTorch writes EmbeddingBag: the bags' borders are data.
      {"BagsOfAnEmbedding", R"(
g (double[5, 2] table, int64[6] ids, int64[4] borders) => (double[3, 2] y) {
  three = Constant<value = int64 {3}>()
  y = Loop<body = b (int64 i, bool go) => (bool on, double[2] bag) {
    on = Identity(go)
    zero = Constant<value = int64[1] {0}>()
    one = Constant<value = int64[1] {1}>()
    at = Unsqueeze(i, zero)
    next = Add(at, one)
    from = Gather(borders, at)
    to = Gather(borders, next)
    mine = Slice(ids, from, to, zero)
    rows = Gather(table, mine)
    bag = ReduceSum<keepdims = 0>(rows, zero)
  }>(three, "")
})",
       1,
       [] {
         return List(Doubles({5, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}),
                     Ints({6}, {0, 1, 1, 4, 2, 0}), Ints({4}, {0, 3, 3, 6}));
       }},
      {"ASequenceWhoseLengthIsData", R"(
g (double[3] w, double[3] x, int64 n) => (double[3] y) {
  empty = SequenceEmpty<dtype = 11>()
  s = Loop<body = b (int64 i, bool go, seq(double[3]) v) => (bool on, seq(double[3]) u) {
    on = Identity(go)
    k = Cast<to = 11>(i)
    e = Mul(w, k)
    f = Mul(e, x)
    u = SequenceInsert(v, f)
  }>(n, "", empty)
  all = ConcatFromSequence<axis = 0, new_axis = 1>(s)
  zero = Constant<value = int64[1] {0}>()
  y = ReduceSum<keepdims = 0>(all, zero)
})",
       2,
       [] {
         return List(Doubles({3}, {1, 2, 3}), Doubles({3}, {.1, -.2, 2}), Ints({}, {3}));
       }},
  };
  return *cases;
}

class RegionTest : public testing::TestWithParam<Case> {
 protected:
  std::unique_ptr<Graph> Build(const std::string& text) {
    auto bytes = ModelFromText(absl::StrCat("<ir_version: 10, opset_import: [\"\" : 21]>\n", text));
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    auto model = OnnxModel::FromBytes(*bytes, "test.onnx");
    EXPECT_TRUE(model.ok()) << model.status();
    auto graph = (*model)->Build(StandardOperators(), &interpreter_, Binding{});
    EXPECT_TRUE(graph.ok()) << graph.status();
    return graph.ok() ? *std::move(graph) : nullptr;
  }

  std::vector<double> Run(const Graph& graph, const std::vector<Tensor>& inputs) {
    std::vector<const Tensor*> feeds;
    for (const Tensor& t : inputs) feeds.push_back(&t);
    auto results = interpreter_.Run(graph, feeds);
    EXPECT_TRUE(results.ok()) << results.status();
    std::vector<double> numbers;
    for (const Tensor& t : *results) {
      for (int64_t i = 0; i < t.elements(); ++i) numbers.push_back(t.At(i));
    }
    return numbers;
  }

  Interpreter interpreter_{&StandardOperators(), &HostKernels(), KernelRows::kBest};
};

TEST_P(RegionTest, GradientsAreThoseOfFiniteDifferences) {
  const Case& c = GetParam();
  const std::unique_ptr<Graph> forward = Build(c.text);
  ASSERT_NE(forward, nullptr);
  int regions = 0;
  for (const Node* node : forward->nodes()) regions += node->op().name == "Region" ? 1 : 0;
  EXPECT_GT(regions, 0);

  const std::unique_ptr<Graph> backward = Build(c.text);
  std::mt19937 random(5);
  std::normal_distribution<double> normal;
  Value* y = backward->outputs()[0].value;
  Tensor dy(DataType::kFloat64, y->dims());
  for (double& d : dy.mutable_values<double>()) d = normal(random);
  const std::vector<double> weights(dy.values<double>().begin(), dy.values<double>().end());
  Value* seed = backward->AddConstant(std::make_shared<const Tensor>(std::move(dy)));
  std::vector<Value*> targets;
  for (int i = 0; i < c.differentiated; ++i) targets.push_back(backward->inputs()[i].get());
  auto gradients = AppendGradients(backward.get(), StandardOperators(), {{y, seed}}, targets);
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  backward->ClearOutputs();
  for (Value* gradient : *gradients) {
    ASSERT_NE(gradient, nullptr);
    backward->AddOutput("", gradient);
  }

  std::vector<Tensor> inputs = c.inputs();
  const std::vector<double> found = Run(*backward, inputs);
  size_t next = 0;
  for (int i = 0; i < c.differentiated; ++i) {
    for (double& x : inputs[i].mutable_values<double>()) {
      constexpr double kStep = 1e-6;
      const double before = x;
      const auto loss = [&](double value) {
        x = value;
        const std::vector<double> numbers = Run(*forward, inputs);
        double sum = 0;
        for (size_t k = 0; k < weights.size(); ++k) sum += weights[k] * numbers[k];
        return sum;
      };
      const double expected = (loss(before + kStep) - loss(before - kStep)) / (2 * kStep);
      x = before;
      ASSERT_LT(next, found.size());
      EXPECT_NEAR(found[next], expected, 1e-6 * (1 + std::abs(expected)))
          << "input " << i << ", gradient " << next;
      ++next;
    }
  }
  EXPECT_EQ(next, found.size());
}

INSTANTIATE_TEST_SUITE_P(All, RegionTest, testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

TEST_F(RegionTest, WhatDataMakesOfAnotherShapeIsAnErrorOfData) {
  // The branches agree for nobody but the exporter, who declares what it has seen.
  const std::unique_ptr<Graph> graph = Build(R"(
g (double[4] x) => (double[2] y) {
  zero = Constant<value = double {0}>()
  c = Greater(x, zero)
  y = Compress<axis = 0>(x, c)
})");
  ASSERT_NE(graph, nullptr);
  const Tensor two = Doubles({4}, {1, -1, 1, -1}), three = Doubles({4}, {1, 1, 1, -1});
  EXPECT_TRUE(interpreter_.Run(*graph, {&two}).ok());
  const auto failed = interpreter_.Run(*graph, {&three});
  ASSERT_FALSE(failed.ok());
  EXPECT_NE(failed.status().message().find("float64[3], expected float64[2]"), std::string::npos)
      << failed.status();
}

// A plan names the row of a step, and the executor finds it by operator and name.
TEST(HostKernels, RowsOfAnOperatorHaveNamesOfTheirOwn) {
  std::set<std::pair<std::string, std::string>> names;
  for (const Kernel& row : HostKernels()) {
    EXPECT_TRUE(names.emplace(row.op, row.name).second) << row.op << " " << row.name;
  }
}

}  // namespace
}  // namespace onward
