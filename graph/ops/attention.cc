// Attention, the linear one too, and the rotation of its inputs by position.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/base/status_macros.h"
#include "graph/ir/builder.h"
#include "graph/ir/graph.h"
#include "graph/ops/operators.h"
#include "graph/ops/rules.h"

namespace onward {
namespace {

// ---- RotaryEmbedding: pairs of elements (x1, x2) of each head turn by the angle of their
// place:  (cos x1 - sin x2, sin x1 + cos x2). The pairs are the two halves of the head, or
// neighbours where interleaved; elements behind rotary_embedding_dim stay.

struct Rotary {
  bool by_heads;  // [samples, heads, places, head]; else [samples, places, heads * head]
  int64_t samples = 0, heads = 0, places = 0, head = 0, turned = 0;
};

absl::StatusOr<Rotary> ReadRotary(const Attributes& attributes, const Dims& x) {
  Rotary r{x.size() == 4};
  if (x.size() == 4) {
    r.samples = x[0];
    r.heads = x[1];
    r.places = x[2];
    r.head = x[3];
  } else if (x.size() == 3) {
    r.samples = x[0];
    r.places = x[1];
    r.heads = attributes.Int("num_heads", 0);
    if (r.heads < 1 || x[2] % r.heads != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("num_heads is ", r.heads, ", which does not divide ", x[2]));
    }
    r.head = x[2] / r.heads;
  } else {
    return absl::InvalidArgumentError(absl::StrCat("expected 3 or 4 axes, got ", ToString(x)));
  }
  r.turned = attributes.Int("rotary_embedding_dim", 0);
  if (r.turned == 0) r.turned = r.head;
  if (r.turned < 0 || r.turned > r.head || r.turned % 2 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(r.turned, " elements of heads of ", r.head, " cannot turn"));
  }
  return r;
}

absl::Status InferRotary(InferContext& c) {
  if (!c.has(0) || !c.has(1) || !c.has(2)) {
    return absl::InvalidArgumentError("expected X, cos_cache and sin_cache");
  }
  ASSIGN_OR_RETURN(const Rotary r, ReadRotary(c.attributes(), c.input(0).dims));
  for (int i : {1, 2}) {
    const Dims& cache = c.input(i).dims;
    const bool by_ids = c.has(3);
    const bool fits = by_ids ? cache.size() == 2 && cache[1] == r.turned / 2
                             : cache == Dims{r.samples, r.places, r.turned / 2};
    if (!fits || c.input(i).dtype != c.input(0).dtype) {
      return absl::InvalidArgumentError(absl::StrCat("input ", i, " is ", ToString(c.input(i)),
                                                     ", expected [.., ", r.turned / 2, "]"));
    }
  }
  if (c.has(3) && c.input(3).dims != Dims{r.samples, r.places}) {
    return absl::InvalidArgumentError(absl::StrCat("position_ids is ", ToString(c.input(3).dims)));
  }
  c.SetOutput(0, c.input(0).dtype, c.input(0).dims);
  return absl::OkStatus();
}

// Elements from, from + step, .. before `to` of the last axis.
Expr Along(Builder& b, Expr x, int64_t from, int64_t to, int64_t step = 1) {
  return b.Op("Slice", {x, OneInt(b, from), OneInt(b, to), OneInt(b, -1), OneInt(b, step)});
}

absl::Status LowerRotary(LowerContext& l) {
  Builder& b = l.b();
  const Dims x = l.x(0).dims();
  ASSIGN_OR_RETURN(const Rotary r, ReadRotary(l.attributes(), x));
  const bool interleaved = l.attributes().Int("interleaved", 0) != 0;
  const int64_t half = r.turned / 2;
  Dims of_heads = r.by_heads ? x : Dims{r.samples, r.places, r.heads, r.head};
  const Dims of_angles =
      r.by_heads ? Dims{r.samples, 1, r.places, half} : Dims{r.samples, r.places, 1, half};
  const auto angles = [&](int i) {
    Expr cache = l.has_x(3) ? b.Op("Gather", {l.x(i), l.x(3)}) : l.x(i);
    return b.Reshape(cache, of_angles);
  };
  Expr cos = angles(1), sin = angles(2);
  Expr heads = b.Reshape(l.x(0), of_heads);
  Expr x1 = interleaved ? Along(b, heads, 0, r.turned, 2) : Along(b, heads, 0, half);
  Expr x2 = interleaved ? Along(b, heads, 1, r.turned, 2) : Along(b, heads, half, r.turned);
  Expr real = cos * x1 - sin * x2, imaginary = sin * x1 + cos * x2;
  const Attributes last{{"axis", int64_t{-1}}};
  Expr y;
  if (interleaved) {
    Dims single = of_heads, turned = of_heads;
    single.back() = half;
    single.push_back(1);
    turned.back() = r.turned;
    y = b.Reshape(b.Op("Concat", {b.Reshape(real, single), b.Reshape(imaginary, single)}, last),
                  turned);
  } else {
    y = b.Op("Concat", {real, imaginary}, last);
  }
  if (r.turned < r.head) {
    y = b.Op("Concat", {y, Along(b, heads, r.turned, r.head)}, last);
  }
  l.y(0, b.Reshape(y, x));
  return absl::OkStatus();
}

