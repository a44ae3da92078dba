// Kernels of oneDNN, and those that follow its layouts, on memory that is not plain.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "backend/runtime/interpreter.h"
#include "kernels/kernel.h"

namespace onward {
namespace {

Tensor Numbers(const Dims& dims, uint64_t seed) {
  Tensor t(DataType::kFloat32, dims);
  uint64_t state = seed * 2654435761u + 88172645463325252u;
  for (float& v : t.mutable_values<float>()) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    v = static_cast<float>(static_cast<int>(state % 2001) - 1000) / 1000.0f;
  }
  return t;
}

const Kernel& Row(const std::string& op, const std::string& name) {
  for (const Kernel& k : CpuKernels()) {
    if (k.op == op && k.name == name) return k;
  }
  ADD_FAILURE() << "no row " << name << " of " << op;
  std::abort();
}

// A call whose tensors have layouts, with what the row asked for.
struct Case {
  std::string op;
  Attributes attributes;
  std::vector<TensorType> inputs, outputs;
  int threads = 1;

  KernelCall Call(bool open) const {
    KernelCall call;
    call.op = op;
    call.attributes = &attributes;
    for (const TensorType& t : inputs) call.inputs.push_back(&t);
    for (const TensorType& t : outputs) call.outputs.push_back(&t);
    call.constants.resize(inputs.size());
    call.open_inputs = call.open_outputs = open ? ~uint64_t{0} : 0;
    call.threads = threads;
    return call;
  }
};

struct Buffer {
  explicit Buffer(int64_t bytes) : data(std::aligned_alloc(64, (bytes + 127) / 64 * 64)) {}
  ~Buffer() { std::free(data); }
  Buffer(const Buffer&) = delete;
  void* data;
};

// Lets the row choose the open layouts, runs it, and gives the outputs in plain
// layout; `c` then holds the layouts. `times` runs must give the same bytes.
std::vector<Tensor> RunRow(const Kernel& row, Case* c, const std::vector<const Tensor*>& inputs,
                           int times = 1) {
  const KernelCall open = c->Call(true);
  const absl::Status accepted = row.accepts(open);
  EXPECT_TRUE(accepted.ok()) << accepted;
  if (!accepted.ok()) return {};
  if (row.describe != nullptr) {
    const KernelNeeds wish = row.describe(open);
    for (size_t i = 0; i < wish.input_layouts.size(); ++i) {
      c->inputs[i].layout = wish.input_layouts[i];
    }
    for (size_t i = 0; i < wish.output_layouts.size(); ++i) {
      c->outputs[i].layout = wish.output_layouts[i];
    }
  }
  const KernelCall call = c->Call(false);
  EXPECT_TRUE(row.accepts(call).ok()) << row.accepts(call);
  const KernelNeeds needs = row.describe == nullptr ? KernelNeeds{} : row.describe(call);
  std::vector<std::unique_ptr<Buffer>> buffers;
  const auto make = [&](const TensorType& type) {
    buffers.push_back(std::make_unique<Buffer>(type.bytes()));
    return TensorView{type, buffers.back()->data};
  };
  KernelMemory memory;
  for (size_t i = 0; i < inputs.size(); ++i) {
    memory.inputs.push_back(make(c->inputs[i]));
    ConvertLayout(inputs[i]->view(), memory.inputs.back());
  }
  for (const TensorType& t : c->outputs) memory.outputs.push_back(make(t));
  Buffer scratch(needs.scratch_bytes);
  memory.scratch = scratch.data;
  Execution execution;
  execution.threads = c->threads;
  auto bound = row.prepare(call, memory, execution);
  EXPECT_TRUE(bound.ok()) << bound.status();
  if (!bound.ok()) return {};
  std::vector<std::string> first;
  for (int k = 0; k < times; ++k) {
    EXPECT_TRUE((*bound)->Run().ok());
    for (size_t i = 0; i < memory.outputs.size(); ++i) {
      const std::string bytes(memory.outputs[i].as<char>(), memory.outputs[i].type.bytes());
      if (k == 0) {
        first.push_back(bytes);
      } else {
        EXPECT_TRUE(bytes == first[i]) << row.name << ": run " << k << " gives other bits";
      }
    }
  }
  std::vector<Tensor> out;
  for (const TensorView& view : memory.outputs) {
    Tensor t(view.type.dtype, view.type.dims);
    ConvertLayout(view, t.view());
    out.push_back(std::move(t));
  }
  return out;
}

std::vector<Tensor> Reference(const Case& c, const std::vector<const Tensor*>& inputs) {
  std::vector<TensorType> types;
  for (const TensorType& t : c.outputs) types.push_back({t.dtype, t.dims, {}});
  for (const Kernel& k : CpuKernels()) {
    if (k.op != c.op || !k.reference) continue;
    auto results = RunKernel(k, c.attributes, inputs, types, 1);
    EXPECT_TRUE(results.ok()) << results.status();
    return *std::move(results);
  }
  ADD_FAILURE() << "no reference for " << c.op;
  return {};
}

void ExpectNear(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t k = 0; k < a.size(); ++k) {
    ASSERT_EQ(a[k].elements(), b[k].elements());
    for (int64_t i = 0; i < a[k].elements(); ++i) {
      ASSERT_NEAR(a[k].At(i), b[k].At(i), 1e-4) << "output " << k << " element " << i;
    }
  }
}

