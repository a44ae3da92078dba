// Every operator of ONNX is computed in every type that its schema allows: the examples,
// with their first input, and all that are of its type, cast to each of the others.
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "backend/runtime/interpreter.h"
#include "graph/base/status_macros.h"
#include "graph/ir/builder.h"
#include "graph/onnx/schema.h"
#include "graph/onnx/text.h"
#include "graph/onnx/type_constraints.h"
#include "graph/ops/operators.h"
#include "kernels/kernel.h"
#include "tests/set_element.h"

namespace onward {
namespace {

// What is left out, and why.
const std::map<std::string, std::string>& LeftOut() {
  static const auto* const list = new std::map<std::string, std::string>{
      {"Col2Im string", "columns overlap in sums, which strings do not have"},
      {"ScatterElements string", "with a reduction, which strings do not have"},
      {"ScatterND string", "with a reduction, which strings do not have"},
  };
  return *list;
}

struct Call {
  Attributes attributes;
  std::vector<Tensor> inputs;  // of undefined type where absent
  int outputs = 0;
};

Tensor Fill(const Value& input, uint64_t seed) {
  Tensor t(input.dtype(), input.dims());
  for (int64_t i = 0; i < t.elements(); ++i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    const auto number = static_cast<int64_t>(seed >> 40);
    SetElement(&t, i, static_cast<double>(number % 1000) / 1000 + 0.05, number % 2);
  }
  return t;
}

// The call of the operator in an example, with the inputs that the example gives it.
absl::StatusOr<Call> CallOf(const Operator& op, const std::string& text, Interpreter* interpreter) {
  ASSIGN_OR_RETURN(std::unique_ptr<Graph> graph,
                   ParseGraph(text, StandardOperators(), interpreter));
  const Node* node = nullptr;
  for (const Node* n : graph->nodes()) {
    if (&n->op() == &op) node = n;
  }
  if (node == nullptr) return absl::NotFoundError("folded away");
  std::vector<int> wanted;
  for (int i = 0; i < node->num_inputs(); ++i) {
    if (node->input(i) == nullptr) continue;
    graph->AddOutput(absl::StrCat("in", i), node->input(i));
    wanted.push_back(i);
  }
  std::vector<Tensor> feeds;
  std::vector<const Tensor*> pointers;
  for (const auto& input : graph->inputs()) feeds.push_back(Fill(*input, feeds.size() + 1));
  for (const Tensor& t : feeds) pointers.push_back(&t);
  ASSIGN_OR_RETURN(std::vector<Tensor> results, interpreter->Run(*graph, pointers));
  Call call;
  call.attributes = node->attributes;
  call.inputs.resize(node->num_inputs());
  call.outputs = node->num_outputs();
  const size_t first = graph->outputs().size() - wanted.size();
  for (size_t i = 0; i < wanted.size(); ++i) {
    call.inputs[wanted[i]] = std::move(results[first + i]);
  }
  return call;
}

absl::StatusOr<Tensor> CastTo(const Tensor& from, DataType to, Interpreter* interpreter) {
  const Operator* cast = StandardOperators().Find("", "Cast");
  const Attributes attributes({{"to", static_cast<int64_t>(to)}});
  const TensorType type{to, from.dims(), {}};
  ASSIGN_OR_RETURN(std::vector<Tensor> made, interpreter->Evaluate(*cast, attributes, {&from},
                                                                   absl::MakeConstSpan(&type, 1)));
  return std::move(made[0]);
}

// NotFound where the schema does not allow the example in this type.
absl::Status Try(const Operator& op, const Call& call, DataType type, Interpreter* interpreter) {
  const TypeVariables variables = OnnxTypeVariables("", op.name);
  const auto variable = [&](size_t i) {
    return variables.inputs[std::min(i, variables.inputs.size() - 1)];
  };
  std::vector<Tensor> made;
  made.reserve(call.inputs.size());
  std::vector<const Tensor*> inputs;
  std::vector<const TensorType*> types;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const Tensor& given = call.inputs[i];
    const bool absent = given.dtype() == DataType::kUndefined;
    if (!absent && variable(i) == variable(0)) {
      ASSIGN_OR_RETURN(Tensor cast, CastTo(given, type, interpreter));
      made.push_back(std::move(cast));
      inputs.push_back(&made.back());
    } else {
      inputs.push_back(absent ? nullptr : &given);
    }
    types.push_back(inputs.back() == nullptr ? nullptr : &inputs.back()->type());
  }
  InferContext infer(op, call.attributes, types, inputs, call.outputs);
  const absl::Status inferred = op.infer(infer);
  if (!inferred.ok()) return absl::NotFoundError(inferred.message());
  return interpreter->Evaluate(op, call.attributes, inputs, infer.outputs()).status();
}

TEST(OperatorTypes, EveryTypeThatTheSchemaAllowsIsComputed) {
  Interpreter interpreter(&StandardOperators(), &CpuKernels());
  int computed = 0, refused = 0;
  std::set<std::string> holes;
  for (const auto& op : StandardOperators().all()) {
    const TypeVariables variables = OnnxTypeVariables(op->domain, op->name);
    if (!op->domain.empty() || op->random || variables.inputs.empty()) continue;
    const std::vector<DataType> allowed = OnnxTypes("", op->name, variables.inputs[0]);
    std::set<DataType> tried;
    for (const std::string& text : op->examples) {
      const absl::StatusOr<Call> call = CallOf(*op, text, &interpreter);
      if (!call.ok() || call->inputs.empty()) continue;
      for (DataType type : allowed) {
        const absl::Status status = Try(*op, *call, type, &interpreter);
        const std::string name = absl::StrCat(op->name, " ", std::string(Name(type)));
        refused += absl::IsNotFound(status);
        if (absl::IsNotFound(status)) continue;
        computed += status.ok();
        tried.insert(type);
        if (!status.ok() && LeftOut().count(name) == 0 &&
            holes.insert(absl::StrCat(name, ": ", std::string(status.message()))).second) {
          ADD_FAILURE() << name << ": " << status << "\n " << text;
        }
      }
    }
  }
  std::printf("%d calls computed, %d not allowed, %zu holes\n", computed, refused, holes.size());
  EXPECT_GT(computed, 3000);
}

}  // namespace
}  // namespace onward