// Samples first in everything that has them.
SampleAxis SamplesFirst(const Node&, absl::Span<const SampleAxis> inputs, int) {
  for (const SampleAxis& s : inputs) {
    if (s.kind != SampleAxis::Kind::kNone && !(s == SampleAxis::Axis(0)))
      return SampleAxis::Mixed();
  }
  return SampleAxis::Axis(0);
}

Operator RotaryEmbedding() {
  Operator op("", "RotaryEmbedding");
  for (const char* attributes : {"", "<interleaved = 1>", "<rotary_embedding_dim = 2>",
                                 "<interleaved = 1, rotary_embedding_dim = 2>"}) {
    const char* half = std::string(attributes).find("dim") == std::string::npos ? "2" : "1";
    op.Example(absl::StrCat("g (float[2, 2, 3, 4] x, float[2, 3, ", half, "] c, float[2, 3, ", half,
                            "] s) => (float[2, 2, 3, 4] y) { y = RotaryEmbedding", attributes,
                            "(x, c, s) }"));
  }
  op.Example(
        "g (float[2, 3, 8] x, float[4, 2] c, float[4, 2] s, int64[2, 3] labels_i) => "
        "(float[2, 3, 8] y) { y = RotaryEmbedding<num_heads = 2>(x, c, s, labels_i) }")
      .Example(
          "g (float[1, 2, 2, 4] x, float[4, 2] c, float[4, 2] s, int64[1, 2] labels_i) => "
          "(float[1, 2, 2, 4] y) "
          "{ y = RotaryEmbedding<interleaved = 1>(x, c, s, labels_i) }")
      .Infer(InferRotary)
      .AlwaysLower(LowerRotary)
      .Samples(SamplesFirst);
  return op;
}

// ---- Attention: Y = softmax(cap(Q K' scale) + bias) V for each head. A row of keys none
// of which may be seen gives zeros.

struct Heads {
  bool split = false;  // Q, K, V are [samples, places, heads * head]
  int64_t samples = 0, q_heads = 0, kv_heads = 0, queries = 0, keys = 0, past = 0;
  int64_t head = 0, v_head = 0;
  int64_t all() const { return past + keys; }
};

absl::StatusOr<Heads> ReadHeads(const Attributes& attributes, const Dims& q, const Dims& k,
                                const Dims& v, int64_t past) {
  Heads h;
  h.split = q.size() == 3;
  h.past = past;
  if (q.size() != k.size() || q.size() != v.size() || (q.size() != 3 && q.size() != 4)) {
    return absl::InvalidArgumentError("expected Q, K and V of 3 axes, or of 4");
  }
  const size_t places = h.split ? 1 : 2;
  h.q_heads = h.split ? attributes.Int("q_num_heads", 0) : q[1];
  h.kv_heads = h.split ? attributes.Int("kv_num_heads", 0) : k[1];
  h.samples = q[0];
  h.queries = q[places];
  h.keys = k[places];
  const int64_t q_split = h.split ? h.q_heads : 1, kv_split = h.split ? h.kv_heads : 1;
  bool fits = h.q_heads > 0 && h.kv_heads > 0 && h.q_heads % h.kv_heads == 0 && k[0] == q[0] &&
              v[0] == q[0] && v[places] == h.keys && (h.split || v[1] == h.kv_heads) &&
              q.back() % q_split == 0 && k.back() % kv_split == 0 && v.back() % kv_split == 0;
  if (fits) {
    h.head = q.back() / q_split;
    h.v_head = v.back() / kv_split;
    fits = k.back() / kv_split == h.head;
  }
  if (fits) return h;
  return absl::InvalidArgumentError(absl::StrCat("Q ", ToString(q), ", K ", ToString(k), ", V ",
                                                 ToString(v), ", ", h.q_heads, " and ", h.kv_heads,
                                                 " heads do not make an attention"));
}