TensorType Float(const Dims& dims, const Layout& layout = {}) {
  return {DataType::kFloat32, dims, layout};
}

Layout Blocked(std::vector<Layout::Block> blocks) {
  Layout layout;
  layout.blocks.assign(blocks.begin(), blocks.end());
  return layout;
}

Layout Ordered(std::vector<int> order, std::vector<Layout::Block> blocks = {}) {
  Layout layout = Blocked(std::move(blocks));
  layout.order.assign(order.begin(), order.end());
  return layout;
}

// The layout that convolutions of this processor like for 32 channels: blocks of 16 with
// AVX-512, of 8 with AVX2.
Layout LikedByConvolutions() {
  Case c = {"Conv", {}, {Float({4, 32, 5, 5}), Float({32, 32, 3, 3})}, {Float({4, 32, 3, 3})}};
  const KernelNeeds needs = Row("Conv", "onednn.convolution").describe(c.Call(true));
  return needs.input_layouts.empty() ? Layout{} : needs.input_layouts[0];
}

// Two convolutions, the second reading what the first made, and both gradients of the
// second, all in the layouts that the first chose.
TEST(Convolution, AChainKeepsItsLayouts) {
  const Dims x_dims = {2, 32, 8, 8}, w_dims = {48, 32, 3, 3};
  const Tensor x = Numbers(x_dims, 1), w = Numbers(w_dims, 2), dy = Numbers({2, 48, 8, 8}, 3);
  const Attributes same = {{"pads", std::vector<int64_t>{1, 1, 1, 1}}};
  for (int threads : {1, 2}) {
    Case forward = {"Conv", same, {Float(x_dims), Float(w_dims)}, {Float({2, 48, 8, 8})}, threads};
    ExpectNear(RunRow(Row("Conv", "onednn.convolution"), &forward, {&x, &w}, 3),
               Reference(forward, {&x, &w}));
    const Layout activations = forward.outputs[0].layout;
    EXPECT_FALSE(activations.plain()) << "plain activations are slow";

    // Reads what it made: no reorder.
    const Dims w2_dims = {32, 48, 3, 3};
    const Tensor w2 = Numbers(w2_dims, 4), y = Numbers({2, 48, 8, 8}, 5);
    Case second = {
        "Conv", same, {Float(dy.dims(), activations), Float(w2_dims)}, {Float(x_dims)}, threads};
    ExpectNear(RunRow(Row("Conv", "onednn.convolution"), &second, {&y, &w2}),
               Reference(second, {&y, &w2}));
    EXPECT_TRUE(second.inputs[0].layout == activations) << ToString(second.inputs[0].layout);

    Attributes attributes = same;
    attributes.Set("shape", std::vector<int64_t>(w_dims.begin(), w_dims.end()));
    Case filter = {"onward.ConvFilterGradient",
                   attributes,
                   {Float(dy.dims(), activations), Float(x_dims, forward.inputs[0].layout)},
                   {Float(w_dims, forward.inputs[1].layout), Float({48})},
                   threads};
    ExpectNear(RunRow(Row(filter.op, "onednn.convolution_filter_gradient"), &filter, {&dy, &x}, 3),
               Reference(filter, {&dy, &x}));
    EXPECT_TRUE(filter.outputs[0].layout == forward.inputs[1].layout)
        << "the gradient lies otherwise than its weight";

    attributes.Set("shape", std::vector<int64_t>(x_dims.begin(), x_dims.end()));
    Case data = {"onward.ConvDataGradient",
                 attributes,
                 {Float(dy.dims(), activations), Float(w_dims, forward.inputs[1].layout)},
                 {Float(x_dims, forward.inputs[0].layout)},
                 threads};
    ExpectNear(RunRow(Row(data.op, "onednn.convolution_data_gradient"), &data, {&dy, &w}, 3),
               Reference(data, {&dy, &w}));
  }
}

