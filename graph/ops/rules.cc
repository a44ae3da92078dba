#include "graph/ops/rules.h"

#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/base/errors.h"

namespace onward {

namespace {

absl::Status FromData(const Node& node, int i) {
  return WithExitCode(absl::UnimplementedError(absl::StrCat(
                          "input ", i, " ('", node.input(i)->name,
                          "') is computed from data; it must be known when the graph is built")),
                      ExitCode::kUntrainable);
}

}  // namespace

absl::StatusOr<std::vector<int64_t>> ConstantInts(const Node& node, int i) {
  std::vector<int64_t> values;
  if (!ConstantInts(node, i, &values)) return FromData(node, i);
  return values;
}

absl::StatusOr<std::vector<double>> ConstantReals(const Node& node, int i) {
  std::vector<double> values;
  const Value* input = node.input(i);
  if (input == nullptr) return values;
  if (input->constant == nullptr) return FromData(node, i);
  for (int64_t k = 0; k < input->constant->elements(); ++k) {
    values.push_back(input->constant->At(k));
  }
  return values;
}

bool ConstantInts(const Node& node, int i, std::vector<int64_t>* values) {
  values->clear();
  const Value* input = node.input(i);
  if (input == nullptr) return true;
  if (input->constant == nullptr) return false;
  for (int64_t k = 0; k < input->constant->elements(); ++k) {
    values->push_back(input->constant->IntAt(k));
  }
  return true;
}

int64_t FromBack(int64_t axis, int64_t rank) { return axis < 0 ? axis + rank : axis; }

std::vector<int64_t> Iota(int64_t n) {
  std::vector<int64_t> out(n);
  std::iota(out.begin(), out.end(), 0);
  return out;
}

absl::Status CheckComputable(double operations) {
  if (operations <= 1 << 24) return absl::OkStatus();
  return WithExitCode(absl::UnimplementedError(absl::StrCat(
                          "its gradient needs a constant that takes ", operations,
                          " operations to compute, more than 2^24: the extents are too large")),
                      ExitCode::kUntrainable);
}

Expr OneInt(Builder& b, int64_t value) { return b.Ints(std::vector<int64_t>{value}); }

Expr Reals(Builder& b, DataType dtype, Dims dims, const std::vector<double>& numbers) {
  Tensor t(dtype, std::move(dims));
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto number = static_cast<float>(numbers[i]);
    switch (dtype) {
      case DataType::kFloat64:
        t.mutable_values<double>()[i] = numbers[i];
        break;
      case DataType::kFloat32:
        t.mutable_values<float>()[i] = number;
        break;
      case DataType::kFloat16:
        t.mutable_values<uint16_t>()[i] = FloatToHalf(number);
        break;
      case DataType::kBfloat16:
        t.mutable_values<uint16_t>()[i] = FloatToBfloat(number);
        break;
      default:
        b.Fail(absl::InternalError("a constant of reals in another type"));
        return Expr();
    }
  }
  return b.Constant(std::move(t));
}

Expr AsNumber(Expr condition, Expr like) {
  if (!condition || !like) return Expr();
  return condition.builder()->Cast(condition, like.dtype());
}

Expr KeepWhere(Expr condition, Expr x) {
  if (!condition || !x) return Expr();
  Builder* b = x.builder();
  return b->Where(condition, x, b->Like(x, 0));
}

SampleAxis SamplesUnless(const SampleAxis& x, bool touched) {
  return x.kind == SampleAxis::Kind::kAxis && touched ? SampleAxis::Mixed() : x;
}

SampleAxis SamplesReshaped(const Node& node, absl::Span<const SampleAxis> inputs, int output) {
  const SampleAxis x = inputs[0];
  if (x.kind != SampleAxis::Kind::kAxis) return x;
  const Dims& from = node.input(0)->dims();
  const Dims& to = node.output(output)->dims();
  const int64_t samples = from[x.axis] / x.inner;
  const int64_t outside = Elements(absl::MakeConstSpan(from.data(), x.axis));
  if (samples == 0 || outside == 0) return SampleAxis::Mixed();
  // The samples start behind `outside` entries: so they must in the result.
  int64_t before = 1;
  for (size_t axis = 0; axis < to.size() && before <= outside; ++axis) {
    if (before == outside && to[axis] > 0 && to[axis] % samples == 0) {
      return SampleAxis::Axis(static_cast<int>(axis), to[axis] / samples);
    }
    before *= to[axis];
  }
  return SampleAxis::Mixed();
}

SampleAxis SamplesNone(const Node&, absl::Span<const SampleAxis>, int) {
  return SampleAxis::None();
}

SampleAxis SamplesMixed(const Node&, absl::Span<const SampleAxis>, int) {
  return SampleAxis::Mixed();
}

OperationsRule PerElement(double operations) {
  return [operations](const Node& node) {
    return operations * static_cast<double>(LargestElements(node));
  };
}

}  // namespace onward
