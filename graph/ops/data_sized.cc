// Operators whose sizes data decides: Compress, Unique, NonMaxSuppression (NonZero is with
// the indices). They are known where the values that decide them are constants, when the
// graph is built; the whole result of Unique and of NonMaxSuppression is then a constant
// too, so that neither has a kernel.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/base/status_macros.h"
#include "graph/ir/builder.h"
#include "graph/ir/depends_on_data.h"
#include "graph/ir/graph.h"
#include "graph/ops/checked.h"
#include "graph/ops/operators.h"
#include "graph/ops/rules.h"

namespace onward {
namespace {

// An axis of x, or an error that names both.
absl::StatusOr<int64_t> AxisOf(const Attributes& attributes, const Dims& x) {
  return NormalizeAxis(attributes.Int("axis", 0), static_cast<int64_t>(x.size()));
}

// ---- Compress.

// The places where the condition holds. The condition may be shorter than the axis, not
// longer.
absl::StatusOr<std::vector<int64_t>> Chosen(const Tensor& condition, int64_t extent) {
  std::vector<int64_t> places;
  for (int64_t i = 0; i < condition.elements(); ++i) {
    if (condition.IntAt(i) != 0) places.push_back(i);
  }
  if (condition.elements() > extent) {
    return absl::InvalidArgumentError(absl::StrCat("condition has ", condition.elements(),
                                                   " elements, expected at most ", extent));
  }
  return places;
}

absl::Status InferCompress(InferContext& c) {
  RETURN_IF_ERROR(OnnxInference("", "Compress")(c));
  const Dims& x = c.input(0).dims;
  const bool whole = !c.attributes().Has("axis");
  int64_t axis = 0;
  if (!whole) {
    ASSIGN_OR_RETURN(axis, AxisOf(c.attributes(), x));
  }
  if (c.constant(1) == nullptr) return DependsOnData("the size of its result");
  ASSIGN_OR_RETURN(const std::vector<int64_t> places,
                   Chosen(*c.constant(1), whole ? Elements(x) : x[axis]));
  Dims y = x;
  if (whole) y = {0};
  y[axis] = static_cast<int64_t>(places.size());
  c.SetOutput(0, c.input(0).dtype, y);
  return absl::OkStatus();
}

// y = the entries of x along the axis where the condition holds: a Gather. Its gradient
// puts dy back there.
absl::Status LowerCompress(LowerContext& l) {
  Builder& b = l.b();
  const Tensor* condition = l.node().input(1)->constant.get();
  if (condition == nullptr) return DependsOnData("the size of its result");
  const bool whole = !l.attributes().Has("axis");
  Expr x = whole ? b.Reshape(l.x(0), {Elements(l.x(0).dims())}) : l.x(0);
  const int64_t axis = whole ? 0 : FromBack(l.attributes().Int("axis", 0), x.rank());
  ASSIGN_OR_RETURN(const std::vector<int64_t> places, Chosen(*condition, x.dims()[axis]));
  l.y(0, b.Op("Gather", {x, b.Ints(places)}, {{"axis", axis}}));
  return absl::OkStatus();
}

Operator Compress() {
  const auto with = [](const char* x, const char* y, const char* condition,
                       const char* attributes) {
    return absl::StrCat("g (", x, " x) => (", y, " y) { c = Constant<value = bool", condition,
                        ">() y = Compress", attributes, "(x, c) }");
  };
  return Operator("", "Compress")
      .Example(with("float[3, 2]", "float[2, 2]", "[3] {1, 0, 1}", "<axis = 0>"))
      .Example(with("float[3, 4]", "float[3, 1]", "[2] {0, 1}", "<axis = -1>"))
      .Example(with("float[3, 2]", "float[3]", "[6] {0, 1, 0, 0, 1, 1}", ""))
      .Example(with("float[2, 3]", "float[2, 0]", "[3] {0, 0, 0}", "<axis = 1>"))
      .Example(with("float[0, 3]", "float[0, 1]", "[3] {0, 0, 1}", "<axis = 1>"))
      .Infer(InferCompress)
      .AlwaysLower(LowerCompress)
      .Samples([](const Node& node, absl::Span<const SampleAxis> in, int) {
        if (!node.attributes.Has("axis")) return SampleAxis::Mixed();
        const int64_t axis = FromBack(node.attributes.Int("axis", 0), node.input(0)->rank());
        return SamplesUnless(in[0], in[0].axis == axis);
      });
}

// ---- Unique.

// The parts that are compared: element i is part i / inner % extent.
struct Parts {
  int64_t outer = 1, extent = 1, inner = 1;
  bool sorted = true;
};

Parts PartsOf(const Attributes& attributes, const Dims& x, int64_t axis) {
  Parts parts;
  parts.sorted = attributes.Int("sorted", 1) != 0;
  if (!attributes.Has("axis")) {
    parts.extent = Elements(x);
    return parts;
  }
  for (int64_t i = 0; i < static_cast<int64_t>(x.size()); ++i) {
    (i < axis ? parts.outer : i == axis ? parts.extent : parts.inner) *= x[i];
  }
  return parts;
}

// -1, 0 or 1. Not a number is equal to itself and behind all numbers.
template <typename T>
int CompareNumbers(T a, T b) {
  if (a != a || b != b) return static_cast<int>(a != a) - static_cast<int>(b != b);
  return static_cast<int>(b < a) - static_cast<int>(a < b);
}

int CompareElements(const Tensor& x, int64_t i, int64_t j) {
  switch (x.dtype()) {
    case DataType::kUint64:
      return CompareNumbers(x.values<uint64_t>()[i], x.values<uint64_t>()[j]);
    case DataType::kFloat32:
    case DataType::kFloat64:
    case DataType::kFloat16:
    case DataType::kBfloat16:
      return CompareNumbers(x.At(i), x.At(j));
    default:
      return CompareNumbers(x.IntAt(i), x.IntAt(j));
  }
}

int CompareParts(const Tensor& x, const Parts& parts, int64_t i, int64_t j) {
  for (int64_t o = 0; o < parts.outer; ++o) {
    for (int64_t k = 0; k < parts.inner; ++k) {
      const int64_t row = o * parts.extent;
      const int order =
          CompareElements(x, (row + i) * parts.inner + k, (row + j) * parts.inner + k);
      if (order != 0) return order;
    }
  }
  return 0;
}

struct Distinct {
  std::vector<int64_t> first;   // of each distinct part, where it is first
  std::vector<int64_t> which;   // of each part, which distinct one it is
  std::vector<int64_t> counts;  // of each distinct part, how many there are
};

Distinct FindDistinct(const Tensor& x, const Parts& parts) {
  std::vector<int64_t> order(parts.extent);
  std::iota(order.begin(), order.end(), 0);
  // Stable: the first of equals stands first.
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t i, int64_t j) { return CompareParts(x, parts, i, j) < 0; });
  Distinct out;
  out.which.resize(parts.extent);
  for (size_t k = 0; k < order.size(); ++k) {
    if (k == 0 || CompareParts(x, parts, order[k - 1], order[k]) != 0) {
      out.first.push_back(order[k]);
      out.counts.push_back(0);
    }
    out.which[order[k]] = static_cast<int64_t>(out.first.size()) - 1;
    ++out.counts.back();
  }
  if (parts.sorted) return out;
  // In the order in which they come.
  std::vector<int64_t> place(out.first.size()), rank(out.first.size());
  std::iota(place.begin(), place.end(), 0);
  std::sort(place.begin(), place.end(),
            [&](int64_t a, int64_t b) { return out.first[a] < out.first[b]; });
  Distinct in_order = out;
  for (size_t k = 0; k < place.size(); ++k) {
    rank[place[k]] = static_cast<int64_t>(k);
    in_order.first[k] = out.first[place[k]];
    in_order.counts[k] = out.counts[place[k]];
  }
  for (int64_t& w : in_order.which) w = rank[w];
  return in_order;
}

