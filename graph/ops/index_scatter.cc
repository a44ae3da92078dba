// Reading and writing at single places: GatherElements, GatherND, their scatters,
// OneHot, NonZero, TopK, TensorScatter.
#include "absl/strings/str_cat.h"
#include "graph/base/status_macros.h"
#include "graph/ir/builder.h"
#include "graph/ir/depends_on_data.h"
#include "graph/ops/checked.h"
#include "graph/ops/operators.h"
#include "graph/ops/rules.h"

namespace onward {
namespace {

absl::Status DoNotFit(const InferContext& c) {
  std::string shapes;
  for (int i = 0; i < c.num_inputs(); ++i) {
    absl::StrAppend(&shapes,
                    i == 0   ? ""
                    : i == 1 ? " and indices "
                             : " and updates ",
                    ToString(c.input(i).dims));
  }
  return absl::InvalidArgumentError(absl::StrCat("data ", shapes, " do not fit"));
}

// One index for each element of a part of the data, and an update for each index.
absl::Status CheckElements(InferContext& c) {
  const Dims &data = c.input(0).dims, &indices = c.input(1).dims;
  const int64_t rank = static_cast<int64_t>(data.size());
  const int64_t axis = c.attributes().Int("axis", 0);
  if (rank == 0 || axis < -rank || axis >= rank) {
    return absl::InvalidArgumentError(absl::StrCat("axis ", axis, " of data ", ToString(data)));
  }
  if (indices.size() != data.size()) return DoNotFit(c);
  for (int64_t i = 0; i < rank; ++i) {
    if (i != FromBack(axis, rank) && indices[i] > data[i]) return DoNotFit(c);
  }
  return c.num_inputs() > 2 && c.input(2).dims != indices ? DoNotFit(c) : absl::OkStatus();
}

// The last axis of the indices counts through the data's axes behind those of the batch; an
// update for each index is what lies behind.
absl::Status CheckTuples(InferContext& c) {
  const Dims &data = c.input(0).dims, &indices = c.input(1).dims;
  const int64_t batch = c.attributes().Int("batch_dims", 0);
  const int64_t rank = static_cast<int64_t>(data.size());
  if (batch < 0 || indices.empty() || batch >= static_cast<int64_t>(indices.size()) ||
      indices.back() > rank - batch || batch > rank) {
    return DoNotFit(c);
  }
  for (int64_t i = 0; i < batch; ++i) {
    if (data[i] != indices[i]) return DoNotFit(c);
  }
  if (c.num_inputs() < 3) return absl::OkStatus();
  Dims updates(indices.begin(), indices.end() - 1);
  updates.insert(updates.end(), data.begin() + indices.back(), data.end());
  return c.input(2).dims == updates ? absl::OkStatus() : DoNotFit(c);
}

// The places that one tensor of indices names, read and written.
struct Places {
  Builder& b;
  Expr indices;
  bool elements;  // GatherElements and ScatterElements; else GatherND and ScatterND
  int64_t axis;   // elements only

