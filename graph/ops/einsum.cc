// Sums of products over named axes.
#include <algorithm>
#include <cctype>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "graph/base/status_macros.h"
#include "graph/ir/builder.h"
#include "graph/ir/graph.h"
#include "graph/ops/operators.h"
#include "graph/ops/rules.h"

namespace onward {
namespace {

// The name of an axis: its letter, or, below zero, its place in the ellipsis counted
// from the end.
using Labels = std::vector<int>;

// An equation read for operands of given extents.
struct Equation {
  std::vector<Labels> operands;
  Labels output;
  std::map<int, int64_t> extents;  // an axis of one repeats where another operand has more
  Dims OutputDims() const {
    Dims dims;
    for (int label : output) dims.push_back(extents.at(label));
    return dims;
  }
};

bool Has(const Labels& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

// The labels of one term; "..." stands for `ellipsis` axes (-1: not allowed).
absl::StatusOr<Labels> ReadTerm(const std::string& term, int ellipsis) {
  Labels labels;
  for (size_t i = 0; i < term.size(); ++i) {
    if (std::isalpha(static_cast<unsigned char>(term[i])) != 0) {
      labels.push_back(term[i]);
    } else if (term.compare(i, 3, "...") == 0 && ellipsis >= 0) {
      for (int k = ellipsis; k > 0; --k) labels.push_back(-k);
      ellipsis = -1;
      i += 2;
    } else {
      return absl::InvalidArgumentError(absl::StrCat("'", term, "' is no term of an equation"));
    }
  }
  return labels;
}

// Without an output in the equation: the ellipsis, then what is named once, in
// alphabetical order.
Labels ImpliedOutput(const std::vector<Labels>& operands, int ellipsis) {
  std::map<int, int> times;
  for (const Labels& operand : operands) {
    for (int label : operand) ++times[label];
  }
  Labels output;
  for (int k = ellipsis; k > 0; --k) output.push_back(-k);
  for (const auto& [label, count] : times) {
    if (label > 0 && count == 1) output.push_back(label);
  }
  return output;
}

absl::Status Measure(const Labels& labels, const Dims& dims, std::map<int, int64_t>* extents) {
  for (size_t i = 0; i < labels.size(); ++i) {
    int64_t& extent = extents->emplace(labels[i], 1).first->second;
    if (extent == 1) extent = dims[i];
    if (dims[i] != extent && dims[i] != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("one axis is of ", extent, " and of ", dims[i], " in ", ToString(dims)));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Equation> ReadEquation(std::string text, const std::vector<Dims>& dims) {
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  const size_t arrow = text.find("->");
  const std::vector<std::string> terms = absl::StrSplit(text.substr(0, arrow), ',');
  if (terms.size() != dims.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the equation '", text, "' is not for ", dims.size(), " inputs"));
  }
  Equation equation;
  int most = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    const bool open = terms[i].find("...") != std::string::npos;
    const int named = static_cast<int>(terms[i].size()) - (open ? 3 : 0);
    const int rest = static_cast<int>(dims[i].size()) - named;
    if (rest < 0 || (rest > 0 && !open)) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", terms[i], "' does not name the axes of ", ToString(dims[i])));
    }
    ASSIGN_OR_RETURN(Labels labels, ReadTerm(terms[i], open ? rest : -1));
    RETURN_IF_ERROR(Measure(labels, dims[i], &equation.extents));
    most = std::max(most, open ? rest : 0);
    equation.operands.push_back(std::move(labels));
  }
  if (arrow == std::string::npos) {
    equation.output = ImpliedOutput(equation.operands, most);
  } else {
    ASSIGN_OR_RETURN(equation.output, ReadTerm(text.substr(arrow + 2), most));
  }
  for (size_t i = 0; i < equation.output.size(); ++i) {
    const int label = equation.output[i];
    if (equation.extents.count(label) == 0 ||
        std::count(equation.output.begin(), equation.output.end(), label) > 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("the output of '", text, "' names an axis twice, or one of no input"));
    }
  }
  return equation;
}

// A product so far, and what its axes are called.
struct Term {
  Expr x;
  Labels labels;
};

Dims ExtentsOf(const Term& term, const Labels& labels) {
  Dims dims;
  for (int label : labels) {
    const auto at = std::find(term.labels.begin(), term.labels.end(), label);
    dims.push_back(at == term.labels.end() ? 1 : term.x.dims()[at - term.labels.begin()]);
  }
  return dims;
}

// The term with its axes in the order of `labels`; those that it lacks are of one.
Expr InOrder(Builder& b, const Term& term, const Labels& labels) {
  std::vector<int64_t> order;
  for (int label : labels) {
    const auto at = std::find(term.labels.begin(), term.labels.end(), label);
    if (at != term.labels.end()) order.push_back(at - term.labels.begin());
  }
  return b.Reshape(b.Transpose(term.x, order), ExtentsOf(term, labels));
}

// An axis named twice is the diagonal.
Term Diagonals(Builder& b, Term term) {
  for (size_t j = 1; j < term.labels.size(); ++j) {
    const auto found = std::find(term.labels.begin(), term.labels.begin() + j, term.labels[j]);
    if (found == term.labels.begin() + j) continue;
    const int64_t i = found - term.labels.begin();
    const int64_t n = term.x.dims()[i];
    std::vector<int64_t> order;
    Dims others;
    Labels labels;
    for (int64_t k = 0; k < term.x.rank(); ++k) {
      if (k == i || k == static_cast<int64_t>(j)) continue;
      order.push_back(k);
      others.push_back(term.x.dims()[k]);
      labels.push_back(term.labels[k]);
    }
    order.push_back(i);
    order.push_back(static_cast<int64_t>(j));
    others.push_back(n * n);
    labels.push_back(term.labels[j]);
    std::vector<int64_t> places;
    for (int64_t k = 0; k < n; ++k) places.push_back(k * (n + 1));
    Expr lines = b.Reshape(b.Transpose(term.x, order), others);
    term.x = b.Op("Gather", {lines, b.Ints(places)}, {{"axis", int64_t{-1}}});
    term.labels = labels;
    j = 0;
  }
  return term;
}

// Sums over the axes that nothing else names.
Term SumUnless(Builder& b, Term term, const Labels& kept) {
  std::vector<int64_t> axes;
  Labels left;
  for (size_t i = 0; i < term.labels.size(); ++i) {
    if (Has(kept, term.labels[i])) {
      left.push_back(term.labels[i]);
    } else {
      axes.push_back(static_cast<int64_t>(i));
    }
  }
  return {b.ReduceSum(term.x, axes, false), left};
}

// The product of two terms, summed over what both name and `kept` does not.
Term Multiply(Builder& b, const Term& p, const Term& q, const Labels& kept) {
  Labels batch, summed, left, right;
  for (int label : p.labels) {
    (!Has(q.labels, label) ? left : Has(kept, label) ? batch : summed).push_back(label);
  }
  for (int label : q.labels) {
    if (!Has(p.labels, label)) right.push_back(label);
  }
  Labels all = batch;
  all.insert(all.end(), left.begin(), left.end());
  all.insert(all.end(), right.begin(), right.end());
  if (summed.empty()) return {InOrder(b, p, all) * InOrder(b, q, all), all};
  // As products of matrices [left, summed] and [summed, right].
  const Dims of_p = ExtentsOf(p, summed), of_q = ExtentsOf(q, summed);
  Dims sums = of_p;
  for (size_t i = 0; i < sums.size(); ++i) sums[i] = of_p[i] == 1 ? of_q[i] : of_p[i];
  const auto matrices = [&](const Term& term, const Labels& lines, bool lines_first) {
    Labels order = batch;
    const Labels& first = lines_first ? lines : summed;
    const Labels& second = lines_first ? summed : lines;
    order.insert(order.end(), first.begin(), first.end());
    order.insert(order.end(), second.begin(), second.end());
    Dims full = ExtentsOf(term, order);
    const size_t at = batch.size() + (lines_first ? lines.size() : 0);
    for (size_t i = 0; i < sums.size(); ++i) full[at + i] = sums[i];
    Dims flat = ExtentsOf(term, batch);
    const int64_t n = Elements(ExtentsOf(term, lines)), k = Elements(sums);
    flat.push_back(lines_first ? n : k);
    flat.push_back(lines_first ? k : n);
    return b.Reshape(b.Expand(InOrder(b, term, order), full), flat);
  };
  Expr y = b.MatMul(matrices(p, left, true), matrices(q, right, false));
  if (!y) return {};
  Dims dims(y.dims().begin(), y.dims().begin() + batch.size());
  for (int64_t extent : ExtentsOf(p, left)) dims.push_back(extent);
  for (int64_t extent : ExtentsOf(q, right)) dims.push_back(extent);
  return {b.Reshape(y, dims), all};
}

std::vector<Dims> InputDims(const Node& node) {
  std::vector<Dims> dims;
  for (int i = 0; i < node.num_inputs(); ++i) dims.push_back(node.input(i)->dims());
  return dims;
}

// y[output axes] = sum over all other axes of the product of the operands, from left to
// right, each axis summed as soon as no later operand names it
absl::Status LowerEinsum(LowerContext& l) {
  Builder& b = l.b();
  ASSIGN_OR_RETURN(const Equation equation,
                   ReadEquation(l.attributes().String("equation", ""), InputDims(l.node())));
  const DataType type = l.x(0).dtype();
  // There are products of matrices of some types only.
  const bool multiplies = IsFloating(type) || type == DataType::kInt32 ||
                          type == DataType::kInt64 || type == DataType::kUint32 ||
                          type == DataType::kUint64;
  Term product;
  for (int i = 0; i < l.num_inputs(); ++i) {
    Labels later = equation.output;
    for (size_t k = i + 1; k < equation.operands.size(); ++k) {
      later.insert(later.end(), equation.operands[k].begin(), equation.operands[k].end());
    }
    Labels known = later;
    known.insert(known.end(), product.labels.begin(), product.labels.end());
    Expr x = multiplies ? l.x(i) : b.Cast(l.x(i), DataType::kInt64);
    Term term = SumUnless(b, Diagonals(b, {x, equation.operands[i]}), known);
    product = i == 0 ? SumUnless(b, term, later) : Multiply(b, product, term, later);
    if (!b.status().ok()) return b.status();
  }
  Expr y = b.Expand(InOrder(b, product, equation.output), equation.OutputDims());
  l.y(0, b.Op("Identity", {b.Cast(y, type)}));
  return absl::OkStatus();
}

absl::Status InferEinsum(InferContext& c) {
  std::vector<Dims> dims;
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (!c.has(i) || c.input(i).dtype != c.input(0).dtype) {
      return absl::InvalidArgumentError("the inputs are not all of one type");
    }
    dims.push_back(c.input(i).dims);
  }
  ASSIGN_OR_RETURN(const Equation equation,
                   ReadEquation(c.attributes().String("equation", ""), dims));
  c.SetOutput(0, c.input(0).dtype, equation.OutputDims());
  return absl::OkStatus();
}

// The samples stay where the name of their axis is in the output.
SampleAxis EinsumSamples(const Node& node, absl::Span<const SampleAxis> inputs, int) {
  const auto equation = ReadEquation(node.attributes.String("equation", ""), InputDims(node));
  if (!equation.ok()) return SampleAxis::Mixed();
  int label = 0;
  int64_t inner = 1;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].kind == SampleAxis::Kind::kNone) continue;
    if (inputs[i].kind == SampleAxis::Kind::kMixed) return inputs[i];
    const int own = equation->operands[i][inputs[i].axis];
    if (label != 0 && (label != own || inner != inputs[i].inner)) return SampleAxis::Mixed();
    label = own;
    inner = inputs[i].inner;
  }
  const auto at = std::find(equation->output.begin(), equation->output.end(), label);
  if (at == equation->output.end()) return SampleAxis::Mixed();
  return SampleAxis::Axis(static_cast<int>(at - equation->output.begin()), inner);
}

}  // namespace

