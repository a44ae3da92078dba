#include "backend/training/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "graph/base/errors.h"

namespace onward {
namespace {

using ::testing::HasSubstr;

RunConfig TrainConfig() {
  RunConfig config;
  config.model = "m.onnx";
  config.data = {{"", "x.npy"}};
  config.labels = {{"", "y.npy"}};
  config.loss = *ParseLoss("cross_entropy");
  return config;
}

TEST(ParseLoss, KnowsTheNamesOfKerasAndPyTorch) {
  struct Row {
    const char* name;
    LossKind kind;
    LossInput input;
    LabelForm labels;
  };
  for (const Row& row : std::vector<Row>{
           {"sparse_categorical_crossentropy", LossKind::kCrossEntropy, LossInput::kAuto,
            LabelForm::kInteger},
           {"SparseCategoricalCrossentropy", LossKind::kCrossEntropy, LossInput::kAuto,
            LabelForm::kInteger},
           {"categorical_crossentropy", LossKind::kCrossEntropy, LossInput::kAuto,
            LabelForm::kOneHot},
           {"CrossEntropyLoss", LossKind::kCrossEntropy, LossInput::kAuto, LabelForm::kAuto},
           {"NLLLoss", LossKind::kCrossEntropy, LossInput::kLogProbabilities, LabelForm::kInteger},
           {"BCELoss", LossKind::kBinaryCrossEntropy, LossInput::kProbabilities, LabelForm::kAuto},
           {"BCEWithLogitsLoss", LossKind::kBinaryCrossEntropy, LossInput::kLogits,
            LabelForm::kAuto},
           {"MSELoss", LossKind::kMeanSquared, LossInput::kAuto, LabelForm::kAuto},
           {"mean-squared-error", LossKind::kMeanSquared, LossInput::kAuto, LabelForm::kAuto},
           {"L1Loss", LossKind::kMeanAbsolute, LossInput::kAuto, LabelForm::kAuto},
           {"huber", LossKind::kHuber, LossInput::kAuto, LabelForm::kAuto}}) {
    const auto loss = ParseLoss(row.name);
    ASSERT_TRUE(loss.ok()) << row.name;
    EXPECT_EQ(loss->kind, row.kind) << row.name;
    EXPECT_EQ(loss->input, row.input) << row.name;
    EXPECT_EQ(loss->labels, row.labels) << row.name;
    EXPECT_EQ(loss->name, row.name);
  }
}

TEST(ParseLoss, TakesAnOutputOrAFile) {
  const auto output = ParseLoss("output:total_loss");
  EXPECT_EQ(output->kind, LossKind::kModelOutput);
  EXPECT_EQ(output->target, "total_loss");
  const auto file = ParseLoss("losses/mine.onnx");
  EXPECT_EQ(file->kind, LossKind::kModelFile);
  EXPECT_EQ(file->target, "losses/mine.onnx");
  EXPECT_FALSE(ParseLoss("output:").ok());
}

TEST(ParseLoss, SuggestsTheNearest) {
  const absl::Status status = ParseLoss("sparse_categorcal_crossentropy").status();
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("did you mean 'sparse_categorical_crossentropy'?"));
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kUsage);
  EXPECT_THAT(std::string(ParseLoss("zzz").status().message()), HasSubstr("there are"));
}

TEST(Optimizer, DefaultsAreThoseOfTheForm) {
  OptimizerConfig config;
  config.kind = *ParseOptimizer("RMSprop");
  EXPECT_EQ(*ResolveOptimizer(config).rho, 0.9);
  EXPECT_EQ(*ResolveOptimizer(config).learning_rate, 1e-3);
  config.form = OptimizerForm::kPyTorch;
  EXPECT_EQ(*ResolveOptimizer(config).rho, 0.99);
  EXPECT_EQ(*ResolveOptimizer(config).learning_rate, 0.01);
  config.kind = OptimizerKind::kAdamW;
  EXPECT_EQ(*ResolveOptimizer(config).weight_decay, 0.01);
  config.weight_decay = 0.5;
  EXPECT_EQ(*ResolveOptimizer(config).weight_decay, 0.5);
  EXPECT_THAT(std::string(ParseOptimizer("adm").status().message()), HasSubstr("'adam'"));
}

TEST(ParseMetric, KnowsTopKWithAnyNumber) {
  EXPECT_EQ(ParseMetric("top3")->k, 3);
  EXPECT_EQ(ParseMetric("top_10_accuracy")->name, "top_10_accuracy");
  EXPECT_EQ(ParseMetric("sparse_top_k_categorical_accuracy")->k, 5);
  EXPECT_EQ(ParseMetric("sparse_categorical_accuracy")->kind, MetricKind::kAccuracy);
  EXPECT_EQ(ParseMetric("mean_absolute_error")->kind, MetricKind::kMeanAbsolute);
  EXPECT_FALSE(ParseMetric("top0").ok());
  EXPECT_FALSE(ParseMetric("topx").ok());
}

