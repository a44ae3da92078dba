// Models in ways of writing that other trainers fall over: each trains to the losses and
// parameters that PyTorch gives, and nothing else in it trains (tests/reference/make_traps.py).
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_cat.h"
#include "backend/training/session.h"
#include "backend/training/walk.h"
#include "graph/base/status_macros.h"
#include "graph/onnx/text.h"
#include "tests/reference/training_reference.h"

namespace onward {
namespace {

using nlohmann::json;

constexpr uint64_t kSlots = 8;  // streams per step: inputs, and the labels last

struct Outcome {
  std::vector<double> losses;
  std::map<std::string, Tensor> states;
  std::set<std::string> parameters;
};

Dims DimsOf(const json& shape) {
  const auto dims = shape.get<std::vector<int64_t>>();
  return Dims(dims.begin(), dims.end());
}

// The numbers of batches.py.
void Fill(uint64_t stream, int64_t classes, int64_t n, void* to) {
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t draw = SyntheticDraw(stream, i);
    if (classes > 0) {
      static_cast<int64_t*>(to)[i] = static_cast<int64_t>(draw % static_cast<uint64_t>(classes));
    } else {
      static_cast<double*>(to)[i] = static_cast<double>(draw) / (1 << 22) - 2;
    }
  }
}

struct Feed {
  FeedSpec spec;
  uint64_t slot = 0;
  int64_t classes = 0;  // 0: numbers
};

std::vector<Feed> FeedsOf(const json& trap) {
  std::vector<Feed> feeds;
  for (const json& input : trap.at("inputs")) {
    const int64_t classes = input.value("classes", 0);
    const DataType dtype = classes > 0 ? DataType::kInt64 : DataType::kFloat64;
    feeds.push_back(
        {{input.at("name"), dtype, DimsOf(input.at("shape"))}, uint64_t{feeds.size()}, classes});
  }
  if (!trap.at("labels").is_null()) {
    feeds.push_back({{kLabelsFeed, DataType::kFloat64, DimsOf(trap.at("labels"))}, kSlots - 1, 0});
  }
  return feeds;
}

absl::StatusOr<Outcome> Train(const json& trap, int64_t rows, double rate) {
  ASSIGN_OR_RETURN(const std::string bytes,
                   ModelFromText(absl::StrCat(
                       "<ir_version: 8, opset_import: [\"\" : ", trap.at("opset").get<int>(),
                       "]>\n", trap.at("text").get<std::string>())));
  ASSIGN_OR_RETURN(std::unique_ptr<OnnxModel> model, OnnxModel::FromBytes(bytes, "trap.onnx"));
  RETURN_IF_ERROR(model->WidenToFloat64());
  const std::vector<Feed> feeds = FeedsOf(trap);
  std::vector<FeedSpec> specs;
  WalkOptions options;
  for (const Feed& feed : feeds) {
    specs.push_back(feed.spec);
    if (feed.spec.name != kLabelsFeed) options.inputs.push_back(feed.spec);
  }
  if (trap.at("labels").is_null()) {
    options.loss.kind = LossRequest::Kind::kModelOutput;
    options.loss.prediction = model->outputs()[0].name;
  } else {
    options.loss.kind = LossRequest::Kind::kMeanSquared;
    options.loss.label_dtype = DataType::kFloat64;
    options.loss.label_dims = specs.back().dims;
  }
  options.parameters.also_train = trap.at("also_train").get<std::vector<std::string>>();
  options.placement.devices = {{Device::Kind::kCpu, 0}};
  options.placement.threads = 1;
  options.placement.shards = 1;
  ASSIGN_OR_RETURN(std::unique_ptr<Walk> walk, Walk::Create(model.get(), std::move(options)));
  ASSIGN_OR_RETURN(std::unique_ptr<FeedBuffers> buffers, FeedBuffers::Create(specs, rows, 1, 2));
  Session session(walk.get());
  Outcome out;
  const size_t steps = trap.at("losses").size();
  for (size_t step = 0; step < steps; ++step) {
    for (const Feed& feed : feeds) {
      Fill(kSlots * step + feed.slot, feed.classes, rows * Elements(feed.spec.dims),
           buffers->Memory(feed.spec.name, 0, 0));
    }
    std::vector<MetricSum> sums;
    RETURN_IF_ERROR(session.Train(*buffers, 0, rows, rate, &sums));
    out.losses.push_back(sums[0].numerator / sums[0].denominator);
  }
  for (const Parameter& p : walk->parameters().list) {
    if (!p.frozen) out.parameters.insert(p.state);
  }
  for (const auto& named : session.states().names()) {
    out.states.emplace(named.name, session.states().Read(named.name));
  }
  return out;
}

void Expect(const json& trap, const Outcome& outcome) {
  std::set<std::string> names;
  for (const auto& [name, values] : trap.at("parameters").items()) names.insert(name);
  EXPECT_EQ(outcome.parameters, names);
  const auto losses = trap.at("losses").get<std::vector<double>>();
  for (size_t i = 0; i < losses.size(); ++i) {
    EXPECT_NEAR(outcome.losses[i], losses[i], 1e-9 * std::max(1.0, std::fabs(losses[i])))
        << "step " << i;
  }
  for (const auto& [name, values] : trap.at("parameters").items()) {
    const auto it = outcome.states.find(name);
    if (it == outcome.states.end()) continue;  // told above
    ASSERT_EQ(it->second.elements(), static_cast<int64_t>(values.size())) << name;
    for (size_t i = 0; i < values.size(); ++i) {
      const double expected = values[i];
      EXPECT_NEAR(it->second.At(i), expected, 1e-9 * std::max(1.0, std::fabs(expected)))
          << name << "[" << i << "]";
    }
  }
}

TEST(Traps, TrainAsPyTorchDoes) {
  std::ifstream file("tests/reference/traps.json");
  const json all = json::parse(file);
  int tried = 0;
  for (const json& trap : all.at("cases")) {
    SCOPED_TRACE(trap.at("name").get<std::string>());
    const auto outcome = Train(trap, all.at("rows"), all.at("rate"));
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    if (outcome.ok()) Expect(trap, *outcome);
    ++tried;
  }
  EXPECT_GE(tried, 31);
}

}  // namespace
}  // namespace onward
