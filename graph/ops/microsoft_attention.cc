// Attention as com.microsoft has it, in three forms: each brings its queries, keys and
// values into heads, and its masks into what is added to the scores, and is then ONNX's.
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/base/status_macros.h"
#include "graph/ir/graph.h"
#include "graph/ops/microsoft.h"
#include "graph/ops/rules.h"

namespace onward {
namespace {

// [samples, places, heads * head] to [samples, heads, places, head].
Expr InHeads(Builder& b, Expr x, int64_t heads) {
  if (!x) return x;
  const Dims d = x.dims();
  return b.Transpose(b.Reshape(x, {d[0], d[1], heads, d[2] / heads}), {0, 2, 1, 3});
}

Expr OutOfHeads(Builder& b, Expr x) {
  if (!x) return x;
  const Dims d = x.dims();
  return b.Reshape(b.Transpose(x, {0, 2, 1, 3}), {d[0], d[2], d[1] * d[3]});
}

// [2, samples, heads, places, head]: keys and values behind one another.
Expr Half(Builder& b, Expr past, int64_t which) {
  if (!past) return past;
  const Dims d = past.dims();
  return b.Reshape(Part(b, past, 0, which, which + 1), Dims(d.begin() + 1, d.end()));
}

Expr Plus(Expr a, Expr b) { return !a ? b : !b ? a : a + b; }

// What there is to see.
struct Sight {
  int64_t samples = 0, queries = 0, keys = 0;  // the past ones among the keys
  int64_t past = 0;
};

// 0 where it may be seen, `never` where not.
Expr AddedWhere(Builder& b, Expr allowed, DataType type, double never) {
  return b.Where(allowed, b.Scalar(type, 0), b.Scalar(type, never));
}

// A mask of keys, to be added to the scores: ends of the samples, their ends and starts,
// or flags for keys, for queries and keys, or for the longest of both.
absl::StatusOr<Expr> KeyMask(LowerContext& l, int input, const Sight& s, DataType type) {
  Builder& b = l.b();
  if (!l.has_x(input)) return Expr();
  const double never = l.attributes().Float("mask_filter_value", -10000);
  Expr mask = l.x(input);
  const Dims dims = mask.dims();
  const auto flags = [&](Expr m, const Dims& as) {
    Expr seen = b.Op("Greater", {b.Cast(m, DataType::kInt32), b.Scalar(DataType::kInt32, 0)});
    return AddedWhere(b, b.Reshape(seen, as), type, never);
  };
  if (dims == Dims{s.samples, s.keys}) return flags(mask, {s.samples, 1, 1, s.keys});
  if (dims == Dims{s.samples, s.queries, s.keys}) {
    return flags(mask, {s.samples, 1, s.queries, s.keys});
  }
  if (dims.size() == 4 && dims[0] == s.samples && dims[1] == 1 && dims[2] >= s.keys &&
      dims[3] == dims[2]) {
    mask = Part(b, Part(b, mask, 2, s.keys - s.queries, s.keys), 3, 0, s.keys);
    return flags(mask, {s.samples, 1, s.queries, s.keys});
  }
  if (dims == Dims{s.samples} || dims == Dims{2 * s.samples}) {
    const Dims each = {s.samples, 1, 1, 1};
    Expr places = b.Cast(b.Ints(Iota(s.keys)), mask.dtype());
    Expr end = b.Reshape(Part(b, mask, 0, 0, s.samples), each);
    Expr seen = b.Op("Less", {places, end});
    if (dims[0] == 2 * s.samples && s.samples > 0) {
      Expr start = b.Reshape(Part(b, mask, 0, s.samples, 2 * s.samples), each);
      seen = b.Op("And", {seen, b.Op("GreaterOrEqual", {places, start})});
    }
    return AddedWhere(b, seen, type, never);
  }
  return DoNotFit(l, absl::StrCat("a mask for ", s.samples, " samples, ", s.queries,
                                  " queries and ", s.keys, " keys"));
}

// An addend of the scores of all heads.
absl::StatusOr<Expr> ScoreBias(LowerContext& l, int input, const Sight& s, int64_t heads) {
  if (!l.has_x(input)) return Expr();
  const Dims d = l.x(input).dims();
  const bool fits = d.size() == 4 && (d[0] == 1 || d[0] == s.samples) &&
                    (d[1] == 1 || d[1] == heads) && d[2] == s.queries && d[3] == s.keys;
  if (fits) return l.x(input);
  return DoNotFit(l, absl::StrCat("a bias of ", s.queries, " queries and ", s.keys, " keys"));
}

absl::Status Refuse(LowerContext& l, const char* attribute, int64_t usual) {
  if (l.attributes().Int(attribute, usual) == usual) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat("attribute ", attribute, " is ",
                                               l.attributes().Int(attribute, usual),
                                               ", which is not known, expected ", usual));
}

struct Parts {
  Expr q, k, v;  // [samples, heads, places, head]
  Expr added;    // to the scores; may be empty
  Expr past_key, past_value;
};

// ONNX's attention of 4 axes: y, and the keys and values with the past.
std::vector<Expr> Attend(LowerContext& l, const Parts& p, Attributes attributes) {
  const double scale = l.attributes().Float("scale", 0);
  if (scale != 0) attributes.Set("scale", scale);
  return OpsWith(l.b(), "Attention", {p.q, p.k, p.v, p.added, p.past_key, p.past_value},
                 std::move(attributes), 3);
}

// ---- Attention. Inputs: x [samples, places, width], weights [width, 3 * hidden], bias,
// mask, past [2, samples, heads, places, head], bias of the scores, length of the past.

absl::Status LowerAttention(LowerContext& l) {
  Builder& b = l.b();
  const int64_t heads = l.attributes().Int("num_heads", 0);
  if (!HasRank(l, 0, 3) || !HasRank(l, 1, 2) || heads < 1 || (l.has_x(4) && !HasRank(l, 4, 5))) {
    return DoNotFit(l, "x of 3 axes, weights of 2, a past of 5, and num_heads");
  }
  RETURN_IF_ERROR(Refuse(l, "do_rotary", 0));
  RETURN_IF_ERROR(Refuse(l, "past_present_share_buffer", 0));
  const Dims x = l.x(0).dims();
  const int64_t all = l.x(1).dims()[1];
  const std::vector<int64_t> sizes =
      l.attributes().Ints("qkv_hidden_sizes", {all / 3, all / 3, all / 3});
  bool fits = sizes.size() == 3 && sizes[0] == sizes[1];
  int64_t sum = 0;
  for (int64_t size : sizes) {
    fits = fits && size > 0 && size <= all && size % heads == 0;
    sum += fits ? size : 0;
  }
  if (!fits || sum != all) return DoNotFit(l, "weights that num_heads and qkv_hidden_sizes divide");
  Expr made = b.MatMul(l.x(0), l.x(1));
  if (l.has_x(2)) made = made + l.x(2);
  if (!made || made.rank() != 3)
    return b.status().ok() ? DoNotFit(l, "a bias of 1 axis") : b.status();
  Parts p;
  p.q = InHeads(b, Part(b, made, 2, 0, sizes[0]), heads);
  p.k = InHeads(b, Part(b, made, 2, sizes[0], 2 * sizes[0]), heads);
  p.v = InHeads(b, Part(b, made, 2, 2 * sizes[0], all), heads);
  Sight s{x[0], x[1], x[1], 0};
  if (l.has_x(4)) {
    p.past_key = Half(b, l.x(4), 0);
    p.past_value = Half(b, l.x(4), 1);
    s.past = l.x(4).dims()[3];
    s.keys += s.past;
  }
  ASSIGN_OR_RETURN(const Expr mask, KeyMask(l, 3, s, l.x(0).dtype()));
  ASSIGN_OR_RETURN(const Expr bias, ScoreBias(l, 5, s, heads));
  p.added = Plus(mask, bias);
  const std::vector<Expr> y =
      Attend(l, p, {{"is_causal", l.attributes().Int("unidirectional", 0)}});
  l.y(0, OutOfHeads(b, y[0]));
  if (l.wants(1)) {
    const auto stacked = [&](Expr e) { return b.Op("Unsqueeze", {e, OneInt(b, 0)}); };
    l.y(1, b.Op("Concat", {stacked(y[1]), stacked(y[2])}, {{"axis", int64_t{0}}}));
  }
  return absl::OkStatus();
}

SampleAxis AttentionSamples(const Node& node, absl::Span<const SampleAxis> in, int output) {
  const bool alone = in.size() < 5 || in[4].kind == SampleAxis::Kind::kNone;
  // Ends and starts in one list.
  const bool listed = node.input(3) != nullptr && in[3].kind != SampleAxis::Kind::kNone &&
                      node.input(3)->dims()[0] != node.input(0)->dims()[0];
  if (output == 1 || !alone || listed) return SampleAxis::Mixed();
  return MicrosoftSamples(node, in, output);
}

Operator Attention() {
  Operator op = ByLowering("Attention", {2, 7, 2}, LowerAttention);
  const auto example = [&](const char* attributes, const char* more, const char* names,
                           const char* outputs, const char* results) {
    op.Example(absl::StrCat("g (float[2, 3, 4] x, float[4, 12] w", more, ") => (", outputs, ") { ",
                            results, " = com.microsoft.Attention<num_heads = 2", attributes,
                            ">(x, w", names, ") }"));
  };
  const char* const y = "float[2, 3, 4] y";
  const char* const bias = ", float[12] b";
  example("", bias, ", b", y, "y");
  example(", unidirectional = 1, scale = 0.4", bias, ", b", y, "y");
  example("", ", int32[2] labels_m", ", , labels_m", y, "y");
  example("", ", int32[4] labels_m", ", , labels_m", y, "y");
  example(", mask_filter_value = -2.0", ", int32[2, 3] m", ", , m", y, "y");
  example(", mask_filter_value = -2.0", ", int32[2, 3, 3] m", ", , m", y, "y");
  example(", mask_filter_value = -2.0", ", int32[2, 1, 5, 5] m", ", , m", y, "y");
  example("", ", float[1, 2, 3, 3] a", ", , , , a", y, "y");
  example(", unidirectional = 1", ", float[2, 2, 2, 1, 2] p", ", , , p",
          "float[2, 3, 4] y, float[2, 2, 2, 4, 2] r", "y, r");
  op.Example(
        "g (float[1, 2, 3] x, float[3, 14] w, float[14] b) => (float[1, 2, 6] y) { y = "
        "com.microsoft.Attention<num_heads = 2, qkv_hidden_sizes = [4, 4, 6]>(x, w, b) }")
      .Samples(AttentionSamples);
  return op;
}

// ---- MultiHeadAttention. Inputs: query [samples, places, hidden] or with keys and values
// packed behind [.., heads, 3, head]; key the same, with values packed [.., heads, 2, head],
// or in heads already [samples, heads, places, head]; value; bias of all three; mask of keys;
// bias of the scores; past key and value.

absl::Status ReadQueries(LowerContext& l, int64_t heads, Parts* p) {
  Builder& b = l.b();
  const auto unpacked = [&](Expr x, int64_t which) {
    const Dims& d = x.dims();
    Expr one = b.Reshape(Part(b, x, 3, which, which + 1), {d[0], d[1], d[2], d[4]});
    return b.Transpose(one, {0, 2, 1, 3});
  };
  const auto packs = [&](int i, int64_t count) {
    return HasRank(l, i, 5) && l.x(i).dims()[2] == heads && l.x(i).dims()[3] == count;
  };
  const auto divides = [&](int i) { return HasRank(l, i, 3) && l.x(i).dims()[2] % heads == 0; };
  if (packs(0, 3) && !l.has_x(1) && !l.has_x(2) && !l.has_x(3)) {
    p->q = unpacked(l.x(0), 0);
    p->k = unpacked(l.x(0), 1);
    p->v = unpacked(l.x(0), 2);
    return absl::OkStatus();
  }
  if (!divides(0)) return DoNotFit(l, absl::StrCat("queries of ", heads, " heads"));
  const int64_t hidden = l.x(0).dims()[2];
  const bool biased = l.has_x(3);
  if (biased && (!HasRank(l, 3, 1) || l.x(3).dims()[0] < 2 * hidden)) {
    return DoNotFit(l, "a bias of queries, keys and values");
  }
  const auto with_bias = [&](Expr x, int64_t from, int64_t to) {
    return biased ? x + Part(b, l.x(3), 0, from, to) : x;
  };
  p->q = InHeads(b, with_bias(l.x(0), 0, hidden), heads);
  if (packs(1, 2) && !l.has_x(2) && !biased) {
    p->k = unpacked(l.x(1), 0);
    p->v = unpacked(l.x(1), 1);
  } else if (HasRank(l, 1, 4) && HasRank(l, 2, 4)) {
    p->k = l.x(1);
    p->v = l.x(2);
  } else if (divides(1) && divides(2) && l.x(1).dims()[2] == hidden) {
    p->k = InHeads(b, with_bias(l.x(1), hidden, 2 * hidden), heads);
    const int64_t end = biased ? l.x(3).dims()[0] : 0;
    p->v = InHeads(b, with_bias(l.x(2), 2 * hidden, end), heads);
  } else {
    return DoNotFit(l, absl::StrCat("keys and values of ", heads, " heads"));
  }
  return absl::OkStatus();
}

absl::Status LowerMultiHead(LowerContext& l) {
  Builder& b = l.b();
  const int64_t heads = l.attributes().Int("num_heads", 0);
  if (heads < 1 || !l.has_x(0)) return DoNotFit(l, "a query, and num_heads");
  if (l.has_x(8) || l.has_x(9)) {
    return absl::UnimplementedError("past_sequence_length and cache_indirection are not known");
  }
  Parts p;
  RETURN_IF_ERROR(ReadQueries(l, heads, &p));
  if (!p.q || !p.k || !p.v) return b.status();
  Sight s{p.q.dims()[0], p.q.dims()[2], p.k.dims()[2], 0};
  if (l.has_x(6) && HasRank(l, 6, 4) && l.has_x(7)) {
    p.past_key = l.x(6);
    p.past_value = l.x(7);
    s.past = l.x(6).dims()[2];
    s.keys += s.past;
  } else if (l.has_x(6) || l.has_x(7)) {
    return DoNotFit(l, "past keys and values of 4 axes");
  }
  ASSIGN_OR_RETURN(const Expr mask, KeyMask(l, 4, s, p.q.dtype()));
  ASSIGN_OR_RETURN(const Expr bias, ScoreBias(l, 5, s, heads));
  p.added = Plus(mask, bias);
  const std::vector<Expr> y =
      Attend(l, p, {{"is_causal", l.attributes().Int("unidirectional", 0)}});
  l.y(0, OutOfHeads(b, y[0]));
  if (l.wants(1)) l.y(1, y[1]);
  if (l.wants(2)) l.y(2, y[2]);
  return absl::OkStatus();
}

Operator MultiHeadAttention() {
  Operator op = ByLowering("MultiHeadAttention", {1, 10, 3}, LowerMultiHead);
  const auto example = [&](const char* attributes, const char* more, const char* names,
                           const char* outputs, const char* results) {
    op.Example(absl::StrCat("g (float[2, 3, 4] q, float[2, 5, 4] k, float[2, 5, 6] v", more,
                            ") => (", outputs, ") { ", results,
                            " = com.microsoft.MultiHeadAttention<num_heads = 2", attributes,
                            ">(q, k, v", names, ") }"));
  };
  const char* const y = "float[2, 3, 6] y";
  example("", "", "", y, "y");
  example(", scale = 0.3", ", float[14] b", ", b", y, "y");
  example("", ", int32[2] labels_m", ", , labels_m", y, "y");
  example(", mask_filter_value = -2.0", ", int32[2, 5] m", ", , m", y, "y");
  example(", mask_filter_value = -2.0", ", int32[2, 3, 5] m, float[1, 1, 3, 5] a", ", , m, a", y,
          "y");
  example("", ", float[2, 2, 1, 2] pk, float[2, 2, 1, 3] pv", ", , , , pk, pv",
          "float[2, 3, 6] y, float[2, 2, 6, 2] nk, float[2, 2, 6, 3] nv", "y, nk, nv");
  op.Example(
        "g (float[2, 3, 4] x) => (float[2, 3, 4] y) { y = com.microsoft.MultiHeadAttention"
        "<num_heads = 2, unidirectional = 1>(x, x, x) }")
      .Example(
          "g (float[2, 3, 2, 3, 2] x) => (float[2, 3, 4] y) "
          "{ y = com.microsoft.MultiHeadAttention<num_heads = 2>(x) }")
      .Example(
          "g (float[2, 3, 4] q, float[2, 4, 2, 2, 2] k) => (float[2, 3, 4] y) "
          "{ y = com.microsoft.MultiHeadAttention<num_heads = 2>(q, k) }")
      .Example(
          "g (float[2, 3, 4] q, float[2, 2, 5, 2] k, float[2, 2, 5, 2] v, float[12] b) => "
          "(float[2, 3, 4] y) "
          "{ y = com.microsoft.MultiHeadAttention<num_heads = 2>(q, k, v, b) }")
      .Samples(MicrosoftSamples);
  return op;
}

// ---- GroupQueryAttention: causal, each head of keys for several of queries. Inputs: query
// [samples, places, hidden], or with keys and values behind in one; key; value; past key and
// value; the last place of each sample; the number of places; cos and sin tables; position
// ids; bias of the scores; a score of each head that no key has (the sink).

struct Groups {
  int64_t heads = 0, kv_heads = 0, head = 0, samples = 0, queries = 0, past = 0;
};

absl::StatusOr<Groups> ReadGroups(LowerContext& l) {
  Groups g;
  g.heads = l.attributes().Int("num_heads", 0);
  g.kv_heads = l.attributes().Int("kv_num_heads", 0);
  bool fits = HasRank(l, 0, 3) && g.heads > 0 && g.kv_heads > 0 && g.heads % g.kv_heads == 0 &&
              l.has_x(1) == l.has_x(2) && l.has_x(3) == l.has_x(4) && l.has_x(5) &&
              (!l.has_x(1) || (HasRank(l, 1, 3) && HasRank(l, 2, 3))) &&
              (!l.has_x(3) || (HasRank(l, 3, 4) && HasRank(l, 4, 4)));
  if (fits) {
    const Dims q = l.x(0).dims();
    const int64_t in_query = l.has_x(1) ? g.heads : g.heads + 2 * g.kv_heads;
    g.samples = q[0];
    g.queries = q[1];
    g.head = q[2] / in_query;
    g.past = l.has_x(3) ? l.x(3).dims()[2] : 0;
    const Dims kv = {q[0], q[1], g.kv_heads * g.head};
    fits = q[2] % in_query == 0 && g.head > 0 && Elements(l.x(5).dims()) == q[0] &&
           (!l.has_x(1) || (l.x(1).dims() == kv && l.x(2).dims() == kv));
  }
  if (fits) return g;
  return DoNotFit(l,
                  "query, key and value of 3 axes that num_heads and kv_num_heads divide, the "
                  "past of 4, and a length for each sample");
}

// Places of the queries, [samples, queries]: behind the past.
Expr PlacesOf(LowerContext& l, const Groups& g) {
  Builder& b = l.b();
  if (l.has_x(9)) return b.Cast(l.x(9), DataType::kInt64);
  std::vector<int64_t> places = Iota(g.queries);
  for (int64_t& p : places) p += g.past;
  return b.Expand(b.Ints(places), {g.samples, g.queries});
}

absl::Status LowerGroupQuery(LowerContext& l) {
  Builder& b = l.b();
  ASSIGN_OR_RETURN(const Groups g, ReadGroups(l));
  RETURN_IF_ERROR(Refuse(l, "smooth_softmax", 0));
  RETURN_IF_ERROR(Refuse(l, "qk_output", 0));
  if (l.has_x(11)) return absl::UnimplementedError("head_sink is not known");
  if (g.past > 0) {
    // The past of each sample would end where its length says, which data decides.
    const Tensor* total = l.has_x(6) ? l.node().input(6)->constant.get() : nullptr;
    if (total == nullptr || total->elements() != 1 || total->IntAt(0) != g.past + g.queries) {
      return absl::UnimplementedError(
          "a past that is not full: expected total_sequence_length to be a constant, the extent "
          "of the past and of the queries together");
    }
  }
  Expr q = l.x(0), k, v;
  if (l.has_x(1)) {
    k = l.x(1);
    v = l.x(2);
  } else {
    const int64_t keys = g.heads * g.head, values = keys + g.kv_heads * g.head;
    k = Part(b, q, 2, keys, values);
    v = Part(b, q, 2, values, values + g.kv_heads * g.head);
    q = Part(b, q, 2, 0, keys);
  }
  Parts p{InHeads(b, q, g.heads),
          InHeads(b, k, g.kv_heads),
          InHeads(b, v, g.kv_heads),
          Expr(),
          Expr(),
          Expr()};
  if (l.attributes().Int("do_rotary", 0) != 0) {
    if (!HasRank(l, 7, 2) || !HasRank(l, 8, 2)) return DoNotFit(l, "tables of cos and sin");
    const int64_t turned = 2 * l.x(7).dims()[1];
    const Attributes attributes = {
        {"interleaved", l.attributes().Int("rotary_interleaved", 0)},
        {"rotary_embedding_dim", turned == g.head ? int64_t{0} : turned}};
    const Expr places = PlacesOf(l, g);
    for (Expr* x : {&p.q, &p.k}) {
      *x = b.Op("RotaryEmbedding", {*x, l.x(7), l.x(8), places}, attributes);
    }
  }
  if (g.past > 0) {
    p.past_key = l.x(3);
    p.past_value = l.x(4);
  }
  const Sight s{g.samples, g.queries, g.past + g.queries, g.past};
  ASSIGN_OR_RETURN(p.added, ScoreBias(l, 10, s, g.heads));
  Attributes attributes = {{"is_causal", int64_t{1}},
                           {"softcap", l.attributes().Float("softcap", 0)}};
  const int64_t window = l.attributes().Int("local_window_size", -1);
  if (window > 0) attributes.Set("left_window_size", window - 1);
  const std::vector<Expr> y = Attend(l, p, attributes);
  l.y(0, OutOfHeads(b, y[0]));
  if (l.wants(1)) l.y(1, y[1]);
  if (l.wants(2)) l.y(2, y[2]);
  return absl::OkStatus();
}

SampleAxis GroupQuerySamples(const Node& node, absl::Span<const SampleAxis> in, int output) {
  for (int i : {6, 7, 8}) {
    if (node.input(i) != nullptr && in[i].kind != SampleAxis::Kind::kNone) {
      return SampleAxis::Mixed();
    }
  }
  return MicrosoftSamples(node, in, output);
}

Operator GroupQueryAttention() {
  Operator op = ByLowering("GroupQueryAttention", {7, 12, 3}, LowerGroupQuery);
  const auto example = [&](const char* attributes, const char* inputs, const char* names,
                           const char* total) {
    op.Example(absl::StrCat(
        "g (", inputs, ", int32[2] n) => (float[2, 3, 8] y, float[2, 1, ", total,
        ", 4] nk, float[2, 1, ", total, ", 4] nv) { t = Constant<value = int32 {", total,
        "}>() y, nk, nv = com.microsoft.GroupQueryAttention<num_heads = 2, kv_num_heads = 1",
        attributes, ">(", names, ") }"));
  };
  const std::string qkv = "float[2, 3, 8] q, float[2, 3, 4] k, float[2, 3, 4] v";
  example("", qkv.c_str(), "q, k, v, , , n, t", "3");
  example(", scale = 0.4, softcap = 0.7", "float[2, 3, 16] x", "x, , , , , n, t", "3");
  example(", local_window_size = 2", qkv.c_str(), "q, k, v, , , n, t", "3");
  const std::string tables = ", float[6, 2] c, float[6, 2] s";
  example(", do_rotary = 1", (qkv + tables).c_str(), "q, k, v, , , n, t, c, s", "3");
  example(", do_rotary = 1, rotary_interleaved = 1",
          (qkv + ", float[6, 1] c, float[6, 1] s, int64[2, 3] labels_i").c_str(),
          "q, k, v, , , n, t, c, s, labels_i", "3");
  example(", do_rotary = 1",
          (qkv + ", float[2, 1, 2, 4] pk, float[2, 1, 2, 4] pv" + tables).c_str(),
          "q, k, v, pk, pv, n, t, c, s", "5");
  example("", (qkv + ", float[2, 1, 0, 4] pk, float[2, 1, 0, 4] pv, float[1, 2, 3, 3] a").c_str(),
          "q, k, v, pk, pv, n, t, , , , a", "3");
  op.Samples(GroupQuerySamples);
  return op;
}

}  // namespace

void AddMicrosoftAttention(std::vector<Operator>& list) {
  list.push_back(Attention());
  list.push_back(MultiHeadAttention());
  list.push_back(GroupQueryAttention());
}

}  // namespace onward
