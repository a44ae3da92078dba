// Operators of ai.onnx.ml that no others state: LabelEncoder and TreeEnsemble.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <unordered_map>
#include <vector>

#include "graph/base/status_macros.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/reference.h"

namespace onward {
namespace {

// ---- LabelEncoder.

// The list `prefix`_tensor, _strings, _int64s or _floats, whichever is there.
Tensor ListOf(const Attributes& attributes, const std::string& prefix) {
  const Tensor* tensor = attributes.TensorOrNull(prefix + "_tensor");
  if (tensor != nullptr) return tensor->Clone();
  if (attributes.Has(prefix + "_strings")) {
    std::vector<StringRef> texts;
    for (const std::string& text : attributes.Strings(prefix + "_strings")) {
      texts.push_back(StringRef::Of(text));
    }
    return Tensor::Of<StringRef>({static_cast<int64_t>(texts.size())}, texts);
  }
  if (attributes.Has(prefix + "_floats")) {
    const std::vector<double> wide = attributes.Floats(prefix + "_floats");
    const std::vector<float> floats(wide.begin(), wide.end());
    return Tensor::Of<float>({static_cast<int64_t>(floats.size())}, floats);
  }
  const std::vector<int64_t> ints = attributes.Ints(prefix + "_int64s");
  return Tensor::Of<int64_t>({static_cast<int64_t>(ints.size())}, ints);
}

// What keys that are in no list become: one element.
Tensor DefaultOf(const Attributes& attributes, DataType dtype) {
  const Tensor* tensor = attributes.TensorOrNull("default_tensor");
  if (tensor != nullptr && tensor->dtype() == dtype && tensor->elements() == 1) {
    return tensor->Clone();
  }
  if (dtype == DataType::kString) {
    return Tensor::Scalar(StringRef::Of(attributes.String("default_string", "_Unused")));
  }
  if (IsFloating(dtype)) {
    return Tensor::Full(dtype, {}, attributes.Float("default_float", -0.0));
  }
  return Tensor::Full(dtype, {}, static_cast<double>(attributes.Int("default_int64", -1)));
}

// Equal keys have equal codes: not a number is one key, and so are both zeros.
template <typename T>
uint64_t CodeOf(T key) {
  if constexpr (std::is_same_v<T, StringRef>) {
    return key.handle;
  } else if constexpr (std::is_floating_point_v<T>) {
    if (key != key) return ~uint64_t{0};
    const double wide = key == 0 ? 0 : key;
    uint64_t code;
    std::memcpy(&code, &wide, sizeof code);
    return code;
  } else {
    return static_cast<uint64_t>(key);
  }
}

absl::Status LabelEncoder(const KernelCall& call, const KernelMemory& memory, const Execution&) {
  const TensorView &x = memory.inputs[0], &y = memory.outputs[0];
  const Tensor keys = ListOf(*call.attributes, "keys"), values = ListOf(*call.attributes, "values");
  if (keys.dtype() != x.type.dtype || values.dtype() != y.type.dtype ||
      keys.elements() != values.elements()) {
    return absl::InvalidArgumentError(
        absl::StrCat("keys are ", ToString(keys.type()), " and values ", ToString(values.type()),
                     ", expected as many of each, of the types of X and Y"));
  }
  const Tensor otherwise = DefaultOf(*call.attributes, y.type.dtype);
  using Keys = TypeList<StringRef, int64_t, float, int32_t, int16_t, double>;
  return ForType(Keys(), x.type.dtype, [&](auto key) {
    using Key = decltype(key);
    std::unordered_map<uint64_t, int64_t> places;  // a key's last one
    for (int64_t i = 0; i < keys.elements(); ++i) places[CodeOf(keys.values<Key>()[i])] = i;
    const size_t size = SizeOf(y.type.dtype);
    for (int64_t i = 0; i < x.type.elements(); ++i) {
      const auto found = places.find(CodeOf(x.as<Key>()[i]));
      const char* from = found == places.end()
                             ? static_cast<const char*>(otherwise.data())
                             : static_cast<const char*>(values.data()) + found->second * size;
      std::memcpy(y.as<char>() + i * size, from, size);
    }
    return absl::OkStatus();
  });
}

// ---- TreeEnsemble.

enum Mode : int64_t { kLeq, kLess, kGeq, kGreater, kEqual, kNotEqual, kMember };
enum Aggregate : int64_t { kAverage, kSum, kMin, kMax };
enum Transform : int64_t { kPlain, kSoftmax, kLogistic, kSoftmaxZero, kProbit };

struct TreeNode {
  int64_t mode = 0, feature = 0;
  double split = 0;
  std::vector<double> members;  // kMember
  bool missing_is_true = false;
  // [0]: where to go if the comparison is false, [1]: if it is true.
  int64_t next[2] = {0, 0};
  bool leaf[2] = {false, false};
};

struct Leaf {
  int64_t target = 0;
  double weight = 0;
};

struct Trees {
  std::vector<TreeNode> nodes;
  std::vector<Leaf> leaves;
  std::vector<int64_t> roots;
};

// The numbers of an attribute, a list or a tensor.
std::vector<double> NumbersOf(const Attributes& attributes, const std::string& name) {
  std::vector<double> numbers;
  const Tensor* tensor = attributes.TensorOrNull(name);
  if (tensor != nullptr) {
    for (int64_t i = 0; i < tensor->elements(); ++i) numbers.push_back(tensor->At(i));
    return numbers;
  }
  for (int64_t value : IntsOf(attributes, name)) numbers.push_back(static_cast<double>(value));
  return numbers;
}

absl::Status WrongLength(const char* name, size_t found, size_t expected) {
  return absl::InvalidArgumentError(
      absl::StrCat(name, " has ", found, " entries, expected ", expected));
}

absl::Status NotIn(const char* name, int64_t found, int64_t count) {
  return absl::InvalidArgumentError(
      absl::StrCat(name, " holds ", found, ", expected 0 to ", count - 1));
}

// The sets of members lie one behind the other, each with a NaN at its end, in the order of
// the nodes that ask for them.
absl::Status ReadMembers(const Attributes& attributes, std::vector<TreeNode>* nodes) {
  const std::vector<double> values = NumbersOf(attributes, "membership_values");
  size_t at = 0;
  for (TreeNode& node : *nodes) {
    if (node.mode != kMember) continue;
    for (; at < values.size() && !std::isnan(values[at]); ++at) node.members.push_back(values[at]);
    if (at++ >= values.size()) {
      return absl::InvalidArgumentError(
          "membership_values holds fewer sets, with a NaN at the end of each, than there are "
          "nodes of mode 6");
    }
  }
  return absl::OkStatus();
}

bool IsIn(int64_t i, size_t count) { return i >= 0 && i < static_cast<int64_t>(count); }

absl::Status ReadNodes(const Attributes& attributes, int64_t features, Trees* trees) {
  const size_t count = NumbersOf(attributes, "nodes_splits").size();
  trees->nodes.resize(count);
  static constexpr char kOptional[] = "nodes_missing_value_tracks_true";
  using Setter = void (*)(TreeNode&, double);
  static constexpr std::pair<const char*, Setter> kFields[] = {
      {"nodes_splits", [](TreeNode& n, double v) { n.split = v; }},
      {"nodes_modes", [](TreeNode& n, double v) { n.mode = static_cast<int64_t>(v); }},
      {"nodes_featureids", [](TreeNode& n, double v) { n.feature = static_cast<int64_t>(v); }},
      {"nodes_falsenodeids", [](TreeNode& n, double v) { n.next[0] = static_cast<int64_t>(v); }},
      {"nodes_truenodeids", [](TreeNode& n, double v) { n.next[1] = static_cast<int64_t>(v); }},
      {"nodes_falseleafs", [](TreeNode& n, double v) { n.leaf[0] = v != 0; }},
      {"nodes_trueleafs", [](TreeNode& n, double v) { n.leaf[1] = v != 0; }},
      {kOptional, [](TreeNode& n, double v) { n.missing_is_true = v != 0; }},
  };
  for (const auto& [name, set] : kFields) {
    const std::vector<double> values = NumbersOf(attributes, name);
    if (absl::string_view(name) == kOptional && !attributes.Has(name)) continue;
    if (values.size() != count) return WrongLength(name, values.size(), count);
    for (size_t i = 0; i < count; ++i) set(trees->nodes[i], values[i]);
  }
  for (size_t i = 0; i < count; ++i) {
    const TreeNode& n = trees->nodes[i];
    bool fits = IsIn(n.mode, kMember + 1) && n.feature >= 0 && n.feature < features;
    for (int side : {0, 1}) {
      fits = fits && IsIn(n.next[side], n.leaf[side] ? trees->leaves.size() : count);
    }
    if (fits) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("node ", i, " has mode ", n.mode, ", feature ", n.feature, " of ", features,
                     " and goes on to ", n.next[1], " or ", n.next[0],
                     ": there is no such mode, feature, node or leaf"));
  }
  return ReadMembers(attributes, &trees->nodes);
}

absl::StatusOr<Trees> ReadTrees(const Attributes& attributes, int64_t features, int64_t targets) {
  Trees trees;
  const std::vector<double> weights = NumbersOf(attributes, "leaf_weights");
  const absl::Span<const int64_t> ids = IntsOf(attributes, "leaf_targetids");
  if (ids.size() != weights.size()) {
    return WrongLength("leaf_targetids", ids.size(), weights.size());
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= targets) return NotIn("leaf_targetids", ids[i], targets);
    trees.leaves.push_back({ids[i], weights[i]});
  }
  RETURN_IF_ERROR(ReadNodes(attributes, features, &trees));
  for (int64_t root : IntsOf(attributes, "tree_roots")) {
    if (!IsIn(root, trees.nodes.size())) {
      return NotIn("tree_roots", root, static_cast<int64_t>(trees.nodes.size()));
    }
    trees.roots.push_back(root);
  }
  return trees;
}

