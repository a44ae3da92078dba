#include "graph/ir/verifier.h"

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "graph/base/status_macros.h"
#include "graph/ir/builder.h"

namespace onward {
namespace {

absl::Status Broken(absl::string_view what) {
  return absl::InternalError(absl::StrCat("graph is broken: ", what));
}

// Does `value` list exactly one use for this place?
bool ListsUse(const Value& value, Use::Kind kind, const Node* node, int index) {
  int found = 0;
  for (const Use& use : value.uses()) {
    found += use.kind == kind && use.node == node && use.index == index;
  }
  return found == 1;
}

absl::Status CheckTypes(const Node& node) {
  std::vector<const TensorType*> types;
  std::vector<const Tensor*> constants;
  for (int i = 0; i < node.num_inputs(); ++i) {
    const Value* v = node.input(i);
    types.push_back(v == nullptr ? nullptr : &v->type);
    constants.push_back(v == nullptr ? nullptr : v->constant.get());
  }
  InferContext context(node.op(), node.attributes, types, constants, node.num_outputs());
  RETURN_IF_ERROR(Annotate(node.op().infer(context), Describe(node)));
  for (int i = 0; i < node.num_outputs(); ++i) {
    const Value* v = node.output(i);
    if (v == nullptr) continue;
    if (context.outputs()[i] != v->type) {
      return Broken(absl::StrCat(Describe(node), ": output ", i, " is ", ToString(v->type),
                                 " but is inferred as ", ToString(context.outputs()[i])));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Verify(const Graph& graph) {
  absl::flat_hash_set<const Value*> known;
  absl::flat_hash_set<std::string> names;
  size_t uses = 0;
  size_t listed = 0;
  const auto define = [&](const Value* value) {
    known.insert(value);
    listed += value->uses().size();
    return names.insert(value->name).second;
  };
  for (const auto& v : graph.inputs()) {
    if (!define(v.get())) return Broken(absl::StrCat("two values are called ", v->name));
  }
  for (const auto& v : graph.constants()) {
    if (!define(v.get())) return Broken(absl::StrCat("two values are called ", v->name));
    if (v->constant == nullptr) return Broken(absl::StrCat("constant ", v->name, " has no tensor"));
  }
  for (const auto& s : graph.states()) {
    if (!define(s->current)) return Broken(absl::StrCat("two values are called ", s->name));
  }
  for (const Node* node : graph.nodes()) {
    for (int i = 0; i < node->num_inputs(); ++i) {
      const Value* v = node->input(i);
      if (v == nullptr) continue;
      ++uses;
      if (!known.contains(v)) {
        return Broken(absl::StrCat(Describe(*node), " reads ", v->name, " before it is made"));
      }
      // Checking each list in full would be quadratic for a value with many
      // uses; the sum of all lists is compared at the end instead.
      if (v->uses().size() < 16 && !ListsUse(*v, Use::Kind::kNode, node, i)) {
        return Broken(
            absl::StrCat("value ", v->name, " does not list its use by ", Describe(*node)));
      }
    }
    RETURN_IF_ERROR(CheckTypes(*node));
    for (int i = 0; i < node->num_outputs(); ++i) {
      const Value* v = node->output(i);
      if (v != nullptr && !define(v))
        return Broken(absl::StrCat("two values are called ", v->name));
    }
  }
  for (size_t i = 0; i < graph.states().size(); ++i) {
    const State& s = *graph.states()[i];
    if (s.next == nullptr) continue;
    ++uses;
    if (!known.contains(s.next) || s.next->type != s.current->type) {
      return Broken(absl::StrCat("state ", s.name, " has a next that does not fit"));
    }
  }
  for (const Graph::Output& output : graph.outputs()) {
    ++uses;
    if (!known.contains(output.value)) {
      return Broken(absl::StrCat("output ", output.name, " is not made"));
    }
  }
  if (uses != listed) return Broken("use lists hold uses that are not there");
  return absl::OkStatus();
}

}  // namespace onward
