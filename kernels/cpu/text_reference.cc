// Operators on strings, and TfIdfVectorizer, which counts them.
#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "graph/base/status_macros.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/reference.h"
#include "re2/re2.h"

namespace onward {
namespace {

absl::Status StringConcat(const KernelCall&, const KernelMemory& memory, const Execution&) {
  const TensorView &a = memory.inputs[0], &b = memory.inputs[1], &y = memory.outputs[0];
  ForEachIndex<2>(
      y.type.dims,
      {RepeatingStrides(a.type.dims, y.type.dims), RepeatingStrides(b.type.dims, y.type.dims)},
      [&](int64_t i, const std::array<int64_t, 2>& at) {
        y.as<StringRef>()[i] =
            StringRef::Of(a.as<StringRef>()[at[0]].text() + b.as<StringRef>()[at[1]].text());
      });
  return absl::OkStatus();
}

absl::Status RegexFullMatch(const KernelCall& call, const KernelMemory& memory, const Execution&) {
  const std::string pattern = call.attributes->String("pattern", "");
  RE2::Options options;
  options.set_log_errors(false);
  const RE2 regex(pattern, options);
  if (!regex.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("pattern '", pattern, "' is no regular expression: ", regex.error()));
  }
  const TensorView& x = memory.inputs[0];
  for (int64_t i = 0; i < x.type.elements(); ++i) {
    memory.outputs[0].as<bool>()[i] = RE2::FullMatch(x.as<StringRef>()[i].text(), regex);
  }
  return absl::OkStatus();
}

// ---- TfIdfVectorizer. A word is an integer or a string's handle.

using Gram = std::vector<int64_t>;

struct Vocabulary {
  std::map<Gram, int64_t> column;  // of each n-gram whose length counts
  int64_t shortest = 1, longest = 1;
};

std::vector<int64_t> WordsOfPool(const Attributes& attributes) {
  std::vector<int64_t> words = attributes.Ints("pool_int64s");
  for (const std::string& text : attributes.Strings("pool_strings")) {
    words.push_back(static_cast<int64_t>(StringRef::Of(text).handle));
  }
  return words;
}

// The pool holds all n-grams of one word, then those of two, ...; ngram_counts says where
// each length begins, ngram_indexes into which column each n-gram counts.
absl::StatusOr<Vocabulary> ReadVocabulary(const Attributes& attributes, int64_t columns) {
  Vocabulary v;
  v.shortest = attributes.Int("min_gram_length", 1);
  v.longest = attributes.Int("max_gram_length", 1);
  const std::vector<int64_t> pool = WordsOfPool(attributes);
  const std::vector<int64_t> begins = attributes.Ints("ngram_counts");
  const std::vector<int64_t> indexes = attributes.Ints("ngram_indexes");
  const int64_t words = static_cast<int64_t>(pool.size());
  size_t gram = 0;
  for (size_t n = 0; n < begins.size(); ++n) {
    const int64_t length = static_cast<int64_t>(n) + 1;
    const int64_t end = n + 1 < begins.size() ? begins[n + 1] : words;
    if (begins[n] < 0 || begins[n] > end || end > words) {
      return absl::InvalidArgumentError("ngram_counts does not ascend within the pool");
    }
    for (int64_t at = begins[n]; at + length <= end; at += length, ++gram) {
      if (gram >= indexes.size() || indexes[gram] < 0 || indexes[gram] >= columns) {
        return absl::InvalidArgumentError(
            absl::StrCat("ngram_indexes has no column for n-gram ", gram));
      }
      if (length < v.shortest || length > v.longest) continue;
      v.column[Gram(pool.begin() + at, pool.begin() + at + length)] = indexes[gram];
    }
  }
  return v;
}

// Counts the n-grams of a row whose words lie 1, 2, .. skips + 1 apart. Single words are
// counted once.
void CountGrams(const Vocabulary& v, const Gram& row, int64_t skips, std::vector<int64_t>* counts) {
  const int64_t words = static_cast<int64_t>(row.size());
  int64_t shortest = v.shortest;
  for (int64_t step = 1; step <= skips + 1 && shortest <= v.longest; ++step) {
    for (int64_t start = 0; start < words; ++start) {
      Gram gram;
      for (int64_t at = start; at < words && static_cast<int64_t>(gram.size()) < v.longest;
           at += step) {
        gram.push_back(row[at]);
        if (static_cast<int64_t>(gram.size()) < shortest) continue;
        const auto found = v.column.find(gram);
        if (found != v.column.end()) ++(*counts)[found->second];
      }
    }
    shortest = std::max<int64_t>(shortest, 2);
  }
}

int64_t WordAt(const TensorView& x, int64_t i) {
  return x.type.dtype == DataType::kString ? static_cast<int64_t>(x.as<StringRef>()[i].handle)
                                           : IntAt(x, i);
}

absl::Status TfIdfVectorizer(const KernelCall& call, const KernelMemory& memory, const Execution&) {
  const TensorView &x = memory.inputs[0], &y = memory.outputs[0];
  const int64_t columns = y.type.dims.back();
  const int64_t words = x.type.dims.empty() ? 1 : x.type.dims.back();
  ASSIGN_OR_RETURN(const Vocabulary vocabulary, ReadVocabulary(*call.attributes, columns));
  const absl::string_view mode = StringOf(*call.attributes, "mode", "TF");
  const std::vector<double> weights = call.attributes->Floats("weights");
  if (!weights.empty() && static_cast<int64_t>(weights.size()) < columns) {
    return absl::InvalidArgumentError(
        absl::StrCat("weights has ", weights.size(), " entries, expected ", columns));
  }
  const int64_t rows = columns == 0 ? 0 : y.type.elements() / columns;
  for (int64_t r = 0; r < rows; ++r) {
    Gram row;
    for (int64_t i = 0; i < words; ++i) row.push_back(WordAt(x, r * words + i));
    std::vector<int64_t> counts(columns, 0);
    CountGrams(vocabulary, row, call.attributes->Int("max_skip_count", 0), &counts);
    for (int64_t c = 0; c < columns; ++c) {
      const double weight = weights.empty() ? 1 : weights[c];
      const auto count = static_cast<double>(counts[c]);
      const double value = mode == "TF"    ? count
                           : mode == "IDF" ? (count > 0 ? weight : 0)
                                           : weight * count;
      y.as<float>()[r * columns + c] = static_cast<float>(value);
    }
  }
  return absl::OkStatus();
}

using Strings = TypeList<StringRef>;
using Words = TypeList<StringRef, int32_t, int64_t>;

}  // namespace

void AddTextReference(KernelTable& table) {
  table.push_back(TypedReference<StringConcat, Strings>("StringConcat"));
  table.push_back(TypedReference<RegexFullMatch, Strings>("RegexFullMatch"));
  table.push_back(TypedReference<TfIdfVectorizer, Words>("TfIdfVectorizer"));
}

}  // namespace onward
