#include "backend/runtime/interpreter.h"

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "graph/base/status_macros.h"
#include "graph/ir/builder.h"
#include "graph/passes/autodiff.h"

namespace onward {
namespace {

// Memory with a margin on both sides filled with a pattern.
class GuardedBuffer {
 public:
  GuardedBuffer(int64_t bytes, int guard)
      : bytes_(bytes),
        guard_((guard + 63) / 64 * 64),
        memory_(static_cast<char*>(std::aligned_alloc(64, (bytes + 2 * guard_ + 127) / 64 * 64))) {
    std::memset(memory_, kPattern, bytes + 2 * guard_);
  }
  ~GuardedBuffer() { std::free(memory_); }
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;

  void* data() { return memory_ + guard_; }
  bool intact() const {
    for (int i = 0; i < guard_; ++i) {
      if (memory_[i] != kPattern || memory_[guard_ + bytes_ + i] != kPattern) return false;
    }
    return true;
  }

 private:
  static constexpr char kPattern = 0x5a;
  int64_t bytes_;
  int guard_;
  char* memory_;
};

// Unimplemented where an integer is another number in the wider type.
absl::Status CheckKept(const Tensor& from, const Tensor& wide) {
  constexpr double kExact = 9007199254740992.0;  // 2^53
  for (int64_t i = 0; i < from.elements(); ++i) {
    const bool kept = wide.dtype() == DataType::kInt64
                          ? from.dtype() != DataType::kUint64 || wide.IntAt(i) >= 0
                          : wide.dtype() != DataType::kFloat64 || std::fabs(wide.At(i)) < kExact;
    if (!kept) {
      return absl::UnimplementedError(
          absl::StrCat("a kernel for ", std::string(Name(from.dtype())), " over 2^53"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<Tensor>> RunKernel(const Kernel& kernel, const Attributes& attributes,
                                              absl::Span<const Tensor* const> inputs,
                                              absl::Span<const TensorType> outputs, int threads,
                                              int guard) {
  KernelCall call;
  call.op = kernel.op;
  call.attributes = &attributes;
  std::vector<TensorType> in_types(inputs.size());
  std::vector<TensorType> out_types(outputs.begin(), outputs.end());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] != nullptr) in_types[i] = inputs[i]->type();
    call.inputs.push_back(inputs[i] == nullptr ? nullptr : &in_types[i]);
    call.constants.push_back(inputs[i]);
  }
  for (TensorType& t : out_types) {
    call.outputs.push_back(t.dtype == DataType::kUndefined ? nullptr : &t);
  }
  call.threads = threads;
  call.open_inputs = ~uint64_t{0};
  call.open_outputs = ~uint64_t{0};
  RETURN_IF_ERROR(kernel.accepts(call));
  const KernelNeeds needs = kernel.describe == nullptr ? KernelNeeds{} : kernel.describe(call);
  for (size_t i = 0; i < needs.input_layouts.size(); ++i)
    in_types[i].layout = needs.input_layouts[i];
  for (size_t i = 0; i < needs.output_layouts.size(); ++i) {
    out_types[i].layout = needs.output_layouts[i];
  }
  call.open_inputs = call.open_outputs = 0;

  std::vector<std::unique_ptr<GuardedBuffer>> buffers;
  KernelMemory memory;
  for (size_t i = 0; i < inputs.size(); ++i) {
    TensorView view{in_types[i], nullptr};
    if (inputs[i] != nullptr) {
      buffers.push_back(std::make_unique<GuardedBuffer>(in_types[i].bytes(), guard));
      view.data = buffers.back()->data();
      ConvertLayout(inputs[i]->view(), view);
    }
    memory.inputs.push_back(view);
  }
  for (TensorType& t : out_types) {
    TensorView view{t, nullptr};
    if (t.dtype != DataType::kUndefined) {
      buffers.push_back(std::make_unique<GuardedBuffer>(t.bytes(), guard));
      view.data = buffers.back()->data();
    }
    memory.outputs.push_back(view);
  }
  buffers.push_back(std::make_unique<GuardedBuffer>(needs.scratch_bytes, guard));
  memory.scratch = buffers.back()->data();

  Execution execution;
  execution.threads = threads;
  absl::StatusOr<std::unique_ptr<BoundKernel>> prepared = kernel.prepare(call, memory, execution);
  if (absl::IsUnimplemented(prepared.status())) {
    return absl::InternalError(absl::StrCat(kernel.name, " accepted a call of ", kernel.op,
                                            " and then refused: ", prepared.status().message()));
  }
  RETURN_IF_ERROR(prepared.status());
  const std::unique_ptr<BoundKernel> bound = *std::move(prepared);
  RETURN_IF_ERROR(bound->Run());
  for (const auto& buffer : buffers) {
    if (!buffer->intact()) {
      return absl::InternalError(absl::StrCat(kernel.name, " wrote outside of its buffers"));
    }
  }
  std::vector<Tensor> results;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].dtype == DataType::kUndefined) {
      results.emplace_back();
      continue;
    }
    Tensor t(outputs[i].dtype, outputs[i].dims);
    ConvertLayout(memory.outputs[i], t.view());
    results.push_back(std::move(t));
  }
  return results;
}

absl::StatusOr<std::vector<Tensor>> Interpreter::ByKernels(const Operator& op,
                                                           const Attributes& attributes,
                                                           absl::Span<const Tensor* const> inputs,
                                                           absl::Span<const TensorType> outputs) {
  absl::Status reason = absl::UnimplementedError(absl::StrCat("no kernel for ", op.id()));
  for (const Kernel& kernel : *kernels_) {
    if (kernel.op != op.id()) continue;
    if (choice_ == KernelRows::kReference && !kernel.reference) continue;
    absl::StatusOr<std::vector<Tensor>> results = RunKernel(kernel, attributes, inputs, outputs, 1);
    if (results.ok() || !absl::IsUnimplemented(results.status())) return results;
    reason = results.status();
  }
  return reason;
}

absl::StatusOr<std::vector<Tensor>> Interpreter::Evaluate(const Operator& op,
                                                          const Attributes& attributes,
                                                          absl::Span<const Tensor* const> inputs,
                                                          absl::Span<const TensorType> outputs) {
  absl::StatusOr<std::vector<Tensor>> results = ByKernels(op, attributes, inputs, outputs);
  const auto settled = [&] { return results.ok() || !absl::IsUnimplemented(results.status()); };
  if (settled()) return results;
  const absl::Status reason = results.status();
  std::vector<DataType> in, out;
  for (const Tensor* t : inputs) in.push_back(t == nullptr ? DataType::kUndefined : t->dtype());
  for (const TensorType& t : outputs) out.push_back(t.dtype);
  const Widening halves = WidenHalves(op, attributes, in, out);
  if (!halves.inputs.empty() || !halves.outputs.empty()) {
    return Widened(halves, op, attributes, inputs, outputs);
  }
  // (Of integers of less than a byte, lowerings know nothing.)
  const bool tiny = !in.empty() && IsSmallInteger(in[0]);
  if (op.lower && !tiny) return ThroughLowering(op, attributes, inputs, outputs);
  for (DataType wide : {DataType::kInt64, DataType::kFloat64}) {
    const Widening widening = WidenIntegers(op, attributes, wide, in, out);
    if (widening.inputs.empty()) continue;
    results = Widened(widening, op, attributes, inputs, outputs);
    if (settled()) return results;
  }
  if (op.lower) return ThroughLowering(op, attributes, inputs, outputs);
  return reason;
}

absl::StatusOr<Tensor> Interpreter::Converted(const Tensor& from, DataType to) {
  const Attributes attributes({{"to", static_cast<int64_t>(to)}});
  const Operator* cast = operators_->Find("", "Cast");
  ONWARD_CHECK(cast != nullptr);
  const TensorType type{to, from.dims(), {}};
  ASSIGN_OR_RETURN(std::vector<Tensor> results,
                   ByKernels(*cast, attributes, {&from}, absl::MakeConstSpan(&type, 1)));
  return std::move(results[0]);
}

absl::StatusOr<std::vector<Tensor>> Interpreter::Widened(const Widening& widening,
                                                         const Operator& op,
                                                         const Attributes& attributes,
                                                         absl::Span<const Tensor* const> inputs,
                                                         absl::Span<const TensorType> outputs) {
  std::vector<std::unique_ptr<Tensor>> wide;
  std::vector<const Tensor*> wide_inputs(inputs.begin(), inputs.end());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (widening.inputs[i] == DataType::kUndefined || inputs[i] == nullptr) continue;
    ASSIGN_OR_RETURN(Tensor converted, Converted(*inputs[i], widening.inputs[i]));
    RETURN_IF_ERROR(CheckKept(*inputs[i], converted));
    wide.push_back(std::make_unique<Tensor>(std::move(converted)));
    wide_inputs[i] = wide.back().get();
  }
  std::vector<TensorType> wide_outputs(outputs.begin(), outputs.end());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (widening.outputs[i] != DataType::kUndefined) wide_outputs[i].dtype = widening.outputs[i];
  }
  ASSIGN_OR_RETURN(std::vector<Tensor> results,
                   Evaluate(op, attributes, wide_inputs, wide_outputs));
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].dtype == DataType::kUndefined || results[i].dtype() == outputs[i].dtype) {
      continue;
    }
    ASSIGN_OR_RETURN(results[i], Converted(results[i], outputs[i].dtype));
  }
  return results;
}

