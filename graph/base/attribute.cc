#include "graph/base/attribute.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace onward {
namespace {

bool SameValue(const AttributeValue& a, const AttributeValue& b) {
  if (a.index() != b.index()) return false;
  const auto* ta = std::get_if<std::shared_ptr<const Tensor>>(&a);
  if (ta == nullptr) return a == b;
  const auto& tb = std::get<std::shared_ptr<const Tensor>>(b);
  return (*ta)->type() == tb->type() && std::memcmp((*ta)->data(), tb->data(), tb->bytes()) == 0;
}

template <typename T>
T Get(const Attributes& attributes, absl::string_view name, T otherwise) {
  const AttributeValue* value = attributes.Find(name);
  if (value == nullptr) return otherwise;
  const T* typed = std::get_if<T>(value);
  return typed == nullptr ? otherwise : *typed;
}

}  // namespace

const AttributeValue* Attributes::Find(absl::string_view name) const {
  for (const auto& [key, value] : list_) {
    if (key == name) return &value;
  }
  return nullptr;
}

void Attributes::Set(absl::string_view name, AttributeValue value) {
  for (auto& [key, old] : list_) {
    if (key == name) {
      old = std::move(value);
      return;
    }
  }
  list_.emplace_back(std::string(name), std::move(value));
}

void Attributes::Remove(absl::string_view name) {
  for (size_t i = 0; i < list_.size(); ++i) {
    if (list_[i].first == name) {
      list_.erase(list_.begin() + i);
      return;
    }
  }
}

int64_t Attributes::Int(absl::string_view name, int64_t otherwise) const {
  return Get<int64_t>(*this, name, otherwise);
}
double Attributes::Float(absl::string_view name, double otherwise) const {
  return Get<double>(*this, name, otherwise);
}
std::string Attributes::String(absl::string_view name, absl::string_view otherwise) const {
  return Get<std::string>(*this, name, std::string(otherwise));
}
std::vector<int64_t> Attributes::Ints(absl::string_view name,
                                      std::vector<int64_t> otherwise) const {
  return Get<std::vector<int64_t>>(*this, name, std::move(otherwise));
}
std::vector<double> Attributes::Floats(absl::string_view name,
                                       std::vector<double> otherwise) const {
  return Get<std::vector<double>>(*this, name, std::move(otherwise));
}
std::vector<std::string> Attributes::Strings(absl::string_view name) const {
  return Get<std::vector<std::string>>(*this, name, {});
}
const Tensor* Attributes::TensorOrNull(absl::string_view name) const {
  return Get<std::shared_ptr<const Tensor>>(*this, name, nullptr).get();
}

bool SameAttributes(const Attributes& a, const Attributes& b) {
  if (a.list().size() != b.list().size()) return false;
  for (const auto& [key, value] : a.list()) {
    const AttributeValue* other = b.Find(key);
    if (other == nullptr || !SameValue(value, *other)) return false;
  }
  return true;
}

std::string ToString(const Attributes& attributes) {
  std::string out;
  for (const auto& [key, value] : attributes.list()) {
    if (!out.empty()) out += ", ";
    absl::StrAppend(&out, key, "=");
    std::visit(
        [&](const auto& v) {
          using T = std::decay_t<decltype(v)>;
          if constexpr (std::is_same_v<T, std::shared_ptr<const Tensor>>) {
            absl::StrAppend(&out, ToString(v->type()));
          } else if constexpr (std::is_same_v<T, std::string>) {
            absl::StrAppend(&out, "\"", v, "\"");
          } else if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, double>) {
            absl::StrAppend(&out, v);
          } else {
            absl::StrAppend(&out, "[", absl::StrJoin(v, ","), "]");
          }
        },
        value);
  }
  return out;
}

}  // namespace onward
