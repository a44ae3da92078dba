// Products of matrices.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "graph/base/status_macros.h"
#include "kernels/onednn/engine.h"
#include "kernels/onednn/onednn.h"

namespace onward::onednn {
namespace {

using dnnl::algorithm;
using dnnl::memory;
using Descs = absl::Span<const memory::desc>;

// y = activation(alpha op(a) op(b) + beta bias), of MatMul, Gemm and FusedMatMul.
struct Product {
  Dims a, b, y;          // as matrices with batch axes: vectors have got an axis
  bool vectors = false;  // some had to
  bool trans_a = false, trans_b = false;
  double alpha = 1, beta = 1;
  bool has_bias = false;
  Dims bias;
  bool relu = false;

  bool two_axes() const { return a.size() == 2 && b.size() == 2 && !vectors; }
  bool scaled() const { return alpha != 1 || (has_bias && beta != 1); }
  int64_t inner() const { return trans_a ? a[a.size() - 2] : a.back(); }
  bool bias_is_row() const {
    return has_bias && Elements(bias) == y.back() && bias.back() == y.back();
  }
};

absl::StatusOr<Product> Read(const KernelCall& call) {
  RETURN_IF_ERROR(OnlyFilledFloats(call));
  const Attributes& attributes = *call.attributes;
  Product p;
  p.a = call.inputs[0]->dims;
  p.b = call.inputs[1]->dims;
  p.y = call.outputs[0]->dims;
  if (p.b.size() == 1) {
    p.b.push_back(1);
    p.y.push_back(1);
    p.vectors = true;
  }
  if (p.a.size() == 1) {
    p.a.insert(p.a.begin(), 1);
    p.y.insert(p.y.end() - 1, 1);
    p.vectors = true;
  }
  p.trans_a = attributes.Int("transA", 0) != 0;
  p.trans_b = attributes.Int("transB", 0) != 0;
  p.alpha = attributes.Float("alpha", 1);
  p.beta = attributes.Float("beta", 1);
  p.has_bias = call.has_input(2) && p.beta != 0;
  if (p.has_bias) {
    p.bias = call.inputs[2]->dims;
    if (p.bias.empty()) p.bias.push_back(1);
  }
  p.relu = attributes.String("activation", "") == "Relu";
  return p;
}

void AppendRelu(dnnl::primitive_attr& attributes) {
  dnnl::post_ops post;
  post.append_eltwise(algorithm::eltwise_relu, 0, 0);
  attributes.set_post_ops(post);
}

// y = a op(b) + bias with oneDNN's inner product, whose blocked weights win where
// b is a weight: weights are (columns of y, inner).
absl::StatusOr<Form> InnerProductForm(const KernelCall& call) {
  ASSIGN_OR_RETURN(const Product p, Read(call));
  if (!p.two_axes()) return absl::UnimplementedError("not two matrices");
  if (p.trans_a) return absl::UnimplementedError("the first matrix is transposed");
  if (p.scaled()) return absl::UnimplementedError("a factor other than 1");
  if (p.has_bias && !p.bias_is_row()) return absl::UnimplementedError("a bias that is no row");
  Form form;
  form.operands = {{DNNL_ARG_SRC, false, 0, View::Same(p.a), true},
                   {DNNL_ARG_WEIGHTS, false, 1, p.trans_b ? View::Same(p.b) : View::Swapped(p.b)},
                   {DNNL_ARG_DST, true, 0, View::Same(p.y), true}};
  if (p.has_bias) {
    form.operands.push_back({DNNL_ARG_BIAS, false, 2, View::Shaped({p.y.back()})});
  }
  if (p.relu) AppendRelu(form.attributes);
  const bool has_bias = p.has_bias;
  form.create = [has_bias](Descs d, const dnnl::primitive_attr& attributes) {
    const auto kind = dnnl::prop_kind::forward_training;
    return has_bias ? dnnl::inner_product_forward::primitive_desc(CpuEngine(), kind, d[0], d[1],
                                                                  d[3], d[2], attributes)
                    : dnnl::inner_product_forward::primitive_desc(CpuEngine(), kind, d[0], d[1],
                                                                  d[2], attributes);
  };
  return form;
}

// y = a op(b) as the gradient of an inner product's data: b may then keep the
// layout that the forward product chose for it. Weights are (inner, columns of y).
absl::StatusOr<Form> DataGradientForm(const KernelCall& call) {
  ASSIGN_OR_RETURN(const Product p, Read(call));
  if (!p.two_axes()) return absl::UnimplementedError("not two matrices");
  if (p.trans_a) return absl::UnimplementedError("the first matrix is transposed");
  if (p.scaled() || p.has_bias || p.relu) {
    return absl::UnimplementedError("a factor, bias or activation");
  }
  if (call.inputs[1]->layout.plain()) {
    return absl::UnimplementedError("the second matrix is plain: other forms are as good");
  }
  Form form;
  form.operands = {{DNNL_ARG_DIFF_DST, false, 0, View::Same(p.a), true},
                   {DNNL_ARG_WEIGHTS, false, 1, p.trans_b ? View::Swapped(p.b) : View::Same(p.b)},
                   {DNNL_ARG_DIFF_SRC, true, 0, View::Same(p.y), true}};
  form.create = [](Descs d, const dnnl::primitive_attr& attributes) {
    const dnnl::inner_product_forward::primitive_desc forward(
        CpuEngine(), dnnl::prop_kind::forward_training, d[2], d[1], d[0]);
    return dnnl::inner_product_backward_data::primitive_desc(CpuEngine(), d[2], d[1], d[0], forward,
                                                             attributes);
  };
  return form;
}

// y = a' b as the gradient of an inner product's weights, in their layout. Seen as
// (columns of b, columns of a) if `swapped`, else the other way round; either is
// right, and which has y's layout depends on how the weight is used.
absl::StatusOr<Form> WeightGradientForm(const KernelCall& call, bool swapped) {
  ASSIGN_OR_RETURN(const Product p, Read(call));
  if (!p.two_axes()) return absl::UnimplementedError("not two matrices");
  if (!p.trans_a || p.trans_b) {
    return absl::UnimplementedError("not a product of a transposed matrix with another");
  }
  if (p.scaled() || p.has_bias || p.relu) {
    return absl::UnimplementedError("a factor, bias or activation");
  }
  Form form;
  form.operands = {
      {DNNL_ARG_SRC, false, swapped ? 0 : 1, View::Same(swapped ? p.a : p.b), true},
      {DNNL_ARG_DIFF_DST, false, swapped ? 1 : 0, View::Same(swapped ? p.b : p.a), true},
      {DNNL_ARG_DIFF_WEIGHTS, true, 0, swapped ? View::Swapped(p.y) : View::Same(p.y), true}};
  form.create = [](Descs d, const dnnl::primitive_attr& attributes) {
    const dnnl::inner_product_forward::primitive_desc forward(
        CpuEngine(), dnnl::prop_kind::forward_training, d[0], d[2], d[1]);
    return dnnl::inner_product_backward_weights::primitive_desc(CpuEngine(), d[0], d[2], d[1],
                                                                forward, attributes);
  };
  return form;
}
absl::StatusOr<Form> WeightGradientSwapped(const KernelCall& call) {
  return WeightGradientForm(call, true);
}
absl::StatusOr<Form> WeightGradientSame(const KernelCall& call) {
  return WeightGradientForm(call, false);
}

// `dims` (batch axes, then a matrix) seen with `rank` axes, over plain memory.
View Matrices(const Dims& dims, size_t rank, bool transposed) {
  memory::dims strides = ToDnnl(Strides(dims));
  memory::dims seen = ToDnnl(dims);
  seen.insert(seen.begin(), rank - dims.size(), 1);
  strides.insert(strides.begin(), rank - dims.size(), Elements(dims));
  if (transposed) {
    std::swap(seen[rank - 1], seen[rank - 2]);
    std::swap(strides[rank - 1], strides[rank - 2]);
  }
  return View::Shaped(std::move(seen), std::move(strides));
}

// Post-operations for y = act(alpha a b + beta c): ((a b alpha/beta) + c) beta.
// `bias` is given where c cannot be the product's own bias.
dnnl::post_ops Scaling(const Product& p, const memory::desc* bias) {
  dnnl::post_ops post;
  const float first = static_cast<float>(bias != nullptr ? p.alpha / p.beta : p.alpha);
  if (first != 1) post.append_eltwise(algorithm::eltwise_linear, first, 0);
  if (bias != nullptr) {
    post.append_binary(algorithm::binary_add, *bias);
    if (p.beta != 1) {
      post.append_eltwise(algorithm::eltwise_linear, static_cast<float>(p.beta), 0);
    }
  }
  if (p.relu) post.append_eltwise(algorithm::eltwise_relu, 0, 0);
  return post;
}

// Everything else, over plain memory.
absl::StatusOr<Form> MatMulForm(const KernelCall& call) {
  ASSIGN_OR_RETURN(Product p, Read(call));
  // Rows of all batches are rows of one product where b is one matrix.
  if (p.b.size() == 2 && p.a.size() > 2 && !p.trans_a && (!p.has_bias || p.bias.size() == 1)) {
    p.a = {Elements(p.a) / p.a.back(), p.a.back()};
    p.y = {Elements(p.y) / p.y.back(), p.y.back()};
  }
  const size_t rank = std::max({p.a.size(), p.b.size(), p.y.size()});
  Form form;
  form.operands = {{DNNL_ARG_SRC, false, 0, Matrices(p.a, rank, p.trans_a)},
                   {DNNL_ARG_WEIGHTS, false, 1, Matrices(p.b, rank, p.trans_b)},
                   {DNNL_ARG_DST, true, 0, Matrices(p.y, rank, false)}};
  const bool own_bias = p.has_bias && !p.scaled();
  int first = p.alpha != (p.has_bias ? p.beta : 1) ? 1 : 0;
  if (p.has_bias) {
    const View bias = Matrices(p.bias, rank, false);
    const int argument =
        own_bias ? DNNL_ARG_BIAS : DNNL_ARG_ATTR_MULTIPLE_POST_OP(first) | DNNL_ARG_SRC_1;
    form.operands.push_back({argument, false, 2, bias});
  }
  form.create = [p, own_bias](Descs d, const dnnl::primitive_attr& given) {
    dnnl::primitive_attr attributes = given;
    attributes.set_post_ops(Scaling(p, p.has_bias && !own_bias ? &d[3] : nullptr));
    return own_bias ? dnnl::matmul::primitive_desc(CpuEngine(), d[0], d[1], d[3], d[2], attributes)
                    : dnnl::matmul::primitive_desc(CpuEngine(), d[0], d[1], d[2], attributes);
  };
  return form;
}

}  // namespace

void AddMatMulRows(KernelTable& table) {
  for (const char* op : {"MatMul", "Gemm", "onward.FusedMatMul"}) {
    table.push_back(Row<DataGradientForm>("onednn.inner_product_data_gradient", op));
    table.push_back(Row<InnerProductForm>("onednn.inner_product", op));
    if (std::string(op) != "MatMul") {
      table.push_back(Row<WeightGradientSwapped>("onednn.inner_product_weight_gradient", op));
      table.push_back(Row<WeightGradientSame>("onednn.inner_product_weight_gradient_as_is", op));
    }
    table.push_back(Row<MatMulForm>("onednn.matmul", op));
  }
}

}  // namespace onward::onednn