absl::StatusOr<std::vector<Tensor>> Interpreter::ThroughLowering(
    const Operator& op, const Attributes& attributes, absl::Span<const Tensor* const> inputs,
    absl::Span<const TensorType> outputs) {
  Graph graph;
  std::vector<Value*> values;
  for (const Tensor* t : inputs) {
    // As a constant: what a lowering may look at is known here.
    values.push_back(t == nullptr ? nullptr
                                  : graph.AddConstant(std::make_shared<const Tensor>(t->Clone())));
  }
  Node* node = graph.AddNode(nullptr, &op, values, outputs, {}, attributes);
  for (int i = 0; i < node->num_outputs(); ++i) {
    if (node->output(i) != nullptr) graph.AddOutput(absl::StrCat(i), node->output(i));
  }
  RETURN_IF_ERROR(LowerNode(&graph, operators_, node));
  ASSIGN_OR_RETURN(std::vector<Tensor> results, Run(graph, {}));
  std::vector<Tensor> out(outputs.size());
  size_t next = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].dtype != DataType::kUndefined) out[i] = std::move(results[next++]);
  }
  return out;
}

absl::StatusOr<std::vector<Value*>> Interpreter::Differentiate(Graph* graph,
                                                               const OperatorSet& operators,
                                                               Value* y,
                                                               absl::Span<Value* const> xs) {
  Builder b(graph, &operators);
  // Held, so that y's own operator may be lowered.
  const Expr held = b.Op("Identity", {b.Wrap(y)});
  const Expr dy = b.Expand(b.Scalar(y->dtype(), 1), y->dims());
  RETURN_IF_ERROR(b.status());
  const GradientSeed seed = {held.value(), dy.value()};
  return AppendGradients(graph, operators, absl::MakeConstSpan(&seed, 1), xs);
}