absl::StatusOr<Heads> ReadHeads(const Node& node) {
  const int64_t past = node.input(4) == nullptr ? 0 : node.input(4)->dims()[2];
  return ReadHeads(node.attributes, node.input(0)->dims(), node.input(1)->dims(),
                   node.input(2)->dims(), past);
}

absl::Status InferAttention(InferContext& c) {
  if (!c.has(0) || !c.has(1) || !c.has(2)) {
    return absl::InvalidArgumentError("expected Q, K and V");
  }
  const bool has_past = c.has(4);
  if (has_past != c.has(5) || (has_past && c.has(6)) || (has_past && c.input(4).dims.size() != 4)) {
    return absl::InvalidArgumentError(
        "past_key and past_value stand together, and without nonpad_kv_seqlen");
  }
  const int64_t past = has_past ? c.input(4).dims[2] : 0;
  ASSIGN_OR_RETURN(const Heads h, ReadHeads(c.attributes(), c.input(0).dims, c.input(1).dims,
                                            c.input(2).dims, past));
  const Dims past_key{h.samples, h.kv_heads, past, h.head};
  const Dims past_value{h.samples, h.kv_heads, past, h.v_head};
  bool fits = !has_past || (c.input(4).dims == past_key && c.input(5).dims == past_value);
  fits = fits && (!c.has(6) || c.input(6).dims == Dims{h.samples});
  const Dims scores{h.samples, h.q_heads, h.queries, h.all()};
  if (c.has(3)) {
    Dims mask = c.input(3).dims;
    fits = fits && !mask.empty() && (mask.back() <= h.all());
    if (!mask.empty()) mask.back() = h.all();
    const absl::StatusOr<Dims> wide = Broadcast(mask, scores);
    fits = fits && wide.ok() && *wide == scores;
  }
  if (!fits) {
    return absl::InvalidArgumentError(
        absl::StrCat("the mask, the past or the lengths do not fit scores of ", ToString(scores)));
  }
  const DataType type = c.input(0).dtype;
  c.SetOutput(0, type,
              h.split ? Dims{h.samples, h.queries, h.q_heads * h.v_head}
                      : Dims{h.samples, h.q_heads, h.queries, h.v_head});
  c.SetOutput(1, type, {h.samples, h.kv_heads, h.all(), h.head});
  c.SetOutput(2, c.input(2).dtype, {h.samples, h.kv_heads, h.all(), h.v_head});
  c.SetOutput(3, type, scores);
  return absl::OkStatus();
}

constexpr double kNever = -std::numeric_limits<double>::infinity();

// What is added to the scores: 0 where a key may be seen, minus infinity where not, and
// the mask's numbers.
class Bias {
 public:
  Bias(LowerContext& l, const Heads& h) : l_(l), b_(l.b()), h_(h), type_(l.x(0).dtype()) {
    AddBounds();
    AddMask();
    AddLengths();
  }
  // Empty: nothing is added.
  Expr sum() const { return sum_; }
  // May there be rows without a key to see?
  bool open() const { return open_; }

 private:
  void Add(Expr part) { sum_ = sum_ ? sum_ + part : part; }
  void AddWhere(Expr allowed) {
    open_ = true;
    Add(b_.Where(allowed, b_.Scalar(type_, 0), b_.Scalar(type_, kNever)));
  }
  Expr Places(int64_t n, const Dims& dims) { return b_.Reshape(b_.Ints(Iota(n)), dims); }