absl::StatusOr<Distinct> DistinctOf(const Tensor* x, const Attributes& attributes, int64_t* axis) {
  if (x == nullptr) return DependsOnData("the size of its result");
  if (x->dtype() == DataType::kUndefined || SizeOf(x->dtype()) == 0) {
    return absl::UnimplementedError(
        absl::StrCat("no order of elements of type ", std::string(Name(x->dtype()))));
  }
  *axis = 0;
  if (attributes.Has("axis")) {
    ASSIGN_OR_RETURN(*axis, AxisOf(attributes, x->dims()));
  }
  return FindDistinct(*x, PartsOf(attributes, x->dims(), *axis));
}

absl::Status InferUnique(InferContext& c) {
  RETURN_IF_ERROR(OnnxInference("", "Unique")(c));
  int64_t axis = 0;
  ASSIGN_OR_RETURN(const Distinct found, DistinctOf(c.constant(0), c.attributes(), &axis));
  const auto count = static_cast<int64_t>(found.first.size());
  Dims y = {count};
  if (c.attributes().Has("axis")) {
    y = c.input(0).dims;
    y[axis] = count;
  }
  c.SetOutput(0, c.input(0).dtype, y);
  c.SetOutput(1, DataType::kInt64, {count});
  c.SetOutput(2, DataType::kInt64, {static_cast<int64_t>(found.which.size())});
  c.SetOutput(3, DataType::kInt64, {count});
  return absl::OkStatus();
}

