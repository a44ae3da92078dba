#include "graph/passes/widen.h"

#include <vector>

#include "graph/base/status_macros.h"
#include "graph/ir/builder.h"
#include "graph/ops/widening.h"

namespace onward {
namespace {

// Types of which every kernel that takes its operator's takes some.
bool IsUsual(DataType type) {
  return type == DataType::kUndefined || type == DataType::kFloat32 || type == DataType::kFloat64 ||
         type == DataType::kInt64 || type == DataType::kInt32 || type == DataType::kBool;
}

struct Types {
  std::vector<DataType> inputs, outputs;
};

Types TypesOf(const Node& node) {
  Types types;
  for (int i = 0; i < node.num_inputs(); ++i) {
    types.inputs.push_back(node.input(i) == nullptr ? DataType::kUndefined
                                                    : node.input(i)->dtype());
  }
  for (int i = 0; i < node.num_outputs(); ++i) {
    types.outputs.push_back(node.output(i) == nullptr ? DataType::kUndefined
                                                      : node.output(i)->dtype());
  }
  return types;
}

// Asks for the node as it is, or widened.
bool Computable(const Node& node, const Widening& widening, const HasKernel& has_kernel) {
  KernelCall call;
  call.op = node.op().id();
  call.attributes = &node.attributes;
  call.open_inputs = call.open_outputs = ~uint64_t{0};
  std::vector<TensorType> in(node.num_inputs()), out(node.num_outputs());
  for (int i = 0; i < node.num_inputs(); ++i) {
    const Value* x = node.input(i);
    const bool wide = !widening.inputs.empty() && widening.inputs[i] != DataType::kUndefined;
    if (x != nullptr) in[i] = x->type;
    if (x != nullptr && wide) in[i].dtype = widening.inputs[i];
    call.inputs.push_back(x == nullptr ? nullptr : &in[i]);
    call.constants.push_back(x == nullptr || wide ? nullptr : x->constant.get());
  }
  for (int i = 0; i < node.num_outputs(); ++i) {
    const Value* y = node.output(i);
    const bool wide = !widening.outputs.empty() && widening.outputs[i] != DataType::kUndefined;
    if (y != nullptr) out[i] = y->type;
    if (y != nullptr && wide) out[i].dtype = widening.outputs[i];
    call.outputs.push_back(y == nullptr ? nullptr : &out[i]);
  }
  return has_kernel(call);
}

absl::Status Replace(Graph* graph, const OperatorSet& operators, Node* node,
                     const Widening& widening) {
  Builder b(graph, &operators);
  b.InsertBefore(node);
  b.SetPhase(node->phase);
  b.SetSource(node->name.empty() ? node->source : node->name);
  std::vector<Value*> inputs;
  for (int i = 0; i < node->num_inputs(); ++i) {
    Value* x = node->input(i);
    const bool wide = x != nullptr && widening.inputs[i] != DataType::kUndefined;
    inputs.push_back(wide ? b.Cast(b.Wrap(x), widening.inputs[i]).value() : x);
  }
  ASSIGN_OR_RETURN(Node * made,
                   b.AddNode(&node->op(), inputs, node->attributes, node->num_outputs()));
  made->name = node->name;
  made->source = node->source;
  made->ordinal = node->ordinal;
  made->device = node->device;
  for (int i = 0; i < node->num_outputs(); ++i) {
    Value* y = node->output(i);
    if (y == nullptr) continue;
    Expr back = b.Cast(b.Wrap(made->output(i)), y->dtype());
    RETURN_IF_ERROR(b.status());
    graph->ReplaceUses(y, back.value());
  }
  graph->Remove(node);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<bool> Widen(Graph* graph, const OperatorSet& operators,
                           const HasKernel& has_kernel) {
  bool changed = false;
  for (Node* node = graph->first(); node != nullptr;) {
    Node* const next = node->next();
    const Types types = TypesOf(*node);
    bool usual = true;
    for (DataType type : types.inputs) usual &= IsUsual(type);
    for (DataType type : types.outputs) usual &= IsUsual(type);
    if (!usual && !Computable(*node, {}, has_kernel)) {
      const Widening choices[] = {
          WidenHalves(node->op(), node->attributes, types.inputs, types.outputs),
          WidenIntegers(node->op(), node->attributes, DataType::kInt64, types.inputs,
                        types.outputs)};
      for (const Widening& widening : choices) {
        if (widening.inputs.empty()) continue;
        RETURN_IF_ERROR(Replace(graph, operators, node, widening));
        changed = true;
        break;
      }
    }
    node = next;
  }
  return changed;
}

}  // namespace onward
