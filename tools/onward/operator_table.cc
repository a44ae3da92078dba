#include "tools/onward/operator_table.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "graph/onnx/schema.h"
#include "graph/ops/differentiability.h"
#include "graph/ops/operators.h"
#include "kernels/kernel.h"

namespace onward {
namespace {

using KernelNames = absl::flat_hash_map<std::string, std::vector<std::string>>;

void AddInputs(OperatorRow* row) {
  for (const FormalInput& input : OnnxInputs(row->domain, row->name)) {
    if (IsDifferentiable(row->name, input)) row->differentiable.push_back(input.name);
    const InputNote* note = FindInputNote(row->name, input.name);
    if (note != nullptr) row->notes.emplace_back(input.name, note->reason);
  }
}

OperatorRow RowOf(const Operator& op, const KernelNames& cpu) {
  OperatorRow row;
  row.domain = op.domain;
  row.name = op.name;
  const auto it = cpu.find(op.id());
  row.kernels.emplace_back("cpu", it == cpu.end() ? std::vector<std::string>{} : it->second);
  row.lowering = op.lower != nullptr;
  row.gradient = op.gradients == Operator::Gradients::kRule   ? OperatorRow::Gradient::kRule
                 : op.gradients == Operator::Gradients::kNone ? OperatorRow::Gradient::kNone
                                                              : OperatorRow::Gradient::kLowering;
  row.reason = op.why_not_differentiable;
  return row;
}

OperatorRow AbsentRow(const std::string& name) {
  OperatorRow row;
  row.name = name;
  row.runs = false;
  for (const AbsentOperator& absent : AbsentOperators()) {
    if (name != absent.name) continue;
    row.runs = absent.runs;
    row.reason = absent.reason;
    if (absent.runs) row.gradient = OperatorRow::Gradient::kLowering;
  }
  return row;
}

}  // namespace

std::vector<OperatorRow> MakeOperatorTable() {
  KernelNames cpu;
  for (const Kernel& kernel : CpuKernels()) cpu[kernel.op].push_back(kernel.name);
  std::vector<OperatorRow> table;
  for (const std::string& name : OnnxOperators("")) {
    const Operator* op = StandardOperators().Find("", name);
    table.push_back(op == nullptr ? AbsentRow(name) : RowOf(*op, cpu));
    table.back().versions = OnnxVersions("", name);
    AddInputs(&table.back());
  }
  const size_t onnx = table.size();
  for (const auto& op : StandardOperators().all()) {
    if (op->domain.empty()) continue;
    table.push_back(RowOf(*op, cpu));
    if (OnnxHas(op->domain, op->name)) table.back().versions = OnnxVersions(op->domain, op->name);
  }
  std::sort(table.begin() + static_cast<int64_t>(onnx), table.end(),
            [](const OperatorRow& a, const OperatorRow& b) {
              return std::tie(a.domain, a.name) < std::tie(b.domain, b.name);
            });
  return table;
}

OperatorCounts CountOperators(const std::vector<OperatorRow>& table) {
  OperatorCounts counts;
  for (const OperatorRow& row : table) {
    if (!row.domain.empty()) continue;
    ++counts.onnx;
    if (row.runs) ++counts.running;
    if (row.differentiable.empty()) continue;
    ++counts.differentiable;
    if (row.gradient != OperatorRow::Gradient::kNone) ++counts.with_gradient;
  }
  return counts;
}

const char* Name(OperatorRow::Gradient gradient) {
  switch (gradient) {
    case OperatorRow::Gradient::kRule:
      return "rule";
    case OperatorRow::Gradient::kLowering:
      return "lowering";
    case OperatorRow::Gradient::kNone:
      break;
  }
  return "none";
}

}  // namespace onward