TEST(ParseRescale, TakesNumbersAndRatios) {
  EXPECT_EQ(*ParseRescale("1/255"), 1.0 / 255);
  EXPECT_EQ(*ParseRescale("-2e-1"), -0.2);
  for (const char* bad : {"", "/", "1/", "1/2/3", "nan", "inf", "0", "1/0", "1/inf"}) {
    EXPECT_FALSE(ParseRescale(bad).ok()) << bad;
  }
}

TEST(Validate, AcceptsAPlainRun) {
  EXPECT_TRUE(Validate(TrainConfig(), Command::kTrain).ok());
  RunConfig inspect;
  inspect.model = "m.onnx";
  EXPECT_TRUE(Validate(inspect, Command::kInspect).ok());
}

TEST(Validate, FilesMayHoldTheLabels) {
  RunConfig config = TrainConfig();
  config.labels.clear();
  EXPECT_THAT(std::string(Validate(config, Command::kTrain).message()),
              ::testing::HasSubstr("only CIFAR's batches, and .npz and .csv files"));
  for (const std::vector<NamedFile>& data :
       std::vector<std::vector<NamedFile>>{{{"", "all.npz"}},
                                           {{"", "data_batch_1.bin"}, {"", "data_batch_2.bin"}},
                                           {{"x", "data_batch_1"}, {"", "data_batch_2"}},
                                           {{"", "table.csv"}}}) {
    config.data = data;
    EXPECT_TRUE(Validate(config, Command::kTrain).ok()) << data[0].path;
    config.validation_data = data;
    config.labels = {{"", "y.npy"}};
    EXPECT_TRUE(Validate(config, Command::kTrain).ok()) << data[0].path;
    config.validation_data.clear();
    config.labels.clear();
  }
  config.data = {{"a", "a.npz"}, {"b", "b.npz"}};
  EXPECT_FALSE(Validate(config, Command::kTrain).ok());
}

