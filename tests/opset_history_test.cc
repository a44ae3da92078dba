// Every definition that ONNX has given an operator since opset 7: a model that uses it
// means the same after import, or is refused in words.
//
// Where an operator's own examples can be written in the old opset, they are, and must
// come out as they are. Where the old form is another (attributes that became inputs), or
// the same text meant something else, old_forms.cc says what it means in the canonical opset.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <regex>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "backend/runtime/interpreter.h"
#include "graph/base/status_macros.h"
#include "graph/onnx/import.h"
#include "graph/onnx/schema.h"
#include "graph/onnx/text.h"
#include "graph/ops/operators.h"
#include "kernels/kernel.h"
#include "tests/old_forms.h"
#include "tests/set_element.h"

namespace onward {
namespace {

// Below, operators broadcast by attributes: ONNX's converter takes care of those, and the
// models of PyTorch in its backend test suite (backend/python) try them.
constexpr int kOldestTried = 7;

// Below opset 12 a Constant holds a tensor, no bare numbers.
std::string WithTensors(const std::string& graph) {
  static const std::regex ints("value_ints = \\[([^\\]]*)\\]");
  static const std::regex number("value_(int|float) = ([^>,]*)");
  std::string out;
  std::string rest = graph;
  std::smatch found;
  while (std::regex_search(rest, found, ints)) {
    const std::string list = found[1];
    const int64_t count = list.empty() ? 0 : std::count(list.begin(), list.end(), ',') + 1;
    absl::StrAppend(&out, std::string(found.prefix()), "value = int64[", count, "] {", list, "}");
    rest = found.suffix();
  }
  out += rest;
  out = std::regex_replace(out, number, "value = $1 {$2}");
  return absl::StrReplaceAll(out, {{"value = int {", "value = int64 {"}});
}

absl::StatusOr<std::string> ModelOf(const std::string& graph, int opset) {
  return ModelFromText(absl::StrCat("<ir_version: 10, opset_import: [\"\" : ", opset, "]>\n",
                                    opset < 12 ? WithTensors(graph) : graph));
}

Tensor Numbers(const Value& input, uint64_t seed) {
  Tensor t(input.dtype(), input.dims());
  uint64_t state = seed * 2654435761u + 88172645463325252u;
  for (int64_t i = 0; i < t.elements(); ++i) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    const double real = static_cast<double>(state % 1999 + 1) / 1000;  // in (0, 2]
    SetElement(&t, i, real, static_cast<int64_t>(state % 2));
  }
  return t;
}

// The outputs for numbers that depend on nothing but the inputs' places.
absl::StatusOr<std::vector<Tensor>> Run(const Graph& graph, Interpreter* interpreter) {
  std::vector<Tensor> feeds;
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    feeds.push_back(Numbers(*graph.inputs()[i], i + 1));
  }
  std::vector<const Tensor*> pointers;
  for (const Tensor& t : feeds) pointers.push_back(&t);
  return interpreter->Run(graph, pointers);
}

bool IsRandom(const Graph& graph) {
  for (const Node* node : graph.nodes()) {
    if (node->op().random) return true;
  }
  return false;
}

// Empty: both mean the same.
std::string Difference(const Graph& got, const Graph& expected, Interpreter* interpreter) {
  if (got.inputs().size() != expected.inputs().size()) return "another number of inputs";
  if (got.outputs().size() != expected.outputs().size()) return "another number of outputs";
  for (size_t i = 0; i < got.outputs().size(); ++i) {
    const TensorType& a = got.outputs()[i].value->type;
    const TensorType& b = expected.outputs()[i].value->type;
    if (a != b) return absl::StrCat("output is ", ToString(a), ", expected ", ToString(b));
  }
  const auto b = Run(expected, interpreter);
  if (!b.ok() || IsRandom(expected)) {
    const std::string text = ToText(got), wanted = ToText(expected);
    return text == wanted ? "" : absl::StrCat("made\n", text, "\nexpected\n", wanted);
  }
  const auto a = Run(got, interpreter);
  if (!a.ok()) return std::string(a.status().message());
  for (size_t i = 0; i < a->size(); ++i) {
    for (int64_t k = 0; k < (*a)[i].elements(); ++k) {
      const double x = (*a)[i].At(k), y = (*b)[i].At(k);
      if (x == y || (x != x && y != y) || std::abs(x - y) <= 1e-5 * std::abs(y)) continue;
      return absl::StrCat("element ", k, " of output ", i, " is ", x, ", expected ", y);
    }
  }
  return "";
}

