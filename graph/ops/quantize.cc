// Quantisation: stated in arithmetic on reals, so that it is computed by any kernels and
// differentiated straight through.
#include <algorithm>
#include <cmath>
#include <utility>
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

struct Range {
  double low, high;
};

// Of the types that values are quantised to; of floats, the finite ones.
Range RangeOf(DataType type) {
  switch (type) {
    case DataType::kInt8:
      return {-128, 127};
    case DataType::kUint16:
      return {0, 65535};
    case DataType::kInt16:
      return {-32768, 32767};
    case DataType::kUint4:
      return {0, 15};
    case DataType::kInt4:
      return {-8, 7};
    case DataType::kUint2:
      return {0, 3};
    case DataType::kInt2:
      return {-2, 1};
    default:
      break;
  }
  if (!IsSmallFloat(type)) return {0, 255};
  const float most = SmallFloatToFloat(type, FloatToSmallFloat(type, 1e30));
  return {-most, most};
}

// A scale or zero point as something that broadcasts to x: one number; one per entry of
// the axis; or one per block of `block` entries of it.
Expr Spread(Builder& b, Expr value, const Dims& x, const Attributes& attributes) {
  const int64_t block = attributes.Int("block_size", 0);
  if (Elements(value.dims()) == 1) return b.Reshape(value, {});
  const int64_t axis = FromBack(attributes.Int("axis", 1), static_cast<int64_t>(x.size()));
  if (block == 0) {
    Dims dims(x.size(), 1);
    dims[axis] = x[axis];
    return b.Reshape(value, dims);
  }
  Dims dims = value.dims();
  const int64_t blocks = dims[axis];
  dims.insert(dims.begin() + axis + 1, 1);
  Dims repeated = dims;
  repeated[axis + 1] = block;
  Dims joined = value.dims();
  joined[axis] = blocks * block;
  Expr whole = b.Reshape(b.Expand(b.Reshape(value, dims), repeated), joined);
  if (joined[axis] == x[axis]) return whole;
  return b.Op("Slice", {whole, OneInt(b, 0), OneInt(b, x[axis]), OneInt(b, axis)});
}

// The extents of a scale, and of a zero point, which are its own.
absl::Status CheckScales(InferContext& c) {
  const Dims& x = c.input(0).dims;
  const Dims& scale = c.input(1).dims;
  if (c.has(2) && c.input(2).dims != scale &&
      (Elements(c.input(2).dims) != 1 || Elements(scale) != 1)) {
    return absl::InvalidArgumentError(absl::StrCat("zero point is ", ToString(c.input(2).dims),
                                                   ", expected ", ToString(scale),
                                                   " as the scale"));
  }
  if (Elements(scale) == 1) return absl::OkStatus();
  const int64_t rank = static_cast<int64_t>(x.size());
  ASSIGN_OR_RETURN(const int64_t axis, NormalizeAxis(c.attributes().Int("axis", 1), rank));
  const int64_t block = c.attributes().Int("block_size", 0);
  bool fits = block == 0 && scale == Dims{x[axis]};
  if (block > 0 && scale.size() == x.size()) {
    Dims whole = scale;
    whole[axis] = x[axis];
    const int64_t blocks = scale[axis];
    fits = whole == x && blocks == x[axis] / block + (x[axis] % block != 0 ? 1 : 0);
  }
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "scale is ", ToString(scale), ", expected one number, one for each of the ", x[axis],
      " entries of axis ", axis, " or one for each block of block_size of them"));
}

// ---- onward.RoundThrough: rounding that gradients do not see.

absl::Status InferRound(InferContext& c) {
  const DataType to = static_cast<DataType>(c.attributes().Int("to", 0));
  if (c.num_inputs() != 1 || !c.has(0) || !IsFloating(c.input(0).dtype) ||
      !(IsInteger(to) || IsSmallInteger(to) || IsSmallFloat(to))) {
    return absl::InvalidArgumentError("expected one floating input, and the type to round to");
  }
  c.SetOutput(0, c.input(0).dtype, c.input(0).dims);
  return absl::OkStatus();
}