void AddEinsumOperators(OperatorFamily& list) {
  Operator op("", "Einsum");
  const auto example = [&](const char* equation, const char* inputs, const char* y,
                           const char* names) {
    op.Example(absl::StrCat("g (", inputs, ") => (", y, " y) { y = Einsum<equation = \"", equation,
                            "\">(", names, ") }"));
  };
  example("ij,jk->ik", "float[2, 3] a, float[3, 4] b", "float[2, 4]", "a, b");
  example("ij,jk", "float[2, 3] a, float[3, 4] b", "float[2, 4]", "a, b");
  example("bij, bjk -> kbi", "float[2, 3, 4] a, float[2, 4, 2] b", "float[2, 2, 3]", "a, b");
  example("...ij,...jk->...ik", "float[2, 1, 2, 3] a, float[3, 3, 2] b", "float[2, 3, 2, 2]",
          "a, b");
  example("b...,b...->...", "float[2, 3] a, float[2, 3] b", "float[3]", "a, b");
  example("ii->i", "float[3, 3] a", "float[3]", "a");
  example("bii", "float[2, 3, 3] a", "float[2]", "a");
  example("iji,j->i", "float[2, 3, 2] a, float[3] b", "float[2]", "a, b");
  example("ba", "float[2, 3] x", "float[3, 2]", "x");
  example("ij->", "float[2, 3] x", "float", "x");
  example("i,i->", "float[4] a, float[4] b", "float", "a, b");
  example("i,j->ij", "float[2] a, float[3] b", "float[2, 3]", "a, b");
  example("ij,ij->ij", "float[2, 3] a, float[2, 3] b", "float[2, 3]", "a, b");
  example("abc,cd,de->abe", "float[2, 1, 3] a, float[3, 2] b, float[2, 2] c", "float[2, 1, 2]",
          "a, b, c");
  example("bhqd,bhkd->bhqk", "float[1, 2, 3, 4] a, float[1, 2, 5, 4] b", "float[1, 2, 3, 5]",
          "a, b");
  example("bi,bj,ijk->bk", "float[2, 3] a, float[2, 2] b, float[3, 2, 4] w", "float[2, 4]",
          "a, b, w");
  example("ij,jk->ik", "float[2, 0] a, float[0, 3] b", "float[2, 3]", "a, b");
  example("ij,jk->ik", "int64[2, 3] signed_a, int64[3, 2] signed_b", "int64[2, 2]",
          "signed_a, signed_b");
  example("ij,jk->ik", "int8[2, 3] signed_a, int8[3, 2] signed_b", "int8[2, 2]",
          "signed_a, signed_b");
  op.Infer(InferEinsum).AlwaysLower(LowerEinsum).Samples(EinsumSamples);
  list.push_back(op);
}

}  // namespace onward