absl::Status LowerUnique(LowerContext& l) {
  Builder& b = l.b();
  int64_t axis = 0;
  ASSIGN_OR_RETURN(const Distinct found,
                   DistinctOf(l.node().input(0)->constant.get(), l.attributes(), &axis));
  const bool whole = !l.attributes().Has("axis");
  Expr x = whole ? b.Reshape(l.x(0), {Elements(l.x(0).dims())}) : l.x(0);
  l.y(0, b.Op("Gather", {x, b.Ints(found.first)}, {{"axis", axis}}));
  l.y(1, b.Ints(found.first));
  l.y(2, b.Ints(found.which));
  l.y(3, b.Ints(found.counts));
  return absl::OkStatus();
}

Operator Unique() {
  constexpr char kNumbers[] =
      "x = Constant<value = float[2, 3] {2.0, 0.5, 2.0, 2.0, -1.0, 2.0}>() ";
  const auto with = [&](const char* y, const char* attributes) {
    return absl::StrCat("g (float a) => (float[", y, "] z) { ", kNumbers, "y = Unique", attributes,
                        "(x) z = Mul(y, a) }");
  };
  return Operator("", "Unique")
      .Example(with("3", ""))
      .Example(with("3", "<sorted = 0>"))
      .Example(with("2, 2", "<axis = 1>"))
      .Example(with("2, 3", "<axis = -2, sorted = 0>"))
      .Example(absl::StrCat(
          "g (int64[6] labels_a) => (float[3] y, int64[3] f, int64[6] w, int64[3] n) { ", kNumbers,
          "y, i, v, n = Unique(x) f = Identity(i) w = Add(v, labels_a) }"))
      .Infer(InferUnique)
      .AlwaysLower(LowerUnique)
      .Samples(SamplesMixed);
}

// ---- NonMaxSuppression.

// A box by its corners.
struct Box {
  double y1, x1, y2, x2;
  double area() const { return (y2 - y1) * (x2 - x1); }
};

Box BoxAt(const Tensor& boxes, int64_t i, bool centered) {
  const double a = boxes.At(4 * i), b = boxes.At(4 * i + 1), c = boxes.At(4 * i + 2),
               d = boxes.At(4 * i + 3);
  // Centre and size, x first; or any two opposite corners, y first.
  if (centered) return {b - d / 2, a - c / 2, b + d / 2, a + c / 2};
  return {std::min(a, c), std::min(b, d), std::max(a, c), std::max(b, d)};
}

// Intersection over union; 0 for a box without an area.
double Overlap(const Box& a, const Box& b) {
  const double height = std::min(a.y2, b.y2) - std::max(a.y1, b.y1);
  const double width = std::min(a.x2, b.x2) - std::max(a.x1, b.x1);
  if (height <= 0 || width <= 0 || a.area() <= 0 || b.area() <= 0) return 0;
  return height * width / (a.area() + b.area() - height * width);
}

// What inputs and attributes say.
struct Suppression {
  const Tensor* boxes = nullptr;
  const Tensor* scores = nullptr;
  int64_t most = 0;
  double overlap = 0;
  bool limited = false;
  double least_score = 0;
  bool centered = false;
};

absl::StatusOr<Suppression> ReadSuppression(absl::Span<const Tensor* const> inputs,
                                            const Attributes& attributes) {
  Suppression s;
  s.boxes = inputs[0];
  s.scores = inputs[1];
  const auto one = [&](size_t i) { return inputs[i] == nullptr || inputs[i]->elements() == 1; };
  const Dims &boxes = s.boxes->dims(), &scores = s.scores->dims();
  const bool fits = boxes.size() == 3 && scores.size() == 3 && boxes[2] == 4 &&
                    boxes[0] == scores[0] && boxes[1] == scores[2] && one(2) && one(3) && one(4);
  if (!fits) {
    return absl::InvalidArgumentError(absl::StrCat(
        "boxes ", ToString(boxes), " and scores ", ToString(scores),
        " do not fit; expected [samples, boxes, 4], [samples, classes, boxes] and scalars"));
  }
  if (inputs[2] != nullptr) s.most = inputs[2]->IntAt(0);
  if (inputs[3] != nullptr) s.overlap = inputs[3]->At(0);
  s.limited = inputs[4] != nullptr;
  if (s.limited) s.least_score = inputs[4]->At(0);
  s.centered = attributes.Int("center_point_box", 0) != 0;
  return s;
}

