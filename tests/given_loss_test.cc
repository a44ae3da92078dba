// A loss of the user's, in the model or in a second one, gives what the built-in loss of
// the same formula gives, on one shard and on several; one that cannot be split says so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "backend/training/session.h"
#include "backend/training/walk.h"
#include "graph/base/errors.h"
#include "graph/base/status_macros.h"
#include "graph/onnx/text.h"
#include "graph/passes/loss_model.h"

namespace onward {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kRows = 7;
constexpr int64_t kFeatures = 4;
constexpr int64_t kOutputs = 3;

std::unique_ptr<OnnxModel> Model(const std::string& text, const std::string& name) {
  auto bytes = ModelFromText(absl::StrCat("<ir_version: 10, opset_import: [\"\" : 21]>\n", text));
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  auto model = OnnxModel::FromBytes(*bytes, name);
  EXPECT_TRUE(model.ok()) << model.status();
  EXPECT_TRUE((*model)->WidenToFloat64().ok());
  return *std::move(model);
}

std::unique_ptr<OnnxModel> Net(const std::string& more_inputs = "",
                               const std::string& outputs = "float[N, 3] y",
                               const std::string& more = "") {
  return Model(absl::StrCat("net (float[N, 4] x", more_inputs, ") => (", outputs,
                            ") <float[4, 3] w = {0.1, -0.2, 0.3, 0.5, 0.4, -0.1, -0.3, 0.2, 0.1, "
                            "0.6, -0.5, 0.2}, float[3] b = {0.1, 0, -0.1}> { y = Gemm(x, w, b) ",
                            more, " }"),
               "net.onnx");
}

struct Outcome {
  std::vector<double> losses;
  std::map<std::string, Tensor> states;
};

struct Case {
  const OnnxModel* net = nullptr;
  std::shared_ptr<const OnnxModel> loss_model;
  LossRequest loss;
  bool class_labels = false;
  int shards = 1;
  Dims label_dims = {kOutputs};  // where they are no classes
};

// Three steps of SGD on fixed numbers.
absl::StatusOr<Outcome> Train(const Case& run) {
  WalkOptions options;
  options.inputs = {{"x", DataType::kFloat64, {kFeatures}}};
  if (run.net->inputs().size() > 1) {
    options.inputs.push_back({"t", DataType::kFloat64, {kOutputs}});
  }
  options.loss = run.loss;
  options.loss_model = run.loss_model;
  options.loss.label_dtype = run.class_labels ? DataType::kInt64 : DataType::kFloat64;
  if (!run.class_labels) options.loss.label_dims = run.label_dims;
  for (int d = 0; d < std::min(run.shards, 2); ++d) {
    options.placement.devices.push_back({Device::Kind::kCpu, d});
  }
  options.placement.threads = static_cast<int>(options.placement.devices.size());
  options.placement.shards = run.shards;
  std::vector<FeedSpec> feeds = options.inputs;
  feeds.push_back({kLabelsFeed, options.loss.label_dtype, options.loss.label_dims});
  const bool metric = run.class_labels && run.loss_model != nullptr;
  if (metric) options.metrics = {{MetricRequest::Kind::kAccuracy, 1}};
  ASSIGN_OR_RETURN(std::unique_ptr<Walk> walk, Walk::Create(run.net, std::move(options)));
  Session session(walk.get());
  ASSIGN_OR_RETURN(std::unique_ptr<FeedBuffers> buffers,
                   FeedBuffers::Create(feeds, kRows, run.shards, 2));
  Outcome out;
  for (int step = 0; step < 3; ++step) {
    int64_t row = 0;
    const std::vector<int64_t> sizes = ShardSizes(kRows, run.shards);
    for (int s = 0; s < run.shards; ++s) {
      for (int64_t r = 0; r < sizes[s]; ++r, ++row) {
        for (const FeedSpec& feed : feeds) {
          const int64_t n = Elements(feed.dims);
          void* at = buffers->Memory(feed.name, s, 0);
          for (int64_t k = 0; k < n; ++k) {
            if (feed.dtype == DataType::kInt64) {
              static_cast<int64_t*>(at)[r] = (row + step) % 3;
            } else {
              const double phase = feed.name == "x" ? 1.7 : 0.6;
              static_cast<double*>(at)[r * n + k] =
                  std::sin(phase * static_cast<double>(row * n + k + 5 * step));
            }
          }
        }
      }
    }
    std::vector<MetricSum> sums;
    RETURN_IF_ERROR(session.Train(*buffers, 0, kRows, 0.1, &sums));
    out.losses.push_back(sums[0].numerator / sums[0].denominator);
    if (metric) {
      EXPECT_EQ(sums[1].denominator, kRows);
    }
  }
  for (const auto& named : session.states().names()) {
    out.states.emplace(named.name, session.states().Read(named.name));
  }
  return out;
}

void ExpectSame(const absl::StatusOr<Outcome>& a, const absl::StatusOr<Outcome>& b) {
  ASSERT_TRUE(a.ok()) << a.status();
  ASSERT_TRUE(b.ok()) << b.status();
  for (size_t i = 0; i < b->losses.size(); ++i) {
    ASSERT_NEAR(a->losses[i], b->losses[i], 1e-12) << "step " << i;
  }
  ASSERT_NE(b->losses[0], b->losses[2]);
  for (const auto& [name, tensor] : b->states) {
    const auto it = a->states.find(name);
    ASSERT_TRUE(it != a->states.end()) << name;
    for (int64_t i = 0; i < tensor.elements(); ++i) {
      ASSERT_NEAR(it->second.At(i), tensor.At(i), 1e-12) << name;
    }
  }
}

Case BuiltIn(const OnnxModel* net, LossRequest::Kind kind) {
  Case run;
  run.net = net;
  run.loss.kind = kind;
  run.class_labels = kind == LossRequest::Kind::kCrossEntropy;
  return run;
}

Case FromFile(const OnnxModel* net, std::shared_ptr<const OnnxModel> loss, bool class_labels) {
  Case run;
  run.net = net;
  run.loss.kind = LossRequest::Kind::kModelFile;
  run.loss_model = std::move(loss);
  run.class_labels = class_labels;
  return run;
}

TEST(LossModel, MeanSquaredErrorAsTheBuiltInOne) {
  const auto net = Net();
  const absl::StatusOr<Outcome> expected =
      Train(BuiltIn(net.get(), LossRequest::Kind::kMeanSquared));
  for (const char* text : {
           // A mean over everything, with and without constants behind it.
           "loss (float[N, 3] p, float[N, 3] t) => (float l) { d = Sub(p, t) s = Mul(d, d) "
           "l = ReduceMean<keepdims = 0>(s) }",
           "loss (float[N, 3] p, float[N, 3] t) => (float l) <int64[1] n0 = {1}, float two = {2}, "
           "float[1] n = {-1}> "
           "{ d = Sub(p, t) s = Mul(d, d) m = ReduceMean<keepdims = 1>(s) h = Div(m, two) "
           "q = Mul(n, h) r = Reshape(q, n0) e = Squeeze(r) f = Mul(two, e) l = Neg(f) }",
           // One number per sample.
           "loss (float[N, 3] p, float[N, 3] t) => (float[N] l) <int64[1] axes = {1}> "
           "{ d = Sub(p, t) s = Mul(d, d) l = ReduceMean<keepdims = 0>(s, axes) }",
           // By name, in the other order.
           "loss (float[N, 3] labels, float[N, 3] y) => (float l) { d = Sub(y, labels) "
           "s = Mul(d, d) l = ReduceMean<keepdims = 0>(s) }",
       }) {
    std::shared_ptr<const OnnxModel> loss = Model(text, "loss.onnx");
    for (int shards : {1, 2, 3, 9}) {
      Case run = FromFile(net.get(), loss, false);
      run.shards = shards;
      ExpectSame(Train(run), expected);
      if (HasFatalFailure()) FAIL() << text << " on " << shards << " shards";
    }
  }
}

TEST(LossModel, CrossEntropyAsTheBuiltInOne) {
  const auto net = Net();
  for (const bool weighted : {false, true}) {
    Case builtin = BuiltIn(net.get(), LossRequest::Kind::kCrossEntropy);
    builtin.loss.ignore_index = 2;
    if (weighted) builtin.loss.class_weights = {1, 2, 0.5};
    const absl::StatusOr<Outcome> expected = Train(builtin);
    for (const char* body :
         {"l = SoftmaxCrossEntropyLoss<ignore_index = 2>(p, t",
          "g = LogSoftmax<axis = 1>(p) l = NegativeLogLikelihoodLoss<ignore_index = 2>(g, t"}) {
      std::shared_ptr<const OnnxModel> loss =
          Model(absl::StrCat("loss (float[N, 3] p, int64[N] t) => (float l) ",
                             weighted ? "<float[3] c = {1, 2, 0.5}> " : "", "{ ", body,
                             weighted ? ", c) }" : ") }"),
                "loss.onnx");
      for (int shards : {1, 3}) {
        Case run = FromFile(net.get(), loss, true);
        run.shards = shards;
        ExpectSame(Train(run), expected);
        if (HasFatalFailure()) FAIL() << body << " on " << shards << " shards";
      }
    }
  }
}

// A sum is a sum over the whole batch, however it is cut.
TEST(LossModel, ASumIsOverTheWholeBatch) {
  const auto net = Net();
  std::shared_ptr<const OnnxModel> loss = Model(
      "loss (float[N, 3] p, float[N, 3] t) => (float l) <float[1] f = {0.0078125}> "
      "{ d = Sub(p, t) s = Mul(d, d) a = ReduceSum<keepdims = 1>(s) b = Mul(a, f) "
      "l = Squeeze(b) }",
      "loss.onnx");
  Case run = FromFile(net.get(), loss, false);
  const absl::StatusOr<Outcome> one = Train(run);
  const absl::StatusOr<Outcome> mean = Train(BuiltIn(net.get(), LossRequest::Kind::kMeanSquared));
  ASSERT_TRUE(one.ok() && mean.ok());
  EXPECT_NEAR(one->losses[0], mean->losses[0] / 128 * kRows * kOutputs, 1e-9);
  for (int shards : {2, 3, 9}) {
    run.shards = shards;
    ExpectSame(Train(run), one);
  }
}

TEST(LossModel, WhatCannotBeSplitTrainsOnOneShardAndSaysSo) {
  const auto net = Net();
  std::shared_ptr<const OnnxModel> loss = Model(
      "loss (float[N, 3] p, float[N, 3] t) => (float l) { d = Sub(p, t) s = Mul(d, d) "
      "m = ReduceMean<keepdims = 0>(s) l = Sqrt(m) }",
      "loss.onnx");
  Case run = FromFile(net.get(), loss, false);
  const absl::StatusOr<Outcome> one = Train(run);
  const absl::StatusOr<Outcome> mean = Train(BuiltIn(net.get(), LossRequest::Kind::kMeanSquared));
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_NEAR(one->losses[0], std::sqrt(mean->losses[0]), 1e-12);
  run.shards = 2;
  const absl::Status refused = Train(run).status();
  EXPECT_THAT(std::string(refused.message()), HasSubstr("mixes the samples of a batch"));
  EXPECT_EQ(ExitCodeOf(refused), ExitCode::kUntrainable);
}

TEST(LossInTheModel, AMeanIsSplitToo) {
  const auto net = Net();
  const absl::StatusOr<Outcome> expected =
      Train(BuiltIn(net.get(), LossRequest::Kind::kMeanSquared));
  const auto whole = Net(", float[N, 3] t", "float l",
                         "d = Sub(y, t) s = Mul(d, d) l = ReduceMean<keepdims = 0>(s)");
  for (int shards : {1, 3}) {
    Case run = BuiltIn(whole.get(), LossRequest::Kind::kModelOutput);
    run.loss.prediction = "l";
    run.shards = shards;
    ExpectSame(Train(run), expected);
  }
}

// Exporters turn results to the order that their users know: a Sigmoid or Softmax is
// recognised behind what only moves it.
TEST(BuiltInLoss, TheEndIsSeenBehindTransposesReshapesAndCasts) {
  const char* kPlaced = "one = Constant<value_ints = [1]>() u = Unsqueeze(y, one) ";
  const std::vector<std::tuple<LossRequest::Kind, std::string, std::string>> cases = {
      {LossRequest::Kind::kBinaryCrossEntropy, "p = Sigmoid(y)",
       "s = Sigmoid(u) t = Transpose<perm = [0, 2, 1]>(s) p = Flatten(t)"},
      {LossRequest::Kind::kCrossEntropy, "p = Softmax(y)",
       "t = Transpose<perm = [0, 2, 1]>(u) s = Softmax<axis = 1>(t) p = Flatten(s)"},
      {LossRequest::Kind::kCrossEntropy, "p = Softmax(y)",
       "s = Softmax<axis = -1>(u) t = Transpose<perm = [1, 0, 2]>(s) p = Squeeze(t)"},
      {LossRequest::Kind::kBinaryCrossEntropy, "p = Sigmoid(y)",
       "s = Sigmoid(y) t = Cast<to = 11>(s) p = Cast<to = 1>(t)"},
      {LossRequest::Kind::kCrossEntropy, "p = Softmax(y)",
       "s = Softmax(y) t = Cast<to = 11>(s) p = Identity(t)"}};
  for (const auto& [kind, plain, moved] : cases) {
    const auto expected = Net("", "float[N, 3] p", plain);
    const auto net = Net("", "float[N, 3] p", kPlaced + moved);
    for (int shards : {1, 2}) {
      Case run = BuiltIn(net.get(), kind);
      run.shards = shards;
      ExpectSame(Train(run), Train(BuiltIn(expected.get(), kind)));
    }
  }
}

TEST(BuiltInLoss, LabelsInAnotherOrderOfAxesAreRefused) {
  const auto net =
      Net("", "float[N, 3, 2] p",
          "to = Constant<value_ints = [0, 3, 2]>() c = Concat<axis = 1>(y, y) p = Reshape(c, to)");
  Case run = BuiltIn(net.get(), LossRequest::Kind::kMeanSquared);
  run.label_dims = {2, 3};
  EXPECT_THAT(std::string(Train(run).status().message()), HasSubstr("do not fit the output 'p'"));
  for (const Dims& dims : {Dims{3, 2}, Dims{6}, Dims{3, 1, 2}}) {
    run.label_dims = dims;
    EXPECT_TRUE(Train(run).ok());
  }
}

TEST(LossModel, InputsAreMatchedByNameAndOrder) {
  const auto matched = [](const std::string& inputs, const std::vector<std::string>& outputs) {
    const auto loss =
        Model(absl::StrCat("loss (", inputs, ") => (float[N] l) { l = Identity(a) }"), "loss.onnx");
    return MatchLossInputs(*loss, outputs);
  };
  const auto by_order = matched("float[N] a, float[N] b", {"y"});
  ASSERT_TRUE(by_order.ok());
  EXPECT_EQ(by_order->outputs, (std::vector<std::string>{"y", ""}));
  EXPECT_EQ(by_order->labels, 1);
  const auto by_name = matched("float[N] labels, float[N] a, float[N] z", {"z", "y"});
  ASSERT_TRUE(by_name.ok());
  EXPECT_EQ(by_name->outputs, (std::vector<std::string>{"", "y", "z"}));
  EXPECT_EQ(by_name->labels, 0);
  const absl::Status uneven = matched("float[N] a, float[N] b, float[N] c", {"y"}).status();
  EXPECT_THAT(std::string(uneven.message()), HasSubstr("has inputs a, b, c"));
  EXPECT_EQ(ExitCodeOf(uneven), ExitCode::kUsage);
}

TEST(LossModel, WhatDoesNotFitIsNamed) {
  const auto net = Net();
  const auto refused = [&](const std::string& text) {
    return std::string(
        Train(FromFile(net.get(), Model(text, "loss.onnx"), false)).status().message());
  };
  EXPECT_THAT(refused("loss (float[N, 4] p, float[N, 3] t) => (float l) "
                      "{ a = ReduceMean(p) b = ReduceMean(t) l = Sub(a, b) }"),
              HasSubstr("loss: loss.onnx: input 'p': axis 1 is fixed to 4"));
  EXPECT_THAT(refused("loss (float[N, 3] p, int64[N] t) => (float l) { l = ReduceMean(p) }"),
              HasSubstr("int64"));
  EXPECT_THAT(refused("loss (float[N, 3] p, float[N, 3] t) => (float[N, 3] l) "
                      "{ r = RandomUniformLike(p) l = Mul(r, t) }"),
              HasSubstr("draws random numbers"));
}

}  // namespace
}  // namespace onward
