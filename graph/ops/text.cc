// Operators on strings. What StringNormalizer and StringSplit give has extents that the
// text decides: where the text is known, the whole result is a constant.
#include <clocale>
#include <cwctype>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "graph/base/status_macros.h"
#include "graph/ir/builder.h"
#include "graph/ir/graph.h"
#include "graph/ops/checked.h"
#include "graph/ops/operators.h"
#include "graph/ops/rules.h"

namespace onward {
namespace {

constexpr char kStrings[] = "its result is made of strings";

// ---- Upper and lower case of UTF-8.

enum class Case { kNone, kLower, kUpper };

// The code point at `*at`, which moves behind it. Bytes that are no UTF-8 stand for
// themselves, above all code points.
uint32_t TakeCodePoint(const std::string& text, size_t* at) {
  constexpr uint32_t kByte = 0x110000;
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(*at);
  const int more = first < 0x80       ? 0
                   : first >> 5 == 6  ? 1
                   : first >> 4 == 14 ? 2
                   : first >> 3 == 30 ? 3
                                      : -1;
  bool valid = more >= 0 && *at + more < text.size();
  uint32_t point = more <= 0 ? first : first & (0x3fu >> more);
  for (int i = 1; valid && i <= more; ++i) {
    valid = byte(*at + i) >> 6 == 2;
    point = point << 6 | (byte(*at + i) & 0x3fu);
  }
  *at += valid ? more + 1 : 1;
  return valid ? point : kByte + first;
}

void AppendCodePoint(uint32_t point, std::string* text) {
  const auto put = [&](uint32_t byte) { text->push_back(static_cast<char>(byte)); };
  if (point >= 0x110000) {
    put(point - 0x110000);
  } else if (point < 0x80) {
    put(point);
  } else if (point < 0x800) {
    put(0xc0 | point >> 6);
    put(0x80 | (point & 0x3f));
  } else if (point < 0x10000) {
    put(0xe0 | point >> 12);
    put(0x80 | (point >> 6 & 0x3f));
    put(0x80 | (point & 0x3f));
  } else {
    put(0xf0 | point >> 18);
    put(0x80 | (point >> 12 & 0x3f));
    put(0x80 | (point >> 6 & 0x3f));
    put(0x80 | (point & 0x3f));
  }
}

// The rules of the locale where the system has it, else those that need none.
class Casing {
 public:
  explicit Casing(const std::string& locale) {
    for (const std::string& name :
         {locale, absl::StrCat(locale, ".UTF-8"), std::string("C.UTF-8")}) {
      if (locale_ == nullptr && !name.empty()) {
        locale_ = newlocale(LC_CTYPE_MASK, name.c_str(), nullptr);
      }
    }
  }
  ~Casing() {
    if (locale_ != nullptr) freelocale(locale_);
  }
  Casing(const Casing&) = delete;
  Casing& operator=(const Casing&) = delete;

  std::string Of(const std::string& text, Case to) const {
    if (to == Case::kNone) return text;
    std::string out;
    for (size_t at = 0; at < text.size();) {
      uint32_t point = TakeCodePoint(text, &at);
      if (point < 0x110000) point = to == Case::kLower ? Lower(point) : Upper(point);
      AppendCodePoint(point, &out);
    }
    return out;
  }

