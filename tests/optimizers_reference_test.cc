// Optimizer updates against PyTorch's and Keras' own numbers
// (tests/reference/optimizers.json), through the reference and the vector kernels.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "backend/runtime/interpreter.h"
#include "graph/ops/operators.h"
#include "graph/passes/optimizer_rules.h"
#include "kernels/kernel.h"
#include "nlohmann/json.hpp"

namespace onward {
namespace {

using nlohmann::json;
using Rule = OptimizerSpec::Rule;

json Reference() {
  std::ifstream file("tests/reference/optimizers.json");
  return json::parse(file);
}

double Number(const json& c, const char* torch, const char* keras, double otherwise) {
  return c.contains(torch) ? c[torch].get<double>() : c.value(keras, otherwise);
}

OptimizerSpec SpecOf(const json& c, FormulaOf formula) {
  const bool keras = formula == FormulaOf::kKeras;
  const std::string name = c["optimizer"];
  OptimizerSpec spec;
  spec.formula = formula;
  spec.rule = name == "SGD"       ? Rule::kSgd
              : name == "RMSprop" ? Rule::kRmsProp
              : name == "Adagrad" ? Rule::kAdagrad
                                  : Rule::kAdam;
  spec.decoupled = name == "AdamW";
  spec.momentum = c.value("momentum", 0.0);
  spec.dampening = c.value("dampening", 0.0);
  spec.nesterov = c.value("nesterov", false);
  if (c.contains("betas")) {
    spec.beta1 = c["betas"][0];
    spec.beta2 = c["betas"][1];
  }
  spec.beta1 = c.value("beta_1", spec.beta1);
  spec.beta2 = c.value("beta_2", spec.beta2);
  spec.amsgrad = c.value("amsgrad", false);
  spec.centered = c.value("centered", false);
  spec.rho = Number(c, "alpha", "rho", keras ? 0.9 : 0.99);
  spec.epsilon = Number(c, "eps", "epsilon",
                        keras                         ? 1e-7
                        : spec.rule == Rule::kAdagrad ? 1e-10
                                                      : 1e-8);
  spec.initial_accumulator = c.value("initial_accumulator_value", keras ? 0.1 : 0.0);
  spec.learning_rate_decay = c.value("lr_decay", 0.0);
  spec.weight_decay = c.value("weight_decay", spec.decoupled ? (keras ? 0.004 : 0.01) : 0.0);
  spec.clip_value = c.value("clipvalue", 0.0);
  return spec;
}

Tensor Numbers(DataType dtype, const std::vector<double>& values) {
  Tensor t(dtype, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) {
    if (dtype == DataType::kFloat64) t.mutable_values<double>()[i] = values[i];
    if (dtype == DataType::kFloat32) t.mutable_values<float>()[i] = static_cast<float>(values[i]);
  }
  return t;
}

// The step as a graph whose states are the parameter and its moments. Gradients
// come as sums: three times the mean, over a denominator of three.
std::unique_ptr<Graph> StepGraph(const OptimizerSpec& spec, DataType dtype, int64_t size) {
  auto graph = std::make_unique<Graph>();
  Builder b(graph.get(), &StandardOperators());
  const TensorType type = {dtype, {size}, {}}, scalar = {DataType::kFloat64, {}, {}};
  UpdateOperands u;
  u.gradient = b.Wrap(graph->AddInput("gradient", type));
  u.learning_rate = b.Wrap(graph->AddInput("rate", scalar));
  u.step = b.Wrap(graph->AddInput("step", {DataType::kInt64, {}, {}}));
  u.denominator = b.Wrap(graph->AddInput("denominator", scalar));
  u.scale = b.Wrap(graph->AddInput("scale", scalar));
  State* parameter = graph->AddState(State::Kind::kParameter, "w", type, nullptr);
  u.parameter = b.Wrap(parameter->current);
  std::vector<State*> moments;
  for (const MomentState& m : MomentsOf(spec)) {
    moments.push_back(
        graph->AddState(State::Kind::kMoment, "w/" + m.suffix, type, nullptr, m.fill));
    u.moments.push_back(b.Wrap(moments.back()->current));
  }
  auto made = AppendUpdate(b, spec, u);
  EXPECT_TRUE(made.ok()) << made.status();
  if (!made.ok()) return nullptr;
  graph->SetNext(parameter, made->parameter.value());
  for (size_t i = 0; i < moments.size(); ++i) graph->SetNext(moments[i], made->moments[i].value());
  return graph;
}

void Follow(const json& all, const json& c, FormulaOf formula, DataType dtype, KernelRows choice) {
  const OptimizerSpec spec = SpecOf(c, formula);
  const auto start = all["start"].get<std::vector<double>>();
  const auto graph = StepGraph(spec, dtype, static_cast<int64_t>(start.size()));
  ASSERT_NE(graph, nullptr);
  std::vector<Tensor> states;
  states.push_back(Numbers(dtype, start));
  for (const MomentState& m : MomentsOf(spec)) {
    states.push_back(Tensor::Full(dtype, {static_cast<int64_t>(start.size())}, m.fill));
  }
  Interpreter interpreter(&StandardOperators(), &CpuKernels(), choice);
  const double most = c.value("clipnorm", 0.0);
  const Tensor rate = Tensor::Scalar(Number(c, "lr", "learning_rate", 0));
  const Tensor three = Tensor::Scalar(3.0);
  const double tolerance = dtype == DataType::kFloat64 ? 1e-12 : 4e-6;
  for (size_t t = 0; t < c["parameters"].size(); ++t) {
    auto gradient = all["gradients"][t].get<std::vector<double>>();
    double norm = 0;
    for (double& g : gradient) {
      norm += g * g;
      g *= 3;
    }
    norm = std::sqrt(norm);
    const Tensor scale = Tensor::Scalar(most > 0 && norm > most ? most / norm : 1.0);
    const Tensor g = Numbers(dtype, gradient);
    const Tensor step = Tensor::Scalar<int64_t>(static_cast<int64_t>(t) + 1);
    std::vector<const Tensor*> current;
    for (const Tensor& s : states) current.push_back(&s);
    const std::vector<const Tensor*> feeds = {&g, &rate, &step, &three, &scale};
    auto next = interpreter.Run(*graph, feeds, current);
    ASSERT_TRUE(next.ok()) << next.status();
    states = std::move(*next);
    const auto expected = c["parameters"][t].get<std::vector<double>>();
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(states[0].At(static_cast<int64_t>(i)), expected[i],
                  tolerance * std::max(1.0, std::fabs(expected[i])))
          << "step " << t + 1 << " element " << i;
    }
  }
}

TEST(Optimizers, EqualTheFrameworks) {
  const json all = Reference();
  int cases = 0;
  for (const FormulaOf formula : {FormulaOf::kPyTorch, FormulaOf::kKeras}) {
    for (const json& c : all[formula == FormulaOf::kKeras ? "keras" : "torch"]) {
      json named = c;
      named.erase("parameters");
      for (const DataType dtype : {DataType::kFloat64, DataType::kFloat32}) {
        for (const KernelRows choice : {KernelRows::kReference, KernelRows::kBest}) {
          SCOPED_TRACE((formula == FormulaOf::kKeras ? "keras " : "torch ") + named.dump() +
                       (dtype == DataType::kFloat64 ? " float64" : " float32") +
                       (choice == KernelRows::kBest ? " vector" : " reference"));
          Follow(all, c, formula, dtype, choice);
          ++cases;
        }
      }
    }
  }
  EXPECT_GE(cases, 39 * 4);
}

}  // namespace
}  // namespace onward
