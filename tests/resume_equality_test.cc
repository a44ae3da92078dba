// A run that was stopped in the middle of an epoch and resumed ends as one that was not,
// bit for bit; and faults on purpose in what a checkpoint holds are seen.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "backend/data/npy.h"
#include "backend/training/checkpoint.h"
#include "backend/training/trainer.h"

namespace onward {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kRows = 50;  // three whole batches and a smaller one
constexpr int64_t kBatch = 16;
constexpr int64_t kStopAt = 6;  // in the second of three epochs

// What a checkpoint holds, to be changed.
struct Contents {
  std::vector<NamedTensor> states;
  nlohmann::json training;

  Tensor& State(const std::string& suffix) {
    for (NamedTensor& state : states) {
      if (absl::EndsWith(state.name, suffix)) return state.value;
    }
    ADD_FAILURE() << "no state " << suffix;
    return states[0].value;
  }
};

// How a run ended, and bytes of states and metrics by name.
using Outcome = std::map<std::string, std::string>;

class ResumeEquality : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(testing::TempDir(), "/resume_",
                           testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    Tensor x(DataType::kFloat32, {kRows, 784}), labels(DataType::kInt64, {kRows});
    uint64_t state = 5;
    const auto next = [&state] {
      state = state * 6364136223846793005u + 1442695040888963407u;
      return state >> 40;
    };
    for (float& v : x.mutable_values<float>()) v = static_cast<float>(next() % 1000) / 1000;
    for (int64_t& v : labels.mutable_values<int64_t>()) v = static_cast<int64_t>(next() % 10);
    ASSERT_TRUE(WriteNpy(folder_ + "/x.npy", x.view()).ok());
    ASSERT_TRUE(WriteNpy(folder_ + "/labels.npy", labels.view()).ok());
  }

  RunConfig Config() const {
    RunConfig config;
    config.model = "tests/models/keras_mlp-keras_export-train.onnx";  // with Dropout
    config.data = {{"", folder_ + "/x.npy"}};
    config.labels = {{"", folder_ + "/labels.npy"}};
    config.loss = *ParseLoss("sparse_categorical_crossentropy");
    config.optimizer.kind = OptimizerKind::kAdam;
    config.epochs = 3;
    config.batch_size = kBatch;
    config.threads = 1;
    config.seed = 3;
    return config;
  }

  static Outcome Fit(const RunConfig& config) {
    auto trainer = Trainer::Create(config, Command::kTrain, {});
    EXPECT_TRUE(trainer.ok()) << trainer.status();
    if (!trainer.ok()) return {};
    Outcome outcome;
    outcome["status"] = (*trainer)->Fit().ToString();
    const StateStore& states = (*trainer)->session().states();
    for (const StateStore::Named& named : states.names()) {
      const Tensor value = states.Read(named.name);
      outcome[named.name].assign(static_cast<const char*>(value.data()), value.bytes());
    }
    for (const auto& [name, value] : (*trainer)->last()) {
      outcome["last " + name].assign(reinterpret_cast<const char*>(&value), sizeof value);
    }
    return outcome;
  }

  // Stops, lets `fault` change the checkpoint, and goes on.
  Outcome Resumed(const std::function<void(Contents*)>& fault) {
    const std::string run = absl::StrCat(folder_, "/run", ++runs_);
    RunConfig first = Config();
    first.checkpoint_dir = run;
    first.steps = kStopAt;
    Fit(first);
    {
      auto reader = NewestCheckpoint(run, nullptr);
      EXPECT_TRUE(reader.ok()) << reader.status();
      if (!reader.ok()) return {};
      EXPECT_EQ(reader->step(), kStopAt);
      Contents contents;
      contents.training = reader->training();
      for (const CheckpointReader::Entry& entry : reader->states()) {
        contents.states.push_back({entry.name, entry.kind, *reader->Read(entry.name)});
      }
      fault(&contents);
      CheckpointOptions options;
      options.dir = run;
      options.step = kStopAt;
      EXPECT_TRUE(WriteCheckpoint(options, contents.states, contents.training, nullptr).ok());
    }
    RunConfig second = Config();
    second.checkpoint_dir = run;
    second.resume = ResumeMode::kLatest;
    return Fit(second);
  }

  std::string folder_;
  int runs_ = 0;
};

TEST_F(ResumeEquality, ResumedIsUninterrupted) {
  const Outcome whole = Fit(Config());
  EXPECT_EQ(whole.at("status"), "OK");
  EXPECT_GE(whole.size(), 10u);
  EXPECT_EQ(Resumed([](Contents*) {}), whole);
}

TEST_F(ResumeEquality, FaultsInACheckpointAreSeen) {
  const Outcome whole = Fit(Config());
  const std::vector<std::pair<const char*, std::function<void(Contents*)>>> faults = {
      {"a batch is skipped",
       [](Contents* c) {
         c->training["position"] = c->training["position"].get<int64_t>() + kBatch;
       }},
      {"an epoch too late", [](Contents* c) { c->training["epoch"] = 2; }},
      {"a moment is lost",
       [](Contents* c) {
         Tensor& moment = c->State("/mean");
         std::memset(moment.data(), 0, moment.bytes());
       }},
      {"two moments are swapped",
       [](Contents* c) { std::swap(c->State("/mean"), c->State("/mean_square")); }},
      {"one bit of a parameter",
       [](Contents* c) { *static_cast<unsigned char*>(c->states[0].value.data()) ^= 1; }},
      {"a step is not counted",
       [](Contents* c) { c->State("onward/step").mutable_values<int64_t>()[0] -= 1; }},
  };
  for (const auto& [name, fault] : faults) {
    EXPECT_NE(Resumed(fault), whole) << name;
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace onward