// (sample, class, box) of every box that is kept: by sample, class and falling score.
std::vector<int64_t> Kept(const Suppression& s) {
  const int64_t classes = s.scores->dims()[1], count = s.boxes->dims()[1];
  std::vector<int64_t> kept;
  for (int64_t row = 0; row < s.scores->dims()[0] * classes; ++row) {
    const auto score = [&](int64_t i) { return s.scores->At(row * count + i); };
    const int64_t sample = row / classes;
    std::vector<int64_t> order;
    for (int64_t i = 0; i < count; ++i) {
      const double v = score(i);
      if (!std::isnan(v) && (!s.limited || v > s.least_score)) order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t i, int64_t j) { return score(i) > score(j); });
    std::vector<Box> chosen;
    for (int64_t i : order) {
      if (static_cast<int64_t>(chosen.size()) >= s.most) break;
      const Box box = BoxAt(*s.boxes, sample * count + i, s.centered);
      const bool covered = std::any_of(chosen.begin(), chosen.end(), [&](const Box& other) {
        return Overlap(box, other) > s.overlap;
      });
      if (covered) continue;
      chosen.push_back(box);
      kept.insert(kept.end(), {sample, row % classes, i});
    }
  }
  return kept;
}

absl::Status InferSuppression(InferContext& c) {
  // By float64 too, which ONNX does not have: for models that are widened.
  if (c.num_inputs() > 5 || !c.has(0) || !c.has(1)) {
    return absl::InvalidArgumentError("expected boxes, scores, and up to three numbers");
  }
  std::vector<const Tensor*> inputs(5, nullptr);
  for (int i = 0; i < 5; ++i) {
    if (c.has(i) && IsFloating(c.input(i).dtype) == (i == 2)) {
      return absl::InvalidArgumentError(
          absl::StrCat("input ", i, " is ", std::string(Name(c.input(i).dtype))));
    }
    if (c.has(i) && c.constant(i) == nullptr) return DependsOnData("the size of its result");
    if (c.has(i)) inputs[i] = c.constant(i);
  }
  ASSIGN_OR_RETURN(const Suppression s, ReadSuppression(inputs, c.attributes()));
  c.SetOutput(0, DataType::kInt64, {static_cast<int64_t>(Kept(s).size()) / 3, 3});
  return absl::OkStatus();
}

absl::Status LowerSuppression(LowerContext& l) {
  std::vector<const Tensor*> inputs(5, nullptr);
  for (int i = 0; i < 5; ++i) {
    if (!l.has_x(i)) continue;
    inputs[i] = l.node().input(i)->constant.get();
    if (inputs[i] == nullptr) return DependsOnData("the size of its result");
  }
  ASSIGN_OR_RETURN(const Suppression s, ReadSuppression(inputs, l.attributes()));
  const std::vector<int64_t> kept = Kept(s);
  l.y(0, l.b().Constant(Tensor::Of<int64_t>({static_cast<int64_t>(kept.size()) / 3, 3}, kept)));
  return absl::OkStatus();
}

Operator NonMaxSuppression() {
  const auto with = [](const char* y, const char* attributes, const char* more) {
    return absl::StrCat(
        "g (int64[", y, "] x) => (int64[", y,
        "] y) { b = Constant<value = float[1, 3, 4] {0.0, 0.0, 1.0, 1.0, 0.0, 0.1, 1.0, 1.1, "
        "0.0, 10.0, 1.0, 11.0}>() s = Constant<value = float[1, 2, 3] {0.9, 0.75, 0.6, 0.2, 0.8, "
        "0.1}>() m = Constant<value = int64[1] {2}>() o = Constant<value = float[1] {0.5}>() "
        "t = Constant<value = float[1] {0.4}>() i = NonMaxSuppression",
        attributes, "(b, s", more, ") y = Add(x, i) }");
  };
  return Operator("", "NonMaxSuppression")
      .Example(with("4, 3", "", ", m, o"))
      .Example(with("3, 3", "", ", m, o, t"))
      .Example(with("4, 3", "<center_point_box = 1>", ", m, o"))
      .Example(with("0, 3", "", ""))
      .Infer(InferSuppression)
      .NotDifferentiable("its result is indices")
      .AlwaysLower(LowerSuppression)
      .Samples(SamplesMixed);
}

}  // namespace

void AddDataSizedOperators(OperatorFamily& list) {
  list.push_back(Compress());
  list.push_back(Unique());
  list.push_back(NonMaxSuppression());
}

}  // namespace onward
