// N replicas give the result of one device; with fixed shards to the bit.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kernels/kernel.h"
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
  ASSERT_EQ(FirstDifference(a, b, tolerance), "");
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

// ---- Faults on purpose: the equalities above must see them.

Result TrainWithFault(const Setting& setting, const std::function<void(Plan*)>& fault,
                      const std::string& model = kMlp) {
  const TrainingReference reference = Reference(model);
  auto result = TrainByChangedPlan(reference, RunOf(reference, "sgd"), setting, fault);
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() ? *std::move(result) : Result{};
}

// One gradient a bucket.
Setting ManyBuckets() {
  Setting setting = On(2, 2);
  setting.bucket_bytes = 1;
  return setting;
}

PlanProgram& ProgramOn(Plan* plan, int device) {
  for (PlanProgram& program : plan->programs) {
    if (program.device == device) return program;
  }
  ADD_FAILURE() << "no program on device " << device;
  return plan->programs[0];
}

// Sums are made by threads of their own, or by those that compute.
constexpr CollectiveThreads kWaysOfSumming[] = {CollectiveThreads::kAlways,
                                                CollectiveThreads::kNever};

TEST(SeededFault, APlanWithoutFaultGivesTheResult) {
  const Result one = Train(kMlp, "sgd", On(1, 1));
  const Result two = Train(kMlp, "sgd", ManyBuckets());
  for (const CollectiveThreads way : kWaysOfSumming) {
    Setting setting = ManyBuckets();
    setting.collective_threads = way;
    const Result result = TrainWithFault(setting, [](Plan*) {});
    EXPECT_EQ(FirstDifference(result, one, 1e-9), "");
    EXPECT_TRUE(SameBits(result, two));
  }
}

// What devices keep once is updated by parts: both do the first half, nobody the second.
TEST(SeededFault, APartThatNobodyUpdatesIsSeen) {
  int parts = 0;
  const Result result = TrainWithFault(On(2, 2), [&parts](Plan* plan) {
    for (PlanStep& step : ProgramOn(plan, 1).steps) {
      parts += step.parts == 2 && step.part == 1;
      step.part = 0;
    }
  });
  EXPECT_GT(parts, 0);
  EXPECT_NE(FirstDifference(result, Train(kMlp, "sgd", On(1, 1)), 1e-9), "");
}

TEST(SeededFault, ADroppedShardIsSeen) {
  const Result one = Train(kMlp, "sgd", On(1, 1));
  // The second device trains on the first one's shard.
  const Result twice = TrainWithFault(On(2, 2), [](Plan* plan) {
    for (PlanBuffer& buffer : plan->buffers) {
      if (buffer.space != PlanBuffer::Space::kFeed || buffer.device != 1) continue;
      for (size_t f = 0; f < plan->feeds.size(); ++f) {
        const bool same = plan->feeds[f].name == plan->feeds[buffer.index].name;
        if (same && plan->feeds[f].device == 0 && !buffer.type.dims.empty()) {
          buffer.index = static_cast<int>(f);
        }
      }
    }
  });
  EXPECT_NE(FirstDifference(twice, one, 1e-9), "");
  // A shard's sums are not added to its neighbour's.
  Setting four = On(1, 1);
  four.shards = 4;
  const auto lose = [](Plan* plan) {
    for (PlanEntry& entry : plan->order) {
      if (entry.shard == 1) entry.folds.clear();
    }
  };
  EXPECT_NE(FirstDifference(TrainWithFault(four, lose), one, 1e-9), "");
  EXPECT_EQ(FirstDifference(TrainWithFault(four, [](Plan*) {}), one, 1e-9), "");
}

TEST(SeededFault, TwoSwappedBucketsAreSeen) {
  constexpr char kModel[] = "keras_two_inputs-keras_export-train";
  // One device brings two tensors of the same type in the other's order.
  int swapped = 0;
  const auto swap = [&swapped](Plan* plan) {
    std::vector<int*> tensors;
    for (PlanStep& step : ProgramOn(plan, 1).steps) {
      if (step.stream != PlanStep::Stream::kCollective || step.collective == 0) continue;
      for (int& b : step.inputs) tensors.push_back(&b);
    }
    for (size_t i = 0; i < tensors.size() && swapped == 0; ++i) {
      for (size_t k = i + 1; k < tensors.size() && swapped == 0; ++k) {
        if (plan->buffers[*tensors[i]].type != plan->buffers[*tensors[k]].type) continue;
        std::swap(*tensors[i], *tensors[k]);
        ++swapped;
      }
    }
  };
  const Result right = TrainWithFault(
      ManyBuckets(), [](Plan*) {}, kModel);
  const Result wrong = TrainWithFault(ManyBuckets(), swap, kModel);
  ASSERT_EQ(swapped, 1);
  EXPECT_EQ(FirstDifference(right, Train(kModel, "sgd", On(2, 2)), 1e-9), "");
  EXPECT_NE(FirstDifference(wrong, right, 1e-9), "");
}

// The first row of backward, slow for shards of three samples.
class SlowForThree : public BoundKernel {
 public:
  SlowForThree(std::unique_ptr<BoundKernel> kernel, bool slow)
      : kernel_(std::move(kernel)), slow_(slow) {}
  absl::Status Run() override {
    if (slow_) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return kernel_->Run();
  }