  // Of a query to keys by their places: not behind it, if causal, and in its window.
  void AddBounds() {
    const bool causal = l_.attributes().Int("is_causal", 0) != 0;
    const int64_t left = l_.attributes().Int("left_window_size", -1);
    const int64_t right = l_.attributes().Int("right_window_size", -1);
    if (!causal && left < 0 && right < 0) return;
    if (l_.has_x(6)) {
      // The queries are the last places of each sample.
      Expr offset = b_.Reshape(l_.x(6), {h_.samples, 1, 1, 1}) - static_cast<double>(h_.queries);
      Expr ahead = Places(h_.all(), {1, h_.all()}) - (Places(h_.queries, {h_.queries, 1}) + offset);
      if (causal) AddWhere(b_.Op("LessOrEqual", {ahead, b_.Like(ahead, 0)}));
      if (right >= 0) {
        AddWhere(b_.Op("LessOrEqual", {ahead, b_.Like(ahead, static_cast<double>(right))}));
      }
      if (left >= 0) {
        AddWhere(b_.Op("GreaterOrEqual", {ahead, b_.Like(ahead, static_cast<double>(-left))}));
      }
      return;
    }
    std::vector<double> numbers;
    for (int64_t i = 0; i < h_.queries; ++i) {
      bool any = false;
      for (int64_t j = 0; j < h_.all(); ++j) {
        const int64_t ahead = j - (i + h_.past);
        const bool allowed = (!causal || ahead <= 0) && (right < 0 || ahead <= right) &&
                             (left < 0 || ahead >= -left);
        numbers.push_back(allowed ? 0 : kNever);
        any = any || allowed;
      }
      open_ = open_ || !any;
    }
    Add(Reals(b_, type_, {h_.queries, h_.all()}, numbers));
  }

  // The mask may end before the keys do: none behind it is seen.
  void AddMask() {
    if (!l_.has_x(3)) return;
    Expr mask = l_.x(3);
    const int64_t missing = h_.all() - mask.dims().back();
    if (mask.dtype() == DataType::kBool) {
      mask = b_.Where(mask, b_.Scalar(type_, 0), b_.Scalar(type_, kNever));
    } else {
      mask = b_.Cast(mask, type_);
    }
    if (missing > 0) {
      std::vector<int64_t> pads(2 * mask.rank(), 0);
      pads.back() = missing;
      mask = b_.Op("Pad", {mask, b_.Ints(pads), b_.Scalar(type_, kNever)});
    }
    open_ = true;
    Add(mask);
  }

  // No key behind the end of its sample is seen.
  void AddLengths() {
    if (!l_.has_x(6)) return;
    Expr ends = b_.Reshape(l_.x(6), {h_.samples, 1, 1, 1});
    AddWhere(b_.Op("Less", {Places(h_.all(), {h_.all()}), ends}));
  }

  LowerContext& l_;
  Builder& b_;
  const Heads& h_;
  DataType type_;
  Expr sum_;
  bool open_ = false;
};

// [samples, places, heads * head] to [samples, heads, places, head].
Expr ByHeads(Builder& b, Expr x, const Heads& h, int64_t heads, int64_t places, int64_t head) {
  if (!h.split) return x;
  return b.Transpose(b.Reshape(x, {h.samples, places, heads, head}), {0, 2, 1, 3});
}

// Each head of keys or values serves several of queries.
Expr Repeated(Builder& b, Expr x, const Heads& h, int64_t head) {
  const int64_t times = h.q_heads / h.kv_heads;
  if (times == 1) return x;
  Expr each = b.Reshape(x, {h.samples, h.kv_heads, 1, h.all(), head});
  return b.Reshape(b.Expand(each, {h.samples, h.kv_heads, times, h.all(), head}),
                   {h.samples, h.q_heads, h.all(), head});
}

// Softmax in the precision that is asked for, or a better one.
Expr Weights(LowerContext& l, Expr scores, const Bias& bias) {
  Builder& b = l.b();
  const DataType type = scores.dtype();
  const bool in_double =
      l.attributes().Int("softmax_precision", 0) == static_cast<int64_t>(DataType::kFloat64);
  if (in_double) scores = b.Cast(scores, DataType::kFloat64);
  if (!bias.open()) return b.Cast(b.Op("Softmax", {scores}), type);
  Expr most = b.Op("ReduceMax", {bias.sum(), OneInt(b, -1)}, {{"keepdims", int64_t{1}}});
  Expr none = b.Op("Equal", {most, b.Like(most, kNever)});
  Expr p = b.Op("Softmax", {b.Where(none, b.Like(scores, 0), scores)});
  return b.Cast(b.Where(none, b.Like(p, 0), p), type);
}