absl::StatusOr<std::vector<Tensor>> Interpreter::Run(const Graph& graph,
                                                     absl::Span<const Tensor* const> feeds,
                                                     absl::Span<const Tensor* const> states) {
  absl::flat_hash_map<const Value*, const Tensor*> known;
  std::vector<std::unique_ptr<Tensor>> owned;
  for (size_t i = 0; i < graph.inputs().size(); ++i) known[graph.inputs()[i].get()] = feeds[i];
  for (const auto& c : graph.constants()) known[c.get()] = c->constant.get();
  for (size_t i = 0; i < graph.states().size(); ++i) {
    known[graph.states()[i]->current] = states[i];
  }
  for (const Node* node : graph.nodes()) {
    std::vector<const Tensor*> inputs;
    for (int i = 0; i < node->num_inputs(); ++i) {
      inputs.push_back(node->input(i) == nullptr ? nullptr : known.at(node->input(i)));
    }
    std::vector<TensorType> types;
    for (int i = 0; i < node->num_outputs(); ++i) {
      types.push_back(node->output(i) == nullptr ? TensorType{} : node->output(i)->type);
    }
    absl::StatusOr<std::vector<Tensor>> results =
        Evaluate(node->op(), node->attributes, inputs, types);
    if (!results.ok()) return Annotate(results.status(), Describe(*node));
    for (int i = 0; i < node->num_outputs(); ++i) {
      if (node->output(i) == nullptr) continue;
      owned.push_back(std::make_unique<Tensor>(std::move((*results)[i])));
      known[node->output(i)] = owned.back().get();
    }
  }
  std::vector<Tensor> out;
  for (const Graph::Output& o : graph.outputs()) out.push_back(known.at(o.value)->Clone());
  for (const auto& s : graph.states()) {
    out.push_back(known.at(s->next == nullptr ? s->current : s->next)->Clone());
  }
  return out;
}

}  // namespace onward