absl::Status LowerRound(LowerContext& l) {
  const DataType to = static_cast<DataType>(l.attributes().Int("to", 0));
  if (!IsSmallFloat(to)) {
    l.y(0, l.b().Op("Round", {l.x(0)}));
    return absl::OkStatus();
  }
  Expr code =
      l.b().Op("Cast", {l.x(0)},
               {{"to", static_cast<int64_t>(to)}, {"saturate", l.attributes().Int("saturate", 1)}});
  l.y(0, l.b().Cast(code, l.x(0).dtype()));
  return absl::OkStatus();
}

// dx = dy, where x is not beyond what the type can hold (integers are clipped behind it)
absl::Status RoundGradient(GradientContext& g) {
  const DataType to = static_cast<DataType>(g.attributes().Int("to", 0));
  if (!IsSmallFloat(to)) {
    g.dx(0, g.dy());
    return absl::OkStatus();
  }
  Builder& b = g.b();
  Expr inside = b.Op("LessOrEqual", {b.Op("Abs", {g.x(0)}), b.Like(g.x(0), RangeOf(to).high)});
  g.dx(0, KeepWhere(inside, g.dy()));
  return absl::OkStatus();
}

// ---- QuantizeLinear and DequantizeLinear.

// What QuantizeLinear casts to its type: the quantised numbers as reals.
//   q = min(max(round(x / scale) + zero point, low), high)
Expr QuantizedReals(Builder& b, const Node& node) {
  const DataType to = node.output(0)->dtype();
  Expr x = b.Wrap(node.input(0)), scale = b.Wrap(node.input(1));
  DataType precision = static_cast<DataType>(node.attributes.Int("precision", 0));
  if (precision == DataType::kUndefined) {
    precision = IsFloating(scale.dtype()) ? scale.dtype() : DataType::kFloat32;
  }
  const DataType wide = precision == DataType::kFloat64 ? precision : DataType::kFloat32;
  Expr q = b.Cast(x, precision) / Spread(b, b.Cast(scale, precision), x.dims(), node.attributes);
  q = b.Cast(q, wide);
  const Attributes rounding(
      {{"to", static_cast<int64_t>(to)}, {"saturate", node.attributes.Int("saturate", 1)}});
  Expr zero;
  if (node.input(2) != nullptr && PackedBits(to) != 0) {
    zero = Spread(b, b.Cast(b.Wrap(node.input(2)), wide), x.dims(), node.attributes);
  }
  if (IsSmallFloat(to)) {
    // (The zero point of a float of 8 bits is 0 by definition.)
    if (zero && PackedBits(to) < 8) q = q + zero;
    return b.Op("onward.RoundThrough", {q}, rounding);
  }
  q = b.Op("onward.RoundThrough", {q}, rounding);
  if (zero) q = q + zero;
  const Range range = RangeOf(to);
  return b.Op("Clip", {q, b.Like(q, range.low), b.Like(q, range.high)});
}

absl::Status LowerQuantize(LowerContext& l) {
  const DataType to = l.node().output(0)->dtype();
  l.y(0, l.b().Op(
             "Cast", {QuantizedReals(l.b(), l.node())},
             {{"to", static_cast<int64_t>(to)}, {"saturate", l.attributes().Int("saturate", 1)}}));
  return absl::OkStatus();
}

// The reals that a quantised value has been cast from, where it has been: quantisation
// followed by its inverse then never leaves the reals, and is differentiable.
Expr RealsBehind(Builder& b, Value* quantised) {
  const Node* node = quantised->producer;
  if (node == nullptr || !node->op().domain.empty()) return Expr();
  if (node->op().name == "QuantizeLinear") return QuantizedReals(b, *node);
  if (node->op().name != "Cast") return Expr();
  Value* const reals = node->input(0);
  const Node* maker = reals->producer;
  for (const char* step : {"Clip", "Add"}) {
    if (maker != nullptr && maker->op().id() == step) maker = maker->input(0)->producer;
  }
  const bool rounded = maker != nullptr && maker->op().id() == "onward.RoundThrough" &&
                       maker->attributes.Int("to", 0) == static_cast<int64_t>(quantised->dtype());
  return rounded ? b.Wrap(reals) : Expr();
}

