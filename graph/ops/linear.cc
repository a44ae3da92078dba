// Matrix products and determinants.
#include <algorithm>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/base/status_macros.h"
#include "graph/ir/builder.h"
#include "graph/ir/graph.h"
#include "graph/ops/checked.h"
#include "graph/ops/operators.h"
#include "graph/ops/rules.h"

namespace onward {
namespace {

// x with its last two axes swapped.
Expr SwapLast(Builder& b, Expr x) {
  if (!x) return x;
  std::vector<int64_t> order(x.rank());
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[x.rank() - 1], order[x.rank() - 2]);
  return b.Transpose(x, order);
}

// y = op(a) op(b) for matrices, where op transposes or not.
Expr Product(Builder& b, Expr a, bool trans_a, Expr c, bool trans_c, double alpha = 1) {
  Attributes attributes;
  if (alpha != 1) attributes.Set("alpha", alpha);
  if (trans_a) attributes.Set("transA", int64_t{1});
  if (trans_c) attributes.Set("transB", int64_t{1});
  return b.Op("Gemm", {a, c}, std::move(attributes));
}

// y = a b;  da = dy b', db = a' dy
absl::Status MatMulGradient(GradientContext& g) {
  Builder& b = g.b();
  const Dims da = g.x(0).dims(), db = g.x(1).dims();
  // A vector is a matrix of one row on the left, of one column on the right.
  Dims left = da, right = db, out = g.y().dims();
  if (db.size() == 1) {
    right.push_back(1);
    out.push_back(1);
  }
  if (da.size() == 1) {
    left.insert(left.begin(), 1);
    out.insert(out.end() - 1, 1);
  }
  Expr dy = b.Reshape(g.dy(), out), a = b.Reshape(g.x(0), left), c = b.Reshape(g.x(1), right);
  if (right.size() == 2) {
    // The batch axes of a are rows like others: one product of matrices each.
    const int64_t k = right[0], n = right[1];
    const int64_t rows = Elements(absl::MakeConstSpan(left).first(left.size() - 1));
    dy = b.Reshape(dy, {rows, n});
    if (g.wants(0)) g.dx(0, b.Reshape(Product(b, dy, false, c, true), da));
    if (g.wants(1)) {
      g.dx(1, b.Reshape(Product(b, b.Reshape(a, {rows, k}), true, dy, false), db));
    }
    return absl::OkStatus();
  }
  // The driver sums over batch axes that were broadcast; the axis that made a
  // vector a matrix goes here.
  if (g.wants(0)) {
    Expr dx = b.MatMul(dy, SwapLast(b, c));
    if (da.size() == 1) {
      dx = b.Reshape(b.SumTo(dx, {1, da[0]}), da);
    }
    g.dx(0, dx);
  }
  if (g.wants(1)) g.dx(1, b.MatMul(SwapLast(b, a), dy));
  return absl::OkStatus();
}

// Y = alpha A B + beta C;  dA = alpha dY B', dB = alpha A' dY, dC = beta dY
absl::Status GemmGradient(GradientContext& g) {
  Builder& b = g.b();
  const bool ta = g.attributes().Int("transA", 0) != 0, tb = g.attributes().Int("transB", 0) != 0;
  const double alpha = g.attributes().Float("alpha", 1), beta = g.attributes().Float("beta", 1);
  Expr dy = g.dy();
  if (g.wants(0)) {
    g.dx(0,
         ta ? Product(b, g.x(1), tb, dy, true, alpha) : Product(b, dy, false, g.x(1), !tb, alpha));
  }
  if (g.wants(1)) {
    g.dx(1,
         tb ? Product(b, dy, true, g.x(0), ta, alpha) : Product(b, g.x(0), !ta, dy, false, alpha));
  }
  if (g.wants(2)) g.dx(2, beta == 1 ? dy : dy * beta);
  return absl::OkStatus();
}

// Samples in rows or batch axes stay there; a sum over them mixes them.
SampleAxis ProductSamples(const Dims& a, const Dims& b, bool trans_a, bool trans_b,
                          const SampleAxis& of_a, const SampleAxis& of_b) {
  const int ra = static_cast<int>(a.size()), rb = static_cast<int>(b.size());
  const int full = std::max({ra, rb, 2}), out = full - (ra == 1) - (rb == 1);
  const auto place = [&](const SampleAxis& s, int rank, bool vector_sums, int kept,
                         int target) -> SampleAxis {
    if (s.kind != SampleAxis::Kind::kAxis) return s;
    if (rank == 1 && vector_sums) return SampleAxis::Mixed();
    if (s.axis < rank - 2) return SampleAxis::Axis(full - rank + s.axis, s.inner);
    return s.axis == kept ? SampleAxis::Axis(target, s.inner) : SampleAxis::Mixed();
  };
  const SampleAxis from_a = place(of_a, ra, true, trans_a ? ra - 1 : ra - 2, full - 2);
  const SampleAxis from_b = place(of_b, rb, true, trans_b ? rb - 2 : rb - 1, out - 1);
  if (from_a.kind == SampleAxis::Kind::kNone) return from_b;
  if (from_b.kind == SampleAxis::Kind::kNone || from_a == from_b) return from_a;
  return SampleAxis::Mixed();
}

SampleAxis MatMulSamples(const Node& node, absl::Span<const SampleAxis> in, int) {
  const bool ta = node.attributes.Int("transA", 0) != 0, tb = node.attributes.Int("transB", 0) != 0;
  const SampleAxis product =
      ProductSamples(node.input(0)->dims(), node.input(1)->dims(), ta, tb, in[0], in[1]);
  if (in.size() < 3 || node.input(2) == nullptr || in[2].kind == SampleAxis::Kind::kNone) {
    return product;
  }
  if (in[2].kind == SampleAxis::Kind::kMixed) return in[2];
  const int shift = node.output()->rank() - node.input(2)->rank();
  return product == SampleAxis::Axis(in[2].axis + shift, in[2].inner) ? product
                                                                      : SampleAxis::Mixed();
}

absl::Status CheckGemm(InferContext& c) {
  if (!c.has(2)) return absl::OkStatus();
  const Dims y = c.outputs()[0].dims;
  const absl::StatusOr<Dims> with_bias = Broadcast(y, c.input(2).dims);
  if (with_bias.ok() && *with_bias == y) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("C ", ToString(c.input(2).dims), " does not fit ", ToString(y)));
}

