// Operators that draw random numbers. Those of ONNX draw "some" numbers; those of
// Onward say which: a number is a function of (seed, step, key, index of the
// element in the global tensor) by kernels/philox.h, so it does not depend on
// device, shard or batch size, and a step that is run again gives the same one.
// With sample axis k, the element's index is
//   (sample_offset + its index along k) * (elements per sample)
//     + its row-major index among the other axes;
// without one (axis = -1) it is the row-major index in the tensor.
#include "absl/strings/str_cat.h"
#include "graph/base/errors.h"
#include "graph/base/status_macros.h"
#include "graph/ir/builder.h"
#include "graph/ops/checked.h"
#include "graph/ops/operators.h"
#include "graph/ops/rules.h"

namespace onward {
namespace {

absl::Status CheckKeyInputs(const InferContext& c, int first) {
  constexpr const char* kWhat[] = {"seed", "step", "sample_offset"};
  for (int i = 0; i < 3; ++i) {
    if (!c.has(first + i) || c.input(first + i).dtype != DataType::kInt64 ||
        c.input(first + i).elements() != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat(c.op().id(), ": ", kWhat[i], " must be one int64"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckAxis(const InferContext& c, size_t rank) {
  const int64_t axis = c.attributes().Int("axis", -1);
  if (axis < -1 || axis >= static_cast<int64_t>(rank)) {
    return absl::InvalidArgumentError(
        absl::StrCat(c.op().id(), ": axis ", axis, " of a tensor of rank ", rank));
  }
  return absl::OkStatus();
}

absl::Status InferDropout(InferContext& c) {
  RETURN_IF_ERROR(CheckKeyInputs(c, 1));
  const double ratio = c.attributes().Float("ratio", 0.5);
  if (!(ratio >= 0 && ratio <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("onward.Dropout: ratio ", ratio, " is outside [0, 1]"));
  }
  RETURN_IF_ERROR(CheckAxis(c, c.input(0).dims.size()));
  c.SetOutput(0, c.input(0).dtype, c.input(0).dims);
  return absl::OkStatus();
}

DataType TypeAttribute(const Attributes& attributes, DataType otherwise) {
  return static_cast<DataType>(attributes.Int("dtype", static_cast<int64_t>(otherwise)));
}

absl::Status InferRandom(InferContext& c) {
  RETURN_IF_ERROR(CheckKeyInputs(c, 0));
  const std::vector<int64_t> shape = c.attributes().Ints("shape");
  RETURN_IF_ERROR(CheckedElements(shape).status());
  RETURN_IF_ERROR(CheckAxis(c, shape.size()));
  const DataType dtype = TypeAttribute(c.attributes(), DataType::kFloat32);
  if (dtype != DataType::kFloat32 && dtype != DataType::kFloat64) {
    return absl::UnimplementedError(
        absl::StrCat(c.op().id(), ": numbers of type ", Name(dtype), " are not drawn"));
  }
  c.SetOutput(0, dtype, Dims(shape.begin(), shape.end()));
  return absl::OkStatus();
}

SampleAxis SamplesOfAttribute(const Node& node, absl::Span<const SampleAxis>, int) {
  const int64_t axis = node.attributes.Int("axis", -1);
  return axis < 0 ? SampleAxis::None() : SampleAxis::Axis(static_cast<int>(axis));
}

// An operator of ONNX as one of Onward: the key of its node, its `seed` attribute,
// step 0 and offset 0. In a training step the pass that puts models in training
// form gives the step's own instead.
Expr Keyed(LowerContext& c, const char* op, const std::vector<int64_t>& shape, DataType dtype,
           absl::string_view low, absl::string_view high, double low_default, double high_default) {
  Builder& b = c.b();
  const Attributes& a = c.attributes();
  const Expr zero = b.Scalar(DataType::kInt64, 0);
  const Expr seed = b.Constant(Tensor::Scalar<int64_t>(static_cast<int64_t>(a.Float("seed", 0))));
  return b.Op(op, {seed, zero, zero},
              {{"shape", shape},
               {"dtype", static_cast<int64_t>(dtype)},
               {std::string(low), a.Float(low, low_default)},
               {std::string(high), a.Float(high, high_default)},
               {"key", std::max<int64_t>(0, c.node().ordinal)}});
}

std::vector<int64_t> ShapeOf(Expr x) { return {x.dims().begin(), x.dims().end()}; }

constexpr char kWhy[] = "random numbers do not depend on the input's values";

void AddOnnxNumbers(OperatorFamily& list) {
  list.push_back(
      Operator("", "RandomUniform")
          .Random()
          .Example("g () => (float[2, 3] y) "
                   "{ y = RandomUniform <shape = [2, 3], low = -1.0, high = 2.0, seed = 3.0>() }")
          .Example("g () => (double[4] y) { y = RandomUniform <shape = [4], dtype = 11>() }")
          .NotDifferentiable(kWhy)
          .AlwaysLower([](LowerContext& c) {
            c.y(0, Keyed(c, "onward.RandomUniform", c.attributes().Ints("shape"),
                         TypeAttribute(c.attributes(), DataType::kFloat32), "low", "high", 0, 1));
            return absl::OkStatus();
          }));
  list.push_back(
      Operator("", "RandomNormal")
          .Random()
          .Example("g () => (float[2, 3] y) "
                   "{ y = RandomNormal <shape = [2, 3], mean = 1.0, scale = 2.0, seed = 3.0>() }")
          .Example("g () => (double[4] y) { y = RandomNormal <shape = [4], dtype = 11>() }")
          .NotDifferentiable(kWhy)
          .AlwaysLower([](LowerContext& c) {
            c.y(0, Keyed(c, "onward.RandomNormal", c.attributes().Ints("shape"),
                         TypeAttribute(c.attributes(), DataType::kFloat32), "mean", "scale", 0, 1));
            return absl::OkStatus();
          }));
}

void AddOnnxNumbersLike(OperatorFamily& list) {
  list.push_back(
      Operator("", "RandomUniformLike")
          .Random()
          .Example("g (float[2, 3] x) => (float[2, 3] y) "
                   "{ y = RandomUniformLike <low = -1.0, high = 2.0, seed = 3.0>(x) }")
          .Example("g (int64[5] x) => (float[5] y) { y = RandomUniformLike <dtype = 1>(x) }")
          .NotDifferentiable(kWhy)
          .AlwaysLower([](LowerContext& c) {
            c.y(0, Keyed(c, "onward.RandomUniform", ShapeOf(c.x()),
                         TypeAttribute(c.attributes(), c.x().dtype()), "low", "high", 0, 1));
            return absl::OkStatus();
          }));
  list.push_back(
      Operator("", "RandomNormalLike")
          .Random()
          .Example("g (float[2, 3] x) => (float[2, 3] y) "
                   "{ y = RandomNormalLike <mean = 1.0, scale = 2.0, seed = 3.0>(x) }")
          .Example("g (int64[5] x) => (float[5] y) { y = RandomNormalLike <dtype = 1>(x) }")
          .NotDifferentiable(kWhy)
          .AlwaysLower([](LowerContext& c) {
            c.y(0, Keyed(c, "onward.RandomNormal", ShapeOf(c.x()),
                         TypeAttribute(c.attributes(), c.x().dtype()), "mean", "scale", 0, 1));
            return absl::OkStatus();
          }));
  // y = 1 where u < p, u uniform in [0, 1)
  list.push_back(
      Operator("", "Bernoulli")
          .Random()
          .Example(
              "g (float[2, 3] unit_x) => (float[2, 3] y) { y = Bernoulli <seed = 3.0>(unit_x) }")
          .Example("g (float[5] unit_x) => (int64[5] y) { y = Bernoulli <dtype = 7>(unit_x) }")
          .NotDifferentiable("a draw of 0 or 1 is a step function of its probability")
          .AlwaysLower([](LowerContext& c) {
            const Expr u = Keyed(c, "onward.RandomUniform", ShapeOf(c.x()), c.x().dtype(), "low",
                                 "high", 0, 1);
            const Expr one = c.b().Op("Less", {u, c.x()});
            c.y(0, c.b().Cast(one, TypeAttribute(c.attributes(), c.x().dtype())));
            return absl::OkStatus();
          }));
}

// So many draws of a class for each row of logits: how many classes, added up in their
// order, have together a probability that u, uniform in [0, 1), is not below.
absl::Status LowerMultinomial(LowerContext& c) {
  Builder& b = c.b();
  const int64_t rows = c.x().dims()[0], classes = c.x().dims()[1];
  const int64_t draws = c.attributes().Int("sample_size", 1);
  Expr p = b.Op("Softmax", {b.Cast(c.x(), DataType::kFloat64)}, {{"axis", int64_t{-1}}});
  Expr up_to = b.Op("CumSum", {p, b.Scalar(DataType::kInt64, 1)});
  const Expr u =
      Keyed(c, "onward.RandomUniform", {rows, draws}, DataType::kFloat64, "low", "high", 0, 1);
  Expr behind = b.Op("GreaterOrEqual",
                     {b.Reshape(u, {rows, draws, 1}), b.Reshape(up_to, {rows, 1, classes})});
  Expr count = b.ReduceSum(b.Cast(behind, DataType::kInt64), {2}, false);
  // The sum of all may be rounded to less than 1.
  Expr drawn = b.Op("Min", {count, b.Like(count, static_cast<double>(classes - 1))});
  c.y(0, b.Cast(drawn, TypeAttribute(c.attributes(), DataType::kInt32)));
  return absl::OkStatus();
}

absl::Status CheckMultinomial(InferContext& c) {
  const Dims& x = c.input(0).dims;
  const int64_t draws = c.attributes().Int("sample_size", 1);
  const DataType dtype = TypeAttribute(c.attributes(), DataType::kInt32);
  if (x.size() != 2 || x[1] < 1 || draws < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("input ", ToString(x), " and sample_size ", draws,
                     ", expected [rows, classes] and no negative number"));
  }
  if (dtype != DataType::kInt32 && dtype != DataType::kInt64) {
    return absl::InvalidArgumentError("dtype is neither int32 nor int64");
  }
  RETURN_IF_ERROR(CheckedElements({x[0], draws, x[1]}).status());
  c.SetOutput(0, dtype, {x[0], draws});
  return absl::OkStatus();
}

void AddMultinomial(OperatorFamily& list) {
  list.push_back(
      Operator("", "Multinomial")
          .Random()
          .Example("g (float[2, 3] x) => (int32[2, 5] y) "
                   "{ y = Multinomial <sample_size = 5, seed = 3.0>(x) }")
          .Example("g (float[2, 3] x) => (int64[2, 1] y) { y = Multinomial <dtype = 7>(x) }")
          .Example("g (float[0, 3] x) => (int32[0, 1] y) { y = Multinomial(x) }")
          .Infer(OnnxInferenceAnd("Multinomial", CheckMultinomial))
          .NotDifferentiable("a draw is a step function of the probabilities")
          .Samples([](const Node&, absl::Span<const SampleAxis> in, int) {
            return SamplesUnless(in[0], in[0].axis != 0);
          })
          .AlwaysLower(LowerMultinomial));
}

// Inference form: the identity, nothing dropped. The training form needs the seed
// and the step, which the pass that puts models in training form gives it.
absl::Status LowerDropout(LowerContext& c) {
  const Value* mode = c.has_x(2) ? c.node().input(2) : nullptr;
  bool training = mode != nullptr && mode->constant == nullptr;
  if (mode != nullptr && mode->constant != nullptr) training = mode->constant->IntAt(0) != 0;
  const Value* ratio = c.has_x(1) ? c.node().input(1) : nullptr;
  const bool drops_none =
      ratio != nullptr && ratio->constant != nullptr && ratio->constant->At(0) == 0;
  if (training && !drops_none) {
    return WithExitCode(
        absl::UnimplementedError("Dropout with training_mode that is not false: its random numbers "
                                 "have no seed here; put the model in training form first"),
        ExitCode::kUntrainable);
  }
  c.y(0, c.b().Op("Identity", {c.x()}));
  if (c.wants(1)) c.y(1, c.b().Expand(c.b().Scalar(DataType::kBool, 1), c.x().dims()));
  return absl::OkStatus();
}

void AddOnnxDropout(OperatorFamily& list) {
  list.push_back(
      Operator("", "Dropout")
          .Example("g (float[2, 3] x) => (float[2, 3] y) { y = Dropout(x) }")
          .Example("g (float[2, 3] x) => (float[2, 3] y, bool[2, 3] mask) "
                   "{ r = Constant <value_float = 0.25>() y, mask = Dropout <seed = 1>(x, r) }")
          .Example("g (float[2, 0] x) => (float[2, 0] y) { r = Constant <value_float = 0.25>() "
                   "f = Constant <value = bool {0}>() y = Dropout(x, r, f) }")
          .Example("g (float[2, 3] x) => (float[2, 3] y, bool[2, 3] mask) "
                   "{ r = Constant <value_float = 0.0>() t = Constant <value = bool {1}>() "
                   "y, mask = Dropout(x, r, t) }")
          .Samples([](const Node&, absl::Span<const SampleAxis> in, int) { return in[0]; })
          .AlwaysLower(LowerDropout));
}

void AddOwnDropout(OperatorFamily& list) {
  // y = x / (1 - ratio) where u >= ratio, else 0;  dx = the same of dy
  // u is the element's number of halves (kernels/philox.h) / 2^32. Inputs: x, seed, step,
  // sample_offset (int64). Attributes: ratio, key (which node), axis (the sample axis of x, -1:
  // none).
  list.push_back(
      Operator(kOnward, "Dropout")
          .Example(
              "g (float[3, 5] x, int64 seed, int64 step, int64 offset) => (float[3, 5] y) "
              "{ y = onward.Dropout <ratio = 0.25, key = 3, axis = 0>(x, seed, step, offset) }")
          .Example("g (float[2, 3, 7] x, int64 seed, int64 step, int64 offset) => "
                   "(float[2, 3, 7] y) "
                   "{ y = onward.Dropout <ratio = 0.5, key = 70000, axis = 1>"
                   "(x, seed, step, offset) }")
          .Example("g (float[401] x, int64 seed, int64 step, int64 offset) => (float[401] y) "
                   "{ y = onward.Dropout <key = 1, axis = -1>(x, seed, step, offset) }")
          .Example("g (float[2, 0] x, int64 seed, int64 step, int64 offset) => (float[2, 0] y) "
                   "{ y = onward.Dropout <ratio = 0.0, axis = 0>(x, seed, step, offset) }")
          .Example("g (float[4] x, int64 seed, int64 step, int64 offset) => (float[4] y) "
                   "{ y = onward.Dropout <ratio = 0.0, axis = 0>(x, seed, step, offset) }")
          .Example("g (float[4] x, int64 seed, int64 step, int64 offset) => (float[4] y) "
                   "{ y = onward.Dropout <ratio = 1.0, axis = 0>(x, seed, step, offset) }")
          .Infer(InferDropout)
          .Operations(PerElement(20))
          .Samples([](const Node&, absl::Span<const SampleAxis> in, int) { return in[0]; })
          .Gradient([](GradientContext& g) {
            g.dx(0, g.b().Op("onward.Dropout", {g.dy(), g.x(1), g.x(2), g.x(3)}, g.attributes()));
            return absl::OkStatus();
          })
          .Lower([](LowerContext& c) {
            Builder& b = c.b();
            const double ratio = c.attributes().Float("ratio", 0.5);
            const Expr u = b.Op("onward.RandomUniform", {c.x(1), c.x(2), c.x(3)},
                                {{"shape", ShapeOf(c.x())},
                                 {"dtype", static_cast<int64_t>(DataType::kFloat64)},
                                 {"halves", int64_t{1}},
                                 {"key", c.attributes().Int("key", 0)},
                                 {"axis", c.attributes().Int("axis", -1)}});
            const Expr dropped = b.Op("Less", {u, b.Scalar(DataType::kFloat64, ratio)});
            const double scale = ratio < 1 ? 1 / (1 - ratio) : 0;
            c.y(0, b.Where(dropped, b.Like(c.x(), 0), c.x() * scale));
            return absl::OkStatus();
          }));
}

void AddOwnNumbers(OperatorFamily& list) {
  // y = low + (high - low) u;  float32 takes the upper 24 bits of the element's
  // word, float64 all 32. With halves = 1 the word is dropout's number. Inputs: seed,
  // step, sample_offset (int64).
  list.push_back(
      Operator(kOnward, "RandomUniform")
          .Example("g (int64 seed, int64 step, int64 offset) => (float[3, 5] y) "
                   "{ y = onward.RandomUniform <shape = [3, 5], low = -1.0, high = 2.0, key = 3, "
                   "axis = 0>(seed, step, offset) }")
          .Example("g (int64 seed, int64 step, int64 offset) => (double[7] y) "
                   "{ y = onward.RandomUniform <shape = [7], dtype = 11>(seed, step, offset) }")
          .Example("g (int64 seed, int64 step, int64 offset) => (float[7] y) "
                   "{ y = onward.RandomUniform <shape = [7], halves = 1>(seed, step, offset) }")
          .Infer(InferRandom)
          .Operations(PerElement(20))
          .Samples(SamplesOfAttribute)
          .NotDifferentiable("its inputs are integers"));

  // y = mean + scale sqrt(-2 ln(1 - u0)) cos(2 pi u1), u0 and u1 from the element's
  // word under `key` and under key + 2^31 (Box and Muller).
  list.push_back(
      Operator(kOnward, "RandomNormal")
          .Example("g (int64 seed, int64 step, int64 offset) => (float[3, 5] y) "
                   "{ y = onward.RandomNormal <shape = [3, 5], mean = -1.0, scale = 2.0, key = 3, "
                   "axis = 0>(seed, step, offset) }")
          .Example("g (int64 seed, int64 step, int64 offset) => (double[7] y) "
                   "{ y = onward.RandomNormal <shape = [7], dtype = 11>(seed, step, offset) }")
          .Infer(InferRandom)
          .Operations(PerElement(20))
          .Samples(SamplesOfAttribute)
          .NotDifferentiable("its inputs are integers"));
}

}  // namespace

void AddRandomOperators(OperatorFamily& list) {
  AddOwnDropout(list);
  AddOwnNumbers(list);
  AddOnnxNumbers(list);
  AddOnnxNumbersLike(list);
  AddMultinomial(list);
  AddOnnxDropout(list);
}

}  // namespace onward