 private:
  std::unique_ptr<BoundKernel> kernel_;
  bool slow_;
};

constexpr char kFirstOfBackward[] = "onward.SoftmaxCrossEntropyGradient";

absl::StatusOr<std::unique_ptr<BoundKernel>> PrepareSlow(const KernelCall& call,
                                                         const KernelMemory& memory,
                                                         const Execution& execution) {
  for (const Kernel& row : CpuKernels()) {
    if (row.op != kFirstOfBackward || !row.reference) continue;
    auto kernel = row.prepare(call, memory, execution);
    if (!kernel.ok()) return kernel.status();
    return std::make_unique<SlowForThree>(*std::move(kernel), call.inputs[0]->dims[0] == 3);
  }
  return absl::InternalError("no reference row");
}

// Device 1 has three of seven samples and comes 20 ms after device 0.
Setting SecondDeviceLate() {
  static const KernelTable* const kernels = [] {
    auto* table = new KernelTable(CpuKernels());
    Kernel slow{"slow", kFirstOfBackward, true, AcceptPlain, WantPlain, PrepareSlow};
    table->insert(table->begin(), slow);
    return table;
  }();
  Setting setting = ManyBuckets();
  setting.kernels = kernels;
  setting.rows = 7;
  return setting;
}

Result OneDeviceOnSeven() {
  Setting setting = On(1, 1);
  setting.rows = 7;
  return Train(kMlp, "sgd", setting);
}

// Of every way of summing, the difference that a fault makes: "" where none is seen.
std::vector<std::string> WhatIsSeen(const std::function<void(Plan*)>& fault) {
  const Result right = OneDeviceOnSeven();
  std::vector<std::string> seen;
  for (const CollectiveThreads way : kWaysOfSumming) {
    Setting setting = SecondDeviceLate();
    setting.collective_threads = way;
    seen.push_back(FirstDifference(TrainWithFault(setting, fault), right, 1e-9));
  }
  return seen;
}

TEST(SeededFault, ALateDeviceAloneChangesNothing) {
  for (const std::string& seen : WhatIsSeen([](Plan*) {})) EXPECT_EQ(seen, "");
}

// Compute goes on before a sum is there: device 0 updates without device 1.
TEST(SeededFault, ASkippedWaitForASumIsSeen) {
  const auto skip = [](Plan* plan) {
    for (PlanStep& step : ProgramOn(plan, 0).steps) {
      if (step.stream == PlanStep::Stream::kCompute) step.waits.clear();
    }
  };
  for (const std::string& seen : WhatIsSeen(skip)) EXPECT_NE(seen, "");
}

// A sum is formed before device 1 has its gradient.
TEST(SeededFault, ASkippedWaitForAGradientIsSeen) {
  const auto skip = [](Plan* plan) {
    for (PlanStep& step : ProgramOn(plan, 1).steps) {
      if (step.stream == PlanStep::Stream::kCollective) step.waits.clear();
    }
  };
  for (const std::string& seen : WhatIsSeen(skip)) EXPECT_NE(seen, "");
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

// With the statistics of the whole batch, models with normalisation are exact too:
// however many devices, shards and samples there are.
TEST(ReplicaEquality, SynchronizedNormalizationGivesTheResultOfOneDevice) {
  constexpr char kModel[] = "cnnd-torch-ts-train";
  for (int rows : {7, 3}) {
    Setting one = On(1, 1);
    one.steps = 3;
    one.rows = rows;
    const Result whole = Train(kModel, "sgd", one);
    Setting apart = one;
    apart.devices = apart.threads = 2;
    // Without synchronisation the shards differ.
    const Result without = Train(kModel, "sgd", apart);
    EXPECT_GT(std::fabs(without.losses[1] / whole.losses[1] - 1), 1e-6);
    for (const auto& [devices, shards] :
         std::vector<std::pair<int, int>>{{2, 0}, {3, 0}, {4, 0}, {1, 2}, {1, 4}, {2, 4}}) {
      Setting sync = one;
      sync.sync_batch_norm = true;
      sync.devices = sync.threads = devices;
      sync.shards = shards;
      ExpectClose(Train(kModel, "sgd", sync), whole, 1e-9);
      if (HasFatalFailure()) {
        FAIL() << rows << " rows, " << devices << " devices, " << shards << " shards";
      }
    }
  }
}

TEST(ReplicaEquality, SynchronizedNormalizationKeepsItsBitsOnAnyDevicesAndThreads) {
  Setting setting = On(1, 1, DataType::kFloat32);
  setting.steps = 3;
  setting.shards = 4;
  setting.fixed_shards = true;
  setting.dropout = true;
  setting.sync_batch_norm = true;
  for (const char* model : {"cnnd-torch-ts-train", "keras_cnn-keras_export-train"}) {
    for (int rows : {-1, 7}) {
      setting.rows = rows;
      setting.devices = setting.threads = 1;
      const Result one = Train(model, "adam", setting);
      for (const auto& [devices, threads] :
           std::vector<std::pair<int, int>>{{1, 2}, {1, 4}, {2, 2}, {3, 3}, {4, 4}, {2, 4}}) {
        setting.devices = devices;
        setting.threads = threads;
        EXPECT_TRUE(SameBits(Train(model, "adam", setting), one))
            << model << " on " << devices << " devices with " << threads << " threads";
      }
    }
  }
}

}  // namespace
}  // namespace onward