// y = (x - zero point) * scale
absl::Status LowerDequantize(LowerContext& l) {
  Builder& b = l.b();
  const Dims dims = l.x(0).dims();
  const DataType from = l.x(0).dtype();
  Expr x = RealsBehind(b, l.node().input(0));
  x = b.Cast(x ? x : l.x(0), DataType::kFloat32);
  if (l.has_x(2) && !(IsSmallFloat(from) && PackedBits(from) != 6)) {
    x = x - Spread(b, b.Cast(l.x(2), DataType::kFloat32), dims, l.attributes());
  }
  x = x * Spread(b, b.Cast(l.x(1), DataType::kFloat32), dims, l.attributes());
  l.y(0, b.Cast(x, l.node().output(0)->dtype()));
  return absl::OkStatus();
}

SampleAxis SamplesOfFirst(const Node&, absl::Span<const SampleAxis> in, int) {
  for (size_t i = 1; i < in.size(); ++i) {
    if (in[i].kind != SampleAxis::Kind::kNone) return SampleAxis::Mixed();
  }
  return in[0];
}

// Examples in which x and the scale are float32 whatever the type of the inputs is, and no
// output is real: to finite differences a rounding has no slope.
std::string Quantising(const char* x, const char* scale, const char* more, const char* call) {
  return absl::StrCat("g (float", x, " large_x, float", scale, " unit_s", more, ") => (int32", x,
                      " y) { x = Cast<to = 1>(large_x) s = Cast<to = 1>(unit_s) ",
                      "q = QuantizeLinear", call, " y = Cast<to = 6>(q) }");
}
std::string Dequantising(const char* x, const char* scale, const char* y, const char* call) {
  return absl::StrCat("g (", x, ", float", scale, " unit_s) => (int32", y,
                      " y) { s = Cast<to = 1>(unit_s) d = DequantizeLinear", call,
                      " h = Cast<to = 11>(d) k = Constant<value = int32 {100}>() ",
                      "kd = Cast<to = 11>(k) m = Mul(h, kd) y = Cast<to = 6>(m) }");
}

void AddLinearQuantisation(OperatorFamily& list) {
  list.push_back(
      Operator(kOnward, "RoundThrough")
          .Elementwise()
          .Infer(InferRound)
          // (Through a cast: to finite differences a rounding has no slope.)
          .Example("g (float[2, 9] large_x) => (int32[2, 9] y) "
                   "{ q = onward.RoundThrough<to = 3>(large_x) y = Cast<to = 6>(q) }")
          .Example("g (float[9] large_x) => (bool[9] y) { q = onward.RoundThrough<to = 17, "
                   "saturate = 0>(large_x) y = Greater(q, large_x) }")
          .Example("g (float[9] large_x) => (bool[9] y) "
                   "{ q = onward.RoundThrough<to = 23>(large_x) y = Greater(q, large_x) }")
          .Gradient(RoundGradient)
          .Lower(LowerRound));

  list.push_back(
      Operator("", "QuantizeLinear")
          .Infer(OnnxInferenceAnd("QuantizeLinear", CheckScales))
          .Samples(SamplesOfFirst)
          .Example(Quantising("[2, 5]", "", "", "(x, s)"))
          .Example(Quantising("[2, 3, 2]", "[3]", ", int8[3] signed_z", "(x, s, signed_z)"))
          .Example(Quantising("[2, 3]", "[2]", "", "<axis = -2, output_dtype = 5>(x, s)"))
          .Example(Quantising("[2, 5]", "[2, 3]", "",
                              "<axis = 1, block_size = 2, output_dtype = 22>(x, s)"))
          .Example(Quantising("[6]", "", "", "<output_dtype = 17, saturate = 0>(x, s)"))
          .Example(Quantising("[6]", "", "", "<output_dtype = 23, precision = 11>(x, s)"))
          .AlwaysLower(LowerQuantize));

  list.push_back(
      Operator("", "DequantizeLinear")
          .Infer(OnnxInferenceAnd("DequantizeLinear", CheckScales))
          .Samples(SamplesOfFirst)
          .Example(Dequantising("int8[2, 3] signed_x", "", "[2, 3]", "(signed_x, s)"))
          .Example(Dequantising("uint8[2, 3, 2] labels_x, uint8[3] labels_z", "[3]", "[2, 3, 2]",
                                "(labels_x, s, labels_z)"))
          .Example(Dequantising("int32[5, 2] signed_x", "[2, 2]", "[5, 2]",
                                "<axis = 0, block_size = 3>(signed_x, s)"))
          .Example("g (int8[2, 3] signed_x, float unit_s) => (double[2, 3] y) { s = Cast<to = "
                   "1>(unit_s) d = DequantizeLinear(signed_x, s) y = Cast<to = 11>(d) }")
          .Example(Dequantising("int32[2, 3] signed_x", "", "[2, 3]",
                                "<output_dtype = 10>(signed_x, s)"))
          .AlwaysLower(LowerDequantize));
}

