// The operators of com.microsoft that exporters and optimizers write: activations,
// normalisations, products and embeddings. Attention is in microsoft_attention.cc.
#include "graph/ops/microsoft.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/base/status_macros.h"
#include "graph/ir/graph.h"
#include "graph/ops/operators.h"
#include "graph/ops/rules.h"

namespace onward {
namespace {

// The types that a lowering gives, found by doing it on a graph of nothing else.
absl::Status InferByLowering(const LowerRule& rule, Arity arity, InferContext& c) {
  if (c.num_inputs() < arity.least || c.num_inputs() > arity.most ||
      c.num_outputs() > arity.outputs) {
    return absl::InvalidArgumentError(absl::StrCat(
        c.op().id(), " has ", c.num_inputs(), " inputs and ", c.num_outputs(),
        " outputs, expected ", arity.least, " to ", arity.most, " and at most ", arity.outputs));
  }
  Graph graph;
  std::vector<Value*> inputs;
  for (int i = 0; i < c.num_inputs(); ++i) {
    inputs.push_back(nullptr);
    if (!c.has(i)) continue;
    for (int64_t d : c.input(i).dims) {
      if (d < 0) return absl::UnimplementedError("the size of its inputs depends on data");
    }
    if (c.constant(i) != nullptr) {
      // The tensor outlives this graph.
      const std::shared_ptr<const Tensor> borrowed(std::shared_ptr<void>(), c.constant(i));
      inputs.back() = graph.AddConstant(borrowed);
    } else {
      inputs.back() = graph.AddInput("x", c.input(i));
    }
  }
  const std::vector<TensorType> unknown(c.num_outputs(), TensorType{DataType::kFloat32, {}, {}});
  Node* node = graph.AddNode(nullptr, &c.op(), inputs, unknown, {}, c.attributes());
  Builder b(&graph, &StandardOperators());
  b.InsertBefore(node);
  LowerContext l(&b, node);
  RETURN_IF_ERROR(rule(l));
  RETURN_IF_ERROR(b.status());
  for (int i = 0; i < c.num_outputs(); ++i) {
    const Expr y = l.result()[i];
    if (y) c.SetOutput(i, y.dtype(), y.dims());
  }
  return absl::OkStatus();
}

// ---- Activations.

absl::Status LowerGelu(LowerContext& l) {
  l.y(0, l.b().Op("Gelu", {l.x()}));
  return absl::OkStatus();
}

// The tanh form of x + bias.
absl::Status LowerFastGelu(LowerContext& l) {
  Expr x = l.has_x(1) ? l.x(0) + l.x(1) : l.x(0);
  l.y(0, l.b().Op("Gelu", {x}, {{"approximate", std::string("tanh")}}));
  return absl::OkStatus();
}

absl::Status LowerBiasGelu(LowerContext& l) {
  l.y(0, l.b().Op("Gelu", {l.x(0) + l.x(1)}));
  return absl::OkStatus();
}

// x sigmoid(alpha x)
absl::Status LowerQuickGelu(LowerContext& l) {
  l.y(0, l.b().Op("Swish", {l.x()}, {{"alpha", l.attributes().Float("alpha", 1.702)}}));
  return absl::OkStatus();
}

void AddActivations(OperatorFamily& list) {
  list.push_back(
      ByLowering("Gelu", {1, 1, 1}, LowerGelu)
          .Example("g (float[2, 3] large_x) => (float[2, 3] y) { y = com.microsoft.Gelu(large_x) }")
          .Elementwise());
  list.push_back(ByLowering("FastGelu", {1, 2, 1}, LowerFastGelu)
                     .Example("g (float[2, 3] large_x) => (float[2, 3] y) "
                              "{ y = com.microsoft.FastGelu(large_x) }")
                     .Example("g (float[2, 3] x, float[3] b) => (float[2, 3] y) "
                              "{ y = com.microsoft.FastGelu(x, b) }")
                     .Elementwise());
  list.push_back(ByLowering("BiasGelu", {2, 2, 1}, LowerBiasGelu)
                     .Example("g (float[2, 1, 3] large_x, float[3] b) => (float[2, 1, 3] y) "
                              "{ y = com.microsoft.BiasGelu(large_x, b) }")
                     .Elementwise());
  list.push_back(ByLowering("QuickGelu", {1, 1, 1}, LowerQuickGelu)
                     .Example("g (float[2, 3] large_x) => (float[2, 3] y) "
                              "{ y = com.microsoft.QuickGelu(large_x) }")
                     .Example("g (float[2, 0] x) => (float[2, 0] y) "
                              "{ y = com.microsoft.QuickGelu<alpha = 1.5>(x) }")
                     .Elementwise());
}

// ---- Normalisations. `simplified`: without the mean, by the root of the mean square.

// 1 / sqrt(mean(x^2) + epsilon) over the axes from `axis` on.
Expr InverseRoot(Builder& b, Expr x, int64_t axis, double epsilon) {
  if (!x) return x;
  std::vector<int64_t> axes;
  for (int64_t i = axis; i < x.rank(); ++i) axes.push_back(i);
  Expr mean = b.Op("ReduceMean", {x * x, b.Ints(axes)}, {{"keepdims", int64_t{1}}});
  return b.Op("Reciprocal", {b.Op("Sqrt", {mean + epsilon})});
}

absl::Status LowerSimplified(LowerContext& l) {
  Builder& b = l.b();
  const auto rank = static_cast<int64_t>(l.x(0).rank());
  ASSIGN_OR_RETURN(const int64_t axis, NormalizeAxis(l.attributes().Int("axis", -1), rank));
  const double epsilon = l.attributes().Float("epsilon", 1e-5f);
  l.y(0, b.Op("RMSNormalization", {l.x(0), l.x(1)}, {{"axis", axis}, {"epsilon", epsilon}}));
  if (l.wants(1)) l.y(1, InverseRoot(b, l.x(0), axis, epsilon));
  return absl::OkStatus();
}

// What follows the sum x of input, skip and bias: over its last axis.
absl::Status NormalizeSum(LowerContext& l, Expr x, Expr beta, bool simplified) {
  Builder& b = l.b();
  if (!x) return b.status();
  const double epsilon = l.attributes().Float("epsilon", 1e-12f);
  const Attributes attributes = {{"axis", int64_t{-1}}, {"epsilon", epsilon}};
  if (simplified) {
    l.y(0, b.Op("RMSNormalization", {x, l.x(2)}, attributes));
    // The mean is none of its results: what takes it for one is told so by its absence.
    if (l.wants(2)) l.y(2, InverseRoot(b, x, x.rank() - 1, epsilon));
  } else {
    l.y(0, OpsWith(b, "LayerNormalization", {x, l.x(2), beta}, attributes, 1)[0]);
    if (l.wants(1) || l.wants(2)) {
      Expr mean = b.Op("ReduceMean", {x, OneInt(b, -1)}, {{"keepdims", int64_t{1}}});
      if (l.wants(1)) l.y(1, mean);
      if (l.wants(2)) l.y(2, InverseRoot(b, x - mean, x.rank() - 1, epsilon));
    }
  }
  if (l.wants(3)) l.y(3, b.Op("Identity", {x}));
  return absl::OkStatus();
}

// Inputs: input, skip (broadcast over samples), gamma, then beta unless simplified, bias.
absl::Status LowerSkip(LowerContext& l, bool simplified) {
  const int bias = simplified ? 3 : 4;
  if (!l.has_x(0) || !l.has_x(1) || !l.has_x(2) || l.x(0).rank() < 2) {
    return DoNotFit(l, "input, skip and gamma");
  }
  Expr x = l.x(0) + l.x(1);
  if (l.has_x(bias)) x = x + l.x(bias);
  if (x && x.dims() != l.x(0).dims()) return DoNotFit(l, "a skip of the input's extents");
  return NormalizeSum(l, x, !simplified && l.has_x(3) ? l.x(3) : Expr(), simplified);
}

void AddNormalisations(OperatorFamily& list) {
  list.push_back(
      ByLowering("SimplifiedLayerNormalization", {2, 2, 2}, LowerSimplified)
          .Example("g (float[2, 3, 4] x, float[4] w) => (float[2, 3, 4] y) "
                   "{ y = com.microsoft.SimplifiedLayerNormalization(x, w) }")
          .Example("g (float[2, 3, 4] x, float[3, 4] w) => (float[2, 3, 4] y, float[2, 1, 1] r) { "
                   "y, r = com.microsoft.SimplifiedLayerNormalization<axis = 1, epsilon = "
                   "0.1, stash_type = 1>(x, w) }")
          .Samples(MicrosoftSamples));
  const std::string inputs = "g (float[2, 3, 4] x, float[2, 3, 4] s, float[4] w";
  list.push_back(ByLowering("SkipLayerNormalization", {3, 5, 4},
                            [](LowerContext& l) { return LowerSkip(l, false); })
                     .Example(absl::StrCat(inputs,
                                           ") => (float[2, 3, 4] y) "
                                           "{ y = com.microsoft.SkipLayerNormalization(x, s, w) }"))
                     .Example(absl::StrCat(
                         inputs,
                         ", float[4] b, float[4] c) => (float[2, 3, 4] y, float[2, 3, 1] m, "
                         "float[2, 3, 1] r, float[2, 3, 4] t) { y, m, r, t = "
                         "com.microsoft.SkipLayerNormalization<epsilon = 0.01>(x, s, w, b, c) }"))
                     .Example("g (float[2, 3, 4] x, float[3, 4] s, float[4] w, float[4] c) => "
                              "(float[2, 3, 4] y, float[2, 3, 4] t) "
                              "{ y, , , t = com.microsoft.SkipLayerNormalization(x, s, w, , c) }")
                     .Samples(MicrosoftSamples));
  list.push_back(
      ByLowering("SkipSimplifiedLayerNormalization", {3, 4, 4},
                 [](LowerContext& l) { return LowerSkip(l, true); })
          .Example(absl::StrCat(inputs,
                                ") => (float[2, 3, 4] y) "
                                "{ y = com.microsoft.SkipSimplifiedLayerNormalization(x, s, w) }"))
          .Example(absl::StrCat(
              inputs,
              ", float[4] c) => (float[2, 3, 4] y, float[2, 3, 1] r, float[2, 3, 4] t) { y, , r, t "
              "= com.microsoft.SkipSimplifiedLayerNormalization<epsilon = 0.01>(x, s, w, c) }"))
          .Samples(MicrosoftSamples));
}

// ---- FusedMatMul: y = alpha A B, each of them turned first.

// `batch`: the first axis goes behind the other batch axes; `last`: the last two change places.
Expr Turned(Builder& b, Expr x, bool batch, bool last) {
  std::vector<int64_t> order = Iota(x.rank());
  if (x.rank() < 2) return x;
  if (batch && x.rank() > 2) std::rotate(order.begin(), order.begin() + 1, order.end() - 1);
  if (last) std::swap(order[order.size() - 1], order[order.size() - 2]);
  return b.Transpose(x, order);
}

absl::Status LowerFusedMatMul(LowerContext& l) {
  Builder& b = l.b();
  const auto is = [&](const char* name) { return l.attributes().Int(name, 0) != 0; };
  if (!l.has_x(0) || !l.has_x(1)) return DoNotFit(l, "A and B");
  Expr y = b.MatMul(Turned(b, l.x(0), is("transBatchA"), is("transA")),
                    Turned(b, l.x(1), is("transBatchB"), is("transB")));
  const double alpha = l.attributes().Float("alpha", 1);
  l.y(0, alpha == 1 ? y : y * alpha);
  return absl::OkStatus();
}

SampleAxis FusedMatMulSamples(const Node& node, absl::Span<const SampleAxis> in, int) {
  // Those of A's batch axes, or of its rows.
  if (in[0].kind != SampleAxis::Kind::kAxis || in[1].kind != SampleAxis::Kind::kNone) {
    const bool both = in[0] == SampleAxis::Axis(0) && in[1] == in[0];
    const bool turned =
        node.attributes.Int("transBatchA", 0) != 0 || node.attributes.Int("transBatchB", 0) != 0;
    const bool batches =
        node.input(0)->rank() > 2 && node.input(1)->rank() == node.input(0)->rank();
    return both && batches && !turned ? in[0] : SampleAxis::Mixed();
  }
  const int rank = node.input(0)->rank();
  const bool turned =
      node.attributes.Int("transBatchA", 0) != 0 || node.attributes.Int("transA", 0) != 0;
  const bool fits = !turned && rank == node.output(0)->rank() && in[0].axis < rank - 1;
  return fits ? in[0] : SampleAxis::Mixed();
}

Operator FusedMatMul() {
  return ByLowering("FusedMatMul", {2, 2, 1}, LowerFusedMatMul)
      .Example(
          "g (float[2, 3, 4] a, float[4, 5] b) => (float[2, 3, 5] y) "
          "{ y = com.microsoft.FusedMatMul<alpha = 0.5>(a, b) }")
      .Example(
          "g (float[2, 4, 3] a, float[2, 5, 4] b) => (float[2, 3, 5] y) "
          "{ y = com.microsoft.FusedMatMul<transA = 1, transB = 1>(a, b) }")
      .Example(
          "g (float[3, 2, 4] a, float[2, 5, 4] b) => (float[2, 3, 5] y) "
          "{ y = com.microsoft.FusedMatMul<transBatchA = 1, transB = 1>(a, b) }")
      .Example(
          "g (float[3, 2, 2, 4] a, float[4, 2, 2, 5] b) => (float[2, 2, 3, 5] y) "
          "{ y = com.microsoft.FusedMatMul<transBatchA = 1, transBatchB = 1>(a, b) }")
      .Example(
          "g (float[4, 2, 3] a, float[5, 2, 4] b) => (float[2, 3, 5] y) { y = "
          "com.microsoft.FusedMatMul<transBatchA = 1, transA = 1, transBatchB = 1, "
          "transB = 1>(a, b) }")
      .Example(
          "g (float[4] a, float[4, 5] b) => (float[5] y) "
          "{ y = com.microsoft.FusedMatMul<transA = 1>(a, b) }")
      .Operations([](const Node& node) {
        const Value* a = node.input(0);
        const int64_t last = a->rank() > 1 && node.attributes.Int("transA", 0) != 0 ? 2 : 1;
        return 2.0 * static_cast<double>(node.output(0)->type.elements()) *
               static_cast<double>(a->rank() < 1 ? 1 : a->dims()[a->rank() - last]);
      })
      .Samples(FusedMatMulSamples);
}

// ---- EmbedLayerNormalization: the normalised sum of word, position and segment.
// Inputs: ids, segment ids, word, position and segment embedding, gamma, beta, mask,
// position ids.
absl::Status LowerEmbed(LowerContext& l) {
  Builder& b = l.b();
  if (!HasRank(l, 0, 2) || !HasRank(l, 2, 2) || !HasRank(l, 3, 2) || !l.has_x(5) || !l.has_x(6) ||
      l.has_x(1) != l.has_x(4)) {
    return DoNotFit(l,
                    "ids [samples, places], embeddings [rows, width], gamma and beta, segments "
                    "with their embedding");
  }
  const Dims ids = l.x(0).dims();
  Expr places = l.has_x(8) ? l.x(8) : b.Reshape(b.Ints(Iota(ids[1])), {1, ids[1]});
  Expr x = b.Op("Gather", {l.x(2), l.x(0)}) + b.Op("Gather", {l.x(3), places});
  if (l.has_x(1)) x = x + b.Op("Gather", {l.x(4), l.x(1)});
  if (!x) return b.status();
  if (x.rank() != 3 || x.dims()[0] != ids[0] || x.dims()[1] != ids[1]) {
    return DoNotFit(l, "position and segment ids like the ids");
  }
  l.y(0, b.Op("LayerNormalization", {x, l.x(5), l.x(6)},
              {{"axis", int64_t{-1}}, {"epsilon", l.attributes().Float("epsilon", 1e-12f)}}));
  if (l.wants(1)) {
    const bool masked = l.has_x(7);
    l.y(1, masked ? b.ReduceSum(b.Cast(l.x(7), DataType::kInt32), {1}, false)
                  : b.Zeros({DataType::kInt32, {ids[0]}, {}}));
  }
  if (l.wants(2)) l.y(2, b.Op("Identity", {x}));
  return absl::OkStatus();
}

Operator EmbedLayerNormalization() {
  return ByLowering("EmbedLayerNormalization", {7, 9, 3}, LowerEmbed)
      .Example(
          "g (int32[2, 3] labels_i, int32[2, 3] s, float[3, 4] we, float[5, 4] pe, "
          "float[2, 4] se, float[4] w, float[4] b, int32[2, 3] m) => (float[2, 3, 4] y, "
          "int32[2] n, float[2, 3, 4] t) { y, n, t = com.microsoft.EmbedLayerNormalization"
          "<epsilon = 0.01>(labels_i, s, we, pe, se, w, b, m) }")
      .Example(
          "g (int32[2, 3] labels_i, float[3, 4] we, float[5, 4] pe, float[4] w, float[4] b, "
          "int32[2, 3] labels_p) => (float[2, 3, 4] y, int32[2] n) { y, n = "
          "com.microsoft.EmbedLayerNormalization(labels_i, , we, pe, , w, b, , labels_p) }")
      .Samples([](const Node& node, absl::Span<const SampleAxis> in, int output) {
        for (int i : {2, 3, 4, 5, 6}) {
          if (node.input(i) != nullptr && in[i].kind != SampleAxis::Kind::kNone) {
            return SampleAxis::Mixed();
          }
        }
        return MicrosoftSamples(node, in, output);
      });
}

// ---- RotaryEmbedding: ONNX's, with the positions given before the tables. One position
// alone is that of the first place.

absl::Status LowerRotary(LowerContext& l) {
  Builder& b = l.b();
  const bool by_heads = HasRank(l, 0, 4);
  if ((!by_heads && !HasRank(l, 0, 3)) || !l.has_x(1) || !HasRank(l, 2, 2) || !HasRank(l, 3, 2)) {
    return DoNotFit(l, "x of 3 or 4 axes, position ids and two tables");
  }
  if (l.attributes().Float("scale", 1) != 1 || l.attributes().Int("is_packed_batching", 0) != 0) {
    return absl::UnimplementedError("scale and is_packed_batching are not known");
  }
  const Dims x = l.x(0).dims();
  const int64_t samples = x[0], places = by_heads ? x[2] : x[1], turned = 2 * l.x(2).dims()[1];
  int64_t heads = l.attributes().Int("num_heads", 0);
  if (!by_heads && heads == 0 && turned > 0) heads = x[2] / turned;
  Expr ids = b.Cast(l.x(1), DataType::kInt64);
  if (ids && Elements(ids.dims()) == 1) {
    ids = b.Expand(b.Reshape(ids, {1, 1}) + b.Ints(Iota(places)), {samples, places});
  }
  Attributes attributes = {{"interleaved", l.attributes().Int("interleaved", 0)},
                           {"rotary_embedding_dim", l.attributes().Int("rotary_embedding_dim", 0)}};
  if (!by_heads) attributes.Set("num_heads", heads);
  l.y(0, b.Op("RotaryEmbedding", {l.x(0), l.x(2), l.x(3), ids}, attributes));
  return absl::OkStatus();
}

Operator RotaryEmbedding() {
  const auto with = [](const char* x, const char* half, const char* ids, const char* attributes) {
    return absl::StrCat("g (float[", x, "] x, int64[", ids, "] labels_i, float[6, ", half,
                        "] c, float[6, ", half, "] s) => (float[", x,
                        "] y) { y = com.microsoft.RotaryEmbedding", attributes,
                        "(x, labels_i, c, s) }");
  };
  return ByLowering("RotaryEmbedding", {4, 4, 1}, LowerRotary)
      .Example(with("2, 3, 8", "2", "2, 3", ""))
      .Example(with("2, 3, 8", "2", "1", "<interleaved = 1>"))
      .Example(with("2, 2, 3, 4", "2", "1", ""))
      .Example(with("2, 3, 8", "1", "2, 3", "<num_heads = 2, rotary_embedding_dim = 2>"))
      .Samples(MicrosoftSamples);
}

}  // namespace

Operator ByLowering(const std::string& name, Arity arity, LowerRule rule) {
  Operator op(kMicrosoft, name);
  op.Infer([rule, arity](InferContext& c) { return InferByLowering(rule, arity, c); });
  op.AlwaysLower(std::move(rule));
  return op;
}

absl::Status DoNotFit(LowerContext& l, const std::string& expected) {
  std::string types;
  for (int i = 0; i < l.num_inputs(); ++i) {
    absl::StrAppend(&types, i > 0 ? ", " : "",
                    l.has_x(i) ? ToString(l.node().input(i)->type) : "none");
  }
  return absl::InvalidArgumentError(
      absl::StrCat("its inputs are ", types, "; expected ", expected));
}

bool HasRank(LowerContext& l, int i, size_t rank) {
  return l.has_x(i) && l.node().input(i)->dims().size() == rank;
}

SampleAxis MicrosoftSamples(const Node&, absl::Span<const SampleAxis> inputs, int) {
  for (const SampleAxis& s : inputs) {
    if (s.kind != SampleAxis::Kind::kNone && !(s == SampleAxis::Axis(0))) {
      return SampleAxis::Mixed();
    }
  }
  return SampleAxis::Axis(0);
}

Expr Part(Builder& b, Expr x, int64_t axis, int64_t from, int64_t to) {
  return b.Op("Slice", {x, OneInt(b, from), OneInt(b, to), OneInt(b, axis)});
}

std::vector<Expr> OpsWith(Builder& b, const char* name, std::vector<Expr> inputs,
                          Attributes attributes, int outputs) {
  while (!inputs.empty() && !inputs.back()) inputs.pop_back();
  return b.Ops(name, inputs, std::move(attributes), outputs);
}

void AddMicrosoftOperators(OperatorFamily& list) {
  AddActivations(list);
  AddNormalisations(list);
  list.push_back(FusedMatMul());
  list.push_back(EmbedLayerNormalization());
  list.push_back(RotaryEmbedding());
  AddMicrosoftAttention(list);
}

}  // namespace onward
