// Tries every example of every operator: what is written in an operator's block is
// all that a new operator needs to be tested.
//   - inferred shapes are those produced;
//   - every kernel row that accepts equals the reference (or the lowering), with
//     guard bytes around every buffer;
//   - the reference equals the lowering where both are there;
//   - gradients equal central finite differences in float64 for a random output
//     gradient;
//   - print -> parse -> print gives the same text.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "backend/runtime/interpreter.h"
#include "graph/base/status_macros.h"
#include "graph/ir/builder.h"
#include "graph/ir/verifier.h"
#include "graph/onnx/text.h"
#include "graph/ops/operators.h"
#include "graph/passes/autodiff.h"
#include "kernels/kernel.h"
#include "tests/set_element.h"

namespace onward {
namespace {

// Deterministic numbers in (-1, 1), away from zero and from one another: kinks of
// Relu, Abs and Max lie between them with a margin far above the finite step.
class Numbers {
 public:
  explicit Numbers(uint64_t seed) : state_(seed * 2654435761u + 88172645463325252u) {}
  uint64_t Next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_;
  }
  double Real() {
    const double grid = static_cast<double>(Next() % 1999) - 999;  // -999 .. 999
    return (grid + 0.37) / 1000.0;
  }

 private:
  uint64_t state_;
};

// Integer inputs are indices or flags in [0, 2) unless the example's input name
// asks otherwise: `signed_...` gives -3..3, `positive_...` reals in (0.5, 1.5),
// `unit_...` reals in (0.05, 0.95), `labels...` 0..2, `large_...` reals times 4.
Tensor Fill(const Value& input, DataType dtype, uint64_t seed) {
  Tensor t(dtype, input.dims());
  Numbers numbers(seed);
  const std::string& name = input.name;
  for (int64_t i = 0; i < t.elements(); ++i) {
    double real = numbers.Real();
    if (absl::StartsWith(name, "positive")) real = real / 2 + 1;
    if (absl::StartsWith(name, "unit")) real = real * 0.45 + 0.5;
    if (absl::StartsWith(name, "large")) real *= 4;
    int64_t integer = static_cast<int64_t>(numbers.Next() % 2);
    if (absl::StartsWith(name, "signed")) integer = static_cast<int64_t>(numbers.Next() % 7) - 3;
    if (absl::StartsWith(name, "labels")) integer = static_cast<int64_t>(numbers.Next() % 3);
    if (!SetElement(&t, i, real, integer)) {
      ADD_FAILURE() << "example input " << name << " has type " << Name(dtype);
    }
  }
  return t;
}

struct Case {
  const Operator* op;
  std::string text;  // with "float" for the floating type
  std::string Where() const { return absl::StrCat(op->id(), ": ", text); }
  std::string InDouble() const {
    // (The attribute value_float keeps its name.)
    return absl::StrReplaceAll(text, {{"float[", "double["},
                                      {"float ", "double "},
                                      {"float32", "float64"},
                                      {"value_float ", "value_float "}});
  }
};

std::vector<Case> AllCases() {
  std::vector<Case> cases;
  const char* only = std::getenv("ONWARD_OPERATOR");  // for development: one operator
  for (const auto& op : StandardOperators().all()) {
    if (only != nullptr && op->id() != only) continue;
    for (const std::string& text : op->examples) cases.push_back({op.get(), text});
  }
  return cases;
}

std::vector<Tensor> Feeds(const Graph& graph) {
  std::vector<Tensor> feeds;
  uint64_t seed = 1;
  for (const auto& input : graph.inputs()) feeds.push_back(Fill(*input, input->dtype(), seed++));
  return feeds;
}

std::vector<const Tensor*> Pointers(const std::vector<Tensor>& tensors) {
  std::vector<const Tensor*> out;
  for (const Tensor& t : tensors) out.push_back(&t);
  return out;
}

// The node under test: the last one of the operator (others prepare its inputs).
Node* NodeOf(const Graph& graph, const Operator& op) {
  Node* found = nullptr;
  for (Node* n : graph.nodes()) {
    if (&n->op() == &op) found = n;
  }
  return found;
}

double Tolerance(DataType dtype) { return dtype == DataType::kFloat64 ? 1e-10 : 2e-5; }

void ExpectNear(const Tensor& a, const Tensor& b, double tolerance, const std::string& where) {
  ASSERT_EQ(ToString(a.type()), ToString(b.type())) << where;
  double largest = 1;
  for (int64_t i = 0; i < a.elements(); ++i) {
    if (std::isfinite(b.At(i))) largest = std::max(largest, std::fabs(b.At(i)));
  }
  for (int64_t i = 0; i < a.elements(); ++i) {
    const double x = a.At(i), y = b.At(i);
    if (std::isnan(x) && std::isnan(y)) continue;
    if (x == y) continue;
    ASSERT_LE(std::fabs(x - y), tolerance * largest)
        << where << "\n element " << i << ": " << x << " and " << y;
  }
}

absl::StatusOr<std::unique_ptr<Graph>> Parse(const std::string& text) {
  static Interpreter folding(&StandardOperators(), &CpuKernels());
  return ParseGraph(text, StandardOperators(), &folding);
}

TEST(OperatorSuite, EveryOperatorHasExamplesAndARuleOrAReason) {
  int examples = 0;
  for (const auto& op : StandardOperators().all()) {
    // The body of a region cannot be said in ONNX's text: tests/region_test.cc.
    const bool elsewhere =
        op->collective || op->id() == "onward.Region" || op->id() == "onward.RegionGradient";
    EXPECT_FALSE(op->examples.empty() && !elsewhere) << op->id() << " has no example";
    EXPECT_TRUE(op->gradients != Operator::Gradients::kUnstated || op->lower != nullptr)
        << op->id() << " has no gradient, no lowering and no reason";
    EXPECT_TRUE(op->infer != nullptr) << op->id();
    examples += static_cast<int>(op->examples.size());
  }
  std::printf("%zu operators, %d examples\n", StandardOperators().all().size(), examples);
}

TEST(OperatorSuite, PrintParsePrint) {
  for (const Case& c : AllCases()) {
    auto graph = Parse(c.text);
    ASSERT_TRUE(graph.ok()) << c.Where() << "\n " << graph.status();
    ASSERT_TRUE(Verify(**graph).ok()) << c.Where() << "\n " << Verify(**graph);
    const std::string once = ToText(**graph);
    auto again = Parse(once);
    ASSERT_TRUE(again.ok()) << once << "\n " << again.status();
    EXPECT_EQ(once, ToText(**again));
  }
}

// Rows against the reference, and the reference against the lowering, in both
// floating types.
void TryKernels(const Case& c, const std::string& text, int* rows) {
  auto graph = Parse(text);
  ASSERT_TRUE(graph.ok()) << c.Where() << "\n " << graph.status();
  Node* node = NodeOf(**graph, *c.op);
  if (node == nullptr) return;  // folded away: shape arithmetic
  Interpreter reference(&StandardOperators(), &CpuKernels());
  // Run what prepares the inputs by giving the graph the node's inputs as outputs.
  std::vector<int> wanted;
  for (int i = 0; i < node->num_inputs(); ++i) {
    if (node->input(i) == nullptr) continue;
    (*graph)->AddOutput(absl::StrCat("in", i), node->input(i));
    wanted.push_back(i);
  }
  const std::vector<Tensor> feeds = Feeds(**graph);
  auto results = reference.Run(**graph, Pointers(feeds));
  ASSERT_TRUE(results.ok()) << c.Where() << "\n " << results.status();
  std::vector<const Tensor*> inputs(node->num_inputs(), nullptr);
  const size_t first = (*graph)->outputs().size() - wanted.size();
  for (size_t i = 0; i < wanted.size(); ++i) inputs[wanted[i]] = &(*results)[first + i];
  std::vector<TensorType> types;
  for (int i = 0; i < node->num_outputs(); ++i) {
    types.push_back(node->output(i) == nullptr ? TensorType{} : node->output(i)->type);
  }
  auto expected = reference.Evaluate(*c.op, node->attributes, inputs, types);
  ASSERT_TRUE(expected.ok()) << c.Where() << "\n " << expected.status();
  for (const Kernel& kernel : CpuKernels()) {
    if (kernel.op != c.op->id()) continue;
    for (int threads : {1, 2}) {
      auto made = RunKernel(kernel, node->attributes, inputs, types, threads, 256);
      if (!made.ok() && absl::IsUnimplemented(made.status())) continue;
      ASSERT_TRUE(made.ok()) << c.Where() << "\n " << made.status();
      ++*rows;
      for (size_t i = 0; i < types.size(); ++i) {
        if (types[i].dtype == DataType::kUndefined) continue;
        ExpectNear((*made)[i], (*expected)[i], Tolerance(types[i].dtype),
                   absl::StrCat(kernel.name, " output ", i, " of ", text));
      }
    }
  }
  if (!c.op->lower) return;
  // The lowering: the same graph with the node replaced.
  std::vector<int> slots;
  for (int i = 0; i < node->num_outputs(); ++i) {
    if (node->output(i) == nullptr) continue;
    (*graph)->AddOutput(absl::StrCat("lowered", i), node->output(i));
    slots.push_back(i);
  }
  const absl::Status lowered = LowerNode(graph->get(), &StandardOperators(), node);
  ASSERT_TRUE(lowered.ok()) << c.Where() << "\n " << lowered;
  ASSERT_TRUE(Verify(**graph).ok()) << c.Where() << "\n " << Verify(**graph);
  auto through = reference.Run(**graph, Pointers(feeds));
  ASSERT_TRUE(through.ok()) << c.Where() << "\n " << through.status();
  const size_t start = (*graph)->outputs().size() - slots.size();
  for (size_t i = 0; i < slots.size(); ++i) {
    ExpectNear((*through)[start + i], (*expected)[slots[i]], Tolerance(types[slots[i]].dtype),
               absl::StrCat("lowering, output ", slots[i], " of ", text));
  }
}

TEST(OperatorSuite, EveryKernelEqualsTheReferenceAndTheLowering) {
  int rows = 0;
  for (const Case& c : AllCases()) {
    TryKernels(c, c.text, &rows);
    if (c.InDouble() != c.text) TryKernels(c, c.InDouble(), &rows);
    if (HasFatalFailure()) return;
  }
  std::printf("%d runs of kernel rows compared\n", rows);
}

// The scalar sum(y * dy) for given feeds.
absl::StatusOr<double> Loss(const Graph& graph, const std::vector<Tensor>& feeds,
                            const std::vector<Tensor>& dys) {
  Interpreter reference(&StandardOperators(), &CpuKernels());
  ASSIGN_OR_RETURN(std::vector<Tensor> ys, reference.Run(graph, Pointers(feeds)));
  double loss = 0;
  for (size_t k = 0; k < dys.size(); ++k) {
    if (dys[k].dtype() == DataType::kUndefined) continue;
    for (int64_t i = 0; i < ys[k].elements(); ++i) loss += ys[k].At(i) * dys[k].At(i);
  }
  return loss;
}

void TryGradient(const Case& c, int* checked) {
  auto graph = Parse(c.InDouble());
  ASSERT_TRUE(graph.ok()) << c.Where() << "\n " << graph.status();
  if (NodeOf(**graph, *c.op) == nullptr) return;
  auto forward = (*graph)->Clone();
  std::vector<Tensor> feeds = Feeds(**graph);
  std::vector<Value*> targets;
  std::vector<int> target_inputs;
  for (size_t i = 0; i < (*graph)->inputs().size(); ++i) {
    if ((*graph)->inputs()[i]->dtype() != DataType::kFloat64) continue;
    targets.push_back((*graph)->inputs()[i].get());
    target_inputs.push_back(static_cast<int>(i));
  }
  std::vector<Tensor> dys;
  std::vector<GradientSeed> seeds;
  Builder builder(graph->get(), &StandardOperators());
  const std::vector<Graph::Output> outputs = (*graph)->outputs();
  for (size_t k = 0; k < outputs.size(); ++k) {
    dys.emplace_back();
    if (outputs[k].value->dtype() != DataType::kFloat64) continue;
    dys.back() = Fill(*outputs[k].value, DataType::kFloat64, 1000 + k);
    // Through Identity, so that a seed's own operator may be lowered.
    Expr held = builder.Op("Identity", {builder.Wrap(outputs[k].value)});
    Expr dy = builder.Constant(dys.back().Clone());
    seeds.push_back({held.value(), dy.value()});
  }
  if (targets.empty() || seeds.empty()) return;
  auto gradients = AppendGradients(graph->get(), StandardOperators(), seeds, targets);
  ASSERT_TRUE(gradients.ok()) << c.Where() << "\n " << gradients.status();
  std::vector<int> slot(targets.size(), -1);
  for (size_t t = 0; t < targets.size(); ++t) {
    if ((*gradients)[t] == nullptr) continue;
    slot[t] = static_cast<int>((*graph)->outputs().size());
    (*graph)->AddOutput(absl::StrCat("d", t), (*gradients)[t]);
  }
  ASSERT_TRUE(Verify(**graph).ok()) << c.Where() << "\n " << Verify(**graph);
  Interpreter reference(&StandardOperators(), &CpuKernels());
  auto results = reference.Run(**graph, Pointers(feeds));
  ASSERT_TRUE(results.ok()) << c.Where() << "\n " << results.status();
  const double h = 1e-5;
  for (size_t t = 0; t < targets.size(); ++t) {
    Tensor& x = feeds[target_inputs[t]];
    for (int64_t i = 0; i < x.elements(); ++i) {
      double& xi = x.mutable_values<double>()[i];
      const double keep = xi;
      xi = keep + h;
      auto up = Loss(*forward, feeds, dys);
      xi = keep - h;
      auto down = Loss(*forward, feeds, dys);
      xi = keep;
      ASSERT_TRUE(up.ok() && down.ok()) << c.Where();
      const double numeric = (*up - *down) / (2 * h);
      const double analytic = slot[t] < 0 ? 0 : (*results)[slot[t]].At(i);
      ASSERT_NEAR(analytic, numeric, 2e-6 * std::max(1.0, std::fabs(numeric)))
          << c.Where() << "\n gradient of input " << targets[t]->name << " element " << i;
      ++*checked;
    }
  }
}

TEST(OperatorSuite, GradientsEqualFiniteDifferences) {
  int checked = 0;
  for (const Case& c : AllCases()) {
    // (Quantisation is computed in float32, which is too coarse for differences.)
    if (c.op->random || absl::StrContains(c.op->name, "uantizeLinear")) continue;
    TryGradient(c, &checked);
    if (HasFatalFailure()) return;
  }
  std::printf("%d partial derivatives checked\n", checked);
}

}  // namespace
}  // namespace onward