// Every refusal names the flag.
TEST(Validate, RefusesWhatCannotBe) {
  struct Row {
    const char* expected;
    std::function<void(RunConfig*)> change;
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<Row> rows = {
      {"which model?", [](RunConfig* c) { c->model.clear(); }},
      {"--data is missing", [](RunConfig* c) { c->data.clear(); }},
      {"--labels is missing", [](RunConfig* c) { c->labels.clear(); }},
      {"--loss is missing", [](RunConfig* c) { c->loss = LossConfig(); }},
      {"--validation-split 1:", [](RunConfig* c) { c->validation_split = 1; }},
      {"exclude each other",
       [](RunConfig* c) {
         c->validation_split = 0.1;
         c->validation_data = {{"", "v.npy"}};
       }},
      {"--validation-labels",
       [](RunConfig* c) {
         c->validation_labels = {{"", "v.npy"}};
       }},
      {"--rescale: '1/0'", [](RunConfig* c) { c->rescale = "1/0"; }},
      {"--rescale: '0'", [](RunConfig* c) { c->rescale = "0"; }},
      {"--rescale: 'x'", [](RunConfig* c) { c->rescale = "x"; }},
      {"--dim n=0",
       [](RunConfig* c) {
         c->dims = {{"n", 0}};
       }},
      {"--label-smoothing", [](RunConfig* c) { c->loss.label_smoothing = 1; }},
      {"--label-smoothing goes",
       [](RunConfig* c) {
         c->loss = *ParseLoss("mse");
         c->loss.label_smoothing = 0.1;
       }},
      {"--class-weights",
       [](RunConfig* c) {
         c->loss.class_weights = {1, -1};
       }},
      {"--ignore-index goes",
       [](RunConfig* c) {
         c->loss = *ParseLoss("mse");
         c->loss.ignore_index = 0;
       }},
      {"--loss-input goes",
       [](RunConfig* c) {
         c->loss = *ParseLoss("mse");
         c->loss.input = LossInput::kLogits;
       }},
      {"--huber-delta", [](RunConfig* c) { c->loss.huber_delta = 0; }},
      {"--learning-rate -1", [](RunConfig* c) { c->optimizer.learning_rate = -1; }},
      {"--learning-rate nan", [nan](RunConfig* c) { c->optimizer.learning_rate = nan; }},
      {"--momentum 1:", [](RunConfig* c) { c->optimizer.momentum = 1; }},
      {"whose own is --beta-1",
       [](RunConfig* c) {
         c->optimizer.kind = OptimizerKind::kAdam;
         c->optimizer.momentum = 0.9;
       }},
      {"--nesterov goes", [](RunConfig* c) { c->optimizer.nesterov = true; }},
      {"--beta-1", [](RunConfig* c) { c->optimizer.beta_1 = 1; }},
      {"--beta-2", [nan](RunConfig* c) { c->optimizer.beta_2 = nan; }},
      {"--epsilon",
       [](RunConfig* c) {
         c->optimizer.kind = OptimizerKind::kAdam;
         c->optimizer.epsilon = 0;
       }},
      {"--rho", [](RunConfig* c) { c->optimizer.rho = -0.1; }},
      {"--initial-accumulator", [](RunConfig* c) { c->optimizer.initial_accumulator = -1; }},
      {"--weight-decay", [](RunConfig* c) { c->optimizer.weight_decay = -1; }},
      {"--clip-norm", [](RunConfig* c) { c->optimizer.clip_norm = -1; }},
      {"--clip-value", [](RunConfig* c) { c->optimizer.clip_value = -1; }},
      {"--warmup-steps", [](RunConfig* c) { c->schedule.warmup_steps = -1; }},
      {"--schedule step needs", [](RunConfig* c) { c->schedule.kind = ScheduleKind::kStep; }},
      {"--decay-factor", [](RunConfig* c) { c->schedule.decay_factor = 0; }},
      {"--final-learning-rate", [](RunConfig* c) { c->schedule.final_learning_rate = -1; }},
      {"--epochs 0", [](RunConfig* c) { c->epochs = 0; }},
      {"--steps", [](RunConfig* c) { c->steps = -1; }},
      {"--batch-size", [](RunConfig* c) { c->batch_size = 0; }},
      {"--accumulate", [](RunConfig* c) { c->accumulate = 0; }},
      {"--threads", [](RunConfig* c) { c->threads = -1; }},
      {"--shards", [](RunConfig* c) { c->shards = -1; }},
      {"--shards 1 is less than the 2 devices",
       [](RunConfig* c) {
         c->shards = 1;
         c->devices = *ParseDevices("cpu:0,cpu:1");
       }},
      {"--validation-labels is missing",
       [](RunConfig* c) {
         c->validation_data = {{"", "v.npy"}};
       }},
      {"--bucket-mb", [](RunConfig* c) { c->bucket_mb = 0; }},
      {"--freeze and --train-only",
       [](RunConfig* c) {
         c->freeze = {"a"};
         c->train_only = {"b"};
       }},
      {"--min-delta", [](RunConfig* c) { c->min_delta = -1; }},
      {"--reduce-lr-min-delta", [](RunConfig* c) { c->reduce_lr_min_delta = -1; }},
      {"--patience", [](RunConfig* c) { c->patience = -1; }},
      {"--reduce-lr-factor", [](RunConfig* c) { c->reduce_lr_factor = 1; }},
      {"--monitor val_loss needs", [](RunConfig* c) { c->monitor = "val_loss"; }},
      {"--save-every needs", [](RunConfig* c) { c->save_every = 10; }},
      {"--resume needs", [](RunConfig* c) { c->resume = ResumeMode::kAuto; }},
      {"did you mean 'gradients'?",
       [](RunConfig* c) {
         c->dump = {"all", "gradient"};
       }},
      {"never written over", [](RunConfig* c) { c->output = c->model; }},
  };
  for (const Row& row : rows) {
    RunConfig config = TrainConfig();
    row.change(&config);
    const absl::Status status = Validate(config, Command::kTrain);
    EXPECT_EQ(ExitCodeOf(status), ExitCode::kUsage) << row.expected;
    EXPECT_THAT(std::string(status.message()), HasSubstr(row.expected));
    EXPECT_EQ(status.message().find('\n'), std::string::npos) << row.expected;
  }
}

TEST(Validate, AsksForWhatTheCommandWrites) {
  RunConfig config = TrainConfig();
  EXPECT_FALSE(Validate(config, Command::kPredict).ok());
  EXPECT_FALSE(Validate(config, Command::kExport).ok());
  config.output = "out.onnx";
  EXPECT_TRUE(Validate(config, Command::kPredict).ok());
  EXPECT_FALSE(Validate(config, Command::kExport).ok());
  config.checkpoint = "run/100";
  EXPECT_TRUE(Validate(config, Command::kExport).ok());
  config.loss = LossConfig();
  EXPECT_FALSE(Validate(config, Command::kEvaluate).ok());
  config.metrics = {*ParseMetric("accuracy")};
  EXPECT_TRUE(Validate(config, Command::kEvaluate).ok());
}

TEST(NearestName, KnowsTyposAndBeginnings) {
  const std::vector<std::string> names = {"learning-rate", "batch-size", "epochs"};
  EXPECT_EQ(NearestName("lerning_rate", names), "learning-rate");
  EXPECT_EQ(NearestName("batch", names), "batch-size");
  EXPECT_EQ(NearestName("epoch", names), "epochs");
  EXPECT_EQ(NearestName("epcohs", names), "epochs");
  EXPECT_EQ(NearestName("hpeocs", names), "");
  EXPECT_EQ(NearestName("zebra", names), "");
  EXPECT_EQ(NearestName("", names), "");
}

}  // namespace
}  // namespace onward