// scale = (max(0, max x) - min(0, min x)) / 255, and 1 / 255 where all is 0;
// zero point = round(clip(-min(0, min x) / scale))
absl::Status LowerDynamicQuantize(LowerContext& l) {
  Builder& b = l.b();
  Expr x = l.x(0);
  const auto extreme = [&](const char* reduce, const char* with_zero) {
    Expr one = b.Op(reduce, {x}, {{"keepdims", int64_t{0}}});
    return b.Op(with_zero, {one, b.Like(x, 0)});
  };
  Expr low = extreme("ReduceMin", "Min"), high = extreme("ReduceMax", "Max");
  Expr range = high - low;
  range = b.Where(b.Op("Equal", {range, b.Like(x, 0)}), b.Like(x, 1), range);
  Expr scale = range / b.Like(x, 255);
  Expr zero = b.Op("Round", {b.Op("Clip", {-(low / scale), b.Like(x, 0), b.Like(x, 255)})});
  zero = b.Cast(zero, DataType::kUint8);
  l.y(0, b.Op("QuantizeLinear", {x, scale, zero}));
  l.y(1, scale);
  l.y(2, zero);
  return absl::OkStatus();
}

// ---- Products of quantised numbers.

// The type in which sums of so many products of numbers of 8 bits are exact.
DataType ExactFor(int64_t products) {
  return products * 256 * 256 < (int64_t{1} << 24) ? DataType::kFloat32 : DataType::kFloat64;
}

// x - zero point as reals. A zero point per entry of `axis` is spread along it.
Expr Centred(Builder& b, Expr x, Expr zero, int64_t axis, DataType type) {
  Expr out = b.Cast(x, type);
  if (!zero) return out;
  zero = b.Cast(zero, type);
  if (Elements(zero.dims()) == 1) return out - b.Reshape(zero, {});
  if (zero.rank() > 1) return out - zero;
  Dims dims(x.rank(), 1);
  dims[axis] = zero.dims()[0];
  return out - b.Reshape(zero, dims);
}

Expr Optional(LowerContext& l, int i) { return i < l.num_inputs() && l.has_x(i) ? l.x(i) : Expr(); }

// The integers of a product of a and b less their zero points, as reals.
Expr MatMulReals(Builder& b, Expr a, Expr a_zero, Expr w, Expr w_zero) {
  const DataType type = ExactFor(a.dims().back());
  return b.MatMul(Centred(b, a, a_zero, std::max(0, a.rank() - 2), type),
                  Centred(b, w, w_zero, w.rank() - 1, type));
}

absl::Status LowerMatMulInteger(LowerContext& l) {
  Expr y = MatMulReals(l.b(), l.x(0), Optional(l, 2), l.x(1), Optional(l, 3));
  l.y(0, l.b().Cast(y, DataType::kInt32));
  return absl::OkStatus();
}