absl::Status LowerAttention(LowerContext& l) {
  Builder& b = l.b();
  ASSIGN_OR_RETURN(const Heads h, ReadHeads(l.node()));
  Expr q = ByHeads(b, l.x(0), h, h.q_heads, h.queries, h.head);
  Expr k = ByHeads(b, l.x(1), h, h.kv_heads, h.keys, h.head);
  Expr v = ByHeads(b, l.x(2), h, h.kv_heads, h.keys, h.v_head);
  if (l.has_x(4)) {
    k = b.Op("Concat", {l.x(4), k}, {{"axis", int64_t{2}}});
    v = b.Op("Concat", {l.x(5), v}, {{"axis", int64_t{2}}});
  }
  if (l.wants(1)) l.y(1, b.Op("Identity", {k}));
  if (l.wants(2)) l.y(2, b.Op("Identity", {v}));
  const double scale = l.attributes().Float(
      "scale", 1 / std::sqrt(static_cast<double>(std::max<int64_t>(h.head, 1))));
  Expr turned = b.Transpose(Repeated(b, k, h, h.head), {0, 1, 3, 2});
  const int64_t mode = l.attributes().Int("qk_matmul_output_mode", 0);
  Expr scores = b.MatMul(q * scale, turned);
  if (mode == 0) l.y(3, scores);
  const double cap = l.attributes().Float("softcap", 0);
  if (cap > 0) scores = cap * b.Op("Tanh", {scores / cap});
  if (mode == 1) l.y(3, cap > 0 ? scores : b.Op("Identity", {scores}));
  const Bias bias(l, h);
  if (bias.sum()) scores = scores + bias.sum();
  if (mode == 2) l.y(3, bias.sum() ? scores : b.Op("Identity", {scores}));
  if (!scores) return b.status();
  Expr weights = Weights(l, scores, bias);
  if (mode == 3) l.y(3, weights);
  Expr y =
      b.Cast(b.MatMul(b.Cast(weights, v.dtype()), Repeated(b, v, h, h.v_head)), l.x(0).dtype());
  if (h.split) {
    y = b.Reshape(b.Transpose(y, {0, 2, 1, 3}), {h.samples, h.queries, h.q_heads * h.v_head});
  }
  l.y(0, y);
  return absl::OkStatus();
}

SampleAxis AttentionSamples(const Node& node, absl::Span<const SampleAxis> inputs, int output) {
  // A mask that has samples has an axis for them.
  if (inputs.size() > 3 && inputs[3].kind == SampleAxis::Kind::kAxis &&
      node.input(3)->rank() != 4) {
    return SampleAxis::Mixed();
  }
  return SamplesFirst(node, inputs, output);
}

double AttentionOperations(const Node& node) {
  const auto h = ReadHeads(node);
  if (!h.ok()) return 0;
  return 2.0 * static_cast<double>(h->samples * h->q_heads * h->queries) *
         static_cast<double>(h->all()) * static_cast<double>(h->head + h->v_head);
}

Operator Attention() {
  Operator op("", "Attention");
  const auto example = [&](const std::string& attributes, const char* more, const char* names,
                           const char* outputs, const char* results) {
    op.Example(absl::StrCat("g (float[2, 2, 2, 3] q, float[2, 2, 4, 3] k, float[2, 2, 4, 2] v",
                            more, ") => (", outputs, ") { ", results, " = Attention", attributes,
                            "(q, k, v", names, ") }"));
  };
  const char* const y = "float[2, 2, 2, 2] y";
  example("", "", "", y, "y");
  example("<scale = 0.3>", ", float[4] m", ", m", y, "y");
  example("<softcap = 0.8>", ", float[2, 1, 2, 3] m", ", m", y, "y");
  example("", ", bool[2, 4] m", ", m", y, "y");
  example("<is_causal = 1>", ", bool[2, 2, 4] m", ", m", y, "y");
  example("<is_causal = 1>", "", "", y, "y");
  example("<is_causal = 1>", ", float[2, 2, 2, 3] pk, float[2, 2, 2, 2] pv", ", , pk, pv",
          "float[2, 2, 2, 2] y, float[2, 2, 6, 3] nk, float[2, 2, 6, 2] nv", "y, nk, nv");
  example("<is_causal = 1>", ", int64[2] labels_n", ", , , , labels_n", y, "y");
  example("<left_window_size = 1, right_window_size = 0>", ", int64[2] labels_n",
          ", , , , labels_n", y, "y");
  example("<left_window_size = 1, right_window_size = 1>", "", "", y, "y");
  example("<is_causal = 1, left_window_size = 0>", "", "", y, "y");
  example("<softmax_precision = 11>", "", "", y, "y");
  for (const char* mode : {"0", "1", "2", "3"}) {
    example(absl::StrCat("<qk_matmul_output_mode = ", mode, ", softcap = 0.5>"),
            ", float[1, 2, 2, 4] m", ", m", "float[2, 2, 2, 2] y, float[2, 2, 2, 4] s", "y, , , s");
  }
  op.Example(
        "g (float[1, 4, 2, 3] q, float[1, 2, 3, 3] k, float[1, 2, 3, 2] v) => "
        "(float[1, 4, 2, 2] y) { y = Attention(q, k, v) }")
      .Example(
          "g (float[2, 2, 8] q, float[2, 3, 4] k, float[2, 3, 6] v) => (float[2, 2, 12] y) "
          "{ y = Attention<q_num_heads = 4, kv_num_heads = 2>(q, k, v) }")
      .Infer(InferAttention)
      .AlwaysLower(LowerAttention)
      .Operations(AttentionOperations)
      .Samples(AttentionSamples);
  return op;
}