absl::Status InferFusedMatMul(InferContext& c) {
  if (c.num_inputs() < 2 || c.num_inputs() > 3 || !c.has(0) || !c.has(1)) {
    return absl::InvalidArgumentError("FusedMatMul takes 2 or 3 inputs");
  }
  Dims a = c.input(0).dims, b = c.input(1).dims;
  if (a.size() < 2 || b.size() < 2) {
    return absl::InvalidArgumentError("FusedMatMul takes matrices");
  }
  if (c.input(0).dtype != c.input(1).dtype) {
    return absl::InvalidArgumentError("the inputs have different types");
  }
  if (c.attributes().Int("transA", 0) != 0) std::swap(a[a.size() - 1], a[a.size() - 2]);
  if (c.attributes().Int("transB", 0) != 0) std::swap(b[b.size() - 1], b[b.size() - 2]);
  if (a.back() != b[b.size() - 2]) {
    return absl::InvalidArgumentError(
        absl::StrCat("the shapes ", ToString(a), " and ", ToString(b), " do not multiply"));
  }
  const auto batch = [](const Dims& d) { return Dims(d.begin(), d.end() - 2); };
  ASSIGN_OR_RETURN(Dims out, Broadcast(batch(a), batch(b)));
  out.push_back(a[a.size() - 2]);
  out.push_back(b.back());
  if (c.has(2)) {
    ASSIGN_OR_RETURN(const Dims with_bias, Broadcast(out, c.input(2).dims));
    if (with_bias != out) {
      return absl::InvalidArgumentError(
          absl::StrCat("the bias ", ToString(c.input(2).dims), " does not fit ", ToString(out)));
    }
  }
  const std::string activation = c.attributes().String("activation", "");
  if (!activation.empty() && activation != "Relu") {
    return absl::InvalidArgumentError(absl::StrCat("unknown activation '", activation, "'"));
  }
  c.SetOutput(0, c.input(0).dtype, out);
  return absl::OkStatus();
}

absl::Status LowerFusedMatMul(LowerContext& c) {
  Builder& b = c.b();
  Expr a = c.x(0), w = c.x(1);
  if (c.attributes().Int("transA", 0) != 0) a = SwapLast(b, a);
  if (c.attributes().Int("transB", 0) != 0) w = SwapLast(b, w);
  Expr y = b.MatMul(a, w);
  if (c.has_x(2)) y = y + c.x(2);
  if (c.attributes().String("activation", "") == "Relu") y = b.Op("Relu", {y});
  c.y(0, y);
  return absl::OkStatus();
}

// A multiplication and an addition for each element of y and of the inner axis.
double ProductOperations(const Node& node) {
  const Dims& a = node.input(0)->dims();
  const bool transposed = a.size() > 1 && node.attributes.Int("transA", 0) != 0;
  const int64_t inner = transposed ? a[a.size() - 2] : a.back();
  return 2.0 * static_cast<double>(node.output(0)->type.elements()) * static_cast<double>(inner);
}