class OpsetHistoryTest : public testing::Test {
 protected:
  OpsetHistoryTest() : interpreter_(&StandardOperators(), &CpuKernels()) {}

  absl::StatusOr<std::unique_ptr<Graph>> Imported(const std::string& text, int opset) {
    ASSIGN_OR_RETURN(const std::string bytes, ModelOf(text, opset));
    ASSIGN_OR_RETURN(const std::unique_ptr<OnnxModel> model, OnnxModel::FromBytes(bytes, "m"));
    return Built(*model, text);
  }

  // With the extents in the text: a model file does not fix those that are 0.
  absl::StatusOr<std::unique_ptr<Graph>> Built(const OnnxModel& model, const std::string& text) {
    Binding binding;
    const auto graph = ParseGraph(text, StandardOperators(), &interpreter_);
    if (graph.ok()) {
      for (const auto& input : (*graph)->inputs()) binding.inputs[input->name] = input->dims();
    }
    return model.Build(StandardOperators(), &interpreter_, binding);
  }

  void Compare(const Graph& got, const std::string& means) {
    const auto expected = ParseGraph(means, StandardOperators(), &interpreter_);
    ASSERT_TRUE(expected.ok()) << expected.status();
    EXPECT_EQ(Difference(got, **expected, &interpreter_), "");
  }

  void TryOldForm(const OldForm& form) {
    SCOPED_TRACE(absl::StrCat(form.op, " of opset ", form.opset, ": ", form.text));
    const auto got = Imported(form.text, form.opset);
    absl::string_view words = form.means;
    if (absl::ConsumePrefix(&words, "refused: ")) {
      ASSERT_FALSE(got.ok()) << ToText(**got);
      EXPECT_TRUE(absl::StrContains(got.status().message(), words)) << got.status();
      return;
    }
    ASSERT_TRUE(got.ok()) << got.status();
    Compare(**got, form.means);
  }

  // How many of the operator's examples can be said in `opset` too.
  int TryExamples(const Operator& op, int opset) {
    int taken = 0;
    for (const std::string& example : op.examples) {
      const auto bytes = ModelOf(example, opset);
      if (!bytes.ok()) continue;
      // What ONNX's own checker does not take is not a model of that opset.
      const auto model = OnnxModel::FromBytes(*bytes, "m");
      if (!model.ok() && !absl::StrContains(model.status().message(), "converting opset")) continue;
      SCOPED_TRACE(absl::StrCat(op.id(), " of opset ", opset, ": ", example));
      EXPECT_TRUE(model.ok()) << model.status();
      if (!model.ok()) continue;
      const auto got = Built(**model, example);
      EXPECT_TRUE(got.ok()) << got.status();
      if (!got.ok()) continue;
      Compare(**got, example);
      ++taken;
    }
    return taken;
  }

  Interpreter interpreter_;
};

TEST_F(OpsetHistoryTest, OldFormsMeanWhatTheyMeant) {
  for (const OldForm& form : OldForms()) TryOldForm(form);
}

TEST_F(OpsetHistoryTest, EveryDefinitionIsTried) {
  std::set<std::pair<std::string, int>> stated;
  for (const OldForm& form : OldForms()) stated.emplace(form.op, form.opset);
  int tried = 0;
  for (const auto& op : StandardOperators().all()) {
    if (!op->domain.empty()) continue;
    std::set<int> opsets;
    for (int version : OnnxVersions("", op->name)) opsets.insert(std::max(version, kOldestTried));
    EXPECT_FALSE(opsets.empty()) << op->name;
    for (int opset : opsets) {
      if (stated.count({op->name, opset}) > 0) {
        ++tried;
        continue;
      }
      const int examples = TryExamples(*op, opset);
      EXPECT_GT(examples, 0) << op->name << " of opset " << opset
                             << ": no example can be said in it; old_forms.cc needs its form";
      tried += examples > 0;
    }
  }
  EXPECT_GT(tried, 250);
}

}  // namespace
}  // namespace onward