Expr ConvReals(Builder& b, const Attributes& attributes, Expr x, Expr x_zero, Expr w, Expr w_zero) {
  const int64_t products = w.dims()[0] == 0 ? 0 : Elements(w.dims()) / w.dims()[0];
  const DataType type = ExactFor(products);
  return b.Op("Conv", {Centred(b, x, x_zero, 1, type), Centred(b, w, w_zero, 0, type)}, attributes);
}

absl::Status LowerConvInteger(LowerContext& l) {
  Expr y = ConvReals(l.b(), l.attributes(), l.x(0), Optional(l, 2), l.x(1), Optional(l, 3));
  l.y(0, l.b().Cast(y, DataType::kInt32));
  return absl::OkStatus();
}

// y = saturate(round(sums * (a scale * b scale / y scale) + y zero point))
Expr Requantised(Builder& b, Expr sums, Expr scales, Expr y_zero, DataType to) {
  Expr y = b.Cast(sums, DataType::kFloat64) * scales;
  y = y + b.Cast(y_zero, DataType::kFloat64);
  const Range range = RangeOf(to);
  y = b.Op("Clip", {b.Op("Round", {y}), b.Like(y, range.low), b.Like(y, range.high)});
  return b.Cast(y, to);
}

// A scale per row of the left or column of the right operand broadcasts to the product.
Expr ScaleOf(Builder& b, Expr scale, int rank, int axis) {
  scale = b.Cast(scale, DataType::kFloat32);
  if (Elements(scale.dims()) == 1) return b.Reshape(scale, {});
  if (scale.rank() > 1) return scale;
  Dims dims(rank, 1);
  dims[axis] = scale.dims()[0];
  return b.Reshape(scale, dims);
}

absl::Status LowerQLinearMatMul(LowerContext& l) {
  Builder& b = l.b();
  Expr sums = MatMulReals(b, l.x(0), l.x(2), l.x(3), l.x(5));
  const int rank = sums.rank();
  Expr scales = ScaleOf(b, l.x(1), rank, std::max(0, rank - 2)) *
                ScaleOf(b, l.x(4), rank, std::max(0, rank - 1)) /
                ScaleOf(b, l.x(6), rank, std::max(0, rank - 1));
  l.y(0, Requantised(b, sums, b.Cast(scales, DataType::kFloat64), l.x(7),
                     l.node().output(0)->dtype()));
  return absl::OkStatus();
}

absl::Status LowerQLinearConv(LowerContext& l) {
  Builder& b = l.b();
  Expr sums = ConvReals(b, l.attributes(), l.x(0), l.x(2), l.x(3), l.x(5));
  sums = b.Cast(sums, DataType::kFloat64);
  if (Expr bias = Optional(l, 8)) {
    Dims dims(sums.rank(), 1);
    dims[1] = bias.dims()[0];
    sums = sums + b.Reshape(b.Cast(bias, DataType::kFloat64), dims);
  }
  Expr scales = ScaleOf(b, l.x(1), sums.rank(), 1) * ScaleOf(b, l.x(4), sums.rank(), 1) /
                ScaleOf(b, l.x(6), sums.rank(), 1);
  l.y(0, Requantised(b, sums, b.Cast(scales, DataType::kFloat64), l.x(7),
                     l.node().output(0)->dtype()));
  return absl::OkStatus();
}