Operator MatMul() {
  return Operator("", "MatMul")
      .Example("g (float[2, 3] a, float[3, 4] b) => (float[2, 4] y) { y = MatMul(a, b) }")
      .Example("g (float[3] a, float[3] b) => (float y) { y = MatMul(a, b) }")
      .Example("g (float[3] a, float[3, 4] b) => (float[4] y) { y = MatMul(a, b) }")
      .Example("g (float[3] a, float[2, 3, 4] b) => (float[2, 4] y) { y = MatMul(a, b) }")
      .Example("g (float[2, 3] a, float[3] b) => (float[2] y) { y = MatMul(a, b) }")
      .Example("g (float[5, 2, 3] a, float[3] b) => (float[5, 2] y) { y = MatMul(a, b) }")
      .Example("g (float[2, 2, 3] a, float[3, 4] b) => (float[2, 2, 4] y) { y = MatMul(a, b) }")
      .Example("g (float[2, 3] a, float[2, 3, 4] b) => (float[2, 2, 4] y) { y = MatMul(a, b) }")
      .Example(
          "g (float[2, 1, 2, 3] a, float[1, 3, 3, 2] b) => (float[2, 3, 2, 2] y)"
          " { y = MatMul(a, b) }")
      .Example(
          "g (float[3, 2, 3] a, float[1, 3, 3, 2] b) => (float[1, 3, 2, 2] y)"
          " { y = MatMul(a, b) }")
      .Example("g (float[2, 0] a, float[0, 3] b) => (float[2, 3] y) { y = MatMul(a, b) }")
      .Example("g (float[0, 2] a, float[2, 3] b) => (float[0, 3] y) { y = MatMul(a, b) }")
      .Example("g (float[2, 2] a, float[2, 0] b) => (float[2, 0] y) { y = MatMul(a, b) }")
      .Example("g (float[17, 33] a, float[33, 18] b) => (float[17, 18] y) { y = MatMul(a, b) }")
      .Example(
          "g (int32[2, 3] signed_a, int32[3, 2] signed_b) => (int32[2, 2] y)"
          " { y = MatMul(signed_a, signed_b) }")
      .Example(
          "g (int64[2, 3] signed_a, int64[3] signed_b) => (int64[2] y)"
          " { y = MatMul(signed_a, signed_b) }")
      .Example("g (float[2, 3] a) => (float[2, 2] y) { t = Transpose(a) y = MatMul(a, t) }")
      .Gradient(MatMulGradient)
      .Operations(ProductOperations)
      .Samples(MatMulSamples);
}

Operator Gemm() {
  return Operator("", "Gemm")
      .Example(
          "g (float[2, 3] a, float[3, 4] b, float[4] c) => (float[2, 4] y)"
          " { y = Gemm(a, b, c) }")
      .Example("g (float[2, 3] a, float[3, 4] b) => (float[2, 4] y) { y = Gemm(a, b) }")
      .Example(
          "g (float[3, 2] a, float[3, 4] b, float[2, 4] c) => (float[2, 4] y)"
          " { y = Gemm<transA = 1, alpha = 0.5, beta = 2.0>(a, b, c) }")
      .Example(
          "g (float[2, 3] a, float[4, 3] b, float[2, 1] c) => (float[2, 4] y)"
          " { y = Gemm<transB = 1>(a, b, c) }")
      .Example(
          "g (float[3, 2] a, float[4, 3] b, float x) => (float[2, 4] y)"
          " { y = Gemm<transA = 1, transB = 1, alpha = -1.5, beta = 0.25>(a, b, x) }")
      .Example(
          "g (float[3, 2] a, float[4, 3] b) => (float[2, 4] y)"
          " { y = Gemm<transA = 1, transB = 1>(a, b) }")
      .Example(
          "g (float[2, 0] a, float[0, 3] b, float[1, 3] c) => (float[2, 3] y)"
          " { y = Gemm(a, b, c) }")
      .Example(
          "g (float[17, 33] a, float[18, 33] b, float[18] c) => (float[17, 18] y)"
          " { y = Gemm<transB = 1>(a, b, c) }")
      .Example(
          "g (int32[2, 3] signed_a, int32[3, 2] signed_b, int32[2] signed_c)"
          " => (int32[2, 2] y) { y = Gemm(signed_a, signed_b, signed_c) }")
      .Infer(OnnxInferenceAnd("Gemm", CheckGemm))
      .Gradient(GemmGradient)
      .Operations(ProductOperations)
      .Samples(MatMulSamples);
}

