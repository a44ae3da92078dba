#include "graph/plan/legalize.h"

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "graph/passes/simplify.h"

namespace onward {
namespace {

// A kernel's answer to one node, and those to nodes that look the same.
class Answers {
 public:
  Answers(const KernelOracle& kernels, const Device& device, int threads)
      : kernels_(kernels), device_(device), threads_(threads) {}

  bool Accepted(const Node& node) {
    KernelCall call;
    call.op = node.op().id();
    call.attributes = &node.attributes;
    call.threads = threads_;
    call.open_inputs = call.open_outputs = ~uint64_t{0};
    std::string key = absl::StrCat(call.op, "|", ToString(node.attributes));
    bool constants = false;  // whose values a kernel may look at
    for (int i = 0; i < node.num_inputs(); ++i) {
      const Value* v = node.input(i);
      call.inputs.push_back(v == nullptr ? nullptr : &v->type);
      call.constants.push_back(v == nullptr ? nullptr : v->constant.get());
      constants |= call.constants.back() != nullptr;
      absl::StrAppend(&key, "|", v == nullptr ? "" : ToString(v->type));
    }
    for (int i = 0; i < node.num_outputs(); ++i) {
      const Value* v = node.output(i);
      call.outputs.push_back(v == nullptr ? nullptr : &v->type);
      absl::StrAppend(&key, i == 0 ? ">" : "|", v == nullptr ? "" : ToString(v->type));
    }
    const auto known = known_.find(key);
    if (!constants && known != known_.end()) return known->second;
    const bool accepted = !absl::IsUnimplemented(kernels_.Choose(device_, call).status());
    if (!constants) known_[key] = accepted;
    return accepted;
  }

 private:
  const KernelOracle& kernels_;
  Device device_;
  int threads_;
  absl::flat_hash_map<std::string, bool> known_;
};

}  // namespace

absl::StatusOr<bool> Legalize(Graph* graph, const OperatorSet& operators,
                              const KernelOracle& kernels, const Device& device, int threads) {
  Answers answers(kernels, device, threads);
  return LowerNodes(graph, operators, [&](const Node& node) {
    return node.op().lower && !node.op().collective && !answers.Accepted(node);
  });
}

}  // namespace onward
