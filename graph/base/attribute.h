// Attributes of nodes: small constants fixed when the graph is built.
#ifndef ONWARD_GRAPH_BASE_ATTRIBUTE_H_
#define ONWARD_GRAPH_BASE_ATTRIBUTE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "graph/base/tensor.h"

namespace onward {

// One attribute's value. Floats are kept as doubles (ONNX writes them as
// float32). A tensor is immutable once in an attribute, so copies of the
// attribute share it.
using AttributeValue =
    std::variant<int64_t, double, std::string, std::vector<int64_t>, std::vector<double>,
                 std::vector<std::string>, std::shared_ptr<const Tensor>>;

// The attributes of one node, in the order in which they were set. Readers name
// the default, which is the ONNX schema's: an attribute that is not there means
// its default. A reader that asks for another type than the stored one gets the
// default too; the importer has checked types against the schema.
class Attributes {
 public:
  Attributes() = default;
  Attributes(std::initializer_list<std::pair<std::string, AttributeValue>> list) : list_(list) {}

  bool Has(absl::string_view name) const { return Find(name) != nullptr; }
  const AttributeValue* Find(absl::string_view name) const;
  // Replaces or appends.
  void Set(absl::string_view name, AttributeValue value);
  void Remove(absl::string_view name);

  int64_t Int(absl::string_view name, int64_t otherwise) const;
  double Float(absl::string_view name, double otherwise) const;
  std::string String(absl::string_view name, absl::string_view otherwise) const;
  std::vector<int64_t> Ints(absl::string_view name, std::vector<int64_t> otherwise = {}) const;
  std::vector<double> Floats(absl::string_view name, std::vector<double> otherwise = {}) const;
  std::vector<std::string> Strings(absl::string_view name) const;
  const Tensor* TensorOrNull(absl::string_view name) const;

  const std::vector<std::pair<std::string, AttributeValue>>& list() const { return list_; }
  bool empty() const { return list_.empty(); }

 private:
  std::vector<std::pair<std::string, AttributeValue>> list_;
};

// Structural equality, tensors by content; the order does not matter.
bool SameAttributes(const Attributes& a, const Attributes& b);

// "axis=1, alpha=0.5"; tensors by type only.
std::string ToString(const Attributes& attributes);

}  // namespace onward

#endif  // ONWARD_GRAPH_BASE_ATTRIBUTE_H_