// y = activation(op(a) op(b) + bias): what the fusion pass makes of MatMul and its
// neighbours, after autodiff.
//   inputs a, b (matrices, with batch axes that broadcast as MatMul's), bias
//   (optional, broadcast to y); attributes transA, transB (0 or 1), activation
//   ("" or "Relu").
Operator FusedMatMul() {
  return Operator(kOnward, "FusedMatMul")
      .Infer(InferFusedMatMul)
      .Example(
          "g (float[2, 3] a, float[3, 4] b) => (float[2, 4] y)"
          " { y = onward.FusedMatMul(a, b) }")
      .Example(
          "g (float[2, 3] a, float[3, 4] b, float[4] c) => (float[2, 4] y)"
          " { y = onward.FusedMatMul<activation = \"Relu\">(a, b, c) }")
      .Example(
          "g (float[3, 2] a, float[4, 3] b, float[2, 1] c) => (float[2, 4] y)"
          " { y = onward.FusedMatMul<transA = 1, transB = 1>(a, b, c) }")
      .Example(
          "g (float[40, 35] a, float[40, 20] b) => (float[35, 20] y)"
          " { y = onward.FusedMatMul<transA = 1>(a, b) }")
      .Example(
          "g (float[18, 35] a, float[20, 35] b, float[20] c) => (float[18, 20] y)"
          " { y = onward.FusedMatMul<transB = 1, activation = \"Relu\">(a, b, c) }")
      .Example(
          "g (float[2, 3, 4] a, float[4, 5] b, float[5] c) => (float[2, 3, 5] y)"
          " { y = onward.FusedMatMul<activation = \"Relu\">(a, b, c) }")
      .Example(
          "g (float[2, 1, 3, 2] a, float[3, 3, 4] b, float[3, 1, 4] c)"
          " => (float[2, 3, 2, 4] y) { y = onward.FusedMatMul<transA = 1>(a, b, c) }")
      .Example(
          "g (float[2, 0] a, float[0, 3] b, float[3] c) => (float[2, 3] y)"
          " { y = onward.FusedMatMul(a, b, c) }")
      .Lower(LowerFusedMatMul)
      .Operations(ProductOperations)
      .Samples(MatMulSamples);
}

// y = det(x);  dx[i, j] = dy * (-1)^(i + j) * det(x without row i and column j), which
// holds for singular matrices too, where y * inverse(x)' does not
absl::Status DetGradient(GradientContext& g) {
  Builder& b = g.b();
  const Dims x = g.x().dims(), y = g.y().dims();
  const int64_t n = x.back(), count = Elements(y);
  if (n == 0) {
    g.dx(0, b.Zeros(g.x().value()->type));
    return absl::OkStatus();
  }
  std::vector<double> signs;
  std::vector<int64_t> kept;
  for (int64_t k = 0; k < n * n; ++k) {
    const int64_t row = k / n, column = k % n;
    for (int64_t i = 0; i < n * n; ++i) {
      if (i / n != row && i % n != column) kept.push_back(i);
    }
    signs.push_back((row + column) % 2 == 0 ? 1 : -1);
  }
  Expr rows = b.Reshape(g.x(), {count, n * n});
  Expr minors = b.Op("Gather", {rows, b.Ints(kept)}, {{"axis", int64_t{1}}});
  Expr dets = b.Op("Det", {b.Reshape(minors, {count, n, n, n - 1, n - 1})});
  if (!dets) return b.status();
  Expr slope = b.Reshape(dets * Reals(b, dets.dtype(), {n, n}, signs), x);
  Dims each = y;
  each.resize(x.size(), 1);
  g.dx(0, b.Reshape(g.dy(), each) * slope);
  return absl::OkStatus();
}

Operator Det() {
  return Operator("", "Det")
      .Example("g (float[3, 3] x) => (float y) { y = Det(x) }")
      .Example("g (float[2, 1, 4, 4] x) => (float[2, 1] y) { y = Det(x) }")
      .Example("g (float[3, 2, 2] x) => (float[3] y) { y = Det(x) }")
      .Example("g (float[2, 1, 1] x) => (float[2] y) { y = Det(x) }")
      .Example("g (float[2, 0, 0] x) => (float[2] y) { y = Det(x) }")
      .Example("g (float[0, 2, 2] x) => (float[0] y) { y = Det(x) }")
      .Gradient(DetGradient)
      .Operations([](const Node& node) {
        const Dims& x = node.input(0)->dims();
        return static_cast<double>(node.input(0)->type.elements()) * static_cast<double>(x.back());
      })
      .Samples([](const Node& node, absl::Span<const SampleAxis> in, int) {
        const bool inside = in[0].axis >= node.input(0)->rank() - 2;
        return in[0].kind == SampleAxis::Kind::kAxis && inside ? SampleAxis::Mixed() : in[0];
      });
}

}  // namespace

void AddLinearOperators(OperatorFamily& list) {
  list.push_back(MatMul());
  list.push_back(Gemm());
  list.push_back(FusedMatMul());
  list.push_back(Det());
}

}  // namespace onward