bool Holds(const TreeNode& node, double x) {
  if (std::isnan(x) && node.missing_is_true) return true;
  switch (node.mode) {
    case kLeq:
      return x <= node.split;
    case kLess:
      return x < node.split;
    case kGeq:
      return x >= node.split;
    case kGreater:
      return x > node.split;
    case kEqual:
      return x == node.split;
    case kNotEqual:
      return x != node.split;
    default:
      return std::find(node.members.begin(), node.members.end(), x) != node.members.end();
  }
}

// Where the features lead. An error where the nodes lead back to one another.
template <typename T>
absl::StatusOr<const Leaf*> Reach(const Trees& trees, int64_t root, const T* features) {
  const TreeNode* node = &trees.nodes[root];
  for (size_t steps = 0; steps < trees.nodes.size(); ++steps) {
    const int side = Holds(*node, features[node->feature]) ? 1 : 0;
    const int64_t next = node->next[side];
    if (node->leaf[side]) return &trees.leaves[next];
    node = &trees.nodes[next];
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the nodes below root ", root, " lead back to one another"));
}

// The p-quantile of the normal distribution, by bisection on its distribution function.
double Probit(double p) {
  if (!(p > 0 && p < 1)) {
    const double infinity = std::numeric_limits<double>::infinity();
    return p == 0 ? -infinity : p == 1 ? infinity : std::numeric_limits<double>::quiet_NaN();
  }
  double low = -40, high = 40;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(-middle / std::sqrt(2.0)) / 2 < p ? low : high) = middle;
  }
  return (low + high) / 2;
}