// A weight in the layout that the forward product chose, and its gradients there.
TEST(InnerProduct, WeightsAndTheirGradientsLieAlike) {
  const Dims x_dims = {64, 96}, y_dims = {64, 80};
  const Tensor x = Numbers(x_dims, 1), dy = Numbers(y_dims, 2);
  for (const bool transposed : {false, true}) {
    const Dims w_dims = transposed ? Dims{80, 96} : Dims{96, 80};
    const Tensor w = Numbers(w_dims, 3);
    Attributes attributes;
    if (transposed) attributes.Set("transB", int64_t{1});
    Case forward = {"Gemm", attributes, {Float(x_dims), Float(w_dims)}, {Float(y_dims)}, 2};
    ExpectNear(RunRow(Row("Gemm", "onednn.inner_product"), &forward, {&x, &w}, 3),
               Reference(forward, {&x, &w}));
    const Layout layout = forward.inputs[1].layout;
    // Without AVX-512 the gradient comes plain, at the price of a reorder.
    if (LikedByConvolutions() != Blocked({{1, 16}})) continue;

    Case gradient = {"Gemm", {{"transA", int64_t{1}}}, {}, {Float(w_dims, layout)}, 2};
    std::vector<const Tensor*> inputs = {&x, &dy};
    if (transposed) std::swap(inputs[0], inputs[1]);
    for (const Tensor* t : inputs) gradient.inputs.push_back(Float(t->dims()));
    const char* row = transposed ? "onednn.inner_product_weight_gradient_as_is"
                                 : "onednn.inner_product_weight_gradient";
    ExpectNear(RunRow(Row("Gemm", row), &gradient, inputs, 3), Reference(gradient, inputs));
    EXPECT_TRUE(gradient.outputs[0].layout == layout) << ToString(gradient.outputs[0].layout);

    Attributes turned;
    if (!transposed) turned.Set("transB", int64_t{1});
    Case data = {"Gemm", turned, {Float(y_dims), Float(w_dims, layout)}, {Float(x_dims)}, 2};
    ExpectNear(RunRow(Row("Gemm", "onednn.inner_product_data_gradient"), &data, {&dy, &w}, 3),
               Reference(data, {&dy, &w}));
    EXPECT_TRUE(data.inputs[1].layout == layout) << ToString(data.inputs[1].layout);
  }
}