 private:
  uint32_t Lower(uint32_t point) const {
    if (locale_ == nullptr)
      return point < 0x80 ? static_cast<uint32_t>(std::tolower(static_cast<int>(point))) : point;
    return towlower_l(static_cast<wint_t>(point), locale_);
  }
  uint32_t Upper(uint32_t point) const {
    if (locale_ == nullptr)
      return point < 0x80 ? static_cast<uint32_t>(std::toupper(static_cast<int>(point))) : point;
    return towupper_l(static_cast<wint_t>(point), locale_);
  }
  locale_t locale_ = nullptr;
};

// ---- StringNormalizer: without the stop words, in another case. One empty string where
// nothing is left.

Tensor Normalized(const Attributes& attributes, const Tensor& x) {
  const std::string action = attributes.String("case_change_action", "NONE");
  const Case to = action == "LOWER" ? Case::kLower : action == "UPPER" ? Case::kUpper : Case::kNone;
  const bool sensitive = attributes.Int("is_case_sensitive", 0) != 0;
  const Casing casing(attributes.String("locale", ""));
  const Case compared = sensitive ? Case::kNone : Case::kLower;
  std::set<std::string> stops;
  for (const std::string& word : attributes.Strings("stopwords")) {
    stops.insert(casing.Of(word, compared));
  }
  std::vector<StringRef> kept;
  for (StringRef word : x.values<StringRef>()) {
    if (stops.count(casing.Of(word.text(), compared)) > 0) continue;
    kept.push_back(StringRef::Of(casing.Of(word.text(), to)));
  }
  if (kept.empty()) kept.push_back(StringRef());
  Dims dims = {static_cast<int64_t>(kept.size())};
  if (x.dims().size() == 2) dims.insert(dims.begin(), 1);
  return Tensor::Of<StringRef>(std::move(dims), kept);
}

absl::Status InferNormalizer(InferContext& c) {
  RETURN_IF_ERROR(OnnxInference("", "StringNormalizer")(c));
  const Dims& x = c.input(0).dims;
  if (x.size() != 1 && (x.size() != 2 || x[0] != 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("input is ", ToString(x), ", expected [words] or [1, words]"));
  }
  if (c.constant(0) == nullptr) {
    return absl::UnimplementedError("the size of its result depends on data");
  }
  c.SetOutput(0, DataType::kString, Normalized(c.attributes(), *c.constant(0)).dims());
  return absl::OkStatus();
}

// ---- StringSplit: y [.., most parts] with "" where a text has fewer, and their number.

std::vector<std::string> PartsOf(const std::string& text, const std::string& delimiter,
                                 int64_t most_splits) {
  std::vector<std::string> parts;
  size_t at = 0;
  const auto left = [&] {
    return most_splits < 0 || static_cast<int64_t>(parts.size()) < most_splits;
  };
  if (!delimiter.empty()) {
    for (size_t found; left() && (found = text.find(delimiter, at)) != std::string::npos;
         at = found + delimiter.size()) {
      parts.push_back(text.substr(at, found - at));
    }
    parts.push_back(text.substr(at));
    return parts;
  }
  // Words between white space; the last one keeps what stands in it.
  constexpr char kSpace[] = " \t\n\v\f\r";
  while ((at = text.find_first_not_of(kSpace, at)) != std::string::npos) {
    size_t end = left() ? text.find_first_of(kSpace, at) : text.find_last_not_of(kSpace) + 1;
    if (end == std::string::npos) end = text.size();
    parts.push_back(text.substr(at, end - at));
    at = end;
  }
  return parts;
}

struct SplitText {
  Tensor parts, counts;
};

SplitText Split(const Attributes& attributes, const Tensor& x) {
  const std::string delimiter = attributes.String("delimiter", "");
  const int64_t most_splits =
      attributes.Has("maxsplit") ? attributes.Int("maxsplit", -1) : int64_t{-1};
  std::vector<std::vector<std::string>> all;
  size_t most = 0;
  for (StringRef text : x.values<StringRef>()) {
    all.push_back(PartsOf(text.text(), delimiter, most_splits));
    most = std::max(most, all.back().size());
  }
  Dims dims = x.dims();
  dims.push_back(static_cast<int64_t>(most));
  SplitText out{Tensor(DataType::kString, dims), Tensor(DataType::kInt64, x.dims())};
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t k = 0; k < all[i].size(); ++k) {
      out.parts.mutable_values<StringRef>()[i * most + k] = StringRef::Of(all[i][k]);
    }
    out.counts.mutable_values<int64_t>()[i] = static_cast<int64_t>(all[i].size());
  }
  return out;
}

absl::Status InferSplit(InferContext& c) {
  RETURN_IF_ERROR(OnnxInference("", "StringSplit")(c));
  if (c.constant(0) == nullptr) {
    return absl::UnimplementedError("the size of its result depends on data");
  }
  const SplitText split = Split(c.attributes(), *c.constant(0));
  c.SetOutput(0, DataType::kString, split.parts.dims());
  c.SetOutput(1, DataType::kInt64, split.counts.dims());
  return absl::OkStatus();
}

absl::StatusOr<const Tensor*> Known(const LowerContext& l) {
  const Tensor* x = l.node().input(0)->constant.get();
  if (x == nullptr) return absl::UnimplementedError("the size of its result depends on data");
  return x;
}

absl::Status LowerNormalizer(LowerContext& l) {
  ASSIGN_OR_RETURN(const Tensor* x, Known(l));
  l.y(0, l.b().Constant(Normalized(l.attributes(), *x)));
  return absl::OkStatus();
}