// ---- LinearAttention: a matrix of state for each head, written and read at every step.
//   S = S exp(decay)          if gated
//   v = beta (v - S' k)       if delta
//   S = S + k v';  y = scale S' q

struct LinearHeads {
  int64_t samples = 0, steps = 0, q_heads = 0, kv_heads = 0, head = 0, v_head = 0;
  bool gated = false, delta = false;
};

absl::StatusOr<LinearHeads> ReadLinearHeads(const Attributes& attributes, const Dims& q,
                                            const Dims& k, const Dims& v) {
  LinearHeads h;
  h.q_heads = attributes.Int("q_num_heads", 0);
  h.kv_heads = attributes.Int("kv_num_heads", 0);
  const std::string rule = attributes.String("update_rule", "gated_delta");
  h.gated = rule == "gated" || rule == "gated_delta";
  h.delta = rule == "delta" || rule == "gated_delta";
  bool fits = (h.gated || h.delta || rule == "linear") && h.q_heads > 0 && h.kv_heads > 0 &&
              h.q_heads % h.kv_heads == 0 && q.size() == 3 && k.size() == 3 && v.size() == 3 &&
              k[0] == q[0] && v[0] == q[0] && k[1] == q[1] && v[1] == q[1] &&
              q[2] % h.q_heads == 0 && v[2] % h.kv_heads == 0;
  if (fits) {
    h.samples = q[0];
    h.steps = q[1];
    h.head = q[2] / h.q_heads;
    h.v_head = v[2] / h.kv_heads;
    fits = k[2] == h.head * h.kv_heads;
  }
  if (fits) return h;
  return absl::InvalidArgumentError(absl::StrCat("query ", ToString(q), ", key ", ToString(k),
                                                 ", value ", ToString(v), ", heads and rule '",
                                                 rule, "' do not fit"));
}

absl::Status InferLinearAttention(InferContext& c) {
  if (!c.has(0) || !c.has(1) || !c.has(2)) {
    return absl::InvalidArgumentError("expected query, key and value");
  }
  ASSIGN_OR_RETURN(const LinearHeads h, ReadLinearHeads(c.attributes(), c.input(0).dims,
                                                        c.input(1).dims, c.input(2).dims));
  const Dims state{h.samples, h.kv_heads, h.head, h.v_head};
  const auto is = [&](int i, int64_t width) {
    return c.input(i).dims == Dims{h.samples, h.steps, width};
  };
  const bool fits = (!c.has(3) || c.input(3).dims == state) && c.has(4) == h.gated &&
                    c.has(5) == h.delta &&
                    (!h.gated || is(4, h.kv_heads) || is(4, h.kv_heads * h.head)) &&
                    (!h.delta || is(5, h.kv_heads) || is(5, 1));
  if (!fits) {
    return absl::InvalidArgumentError("past_state, decay or beta does not fit the update rule");
  }
  c.SetOutput(0, c.input(0).dtype, {h.samples, h.steps, h.q_heads * h.v_head});
  c.SetOutput(1, c.has(3) ? c.input(3).dtype : c.input(0).dtype, state);
  return absl::OkStatus();
}