TEST(Normalization, FollowsItsInput) {
  const Dims dims = {4, 32, 5, 5}, channels = {32};
  const Tensor x = Numbers(dims, 1), scale = Numbers(channels, 2), bias = Numbers(channels, 3);
  for (const Layout& layout : {Layout{}, Layout::ChannelsLast(4), LikedByConvolutions()}) {
    Case c = {"onward.BatchNormalizationTraining",
              {},
              {Float(dims, layout), Float(channels), Float(channels)},
              {Float(dims), Float(channels), Float(channels)},
              2};
    ExpectNear(RunRow(Row(c.op, "onednn.batch_normalization"), &c, {&x, &scale, &bias}, 3),
               Reference(c, {&x, &scale, &bias}));
    EXPECT_TRUE(c.inputs[0].layout == layout);
    EXPECT_TRUE(c.outputs[0].layout == layout) << ToString(c.outputs[0].layout);
  }
}

// However the gradient comes: x, which stays, decides.
TEST(Normalization, GradientFollowsTheInputOfForward) {
  const Dims dims = {4, 32, 5, 5}, channels = {32};
  const Tensor dy = Numbers(dims, 1), x = Numbers(dims, 2), scale = Numbers(channels, 3);
  const Tensor mean = Numbers(channels, 4), variance = Tensor::Full(DataType::kFloat32, {32}, 0.7);
  const Layout layouts[] = {Layout{}, Layout::ChannelsLast(4), LikedByConvolutions()};
  for (const Layout& of_dy : layouts) {
    for (const Layout& of_x : layouts) {
      Case c = {"onward.BatchNormalizationGradient",
                {},
                {Float(dims, of_dy), Float(dims, of_x), Float(channels), Float(channels),
                 Float(channels)},
                {Float(dims), Float(channels), Float(channels)},
                2};
      const std::vector<const Tensor*> inputs = {&dy, &x, &scale, &mean, &variance};
      ExpectNear(RunRow(Row(c.op, "onednn.batch_normalization_gradient"), &c, inputs),
                 Reference(c, inputs));
      EXPECT_TRUE(c.inputs[1].layout == of_x) << ToString(c.inputs[1].layout);
    }
  }
}

// A strided data gradient wants other weights than forward does; the image stays blocked.
TEST(Convolution, GivesUpTheLayoutOfItsWeightsBeforeThatOfItsImage) {
  const Layout image = Blocked({{1, 16}});
  if (LikedByConvolutions() != image) GTEST_SKIP() << "blocks of 16 are those of AVX-512";
  const Dims y = {2, 64, 4, 4}, w = {64, 32, 3, 3}, x = {2, 32, 8, 8};
  const Tensor dy = Numbers(y, 1), weights = Numbers(w, 2);
  const Attributes attributes = {{"strides", std::vector<int64_t>{2, 2}},
                                 {"pads", std::vector<int64_t>{1, 1, 1, 1}},
                                 {"shape", std::vector<int64_t>(x.begin(), x.end())}};
  Case c = {"onward.ConvDataGradient",
            attributes,
            {Float(y, image), Float(w, Blocked({{1, 16}, {0, 16}}))},
            {Float(x)}};
  const Kernel& row = Row(c.op, "onednn.convolution_data_gradient");
  ExpectNear(RunRow(row, &c, {&dy, &weights}), Reference(c, {&dy, &weights}));
  EXPECT_TRUE(c.inputs[0].layout == image) << ToString(c.inputs[0].layout);
  EXPECT_TRUE(c.outputs[0].layout == image) << ToString(c.outputs[0].layout);
}

