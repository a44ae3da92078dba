// Batch and layer normalisation and their gradients.
#include "absl/strings/str_cat.h"
#include "graph/base/status_macros.h"
#include "kernels/onednn/engine.h"
#include "kernels/onednn/onednn.h"

namespace onward::onednn {
namespace {

using dnnl::memory;
using dnnl::normalization_flags;
using dnnl::prop_kind;
using Descs = absl::Span<const memory::desc>;

float Epsilon(const KernelCall& call) {
  return static_cast<float>(call.attributes->Float("epsilon", 1e-5f));
}

normalization_flags ScaleAndShift() {
  return normalization_flags::use_scale | normalization_flags::use_shift;
}

absl::Status CheckImage(const KernelCall& call, const Dims& x) {
  RETURN_IF_ERROR(OnlyFilledFloats(call));
  if (x.size() >= 2 && x.size() <= 5) return absl::OkStatus();
  return absl::UnimplementedError("oneDNN normalises 2 to 5 axes");
}

// ---- Batch normalisation. y follows x's layout.

absl::StatusOr<Form> BatchForm(const KernelCall& call) {
  const Dims& x = call.inputs[0]->dims;
  RETURN_IF_ERROR(CheckImage(call, x));
  if (call.attributes->Int("training_mode", 0) != 0) {
    return absl::UnimplementedError("training form: it is lowered");
  }
  const View channels = View::Shaped({x[1]});
  Form form;
  form.operands = {{DNNL_ARG_SRC, false, 0, View::Same(x), true},
                   {DNNL_ARG_DST, true, 0, View::Same(x), false, 0},
                   {DNNL_ARG_SCALE, false, 1, channels},
                   {DNNL_ARG_SHIFT, false, 2, channels},
                   {DNNL_ARG_MEAN, false, 3, channels},
                   {DNNL_ARG_VARIANCE, false, 4, channels}};
  form.aliases = {{0, 0}};
  const float epsilon = Epsilon(call);
  form.create = [epsilon](Descs d, const dnnl::primitive_attr& attributes) {
    return dnnl::batch_normalization_forward::primitive_desc(
        CpuEngine(), prop_kind::forward_inference, d[0], d[1], epsilon,
        ScaleAndShift() | normalization_flags::use_global_stats, attributes);
  };
  return form;
}

absl::StatusOr<Form> BatchTrainingForm(const KernelCall& call) {
  const Dims& x = call.inputs[0]->dims;
  RETURN_IF_ERROR(CheckImage(call, x));
  if (!call.has_output(1) || !call.has_output(2)) {
    return absl::UnimplementedError("without its statistics");
  }
  const View channels = View::Shaped({x[1]});
  Form form;
  form.operands = {{DNNL_ARG_SRC, false, 0, View::Same(x), true},
                   {DNNL_ARG_DST, true, 0, View::Same(x), false, 0},
                   {DNNL_ARG_SCALE, false, 1, channels},
                   {DNNL_ARG_SHIFT, false, 2, channels},
                   {DNNL_ARG_MEAN, true, 1, channels},
                   {DNNL_ARG_VARIANCE, true, 2, channels}};
  const float epsilon = Epsilon(call);
  form.create = [epsilon](Descs d, const dnnl::primitive_attr& attributes) {
    return dnnl::batch_normalization_forward::primitive_desc(
        CpuEngine(), prop_kind::forward_training, d[0], d[1], epsilon, ScaleAndShift(), attributes);
  };
  return form;
}

absl::StatusOr<Form> BatchGradientForm(const KernelCall& call) {
  const Dims& x = call.inputs[1]->dims;
  RETURN_IF_ERROR(CheckImage(call, x));
  if (!call.has_output(1) || !call.has_output(2)) {
    return absl::UnimplementedError("without the gradients of scale and bias");
  }
  const View channels = View::Shaped({x[1]});
  Form form;
  form.operands = {{DNNL_ARG_SRC, false, 1, View::Same(x), true},
                   {DNNL_ARG_DIFF_DST, false, 0, View::Same(x), false, 0},
                   {DNNL_ARG_DIFF_SRC, true, 0, View::Same(x), false, 0},
                   {DNNL_ARG_SCALE, false, 2, channels},
                   {DNNL_ARG_MEAN, false, 3, channels},
                   {DNNL_ARG_VARIANCE, false, 4, channels},
                   {DNNL_ARG_DIFF_SCALE, true, 1, channels},
                   {DNNL_ARG_DIFF_SHIFT, true, 2, channels}};
  form.aliases = {{0, 0}};
  const float epsilon = Epsilon(call);
  form.create = [epsilon](Descs d, const dnnl::primitive_attr& attributes) {
    const dnnl::batch_normalization_forward::primitive_desc forward(
        CpuEngine(), prop_kind::forward_training, d[0], d[0], epsilon, ScaleAndShift());
    return dnnl::batch_normalization_backward::primitive_desc(CpuEngine(), prop_kind::backward,
                                                              d[2], d[1], d[0], epsilon,
                                                              ScaleAndShift(), forward, attributes);
  };
  return form;
}

// ---- Layer normalisation, of lines of plain memory.

struct LineShape {
  memory::dims lines, x, parameters;
};

LineShape LinesOf(const KernelCall& call, const Dims& x) {
  int64_t axis = call.attributes->Int("axis", -1);
  if (axis < 0) axis += static_cast<int64_t>(x.size());
  const absl::Span<const int64_t> all(x);
  const int64_t lines = Elements(all.first(axis)), length = Elements(all.subspan(axis));
  return {{lines}, {lines, length}, {length}};
}

// Mean and variance as oneDNN wants them, in plain memory.
memory::desc StatisticsDesc(const LineShape& s) {
  return memory::desc(s.lines, memory::data_type::f32, memory::format_tag::a);
}

absl::StatusOr<Form> LayerForm(const KernelCall& call) {
  RETURN_IF_ERROR(OnlyFilledFloats(call));
  const Dims& x = call.inputs[0]->dims;
  const LineShape s = LinesOf(call, x);
  const bool training = call.op == "onward.LayerNormalizationTraining";
  if (training ? !call.has_output(1) || !call.has_output(2)
               : call.has_output(1) || call.has_output(2)) {
    return absl::UnimplementedError("statistics that the primitive does not give");
  }
  Form form;
  form.operands = {{DNNL_ARG_SRC, false, 0, View::Shaped(s.x)},
                   {DNNL_ARG_DST, true, 0, View::Shaped(s.x)}};
  auto flags = normalization_flags::none;
  const std::pair<int, normalization_flags> parameters[] = {
      {DNNL_ARG_SCALE, normalization_flags::use_scale},
      {DNNL_ARG_SHIFT, normalization_flags::use_shift}};
  for (int i : {1, 2}) {
    if (!call.has_input(i)) continue;
    if (call.inputs[i]->elements() != s.parameters[0]) {
      return absl::UnimplementedError("a parameter that is broadcast");
    }
    flags = flags | parameters[i - 1].second;
    form.operands.push_back({parameters[i - 1].first, false, i, View::Shaped(s.parameters)});
  }
  if (training) {
    form.operands.push_back({DNNL_ARG_MEAN, true, 1, View::Shaped(s.lines)});
    form.operands.push_back({DNNL_ARG_VARIANCE, true, 2, View::Shaped(s.lines)});
  }
  const auto kind = training ? prop_kind::forward_training : prop_kind::forward_inference;
  const float epsilon = Epsilon(call);
  form.create = [s, kind, epsilon, flags](Descs d, const dnnl::primitive_attr& attributes) {
    return dnnl::layer_normalization_forward::primitive_desc(
        CpuEngine(), kind, d[0], d[1], StatisticsDesc(s), epsilon, flags, attributes);
  };
  return form;
}

absl::StatusOr<Form> LayerGradientForm(const KernelCall& call) {
  RETURN_IF_ERROR(OnlyFilledFloats(call));
  const Dims& x = call.inputs[1]->dims;
  const LineShape s = LinesOf(call, x);
  const bool scale = call.has_input(2);
  if (scale != call.has_output(1) || (call.has_output(2) && !scale)) {
    return absl::UnimplementedError("a gradient without its parameter");
  }
  Form form;
  form.operands = {{DNNL_ARG_DIFF_DST, false, 0, View::Shaped(s.x)},
                   {DNNL_ARG_SRC, false, 1, View::Shaped(s.x)},
                   {DNNL_ARG_DIFF_SRC, true, 0, View::Shaped(s.x)},
                   {DNNL_ARG_MEAN, false, 3, View::Shaped(s.lines)},
                   {DNNL_ARG_VARIANCE, false, 4, View::Shaped(s.lines)}};
  auto flags = normalization_flags::none;
  if (scale) {
    flags = flags | normalization_flags::use_scale;
    form.operands.push_back({DNNL_ARG_SCALE, false, 2, View::Shaped(s.parameters)});
    form.operands.push_back({DNNL_ARG_DIFF_SCALE, true, 1, View::Shaped(s.parameters)});
  }
  if (call.has_output(2)) {
    flags = flags | normalization_flags::use_shift;
    form.operands.push_back({DNNL_ARG_DIFF_SHIFT, true, 2, View::Shaped(s.parameters)});
    // The primitive wants a shift, which no gradient depends on: any vector will do.
    form.operands.push_back({DNNL_ARG_SHIFT, false, 2, View::Shaped(s.parameters)});
  }
  const auto kind = scale ? prop_kind::backward : prop_kind::backward_data;
  const float epsilon = Epsilon(call);
  form.create = [s, kind, epsilon, flags](Descs d, const dnnl::primitive_attr& attributes) {
    const dnnl::layer_normalization_forward::primitive_desc forward(
        CpuEngine(), prop_kind::forward_training, d[1], d[0], StatisticsDesc(s), epsilon, flags);
    return dnnl::layer_normalization_backward::primitive_desc(CpuEngine(), kind, d[2], d[0], d[1],
                                                              StatisticsDesc(s), epsilon, flags,
                                                              forward, attributes);
  };
  return form;
}

}  // namespace

void AddNormRows(KernelTable& table) {
  table.push_back(Row<BatchForm>("onednn.batch_normalization", "BatchNormalization"));
  table.push_back(
      Row<BatchTrainingForm>("onednn.batch_normalization", "onward.BatchNormalizationTraining"));
  table.push_back(Row<BatchGradientForm>("onednn.batch_normalization_gradient",
                                         "onward.BatchNormalizationGradient"));
  table.push_back(Row<LayerForm>("onednn.layer_normalization", "LayerNormalization"));
  table.push_back(
      Row<LayerForm>("onednn.layer_normalization", "onward.LayerNormalizationTraining"));
  table.push_back(Row<LayerGradientForm>("onednn.layer_normalization_gradient",
                                         "onward.LayerNormalizationGradient"));
}

}  // namespace onward::onednn