absl::Status LowerLinearAttention(LowerContext& l) {
  Builder& b = l.b();
  ASSIGN_OR_RETURN(const LinearHeads h,
                   ReadLinearHeads(l.attributes(), l.x(0).dims(), l.x(1).dims(), l.x(2).dims()));
  const int64_t group = h.q_heads / h.kv_heads;
  // One [samples, heads, ..] for each step.
  const auto steps = [&](int i, const Dims& dims) {
    std::vector<Expr> out;
    if (!l.has_x(i) || h.steps == 0) return out;
    out = b.Ops("Split", {l.x(i)}, {{"axis", int64_t{1}}, {"num_outputs", h.steps}},
                static_cast<int>(h.steps));
    for (Expr& e : out) e = b.Reshape(e, dims);
    return out;
  };
  const auto width = [&](int i) { return l.has_x(i) ? l.x(i).dims()[2] : 0; };
  const std::vector<Expr> q = steps(0, {h.samples, h.kv_heads, group, h.head});
  const std::vector<Expr> k = steps(1, {h.samples, h.kv_heads, h.head, 1});
  const std::vector<Expr> v = steps(2, {h.samples, h.kv_heads, 1, h.v_head});
  const std::vector<Expr> decay =
      steps(4, {h.samples, h.kv_heads, std::max<int64_t>(width(4) / h.kv_heads, 1), 1});
  const std::vector<Expr> beta = steps(5, {h.samples, width(5), 1, 1});
  const DataType type = l.x(0).dtype();
  Expr state = l.has_x(3) ? b.Cast(l.x(3), type)
                          : b.Zeros({type, {h.samples, h.kv_heads, h.head, h.v_head}, {}});
  const double given = l.attributes().Float("scale", 0);
  const double scale =
      given != 0 ? given : 1 / std::sqrt(static_cast<double>(std::max<int64_t>(h.head, 1)));
  std::vector<Expr> read;
  for (int64_t t = 0; t < h.steps && b.status().ok(); ++t) {
    if (h.gated) state = state * b.Op("Exp", {decay[t]});
    Expr written = v[t];
    if (h.delta) {
      Expr row = b.Reshape(k[t], {h.samples, h.kv_heads, 1, h.head});
      written = beta[t] * (written - b.MatMul(row, state));
    }
    state = state + k[t] * written;
    Expr y = b.MatMul(q[t] * scale, state);
    read.push_back(b.Reshape(y, {h.samples, 1, h.q_heads * h.v_head}));
  }
  if (l.wants(0)) {
    l.y(0, read.empty() ? b.Zeros(l.node().output(0)->type)
                        : b.Op("Concat", read, {{"axis", int64_t{1}}}));
  }
  if (l.wants(1)) l.y(1, b.Op("Identity", {b.Cast(state, l.node().output(1)->dtype())}));
  return absl::OkStatus();
}

Operator LinearAttention() {
  Operator op("", "LinearAttention");
  const auto example = [&](const char* rule, const char* more, const char* names,
                           const char* attributes) {
    op.Example(absl::StrCat(
        "g (float[2, 3, 8] q, float[2, 3, 4] k, float[2, 3, 6] v", more,
        ") => (float[2, 3, 12] y, float[2, 2, 2, 3] s) { y, s = LinearAttention<q_num_heads = 4, "
        "kv_num_heads = 2, update_rule = \"",
        rule, "\"", attributes, ">(q, k, v", names, ") }"));
  };
  const char* const past = ", float[2, 2, 2, 3] p";
  example("linear", "", "", "");
  example("linear", past, ", p", ", scale = 0.4, chunk_size = 2");
  example("gated", absl::StrCat(past, ", float[2, 3, 2] g").c_str(), ", p, g", "");
  example("gated", ", float[2, 3, 4] g", ", , g", "");
  example("delta", ", float[2, 3, 1] be", ", , , be", "");
  example("gated_delta", ", float[2, 3, 4] g, float[2, 3, 2] be", ", , g, be", "");
  op.Infer(InferLinearAttention).AlwaysLower(LowerLinearAttention).Samples(SamplesFirst);
  return op;
}

}  // namespace

void AddAttentionOperators(OperatorFamily& list) {
  list.push_back(RotaryEmbedding());
  list.push_back(Attention());
  list.push_back(LinearAttention());
}

}  // namespace onward