// Softmax of a row; with `keep_zeros` of the scores other than 0 alone.
void Softmax(bool keep_zeros, std::vector<double>* scores) {
  const auto counts = [&](double v) { return !keep_zeros || v != 0; };
  double most = -std::numeric_limits<double>::infinity(), sum = 0;
  for (double v : *scores) most = counts(v) ? std::max(most, v) : most;
  for (double& v : *scores) {
    if (counts(v)) sum += v = std::exp(v - most);
  }
  for (double& v : *scores) {
    if (v != 0) v /= sum;
  }
}

absl::Status Finish(int64_t transform, std::vector<double>* scores) {
  switch (transform) {
    case kPlain:
      return absl::OkStatus();
    case kSoftmax:
    case kSoftmaxZero:
      Softmax(transform == kSoftmaxZero, scores);
      return absl::OkStatus();
    case kLogistic:
      for (double& v : *scores) v = 1 / (1 + std::exp(-v));
      return absl::OkStatus();
    case kProbit:
      for (double& v : *scores) v = Probit(v);
      return absl::OkStatus();
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("post_transform is ", transform, ", expected 0 to 4"));
  }
}

// The scores of one sample. A target of which no leaf speaks has 0.
template <typename T>
absl::Status Score(const Trees& trees, int64_t aggregate, const T* features,
                   std::vector<double>* scores) {
  std::fill(scores->begin(), scores->end(), 0);
  std::vector<bool> spoken(scores->size(), false);
  for (int64_t root : trees.roots) {
    ASSIGN_OR_RETURN(const Leaf* leaf, Reach(trees, root, features));
    double& score = (*scores)[leaf->target];
    if (!spoken[leaf->target]) {
      score = leaf->weight;
      spoken[leaf->target] = true;
    } else if (aggregate == kMin) {
      score = std::min(score, leaf->weight);
    } else if (aggregate == kMax) {
      score = std::max(score, leaf->weight);
    } else {
      score += leaf->weight;
    }
  }
  if (aggregate == kAverage) {
    for (double& v : *scores) v /= static_cast<double>(std::max<size_t>(trees.roots.size(), 1));
  }
  return absl::OkStatus();
}

absl::Status TreeEnsemble(const KernelCall& call, const KernelMemory& memory, const Execution&) {
  const TensorView &x = memory.inputs[0], &y = memory.outputs[0];
  const int64_t features = x.type.dims[1], targets = y.type.dims[1];
  const int64_t aggregate = call.attributes->Int("aggregate_function", kSum);
  const int64_t transform = call.attributes->Int("post_transform", kPlain);
  if (aggregate < kAverage || aggregate > kMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("aggregate_function is ", aggregate, ", expected 0 to 3"));
  }
  ASSIGN_OR_RETURN(const Trees trees, ReadTrees(*call.attributes, features, targets));
  return ForType(FloatTypes(), x.type.dtype, [&](auto number) -> absl::Status {
    using T = decltype(number);
    std::vector<double> scores(targets);
    for (int64_t n = 0; n < x.type.dims[0]; ++n) {
      RETURN_IF_ERROR(Score(trees, aggregate, x.as<T>() + n * features, &scores));
      RETURN_IF_ERROR(Finish(transform, &scores));
      for (int64_t t = 0; t < targets; ++t) y.as<T>()[n * targets + t] = static_cast<T>(scores[t]);
    }
    return absl::OkStatus();
  });
}

}  // namespace

void AddClassicalReference(KernelTable& table) {
  table.push_back(ReferenceKernel<LabelEncoder>("ai.onnx.ml.LabelEncoder"));
  table.push_back(TypedReference<TreeEnsemble, FloatTypes>("ai.onnx.ml.TreeEnsemble"));
}

}  // namespace onward
