// N replicas give the result of one device; with fixed shards to the bit.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/reference_run.h"

namespace onward {
namespace {

TrainingReference Reference(const std::string& model) {
  auto reference = ReadTrainingReference(absl::StrCat("tests/reference/training-", model, ".json"));
  EXPECT_TRUE(reference.ok()) << reference.status();
  return *std::move(reference);
}

const TrainingRun& RunOf(const TrainingReference& reference, const std::string& optimizer) {
  for (const TrainingRun& run : reference.runs) {
    if (run.optimizer == optimizer) return run;
  }
  ADD_FAILURE() << optimizer;
  return reference.runs[0];
}

Result Train(const std::string& model, const std::string& optimizer, const Setting& setting) {
  const TrainingReference reference = Reference(model);
  auto result = TrainOn(reference, RunOf(reference, optimizer), setting);
  EXPECT_TRUE(result.ok()) << model << ": " << result.status();
  return result.ok() ? *std::move(result) : Result{};
}

void ExpectClose(const Result& a, const Result& b, double tolerance) {
  ASSERT_EQ(a.losses.size(), b.losses.size());
  ASSERT_FALSE(a.losses.empty());
  for (size_t i = 0; i < a.losses.size(); ++i) {
    ASSERT_NEAR(a.losses[i], b.losses[i], tolerance * std::fabs(b.losses[i])) << "step " << i;
  }
  for (const auto& [name, tensor] : b.states) {
    const auto it = a.states.find(name);
    ASSERT_TRUE(it != a.states.end()) << name;
    for (int64_t i = 0; i < tensor.elements(); ++i) {
      ASSERT_NEAR(it->second.At(i), tensor.At(i),
                  tolerance * std::max(1.0, std::fabs(tensor.At(i))))
          << name << " element " << i;
    }
  }
}

bool SameBits(const Result& a, const Result& b) {
  if (a.losses != b.losses || a.states.size() != b.states.size()) return false;
  for (const auto& [name, tensor] : a.states) {
    const auto it = b.states.find(name);
    if (it == b.states.end() || it->second.bytes() != tensor.bytes() ||
        std::memcmp(it->second.data(), tensor.data(), tensor.bytes()) != 0) {
      return false;
    }
  }
  return true;
}

Setting On(int devices, int threads, DataType dtype = DataType::kFloat64) {
  Setting setting;
  setting.dtype = dtype;
  setting.devices = devices;
  setting.threads = threads;
  setting.steps = 6;
  return setting;
}

constexpr char kMlp[] = "mlp-torch-ts-train";

TEST(ReplicaEquality, ReplicasGiveTheResultOfOneDevice) {
  for (const char* optimizer : {"sgd", "adam"}) {
    const Result one = Train(kMlp, optimizer, On(1, 1));
    for (int devices : {2, 3, 4}) {
      ExpectClose(Train(kMlp, optimizer, On(devices, devices)), one, 1e-9);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(ReplicaEquality, DropoutMasksDoNotDependOnTheDevice) {
  Setting one = On(1, 1);
  one.dropout = true;
  Setting three = On(3, 3);
  three.dropout = true;
  const Result masked = Train(kMlp, "sgd", one);
  ExpectClose(Train(kMlp, "sgd", three), masked, 1e-9);
  // The masks do something.
  EXPECT_GT(std::fabs(masked.losses[0] - Train(kMlp, "sgd", On(1, 1)).losses[0]), 1e-4);
}

TEST(ReplicaEquality, UnevenAndEmptyShards) {
  for (int rows : {1, 2, 5, 7}) {
    Setting one = On(1, 1);
    one.rows = rows;
    Setting three = On(3, 3);
    three.rows = rows;
    ExpectClose(Train(kMlp, "adam", three), Train(kMlp, "adam", one), 1e-9);
    if (HasFatalFailure()) return;
  }
}

TEST(ReplicaEquality, AccumulationGivesTheResultOfTheWholeBatch) {
  const Result whole = Train(kMlp, "adam", On(1, 1));
  for (int devices : {1, 2}) {
    for (int accumulate : {2, 4}) {
      Setting parts = On(devices, devices);
      parts.shards = devices * accumulate;
      ExpectClose(Train(kMlp, "adam", parts), whole, 1e-9);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(ReplicaEquality, SmallBucketsGiveTheSameBits) {
  const Result one_bucket = Train(kMlp, "adam", On(2, 2));
  Setting small = On(2, 2);
  small.bucket_bytes = 64;
  const Result many = Train(kMlp, "adam", small);
  EXPECT_TRUE(SameBits(one_bucket, many));
  EXPECT_NE(one_bucket.plan, many.plan);
}

TEST(ReplicaEquality, FixedShardsGiveTheSameBitsOnAnyDevicesAndThreads) {
  for (const char* model : {kMlp, "keras_cnn-keras_export-train"}) {
    Setting setting = On(1, 1, DataType::kFloat32);
    setting.steps = 3;
    setting.shards = 4;
    setting.fixed_shards = true;
    setting.dropout = true;
    const Result one = Train(model, "adam", setting);
    for (const auto& [devices, threads] :
         std::vector<std::pair<int, int>>{{1, 2}, {2, 2}, {3, 3}, {4, 4}, {2, 4}}) {
      setting.devices = devices;
      setting.threads = threads;
      EXPECT_TRUE(SameBits(Train(model, "adam", setting), one))
          << model << " on " << devices << " devices with " << threads << " threads";
    }
  }
}

TEST(ReplicaEquality, ARepeatedRunGivesTheSameBits) {
  const Setting setting = On(2, 2, DataType::kFloat32);
  EXPECT_TRUE(SameBits(Train(kMlp, "adam", setting), Train(kMlp, "adam", setting)));
}

// Running statistics are those of all samples, weighted by count, although each
// shard normalises with its own.
TEST(ReplicaEquality, RunningStatisticsCombineShardsByCount) {
  Setting one = On(1, 1);
  one.steps = 1;
  one.rows = 7;
  Setting two = On(2, 2);
  two.steps = 1;
  two.rows = 7;
  const Result whole = Train("cnnd-torch-ts-train", "sgd", one);
  const Result parts = Train("cnnd-torch-ts-train", "sgd", two);
  // The first normalisation sees the same inputs in both.
  int compared = 0;
  for (const auto& [name, tensor] : whole.states) {
    if (!absl::StrContains(name, "f.1.running")) continue;
    for (int64_t i = 0; i < tensor.elements(); ++i) {
      ASSERT_NEAR(parts.states.at(name).At(i), tensor.At(i), 1e-9) << name;
    }
    ++compared;
  }
  EXPECT_EQ(compared, 2);
}

}  // namespace
}  // namespace onward