absl::Status LowerSplit(LowerContext& l) {
  ASSIGN_OR_RETURN(const Tensor* x, Known(l));
  SplitText split = Split(l.attributes(), *x);
  l.y(0, l.b().Constant(std::move(split.parts)));
  if (l.node().num_outputs() > 1) l.y(1, l.b().Constant(std::move(split.counts)));
  return absl::OkStatus();
}

absl::Status InferTfIdf(InferContext& c) {
  const Dims& x = c.input(0).dims;
  if (x.size() != 1 && x.size() != 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("input is ", ToString(x), ", expected [words] or [texts, words]"));
  }
  int64_t columns = 0;
  for (int64_t column : c.attributes().Ints("ngram_indexes")) {
    if (column < 0) return absl::InvalidArgumentError("ngram_indexes holds a negative column");
    columns = std::max(columns, column + 1);
  }
  Dims y = x;
  y.back() = columns;
  c.SetOutput(0, DataType::kFloat32, y);
  return absl::OkStatus();
}

std::string TfIdfExample(const char* x, const char* y, const char* more) {
  return absl::StrCat("g (int64", x, " labels_x) => (bool", y, " over) { y = TfIdfVectorizer<",
                      "max_gram_length = 2, ngram_counts = [0, 2], ngram_indexes = [0, 1, 2, 4], "
                      "pool_int64s = [0, 2, 0, 1, 1, 2], ",
                      more, ">(labels_x) over = Cast<to = 9>(y) }");
}

}  // namespace

void AddTextOperators(OperatorFamily& list) {
  list.push_back(
      Operator("", "StringConcat")
          .Elementwise()
          .Example("g (int64[2, 3] a, int64[3] signed_b) => (string[2, 3] y) { s = Cast<to = 8>(a) "
                   "t = Cast<to = 8>(signed_b) y = StringConcat(s, t) }")
          .NotDifferentiable(kStrings));
  list.push_back(
      Operator("", "RegexFullMatch")
          .Elementwise()
          .Example("g (int64[2, 5] signed_x) => (bool[2, 5] y) { s = Cast<to = 8>(signed_x) "
                   "y = RegexFullMatch<pattern = \"-?[12]\">(s) }")
          .NotDifferentiable("its result is a truth value"));
  list.push_back(
      Operator("", "StringNormalizer")
          .Infer(InferNormalizer)
          .Example(
              "g (int64[3] x) => (string[2] y) { s = Constant<value = string[3] {\"Ab\", \"c\", "
              "\"AB\"}>() y = StringNormalizer<case_change_action = \"UPPER\", "
              "is_case_sensitive = 1, stopwords = [\"AB\"]>(s) }")
          .AlwaysLower(LowerNormalizer));
  list.push_back(
      Operator("", "StringSplit")
          .Infer(InferSplit)
          .Example("g (int64[3] x) => (string[2, 3] y, int64[2] n) { s = Constant<value_strings = "
                   "[\"a b  c\", \"d\"]>() y, n = StringSplit(s) }")
          .Example("g (int64[3] x) => (string[2, 2] y, int64[2] n) { s = Constant<value_strings = "
                   "[\"a, b, c\", \"d\"]>() y, n = StringSplit<delimiter = \", \", maxsplit = 1>(s)"
                   " }")
          .AlwaysLower(LowerSplit));
  list.push_back(
      Operator("", "TfIdfVectorizer")
          .Infer(InferTfIdf)
          .Samples([](const Node& node, absl::Span<const SampleAxis> in, int) {
            return SamplesUnless(in[0], in[0].axis + 1 == node.input(0)->rank());
          })
          .Example(TfIdfExample("[2, 9]", "[2, 5]",
                                "min_gram_length = 1, max_skip_count = 0, mode = \"TF\""))
          .Example(TfIdfExample("[9]", "[5]",
                                "min_gram_length = 2, max_skip_count = 2, mode = \"IDF\", weights "
                                "= [0.0, 1.0, 2.0, 0.0, 3.0]"))
          .Example(TfIdfExample("[2, 4]", "[2, 5]",
                                "min_gram_length = 1, max_skip_count = 1, mode = \"TFIDF\", "
                                "weights = [0.5, 1.0, 2.0, 0.0, 3.0]"))
          .NotDifferentiable("it counts"));
}

}  // namespace onward