void AddQuantisedProducts(OperatorFamily& list) {
  list.push_back(Operator("", "DynamicQuantizeLinear")
                     .Samples(SamplesMixed)
                     .Example("g (float[2, 5] large_x) => (uint8[2, 5] y, uint8 z) "
                              "{ f = Cast<to = 1>(large_x) y, s, z = DynamicQuantizeLinear(f) }")
                     .Example("g (uint8[2, 5] x) => (uint8[2, 5] y, uint8 z) { f = Cast<to = 1>(x) "
                              "zero = Sub(f, f) y, s, z = DynamicQuantizeLinear(zero) }")
                     .AlwaysLower(LowerDynamicQuantize));

  list.push_back(
      Operator("", "MatMulInteger")
          .Samples(SamplesOfFirst)
          .Example("g (uint8[2, 3] labels_a, int8[3, 4] signed_b) => (int32[2, 4] y) "
                   "{ y = MatMulInteger(labels_a, signed_b) }")
          .Example("g (uint8[2, 2, 3] labels_a, uint8[2, 3, 4] labels_b, uint8 labels_c, "
                   "uint8[4] labels_d) => (int32[2, 2, 4] y) "
                   "{ y = MatMulInteger(labels_a, labels_b, labels_c, labels_d) }")
          .Example("g (int8[2, 300] signed_a, int8[300, 4] signed_b, int8[2] signed_c) => "
                   "(int32[2, 4] y) { y = MatMulInteger(signed_a, signed_b, signed_c) }")
          .AlwaysLower(LowerMatMulInteger));

  list.push_back(
      Operator("", "ConvInteger")
          .Samples(SamplesOfFirst)
          .Example("g (uint8[1, 2, 4, 4] labels_x, uint8[3, 2, 2, 2] labels_w) => "
                   "(int32[1, 3, 3, 3] y) { y = ConvInteger(labels_x, labels_w) }")
          .Example("g (uint8[1, 2, 4, 4] labels_x, int8[4, 1, 3, 3] signed_w, uint8 labels_c, "
                   "int8[4] signed_d) => (int32[1, 4, 2, 2] y) { y = ConvInteger<pads = "
                   "[1, 1, 1, 1], strides = [2, 2], group = 2>(labels_x, signed_w, labels_c, "
                   "signed_d) }")
          .AlwaysLower(LowerConvInteger));

  list.push_back(
      Operator("", "QLinearMatMul")
          .Samples(SamplesOfFirst)
          .Example("g (uint8[2, 3] labels_a, uint8 labels_c, int8[3, 4] signed_b, int8 signed_d, "
                   "uint8 labels_e) => (uint8[2, 4] y) { s = Constant<value_float = 0.5>() t = "
                   "Constant<value_float = 0.25>() u = Constant<value_float = 0.2>() y = "
                   "QLinearMatMul(labels_a, s, labels_c, signed_b, t, signed_d, u, labels_e) }")
          .Example(
              "g (int8[2, 3] signed_a, int8[2] signed_c, int8[3, 4] signed_b, int8[4] signed_d, "
              "int8 signed_e) => (int8[2, 4] y) { s = Constant<value_floats = [0.5, 0.3]>() t = "
              "Constant<value_floats = [0.25, 0.5, 1.0, 2.0]>() u = Constant<value_float = 0.02>() "
              "y = QLinearMatMul(signed_a, s, signed_c, signed_b, t, signed_d, u, signed_e) }")
          .AlwaysLower(LowerQLinearMatMul));

  list.push_back(
      Operator("", "QLinearConv")
          .Samples(SamplesOfFirst)
          .Example("g (uint8[1, 2, 4, 4] labels_x, uint8 labels_c, uint8[3, 2, 2, 2] labels_w, "
                   "uint8[3] labels_d, uint8 labels_e, int32[3] signed_b) => (uint8[1, 3, 3, 3] y) "
                   "{ s = Constant<value_float = 0.5>() t = Constant<value_floats = [0.25, 0.5, "
                   "0.1]>() u = Constant<value_float = 0.2>() y = QLinearConv(labels_x, s, "
                   "labels_c, labels_w, t, labels_d, u, labels_e, signed_b) }")
          .Example(
              "g (int8[1, 1, 3, 3] signed_x, int8 signed_c, int8[1, 1, 1, 1] signed_w, int8 "
              "signed_d, int8 signed_e) => (int8[1, 1, 3, 3] y) { s = Constant<value_float = "
              "0.5>() y = QLinearConv(signed_x, s, signed_c, signed_w, s, signed_d, s, signed_e) }")
          .AlwaysLower(LowerQLinearConv));
}

}  // namespace

void AddQuantizeOperators(OperatorFamily& list) {
  AddLinearQuantisation(list);
  AddQuantisedProducts(list);
}

}  // namespace onward
