// The table of operators has no hole without a reason: every operator of ONNX is known or
// said why not, and every input that is differentiable by the schema, corrected, has a
// gradient that some example of the operator shows.
#include "tools/onward/operator_table.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "backend/runtime/interpreter.h"
#include "graph/ir/builder.h"
#include "graph/onnx/schema.h"
#include "graph/onnx/text.h"
#include "graph/ops/differentiability.h"
#include "graph/ops/operators.h"
#include "graph/passes/autodiff.h"
#include "kernels/kernel.h"

namespace onward {
namespace {

TEST(OperatorTable, EveryOperatorOfOnnxIsKnownOrSaidWhyNot) {
  std::set<std::string> absent;
  for (const AbsentOperator& a : AbsentOperators()) {
    EXPECT_TRUE(OnnxHas("", a.name)) << a.name;
    const bool has_block = StandardOperators().Find("", a.name) != nullptr;
    EXPECT_FALSE(a.runs && has_block) << a.name << " has a block by now";
    EXPECT_NE(std::string(a.reason), "") << a.name;
    EXPECT_TRUE(absent.insert(a.name).second) << a.name << " is there twice";
  }
  int seen = 0;
  for (const OperatorRow& row : MakeOperatorTable()) {
    if (!row.domain.empty()) continue;
    ++seen;
    const Operator* op = StandardOperators().Find("", row.name);
    EXPECT_TRUE(op != nullptr || absent.count(row.name) == 1) << row.name;
    EXPECT_FALSE(row.versions.empty()) << row.name;
    if (row.gradient == OperatorRow::Gradient::kNone) {
      EXPECT_FALSE(row.reason.empty()) << row.name << " has neither a gradient nor a reason";
    }
    // What is not computed as something else has a kernel.
    if (op != nullptr && !row.lowering) {
      EXPECT_FALSE(row.kernels[0].second.empty()) << row.name;
    }
  }
  EXPECT_GE(seen, 200);
}

TEST(OperatorTable, NotesNameInputsAndSayMoreThanTheSchema) {
  for (const InputNote& note : InputNotes()) {
    bool found = false;
    for (const FormalInput& input : OnnxInputs("", note.op)) {
      if (input.name != note.input) continue;
      found = true;
      EXPECT_FALSE(input.tag == FormalInput::Tag::kDifferentiable && note.differentiable)
          << note.op << " " << note.input << ": the schema says so itself";
    }
    EXPECT_TRUE(found) << note.op << " has no input " << note.input;
  }
}

// Of each formal input of an operator, whether one of its examples has a gradient to it.
std::vector<bool> ShownGradients(const Operator& op, size_t formals) {
  std::vector<bool> shown(formals, false);
  Interpreter folding(&StandardOperators(), &CpuKernels());
  for (const std::string& example : op.examples) {
    auto graph = ParseGraph(example, StandardOperators(), &folding);
    EXPECT_TRUE(graph.ok()) << example << "\n" << graph.status();
    if (!graph.ok()) continue;
    Node* node = nullptr;
    for (Node* n : (*graph)->nodes()) node = &n->op() == &op ? n : node;
    if (node == nullptr) continue;
    std::vector<Value*> targets;
    std::vector<size_t> places;
    for (int i = 0; i < node->num_inputs(); ++i) {
      Value* x = node->input(i);
      if (x == nullptr || !IsFloating(x->dtype()) || x->kind == Value::Kind::kConstant) continue;
      targets.push_back(x);
      places.push_back(std::min<size_t>(i, formals - 1));  // the last one may be variadic
    }
    std::vector<GradientSeed> seeds;
    Builder b(graph->get(), &StandardOperators());
    const std::vector<Graph::Output> outputs = (*graph)->outputs();
    for (const Graph::Output& o : outputs) {
      if (!IsFloating(o.value->dtype())) continue;
      Expr held = b.Op("Identity", {b.Wrap(o.value)});
      seeds.push_back({held.value(), b.Zeros(o.value->type).value()});
    }
    if (targets.empty() || seeds.empty()) continue;
    auto gradients = AppendGradients(graph->get(), StandardOperators(), seeds, targets);
    EXPECT_TRUE(gradients.ok()) << example << "\n" << gradients.status();
    if (!gradients.ok()) continue;
    for (size_t t = 0; t < targets.size(); ++t) {
      if ((*gradients)[t] != nullptr) shown[places[t]] = true;
    }
  }
  return shown;
}

TEST(OperatorTable, EveryDifferentiableInputHasAGradient) {
  int inputs = 0;
  for (const OperatorRow& row : MakeOperatorTable()) {
    const Operator* op = StandardOperators().Find("", row.name);
    if (!row.domain.empty() || row.differentiable.empty()) continue;
    if (op == nullptr) {
      EXPECT_FALSE(row.reason.empty()) << row.name;
      continue;
    }
    EXPECT_NE(row.gradient, OperatorRow::Gradient::kNone)
        << row.name << " is differentiable: " << row.reason;
    const std::vector<FormalInput> formals = OnnxInputs("", row.name);
    const std::vector<bool> shown = ShownGradients(*op, formals.size());
    for (size_t i = 0; i < formals.size(); ++i) {
      if (!IsDifferentiable(row.name, formals[i])) continue;
      ++inputs;
      EXPECT_TRUE(shown[i]) << row.name << ": no example has a gradient to " << formals[i].name;
    }
  }
  EXPECT_GE(inputs, 150);
  std::printf("%d inputs\n", inputs);
}

TEST(OperatorTable, TheReadmeCountsThem) {
  const OperatorCounts counts = CountOperators(MakeOperatorTable());
  std::ifstream file("README.md");
  std::string readme((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  // Line breaks are where they are.
  readme = absl::StrReplaceAll(readme, {{"\n", " "}});
  const std::string sentence =
      absl::StrCat(counts.running, " of ONNX's ", counts.onnx, " operators run here, and of the ",
                   counts.differentiable, " that have a differentiable input ",
                   counts.with_gradient, " have gradients");
  EXPECT_TRUE(absl::StrContains(readme, sentence)) << "README.md does not say: " << sentence;
}

}  // namespace
}  // namespace onward