  Expr Read(Expr data) const {
    return elements ? b.Op("GatherElements", {data, indices}, {{"axis", axis}})
                    : b.Op("GatherND", {data, indices});
  }
  Expr Write(Expr data, Expr updates, const char* reduction) const {
    Attributes attributes{{"reduction", std::string(reduction)}};
    if (elements) attributes.Set("axis", axis);
    return b.Op(elements ? "ScatterElements" : "ScatterND", {data, indices, updates}, attributes);
  }
  Expr Full(Expr like, double number) const { return b.Expand(b.Like(like, number), like.dims()); }
  Expr Is(Expr a, Expr c) const { return AsNumber(b.Op("Equal", {a, c}), a); }
};

// y = data * (product of the updates of each place). An update's slope is the
// product of all others there: without its own zero, all must be without.
void MulGradient(GradientContext& g, const Places& at) {
  Builder& b = g.b();
  Expr data = g.x(0), updates = g.x(2);
  if (g.wants(0)) g.dx(0, g.dy() * at.Write(at.Full(data, 1), updates, "mul"));
  if (!g.wants(2)) return;
  Expr zero = at.Is(updates, b.Like(updates, 0));
  Expr nonzero = updates + zero;  // 1 in place of 0
  Expr zeros = at.Read(at.Write(at.Full(data, 0), zero, "add"));
  Expr product = at.Read(at.Write(data, nonzero, "mul"));
  Expr alone = b.Op("Equal", {zeros - zero, b.Like(zero, 0)});
  g.dx(2, KeepWhere(alone, at.Read(g.dy()) * (product / nonzero)));
}

// y = the greatest (least) of data and updates: those that equal it share dy.
void ExtremeGradient(GradientContext& g, const Places& at) {
  Expr updates = g.x(2);
  Expr kept = at.Is(g.x(0), g.y());
  Expr chosen = at.Is(updates, at.Read(g.y()));
  Expr share = g.dy() / at.Write(kept, chosen, "add");
  g.dx(0, share * kept);
  if (g.wants(2)) g.dx(2, at.Read(share) * chosen);
}

// y = data, with updates at the places.  none: ddata = dy but 0 there, dupdates = dy there
//                                        add: ddata = dy, dupdates = dy there
absl::Status ScatterGradient(GradientContext& g, bool elements) {
  const Places at{g.b(), g.x(1), elements, g.attributes().Int("axis", 0)};
  const std::string reduction = g.attributes().String("reduction", "none");
  if (reduction == "mul") {
    MulGradient(g, at);
  } else if (reduction == "max" || reduction == "min") {
    ExtremeGradient(g, at);
  } else {
    if (g.wants(0)) {
      g.dx(0, reduction == "add" ? g.dy() : at.Write(g.dy(), at.Full(g.x(2), 0), "none"));
    }
    if (g.wants(2)) g.dx(2, at.Read(g.dy()));
  }
  return absl::OkStatus();
}

void AddElements(OperatorFamily& list) {
  // y[i][j] = data[indices[i][j]][j] for axis 0, and so on
  list.push_back(
      Operator("", "GatherElements")
          .Infer(OnnxInferenceAnd("GatherElements", CheckElements))
          .Example("g (float[3, 4] data, int64[2, 4] labels_i) => (float[2, 4] y) "
                   "{ y = GatherElements(data, labels_i) }")
          .Example("g (float[3, 4] data, int32[3, 7] labels_i) => (float[3, 7] y) "
                   "{ y = GatherElements<axis = -1>(data, labels_i) }")
          .Example("g (float[3, 2] data) => (float[1, 2] y) "
                   "{ i = Constant<value = int64[1, 2] {-1, -3}>() y = GatherElements(data, i) }")
          .Example("g (float[3, 2] data, int64[0, 2] i) => (float[0, 2] y) "
                   "{ y = GatherElements(data, i) }")
          .Gradient([](GradientContext& g) {
            const Places at{g.b(), g.x(1), true, g.attributes().Int("axis", 0)};
            g.dx(0, at.Write(at.Full(g.x(0), 0), g.dy(), "add"));
            return absl::OkStatus();
          })
          .Samples([](const Node& node, absl::Span<const SampleAxis> inputs, int) {
            const SampleAxis &data = inputs[0], &indices = inputs[1];
            const int axis =
                static_cast<int>(FromBack(node.attributes.Int("axis", 0), node.input(0)->rank()));
            using Kind = SampleAxis::Kind;
            if (data.kind == Kind::kNone) return indices;
            if (data.kind != Kind::kAxis || data.axis == axis) return SampleAxis::Mixed();
            return indices.kind == Kind::kNone || indices == data ? data : SampleAxis::Mixed();
          }));

  Operator scatter("", "ScatterElements");
  for (const char* reduction : {"add", "mul", "max", "min"}) {
    scatter.Example(
        absl::StrCat("g (float[3, 4] data, int64[5, 4] labels_i, float[5, 4] u) => "
                     "(float[3, 4] y) { y = ScatterElements<reduction = \"",
                     reduction, "\">(data, labels_i, u) }"));
    scatter.Example(
        absl::StrCat("g (int64[2, 4] signed_data, int32[2, 2] labels_i, int64[2, 2] "
                     "signed_u) => (int64[2, 4] y) { y = ScatterElements<axis = -1, "
                     "reduction = \"",
                     reduction, "\">(signed_data, labels_i, signed_u) }"));
  }
  scatter
      .Example(
          "g (float[3, 2] data, float[2, 2] u) => (float[3, 2] y) "
          "{ i = Constant<value = int64[2, 2] {-1, 1, 0, 2}>() y = ScatterElements(data, i, u) }")
      .Example(
          "g (float[2, 3] data, float[2, 1] u) => (float[2, 3] y) "
          "{ i = Constant<value = int64[2, 1] {2, -3}>() "
          "y = ScatterElements<axis = 1, reduction = \"none\">(data, i, u) }")
      .Infer(OnnxInferenceAnd("ScatterElements", CheckElements))
      .Gradient([](GradientContext& g) { return ScatterGradient(g, true); })
      .Samples([](const Node& node, absl::Span<const SampleAxis> inputs, int) {
        const SampleAxis& data = inputs[0];
        const int64_t axis = FromBack(node.attributes.Int("axis", 0), node.input(0)->rank());
        if (data.kind != SampleAxis::Kind::kAxis || data.axis == axis) return SampleAxis::Mixed();
        return inputs[1] == data && inputs[2] == data ? data : SampleAxis::Mixed();
      });
  list.push_back(scatter);
}

// GatherND's leading batch_dims axes are indices like the others, only unwritten:
// this writes them, in front of each tuple.
Expr WithBatchIndices(Builder& b, Expr indices, int64_t batch_dims) {
  if (batch_dims == 0 || !indices) return indices;
  Dims dims = indices.dims();
  dims.back() = batch_dims;
  Tensor places(DataType::kInt64, dims);
  const Dims strides = Strides(absl::MakeConstSpan(dims).first(dims.size() - 1));
  for (int64_t k = 0; k < places.elements(); ++k) {
    const int64_t tuple = k / batch_dims, d = k % batch_dims;
    places.mutable_values<int64_t>()[k] = tuple / strides[d] % dims[d];
  }
  return b.Op("Concat", {b.Constant(std::move(places)), indices}, {{"axis", int64_t{-1}}});
}

void AddTuples(OperatorFamily& list) {
  // y[k..] = data[indices[k..]], the last axis of indices being one tuple
  list.push_back(
      Operator("", "GatherND")
          .Infer(OnnxInferenceAnd("GatherND", CheckTuples))
          .Example(
              "g (float[2, 3, 4] data, int64[5, 2] i) => (float[5, 4] y) { y = GatherND(data, i) }")
          .Example("g (float[2, 3] data) => (float[2] y) "
                   "{ i = Constant<value = int64[2, 2] {-1, 0, 1, -3}>() y = GatherND(data, i) }")
          .Example("g (float[2, 3, 4] data, int64[2, 1] labels_i) => (float[2, 4] y) "
                   "{ y = GatherND<batch_dims = 1>(data, labels_i) }")
          .Example("g (float[2, 3, 4] data, int64[2, 3, 2, 1] labels_i) => (float[2, 3, 2] y) "
                   "{ y = GatherND<batch_dims = 2>(data, labels_i) }")
          .Example(
              "g (float[2, 3] data, int64[0, 1] i) => (float[0, 3] y) { y = GatherND(data, i) }")
          .Gradient([](GradientContext& g) {
            Expr indices = WithBatchIndices(g.b(), g.x(1), g.attributes().Int("batch_dims", 0));
            const Places at{g.b(), indices, false, 0};
            g.dx(0, at.Write(at.Full(g.x(0), 0), g.dy(), "add"));
            return absl::OkStatus();
          })
          .Samples([](const Node& node, absl::Span<const SampleAxis> inputs, int) {
            const SampleAxis &data = inputs[0], &indices = inputs[1];
            using Kind = SampleAxis::Kind;
            const int last = node.input(1)->rank() - 1;
            if (indices.kind != Kind::kAxis || indices.axis == last) return SampleAxis::Mixed();
            const bool own_rows =
                indices == data && data.axis < node.attributes.Int("batch_dims", 0);
            return data.kind == Kind::kNone || own_rows ? indices : SampleAxis::Mixed();
          }));

  Operator scatter("", "ScatterND");
  for (const char* reduction : {"add", "mul", "max", "min"}) {
    scatter.Example(
        absl::StrCat("g (float[3, 2] data, int64[5, 1] labels_i, float[5, 2] u) => "
                     "(float[3, 2] y) { y = ScatterND<reduction = \"",
                     reduction, "\">(data, labels_i, u) }"));
  }
  scatter
      .Example(
          "g (float[3, 2] data, float[2] u) => (float[3, 2] y) "
          "{ i = Constant<value = int64[2, 2] {-1, 1, 0, 0}>() y = ScatterND(data, i, u) }")
      .Example(
          "g (float[3, 2, 2] data, float[2, 2, 2] u) => (float[3, 2, 2] y) "
          "{ i = Constant<value = int64[2, 1] {2, 0}>() "
          "y = ScatterND<reduction = \"none\">(data, i, u) }")
      .Example(
          "g (int64[3] data, int64[2, 1] labels_i, int64[2] u) => (int64[3] y) "
          "{ y = ScatterND<reduction = \"add\">(data, labels_i, u) }")
      .Infer(OnnxInferenceAnd("ScatterND", CheckTuples))
      .Gradient([](GradientContext& g) { return ScatterGradient(g, false); })
      .Samples(SamplesMixed);
  list.push_back(scatter);
}

// present[b, .., start[b] + t, ..] = update[b, .., t, ..], past elsewhere; in circular mode
// places behind the end begin anew
absl::Status LowerTensorScatter(LowerContext& l) {
  Builder& b = l.b();
  const Dims past = l.x(0).dims(), update = l.x(1).dims();
  const int64_t axis = FromBack(l.attributes().Int("axis", -2), l.x(0).rank());
  Dims samples(past.size(), 1), steps(past.size(), 1);
  samples[0] = update[0];
  steps[axis] = update[axis];
  Expr places = b.Reshape(b.Ints(Iota(update[axis])), steps);
  if (l.has_x(2)) places = places + b.Reshape(l.x(2), samples);
  if (l.attributes().String("mode", "linear") == "circular") {
    places = b.Op("Mod", {places, b.Like(places, static_cast<double>(past[axis]))});
  }
  l.y(0, b.Op("ScatterElements", {l.x(0), b.Expand(places, update), l.x(1)}, {{"axis", axis}}));
  return absl::OkStatus();
}

absl::Status CheckTensorScatter(InferContext& c) {
  const std::string mode = c.attributes().String("mode", "linear");
  if (mode != "linear" && mode != "circular") {
    return absl::InvalidArgumentError(absl::StrCat("no mode '", mode, "'"));
  }
  Dims past = c.input(0).dims;
  const Dims& update = c.input(1).dims;
  ASSIGN_OR_RETURN(const int64_t axis, NormalizeAxis(c.attributes().Int("axis", -2), past.size()));
  bool fits = axis > 0 && update.size() == past.size() && update[axis] <= past[axis];
  if (fits) past[axis] = update[axis];
  fits = fits && past == update && (!c.has(2) || c.input(2).dims == Dims{past[0]});
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("an update of ", ToString(update), " along axis ",
                                                 axis, " does not fit ",
                                                 ToString(c.input(0).dims)));
}

Operator TensorScatter() {
  return Operator("", "TensorScatter")
      .Example(
          "g (float[2, 4, 3] x, float[2, 2, 3] u) => (float[2, 4, 3] y) "
          "{ y = TensorScatter(x, u) }")
      .Example(
          "g (float[2, 2, 4] x, float[2, 2, 2] u, int64[2] labels_i) => (float[2, 2, 4] y) "
          "{ y = TensorScatter<axis = -1, mode = \"linear\">(x, u, labels_i) }")
      .Example(
          "g (float[2, 3, 1] x, float[2, 2, 1] u, int64[2] labels_i) => (float[2, 3, 1] y) "
          "{ y = TensorScatter<axis = 1, mode = \"circular\">(x, u, labels_i) }")
      .Infer(OnnxInferenceAnd("TensorScatter", CheckTensorScatter))
      .AlwaysLower(LowerTensorScatter)
      .Samples([](const Node&, absl::Span<const SampleAxis> inputs, int) {
        for (const SampleAxis& s : inputs) {
          if (!(s == SampleAxis::Axis(0))) return SampleAxis::Mixed();
        }
        return inputs[0];
      });
}

// values = the k greatest (least) along an axis, indices = where they are;
// dx = dvalues there, 0 elsewhere
void AddTopK(OperatorFamily& list) {
  Operator op("", "TopK");
  const auto example = [&](const char* type, const char* attributes) {
    op.Example(absl::StrCat("g (", type, "[2, 5, 3] signed_x) => (", type,
                            "[2, 2, 3] v, int64[2, 2, 3] i) { k = Constant<value_ints = [2]>() "
                            "v, i = TopK<axis = 1",
                            attributes, ">(signed_x, k) }"));
  };
  for (const char* attributes :
       {"", ", largest = 0", ", sorted = 1", ", largest = 0, sorted = 1"}) {
    example("float", attributes);
    example("int64", attributes);
  }
  op.Example(
        "g (float[3, 4] x) => (float[3, 4] v) "
        "{ k = Constant<value_ints = [4]>() v, i = TopK(x, k) }")
      .Example(
          "g (float[3, 4] x) => (float[3, 0] v) "
          "{ k = Constant<value_ints = [0]>() v, i = TopK<axis = -1>(x, k) }")
      .Gradient([](GradientContext& g) {
        Expr places = g.y(1);
        if (!places) places = g.b().Ops("TopK", {g.x(0), g.x(1)}, g.attributes(), 2)[1];
        const Places at{g.b(), places, true, g.attributes().Int("axis", -1)};
        g.dx(0, at.Write(at.Full(g.x(0), 0), g.dy(), "add"));
        return absl::OkStatus();
      })
      .Samples([](const Node& node, absl::Span<const SampleAxis> inputs, int) {
        const int64_t axis = FromBack(node.attributes.Int("axis", -1), node.input(0)->rank());
        return SamplesUnless(inputs[0], axis == inputs[0].axis);
      });
  list.push_back(op);
}

// y = values[1] where the new axis' coordinate is the index, values[0] elsewhere;
// dvalues = the sums of dy over both
absl::Status OneHotGradient(GradientContext& g) {
  Builder& b = g.b();
  Expr on_off = b.Op("Concat", {b.Zeros({g.y().dtype(), {1}, {}}), b.Expand(b.Like(g.y(), 1), {1})},
                     {{"axis", int64_t{0}}});
  Expr on = b.Op("OneHot", {g.x(0), g.x(1), on_off}, {{"axis", g.attributes().Int("axis", -1)}});
  const std::vector<int64_t> all = Iota(g.y().rank());
  Expr to_on = b.Reshape(b.ReduceSum(g.dy() * on, all, false), {1});
  Expr to_off = b.Reshape(b.ReduceSum(g.dy() * (1 - on), all, false), {1});
  g.dx(2, b.Op("Concat", {to_off, to_on}, {{"axis", int64_t{0}}}));
  return absl::OkStatus();
}

// The size of NonZero's result is known here only for a constant (exporters write
// NonZero(ConstantOfShape(..)) for a list of all indices).
absl::Status InferNonZero(InferContext& call) {
  const Tensor* x = call.constant(0);
  if (x == nullptr) return DependsOnData("the size of its result");
  int64_t count = 0;
  for (int64_t i = 0; i < x->elements(); ++i) count += x->At(i) != 0 ? 1 : 0;
  call.SetOutput(0, DataType::kInt64, {static_cast<int64_t>(x->dims().size()), count});
  return absl::OkStatus();
}

void AddMarks(OperatorFamily& list) {
  list.push_back(
      Operator("", "OneHot")
          .Example("g (int64[2, 3] labels_i, float[2] v) => (float[2, 3, 4] y) "
                   "{ d = Constant<value_int = 4>() y = OneHot(labels_i, d, v) }")
          .Example("g (int32[2, 3] labels_i, float[2] v) => (float[2, 4, 3] y) "
                   "{ d = Constant<value = int64[1] {4}>() y = OneHot<axis = 1>(labels_i, d, v) }")
          .Example("g (float[2] v) => (float[4, 3] y) { d = Constant<value_int = 4>() "
                   "i = Constant<value = int64[3] {-1, 4, 0}>() y = OneHot<axis = 0>(i, d, v) }")
          .Example("g (int64[3] labels_i) => (int64[3, 2] y) { d = Constant<value_int = 2>() "
                   "v = Constant<value_ints = [5, 7]>() y = OneHot(labels_i, d, v) }")
          .Gradient(OneHotGradient)
          .Samples([](const Node& node, absl::Span<const SampleAxis> inputs, int) {
            SampleAxis i = inputs[0];
            if (i.kind != SampleAxis::Kind::kAxis) return i;
            const int64_t axis = FromBack(node.attributes.Int("axis", -1), node.output(0)->rank());
            return SampleAxis::Axis(i.axis + (axis <= i.axis ? 1 : 0), i.inner);
          }));

  list.push_back(
      Operator("", "NonZero")
          .Example("g (int64[2, 2] x) => (int64[2, 2] y) "
                   "{ c = Constant<value = float[2, 2] {1.0, 0.0, 0.0, -2.0}>() "
                   "i = NonZero(c) y = Add(x, i) }")
          .Example("g (int64[1, 3] x) => (int64[1, 3] y) { s = Constant<value_ints = [3]>() "
                   "c = ConstantOfShape<value = bool[1] {1}>(s) i = NonZero(c) y = Add(x, i) }")
          .Infer(InferNonZero)
          .NotDifferentiable("its result is indices")
          .Samples(SamplesMixed));
}

}  // namespace

void AddScatterOperators(OperatorFamily& list) {
  AddElements(list);
  AddTuples(list);
  AddMarks(list);
  AddTopK(list);
  list.push_back(TensorScatter());
}

}  // namespace onward