TEST(MaxPoolGradient, InEveryLayoutGoesToTheFirstLargest) {
  const Dims x_dims = {2, 20, 7, 6};
  Tensor x = Numbers(x_dims, 1);
  // Many ties: four different numbers only.
  for (float& v : x.mutable_values<float>()) v = std::floor(v * 2);
  const struct {
    Dims y;
    std::vector<int64_t> kernel, strides, pads;
  } windows[] = {{{2, 20, 3, 3}, {2, 2}, {2, 2}, {0, 0, 0, 0}},
                 {{2, 20, 4, 3}, {3, 3}, {2, 2}, {1, 1, 1, 0}}};
  for (const auto& w : windows) {
    const Tensor dy = Numbers(w.y, 2);
    const Attributes attributes = {{"kernel_shape", w.kernel},
                                   {"strides", w.strides},
                                   {"pads", w.pads},
                                   {"shape", std::vector<int64_t>(x_dims.begin(), x_dims.end())}};
    for (const Layout& layout :
         {Layout{}, Layout::ChannelsLast(4), Blocked({{1, 16}}), Blocked({{1, 8}})}) {
      Case c = {"onward.MaxPoolGradient",
                attributes,
                {Float(w.y), Float(x_dims, layout)},
                {Float(x_dims)},
                2};
      ExpectNear(RunRow(Row(c.op, "cpu.max_pool_gradient"), &c, {&dy, &x}, 2),
                 Reference(c, {&dy, &x}));
      EXPECT_TRUE(c.outputs[0].layout == layout) << ToString(c.outputs[0].layout);
    }
  }
  // By hand: all equal, so the first element of the window gets everything.
  const Tensor ones = Tensor::Full(DataType::kFloat32, {1, 1, 2, 2}, 1);
  const Tensor three = Tensor::Full(DataType::kFloat32, {1, 1, 1, 1}, 3);
  Case c = {
      "onward.MaxPoolGradient",
      {{"kernel_shape", std::vector<int64_t>{2, 2}}, {"shape", std::vector<int64_t>{1, 1, 2, 2}}},
      {Float(three.dims()), Float(ones.dims())},
      {Float(ones.dims())}};
  const std::vector<Tensor> dx = RunRow(Row(c.op, "cpu.max_pool_gradient"), &c, {&three, &ones});
  ASSERT_EQ(dx.size(), 1u);
  EXPECT_EQ(dx[0].At(0), 3);
  EXPECT_EQ(dx[0].At(1) + dx[0].At(2) + dx[0].At(3), 0);
}

// The last one is that of weights on AVX2, which has a name for exchanged axes only.
TEST(Reorder, CopiesMatrices) {
  const Tensor x = Numbers({24, 18}, 1);
  const std::vector<Layout> layouts = {
      {}, Ordered({1, 0}), Ordered({1, 0}, {{0, 16}, {1, 16}}), Ordered({1, 0}, {{0, 8}, {1, 16}})};
  const Kernel& row = Row("onward.Reorder", "onednn.reorder");
  for (const Layout& from : layouts) {
    for (const Layout& to : layouts) {
      Case c = {"onward.Reorder", {}, {Float(x.dims(), from)}, {Float(x.dims(), to)}, 2};
      const std::vector<Tensor> y = RunRow(row, &c, {&x});
      ASSERT_EQ(y.size(), 1u) << ToString(from) << " to " << ToString(to);
      for (int64_t i = 0; i < x.elements(); ++i) ASSERT_EQ(y[0].At(i), x.At(i));
    }
  }
}

TEST(Reorder, CopiesBetweenAnyTwoLayouts) {
  const Dims dims = {20, 18, 3, 5};
  const Tensor x = Numbers(dims, 1);
  const std::vector<Layout> layouts = {{},
                                       Layout::ChannelsLast(4),
                                       Blocked({{1, 16}}),
                                       Blocked({{1, 16}, {0, 16}}),
                                       Ordered({1, 0, 2, 3}),
                                       Ordered({0, 2, 3, 1}, {{0, 8}})};
  for (const char* name : {"onednn.reorder", "reference.onward.Reorder"}) {
    const Kernel& row = Row("onward.Reorder", name);
    for (const Layout& from : layouts) {
      for (const Layout& to : layouts) {
        Case c = {"onward.Reorder", {}, {Float(dims, from)}, {Float(dims, to)}, 2};
        const std::vector<Tensor> y = RunRow(row, &c, {&x}, 2);
        ASSERT_EQ(y.size(), 1u);
        EXPECT_TRUE(c.inputs[0].layout == from && c.outputs[0].layout == to);
        for (int64_t i = 0; i < x.elements(); ++i) {
          ASSERT_EQ(y[0].At(i), x.At(i)) << name << " " << ToString(from) << " " << ToString(to);
        }
      }
    }
  }
}

}  // namespace
}  // namespace onward
