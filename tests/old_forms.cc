#include "tests/old_forms.h"

#include "absl/strings/str_cat.h"

namespace onward {
namespace {

class Forms {
 public:
  void Add(const std::string& op, const std::vector<int>& opsets, const std::string& text,
           const std::string& means) {
    for (int opset : opsets) list.push_back({op, opset, text, means});
  }
  std::vector<OldForm> list;
};

// Axes were an attribute, below 13 for ReduceSum and below 18 for the others.
void AddReductions(Forms* forms) {
  const auto add = [&](const std::string& op, const std::vector<int>& opsets) {
    const std::string call = absl::StrCat("y = ", op);
    forms->Add(op, opsets,
               absl::StrCat("g (float[2, 3, 4] x) => (float[2, 4] y) { ", call,
                            " <axes = [1], keepdims = 0> (x) }"),
               absl::StrCat("g (float[2, 3, 4] x) => (float[2, 4] y) "
                            "{ a = Constant <value_ints = [1]> () ",
                            call, " <keepdims = 0> (x, a) }"));
    forms->Add(op, opsets,
               absl::StrCat("g (float[2, 3, 4] x) => (float[1, 1, 1] y) { ", call, "(x) }"),
               absl::StrCat("g (float[2, 3, 4] x) => (float[1, 1, 1] y) { ", call, "(x) }"));
  };
  for (const char* op : {"ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMean",
                         "ReduceProd", "ReduceSumSquare"}) {
    add(op, {7, 11, 13});
  }
  add("ReduceMax", {7, 11, 12, 13});
  add("ReduceMin", {7, 11, 12, 13});
  add("ReduceSum", {7, 11});
}

// Shapes, axes and bounds that were attributes.
void AddShapes(Forms* forms) {
  forms->Add("Squeeze", {7, 11},
             "g (float[1, 3, 1] x) => (float[3, 1] y) { y = Squeeze <axes = [0]> (x) }",
             "g (float[1, 3, 1] x) => (float[3, 1] y) "
             "{ a = Constant <value_ints = [0]> () y = Squeeze(x, a) }");
  forms->Add("Unsqueeze", {7, 11},
             "g (float[2, 3] x) => (float[2, 1, 3, 1] y) { y = Unsqueeze <axes = [1, 3]> (x) }",
             "g (float[2, 3] x) => (float[2, 1, 3, 1] y) "
             "{ a = Constant <value_ints = [1, 3]> () y = Unsqueeze(x, a) }");
  forms->Add("Split", {7, 11},
             "g (float[2, 5] x) => (float[2, 2] y, float[2, 3] z) "
             "{ y, z = Split <axis = 1, split = [2, 3]> (x) }",
             "g (float[2, 5] x) => (float[2, 2] y, float[2, 3] z) "
             "{ s = Constant <value_ints = [2, 3]> () y, z = Split <axis = 1> (x, s) }");
  forms->Add("Split", {7, 11, 13},
             "g (float[2, 4] x) => (float[2, 2] y, float[2, 2] z) { y, z = Split <axis = 1> (x) }",
             "g (float[2, 4] x) => (float[2, 2] y, float[2, 2] z) "
             "{ y, z = Split <axis = 1, num_outputs = 2> (x) }");
  forms->Add("Slice", {7},
             "g (float[4, 5] x) => (float[2, 3] y) "
             "{ y = Slice <axes = [0, 1], starts = [1, -4], ends = [3, -1]> (x) }",
             "g (float[4, 5] x) => (float[2, 3] y) { s = Constant <value_ints = [1, -4]> () "
             "e = Constant <value_ints = [3, -1]> () a = Constant <value_ints = [0, 1]> () "
             "y = Slice(x, s, e, a) }");
  forms->Add("Slice", {7},
             "g (float[4, 5] x) => (float[3, 5] y) { y = Slice <starts = [1], ends = [9]> (x) }",
             "g (float[4, 5] x) => (float[3, 5] y) { s = Constant <value_ints = [1]> () "
             "e = Constant <value_ints = [9]> () y = Slice(x, s, e) }");
  for (const char* mode : {"constant", "reflect", "edge"}) {
    forms->Add("Pad", {7},
               absl::StrCat("g (float[2, 4] x) => (float[3, 7] y) { y = Pad <mode = \"", mode,
                            "\", pads = [1, 2, 0, 1], value = 0.5> (x) }"),
               absl::StrCat("g (float[2, 4] x) => (float[3, 7] y) "
                            "{ p = Constant <value_ints = [1, 2, 0, 1]> () "
                            "v = Constant <value_float = 0.5> () y = Pad <mode = \"",
                            mode, "\"> (x, p, v) }"));
  }
  forms->Add("Pad", {7},
             "g (double[4] x) => (double[5] y) { y = Pad <pads = [1, 0], value = 0.5> (x) }",
             "g (double[4] x) => (double[5] y) { p = Constant <value_ints = [1, 0]> () "
             "v = Constant <value = double {0.5}> () y = Pad(x, p, v) }");
  forms->Add("TopK", {7},
             "g (float[2, 4] x) => (float[2, 2] y, int64[2, 2] i) { y, i = TopK <k = 2> (x) }",
             "g (float[2, 4] x) => (float[2, 2] y, int64[2, 2] i) "
             "{ k = Constant <value_ints = [2]> () y, i = TopK(x, k) }");
  forms->Add("TopK", {10, 11},
             "g (float[2, 4] x) => (float[2, 2] y, int64[2, 2] i) "
             "{ k = Constant <value = int64[1] {2}> () y, i = TopK(x, k) }",
             "g (float[2, 4] x) => (float[2, 2] y, int64[2, 2] i) "
             "{ k = Constant <value_ints = [2]> () y, i = TopK(x, k) }");
  forms->Add("Cast", {7}, "g (float[2] x) => (int64[2] y) { y = Cast <to = 7> (x) }",
             "g (float[2] x) => (int64[2] y) { y = Cast <to = 7> (x) }");
}

void AddElementwise(Forms* forms) {
  forms->Add("Clip", {7}, "g (float[5] x) => (float[5] y) { y = Clip <min = 0.5, max = 1.0> (x) }",
             "g (float[5] x) => (float[5] y) { a = Constant <value_float = 0.5> () "
             "b = Constant <value_float = 1.0> () y = Clip(x, a, b) }");
  forms->Add("Clip", {7}, "g (double[5] x) => (double[5] y) { y = Clip <max = 1.0> (x) }",
             "g (double[5] x) => (double[5] y) { b = Constant <value = double {1.0}> () "
             "y = Clip(x, , b) }");
  forms->Add("Clip", {7}, "g (float[5] x) => (float[5] y) { y = Clip(x) }",
             "g (float[5] x) => (float[5] y) { y = Identity(x) }");
  forms->Add("Dropout", {7, 10},
             "g (float[2, 3] x) => (float[2, 3] y) { y = Dropout <ratio = 0.25> (x) }",
             "g (float[2, 3] x) => (float[2, 3] y) { r = Constant <value_float = 0.25> () "
             "y = Dropout(x, r) }");
  // Its mask was a number below 10.
  forms->Add(
      "Dropout", {7},
      "g (float[2, 3] x) => (float[2, 3] z) { y, m = Dropout <ratio = 0.25> (x) z = Mul(y, m) }",
      "g (float[2, 3] x) => (float[2, 3] z) { z = Identity(x) }");
}

// Softmax and its relatives saw a matrix below opset 13: what is before the axis is its
// rows. The axis was 1 where none is given.
void AddSoftmax(Forms* forms) {
  for (const char* op : {"Softmax", "LogSoftmax", "Hardmax"}) {
    const std::string call = absl::StrCat("{ y = ", op);
    const auto as_matrix = [&](const std::string& matrix) {
      return absl::StrCat(
          "g (float[2, 3, 4] x) => (float[2, 3, 4] y) { n = Constant <value_ints = ", matrix,
          "> () f = Reshape(x, n) h = ", op,
          "(f) s = Constant <value_ints = [2, 3, 4]> () y = Reshape(h, s) }");
    };
    const std::string head = "g (float[2, 3, 4] x) => (float[2, 3, 4] y) ";
    forms->Add(op, {7, 11}, absl::StrCat(head, call, "(x) }"), as_matrix("[2, 12]"));
    forms->Add(op, {7, 11}, absl::StrCat(head, call, " <axis = 0> (x) }"), as_matrix("[1, 24]"));
    forms->Add(op, {7, 11}, absl::StrCat(head, call, " <axis = 2> (x) }"), as_matrix("[6, 4]"));
    forms->Add(op, {11}, absl::StrCat(head, call, " <axis = -1> (x) }"), as_matrix("[6, 4]"));
    forms->Add(op, {11}, absl::StrCat(head, call, " <axis = -2> (x) }"), as_matrix("[2, 12]"));
  }
}

void AddNormalisations(Forms* forms) {
  const std::string head =
      "g (float[2, 3, 2, 2] x, float[3] s, float[3] b, float[3] m, float[3] v) => ";
  forms->Add(
      "BatchNormalization", {7, 9, 14},
      head + "(float[2, 3, 2, 2] y) { y = BatchNormalization <epsilon = 0.01> (x, s, b, m, v) }",
      head + "(float[2, 3, 2, 2] y) { y = BatchNormalization <epsilon = 0.01> (x, s, b, m, v) }");
  forms->Add(
      "BatchNormalization", {7},
      head + "(float[2, 3, 2, 2] y) { y = BatchNormalization <spatial = 0> (x, s, b, m, v) }",
      "refused: spatial=0");
  // In training form, with five outputs.
  forms->Add("BatchNormalization", {7, 9},
             head +
                 "(float[2, 3, 2, 2] y, float[3] rm, float[3] rv) "
                 "{ y, rm, rv, sm, sv = BatchNormalization(x, s, b, m, v) }",
             head +
                 "(float[2, 3, 2, 2] y, float[3] rm, float[3] rv) "
                 "{ y, rm, rv = BatchNormalization <training_mode = 1> (x, s, b, m, v) }");
  // With a scale per group; ONNX itself has withdrawn it.
  forms->Add("GroupNormalization", {18},
             "g (float[2, 6, 3] x, float[2] s, float[2] b) => (float[2, 6, 3] y) "
             "{ y = GroupNormalization <num_groups = 2> (x, s, b) }",
             "refused: deprecated");
}

// Resize had one way of finding coordinates below opset 11; Upsample never another.
void AddImages(Forms* forms) {
  const std::string head = "g (float[1, 1, 2, 3] x) => (float[1, 1, 4, 6] y) ";
  for (const char* mode : {"nearest", "linear"}) {
    const std::string means = absl::StrCat(
        head, "{ s = Constant <value_ints = [1, 1, 4, 6]> () y = Resize <mode = \"", mode,
        "\", coordinate_transformation_mode = \"asymmetric\", nearest_mode = \"floor\"> "
        "(x, , , s) }");
    const std::string scales = "{ s = Constant <value = float[4] {1.0, 1.0, 2.0, 2.0}> () y = ";
    forms->Add("Upsample", {7},
               absl::StrCat(head, "{ y = Upsample <mode = \"", mode,
                            "\", scales = [1.0, 1.0, 2.0, 2.0]> (x) }"),
               means);
    forms->Add("Upsample", {9},
               absl::StrCat(head, scales, "Upsample <mode = \"", mode, "\"> (x, s) }"), means);
    forms->Add("Resize", {10},
               absl::StrCat(head, scales, "Resize <mode = \"", mode, "\"> (x, s) }"), means);
  }
  // Its region was required, and is read for one mode only.
  for (const char* attributes :
       {"", "<mode = \"linear\">", "<mode = \"cubic\", exclude_outside = 1>",
        "<mode = \"nearest\", coordinate_transformation_mode = \"tf_half_pixel_for_nn\">"}) {
    const std::string scales = "s = Constant <value = float[4] {1.0, 1.0, 2.0, 2.0}> () ";
    forms->Add("Resize", {11},
               absl::StrCat(head, "{ r = Constant <value = float[0] {}> () ", scales, "y = Resize ",
                            attributes, " (x, r, s) }"),
               absl::StrCat(head, "{ ", scales, "y = Resize ", attributes, " (x, , s) }"));
  }
  // Its modes had other names.
  for (const char* mode : {"linear", "cubic", "nearest"}) {
    const std::string was = mode == std::string("nearest") ? mode : absl::StrCat("bi", mode);
    const auto call = [](const std::string& name) {
      return absl::StrCat(
          "g (float[1, 1, 3, 3] x, float[1, 2, 2, 2] grid) => (float[1, 1, 2, 2] y) "
          "{ y = GridSample <mode = \"",
          name, "\"> (x, grid) }");
    };
    forms->Add("GridSample", {16}, call(was), call(mode));
  }
  forms->Add("GridSample", {16},
             "g (float[1, 1, 3, 3] x, float[1, 2, 2, 2] grid) => (float[1, 1, 2, 2] y) "
             "{ y = GridSample(x, grid) }",
             "g (float[1, 1, 3, 3] x, float[1, 2, 2, 2] grid) => (float[1, 1, 2, 2] y) "
             "{ y = GridSample(x, grid) }");
}

// Regions were not moved by half an element.
void AddRegions(Forms* forms) {
  const std::string pool =
      "g (float[2, 2, 6, 5] x) => (float[1, 2, 2, 3] y) { "
      "r = Constant <value = float[1, 5] {1.0, 0.5, 2.5, 3.0, 4.0}> () "
      "y = MaxRoiPool <pooled_shape = [2, 3]> (x, r) }";
  forms->Add("MaxRoiPool", {7}, pool, pool);
  const auto call = [](const char* more) {
    return absl::StrCat(
        "g (float[2, 1, 5, 5] x, float[2, 4] r, int64[2] i) => (float[2, 1, 2, 1] y) "
        "{ y = RoiAlign <output_height = 2",
        more, "> (x, r, i) }");
  };
  forms->Add("RoiAlign", {10}, call(", sampling_ratio = 2"),
             call(", sampling_ratio = 2, coordinate_transformation_mode = \"output_half_pixel\""));
}

// Its axis was an attribute, and another one where none is given.
void AddSignals(Forms* forms) {
  const std::string head = "g (float[2, 3, 2, 1] x) => (float[2, 3, 2, 2] y) ";
  forms->Add("DFT", {17}, head + "{ y = DFT(x) }",
             head + "{ a = Constant <value_int = 1> () y = DFT(x, , a) }");
  forms->Add("DFT", {17}, head + "{ y = DFT <axis = 2, inverse = 1> (x) }",
             head + "{ a = Constant <value_int = 2> () y = DFT <inverse = 1> (x, , a) }");
}

void AddScatters(Forms* forms) {
  const std::string head = "g (float[3, 2] x, int64[1, 2] i, float[1, 2] u) => (float[3, 2] y) ";
  forms->Add("Scatter", {9, 10}, head + "{ y = Scatter(x, i, u) }",
             head + "{ y = ScatterElements(x, i, u) }");
  forms->Add("Scatter", {9}, head + "{ y = Scatter <axis = 1> (x, i, u) }",
             head + "{ y = ScatterElements <axis = 1> (x, i, u) }");
}

}  // namespace

const std::vector<OldForm>& OldForms() {
  static const auto* list = [] {
    Forms forms;
    AddReductions(&forms);
    AddShapes(&forms);
    AddElementwise(&forms);
    AddSoftmax(&forms);
    AddNormalisations(&forms);
    AddImages(&forms);
    AddRegions(&forms);
    AddSignals(&forms);
    AddScatters(&forms);
    return new std::vector<OldForm>(std::move(forms.list));
  }();
  return *list;
}

}  // namespace onward
