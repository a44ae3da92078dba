#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>

#include "absl/strings/str_split.h"
#include "graph/base/errors.h"
#include "tools/onward/command_line.h"
#include "tools/onward/config_file.h"
#include "tools/onward/flag_table.h"
#include "tools/onward/help.h"

namespace onward {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Splits at spaces: "train m.onnx --epochs 5".
absl::StatusOr<CommandLine> Parse(const std::string& text) {
  return ParseCommandLine(absl::StrSplit(text, ' ', absl::SkipEmpty()));
}

std::string Message(const absl::Status& status) {
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kUsage);
  EXPECT_EQ(status.message().find('\n'), std::string::npos) << status.message();
  return std::string(status.message());
}

std::string Refusal(const std::string& text) { return Message(Parse(text).status()); }

const char kPlain[] = "train m.onnx --data x.npy --labels y.npy --loss mse ";

TEST(CommandLine, TheLineOfTheManualIsUnderstood) {
  const auto line = Parse(
      "train mlp.onnx --data train-images-idx3-ubyte.gz --labels train-labels-idx1-ubyte.gz "
      "--rescale 1/255 --validation-data t10k-images-idx3-ubyte.gz --validation-labels "
      "t10k-labels-idx1-ubyte.gz --loss sparse_categorical_crossentropy --optimizer adam "
      "--learning-rate 1e-3 --metrics accuracy --epochs 5 --batch-size 128 --devices cpu:0,cpu:1 "
      "--seed 1 --checkpoint-dir run --save-every 100 --resume auto --output trained.onnx");
  ASSERT_TRUE(line.ok()) << line.status();
  const RunConfig& c = line->config;
  EXPECT_EQ(line->command, Command::kTrain);
  EXPECT_EQ(line->text, "");
  EXPECT_EQ(c.model, "mlp.onnx");
  EXPECT_THAT(c.data, ElementsAre(NamedFile{"", "train-images-idx3-ubyte.gz"}));
  EXPECT_THAT(c.labels, ElementsAre(NamedFile{"", "train-labels-idx1-ubyte.gz"}));
  EXPECT_THAT(c.validation_data, ElementsAre(NamedFile{"", "t10k-images-idx3-ubyte.gz"}));
  EXPECT_THAT(c.validation_labels, ElementsAre(NamedFile{"", "t10k-labels-idx1-ubyte.gz"}));
  EXPECT_EQ(c.rescale, "1/255");
  EXPECT_EQ(c.loss.kind, LossKind::kCrossEntropy);
  EXPECT_EQ(c.loss.labels, LabelForm::kInteger);
  EXPECT_EQ(c.optimizer.kind, OptimizerKind::kAdam);
  EXPECT_EQ(*c.optimizer.learning_rate, 1e-3);
  ASSERT_EQ(c.metrics.size(), 1u);
  EXPECT_EQ(c.metrics[0].name, "accuracy");
  EXPECT_EQ(c.epochs, 5);
  EXPECT_EQ(c.batch_size, 128);
  ASSERT_EQ(c.devices.size(), 2u);
  EXPECT_EQ(ToString(c.devices[1]), "cpu:1");
  EXPECT_EQ(c.seed, 1u);
  EXPECT_EQ(c.checkpoint_dir, "run");
  EXPECT_EQ(c.save_every, 100);
  EXPECT_EQ(c.resume, ResumeMode::kAuto);
  EXPECT_EQ(c.output, "trained.onnx");
}

TEST(CommandLine, ListsMayBeCommasOrRepeated) {
  const auto line = Parse(std::string(kPlain) +
                          "--data user=u.npy,item=i.npy --dump loss --dump plan,replicated "
                          "--class-weights 1,2.5 --loss cross_entropy --dim n=3 --dim seq=128");
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_THAT(line->config.data, ElementsAre(NamedFile{"", "x.npy"}, NamedFile{"user", "u.npy"},
                                             NamedFile{"item", "i.npy"}));
  EXPECT_THAT(line->config.dump, ElementsAre("loss", "plan", "replicated"));
  EXPECT_THAT(line->config.loss.class_weights, ElementsAre(1, 2.5));
  EXPECT_EQ(line->config.loss.kind, LossKind::kCrossEntropy);  // the last one counts
  EXPECT_EQ(line->config.dims[1], (std::pair<std::string, int64_t>("seq", 128)));
}

TEST(CommandLine, SwitchesHaveANo) {
  auto line = Parse(std::string(kPlain) + "--nesterov --momentum 0.9 --no-shuffle --json");
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_TRUE(line->config.optimizer.nesterov);
  EXPECT_FALSE(line->config.shuffle);
  EXPECT_TRUE(line->config.json);
  line = Parse(std::string(kPlain) + "--json --no-json");
  EXPECT_FALSE(line->config.json);
}

TEST(CommandLine, TheModelMayStandLast) {
  const auto line =
      Parse("train --data x.npy --labels=y.npy --ignore-index -100 --loss cross_entropy m.onnx");
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(line->config.model, "m.onnx");
  EXPECT_EQ(*line->config.loss.ignore_index, -100);
}

TEST(CommandLine, PathsMayHoldEquals) {
  const auto line = Parse("predict m.onnx -o p.npy --data =dir/a=b.npy");
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_THAT(line->config.data, ElementsAre(NamedFile{"", "dir/a=b.npy"}));
  EXPECT_EQ(line->config.output, "p.npy");
}

TEST(CommandLine, OperatorsHasNoModel) {
  auto line = Parse("operators --json");
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_TRUE(line->operators);
  EXPECT_TRUE(line->config.json);
  EXPECT_EQ(line->text, "");
  line = Parse("operators --help");
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_THAT(line->text, HasSubstr("onward operators [--json]"));
  line = Parse("help operators");
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_THAT(line->text, HasSubstr("onward operators [--json]"));
}

TEST(CommandLine, WhatIsMisspeltComesWithTheNearest) {
  struct Row {
    const char* line;
    const char* expected;
  };
  for (const Row& row : std::vector<Row>{
           {"", "which command?"},
           {"trian m.onnx", "did you mean train?"},
           {"zzzzz m.onnx", "there are train, evaluate"},
           {"operator m.onnx", "did you mean operators?"},
           {"operators m.onnx", "unexpected argument 'm.onnx'"},
           {"--epochs 5 train", "the command comes first"},
           {"train m.onnx --lerning-rate 1e-3", "--lerning-rate; did you mean --learning-rate?"},
           {"train m.onnx --lr=1e-3", "unknown flag --lr; did you mean --learning-rate?"},
           {"train --lr 1e-3 m.onnx", "unknown flag --lr; did you mean --learning-rate?"},
           {"train m.onnx --batch 5", "did you mean --batch-size?"},
           {"train m.onnx --batch_size 5", "write --batch_size as --batch-size"},
           {"train m.onnx --zzzzzz", "unknown flag --zzzzzz; see onward train --help"},
           {"inspect m.onnx --epochs 5", "--epochs is a flag of train, not of inspect"},
           {"train a.onnx b.onnx", "unexpected argument 'b.onnx'"},
           {"train m.onnx --epochs", "--epochs needs a value"},
           {"train m.onnx --epochs --seed 1", "--epochs needs a value"},
           {"train m.onnx --epochs five", "--epochs: 'five' is not a whole number"},
           {"train m.onnx --epochs 1.5", "--epochs: '1.5' is not a whole number"},
           {"train m.onnx --epochs 99999999999999999999", "is not a whole number"},
           {"train m.onnx --seed -1", "--seed: '-1' is not a whole number"},
           {"train m.onnx --learning-rate fast", "--learning-rate: 'fast' is not a number"},
           {"train m.onnx --rescale 1/0", "--rescale: '1/0' must be finite"},
           {"train m.onnx --rescale 1/2/3", "--rescale: '1/2/3' is neither a number"},
           {"train m.onnx --class-weights 1,,2", "--class-weights: '' is not a number"},
           {"train m.onnx --optimizer adm",
            "--optimizer: optimizer 'adm' is not known; did you "
            "mean 'adam'?"},
           {"train m.onnx --loss croos_entropy", "did you mean 'cross_entropy'?"},
           {"train m.onnx --metrics acuracy", "did you mean 'accuracy'?"},
           {"train m.onnx --schedule cosin", "did you mean 'cosine'?"},
           {"train m.onnx --devices tpu:0", "--devices: device 'tpu:0'"},
           {"train m.onnx --devices cpu:0,cpu:0", "named twice"},
           {"train m.onnx --dim 5", "'5' is not NAME=SIZE"},
           {"train m.onnx --data x=", "'x=' names no file"},
           {"train m.onnx --json=maybe", "--json"},
           {"train m.onnx --config /nowhere/c.yaml", "/nowhere/c.yaml: the file cannot be read"},
           {"train m.onnx", "--data is missing"},
           {"train --data x.npy", "which model?"},
       }) {
    EXPECT_THAT(Refusal(row.line), HasSubstr(row.expected)) << row.line;
  }
}

TEST(CommandLine, HelpComesWhateverElseIsThere) {
  EXPECT_EQ(Parse("--help")->text, Overview());
  EXPECT_EQ(Parse("help")->text, Overview());
  EXPECT_EQ(Parse("train --epochs --help")->text, Help(Command::kTrain));
  EXPECT_EQ(Parse("plan m.onnx -h")->text, Help(Command::kPlan));
  EXPECT_EQ(Parse("help evaluate")->text, Help(Command::kEvaluate));
}

TEST(Help, ListsEveryFlagOfTheCommandAndFitsTheScreen) {
  for (Command command : AllCommands()) {
    const std::string help = Help(command);
    EXPECT_THAT(help, HasSubstr("Examples:")) << Name(command);
    EXPECT_THAT(Overview(), HasSubstr(Summary(command)));
    for (const Flag& flag : Flags()) {
      const std::string shown =
          flag.placeholder.empty() ? "--[no-]" + flag.name : "--" + flag.name + " ";
      if (flag.OfCommand(command)) {
        EXPECT_THAT(help, HasSubstr(shown)) << Name(command);
      }
    }
    for (absl::string_view text : absl::StrSplit(help, '\n')) {
      EXPECT_LE(text.size(), 100u) << text;
      EXPECT_FALSE(!text.empty() && text.back() == ' ') << text;
    }
  }
}

// Every flag that stands in an example of help is one of the command's.
TEST(Help, ExamplesUseFlagsThatExist) {
  for (Command command : AllCommands()) {
    const std::string help = Help(command);
    const std::string examples = help.substr(0, help.find("\n\n", help.find("Examples:")));
    for (absl::string_view word : absl::StrSplit(examples, absl::ByAnyChar(" \n"))) {
      if (word.substr(0, 2) != "--") continue;
      const Flag* flag = FindFlag(word.substr(2));
      if (word == "--config" || word == "--print-config") continue;
      ASSERT_NE(flag, nullptr) << word;
      EXPECT_TRUE(flag->OfCommand(command)) << word;
    }
  }
}

std::string ReadReadme() {
  std::ifstream file("README.md");
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// The text between two marks.
std::string Between(const std::string& text, const std::string& from, const std::string& to) {
  const size_t begin = text.find(from);
  const size_t end = text.find(to, begin + from.size());
  EXPECT_NE(begin, std::string::npos) << from;
  EXPECT_NE(end, std::string::npos) << to;
  if (begin == std::string::npos || end == std::string::npos) return "";
  return text.substr(begin + from.size(), end - begin - from.size());
}

// What stands in `backticks`.
std::vector<std::string> Quoted(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, '`');
  std::vector<std::string> out;
  for (size_t i = 1; i < parts.size(); i += 2) out.push_back(parts[i]);
  return out;
}

TEST(Readme, ItsLineIsUnderstood) {
  const std::string block = Between(ReadReadme(), "## Train\n\n```\nonward ", "```");
  std::vector<std::string> words;
  for (absl::string_view word : absl::StrSplit(block, absl::ByAnyChar(" \n\\"))) {
    if (!word.empty()) words.emplace_back(word);
  }
  const auto line = ParseCommandLine(words);
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(line->config.output, "trained.onnx");
}

TEST(Readme, ItsFlagsExist) {
  // Of no field of the configuration, or of tools/keras_export.py and tools/benchmark.
  const std::set<std::string> others = {"config", "print-config", "help",     "check",  "load",
                                        "quick",  "work",         "patience", "python", "rounds"};
  const std::string text = ReadReadme();
  int flags = 0;
  for (size_t at = text.find("--"); at != std::string::npos; at = text.find("--", at + 2)) {
    const size_t end = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-", at + 2);
    const std::string name = text.substr(at + 2, end - at - 2);
    if (name.empty() || name.find_first_not_of('-') == std::string::npos) continue;  // of a table
    EXPECT_TRUE(FindFlag(name) != nullptr || others.count(name) == 1) << name;
    ++flags;
  }
  EXPECT_GT(flags, 30);
}

TEST(Readme, ItsNamesAreUnderstood) {
  const std::string text = ReadReadme();
  for (const std::string& name : Quoted(Between(text, "| labels |\n", "\nWhether"))) {
    if (name == "--huber-delta") continue;
    EXPECT_TRUE(ParseLoss(name).ok()) << name;
  }
  for (const std::string& row :
       std::vector<std::string>(absl::StrSplit(Between(text, "by default |\n", "\nKeras"), '\n'))) {
    const std::vector<std::string> names = Quoted(row);
    if (names.empty()) continue;
    EXPECT_TRUE(ParseOptimizer(names[0]).ok()) << names[0];
  }
  for (const std::string& name : Quoted(Between(text, "## Metrics", "They are"))) {
    EXPECT_TRUE(ParseMetric(name).ok()) << name;
  }
}

TEST(FlagTable, NamesAreUniqueAndDashed) {
  std::set<std::string> names;
  for (const Flag& flag : Flags()) {
    EXPECT_TRUE(names.insert(flag.name).second) << flag.name;
    EXPECT_EQ(flag.name.find('_'), std::string::npos) << flag.name;
    EXPECT_NE(flag.commands, 0u) << flag.name;
    EXPECT_EQ(FindFlag(flag.name), &flag);
  }
  EXPECT_EQ(FindFlag("learning_rate"), FindFlag("learning-rate"));
}

TEST(Config, FlagsOverrideTheFile) {
  const std::string path = std::string(std::getenv("TEST_TMPDIR")) + "/run.yaml";
  std::ofstream(path) << "model: m.onnx\n"
                         "data: {user: u.npy, item: [a.npy, b.npy]}\n"
                         "labels: y.npy\n"
                         "loss_input: logits   # stands before the loss\n"
                         "loss: cross_entropy\n"
                         "learning_rate: 1e-2\n"
                         "epochs: 3\n"
                         "metrics: [accuracy, top_5_accuracy]\n"
                         "devices: [cpu:0, cpu:1]\n"
                         "nesterov: no\n"
                         "trace:\n";
  const auto line = Parse("train --config " + path + " --epochs 7 --metrics mae");
  ASSERT_TRUE(line.ok()) << line.status();
  const RunConfig& c = line->config;
  EXPECT_EQ(c.model, "m.onnx");
  EXPECT_THAT(c.data, ElementsAre(NamedFile{"user", "u.npy"}, NamedFile{"item", "a.npy"},
                                  NamedFile{"item", "b.npy"}));
  EXPECT_EQ(*c.optimizer.learning_rate, 1e-2);
  EXPECT_EQ(c.epochs, 7);
  EXPECT_EQ(c.metrics.size(), 1u);
  EXPECT_EQ(c.devices.size(), 2u);
  EXPECT_EQ(c.loss.input, LossInput::kLogits);
  EXPECT_EQ(c.trace, "");
}

TEST(Config, MistakesComeWithTheirLine) {
  struct Row {
    const char* yaml;
    const char* expected;
  };
  for (const Row& row : std::vector<Row>{
           {"epochs: 3\nlerning-rate: 1\n",
            "c.yaml:2: unknown key 'lerning-rate'; did you mean learning-rate?"},
           {"epochs: three\n", "c.yaml:1: epochs: 'three' is not a whole number"},
           {"\nepochs: [1, 2]\n", "c.yaml:2: epochs: expected one value, got 2"},
           {"epochs: 1\nepochs: 2\n", "c.yaml:2: key 'epochs' is there twice"},
           {"batch-size: 1\nbatch_size: 2\n", "c.yaml:2: key 'batch_size' is there twice"},
           {"data: [[a]]\n", "c.yaml:1: data: expected one value, a list"},
           {"data: {a: {b: c}}\n", "c.yaml:1: data: expected one value, a list"},
           {"data: []\n", "c.yaml:1: data: '' names no file"},
           {"- a\n", "c.yaml: expected lines of KEY: VALUE"},
           {"a: [1\n", "not YAML"},
           {"epochs: *x\n", "not YAML"},
           {"{[a]: 1}\n", "a key must be one word"},
       }) {
    RunConfig config;
    EXPECT_THAT(Message(ApplyYaml("c.yaml", row.yaml, &config)), HasSubstr(row.expected))
        << row.yaml;
  }
  RunConfig config;
  EXPECT_TRUE(ApplyYaml("c.yaml", "", &config).ok());
  EXPECT_THAT(Message(ApplyYaml("c.yaml", std::string(100000, '['), &config)), HasSubstr("c.yaml"));
  const std::string large = std::string(std::getenv("TEST_TMPDIR")) + "/large.yaml";
  std::ofstream(large) << std::string((1 << 20) + 1, '#');
  EXPECT_THAT(Message(ApplyYamlFile(large, &config)), HasSubstr("larger than 1 MiB"));
  EXPECT_THAT(Message(ApplyYamlFile(std::getenv("TEST_TMPDIR"), &config)),
              HasSubstr("cannot be read"));
}

// A value for every flag that differs from its default.
const char* const kValues[][2] = {
    {"data", "user=u.npy,item=i,item=j"},
    {"labels", "'null'.npy"},
    {"validation-data", "true,=a=b"},
    {"validation-labels", "x: y"},
    {"validation-split", "0.1"},
    {"rescale", "1/255"},
    {"standardize", "true"},
    {"shuffle", "false"},
    {"channels", "last"},
    {"allow-nan", "true"},
    {"drop-last", "true"},
    {"dim", "batch=3,n=4"},
    {"loss", "NLLLoss"},
    {"loss-input", "logits"},
    {"label-smoothing", "0.1"},
    {"class-weights", "0.1,2,1e-30"},
    {"ignore-index", "-100"},
    {"huber-delta", "2"},
    {"metrics", "accuracy,top_3_accuracy,mae,mse"},
    {"prediction", "~"},
    {"freeze", "*.bias,&a"},
    {"train-only", "fc.?"},
    {"untie", "onnx::MatMul_1"},
    {"keep-tied", "#wte"},
    {"also-train", "*.gain"},
    {"restore-biases", "true"},
    {"optimizer", "adagrad"},
    {"optimizer-form", "pytorch"},
    {"learning-rate", "0.1"},
    {"momentum", "0.3"},
    {"nesterov", "true"},
    {"beta-1", "0.8"},
    {"beta-2", "0.9"},
    {"rho", "0.7"},
    {"epsilon", "1e-12"},
    {"initial-accumulator", "0.25"},
    {"weight-decay", "0.0001"},
    {"clip-norm", "1"},
    {"clip-value", "0.3333333333333333"},
    {"schedule", "step"},
    {"warmup-steps", "10"},
    {"decay-steps", "20"},
    {"decay-factor", "0.5"},
    {"final-learning-rate", "1e-6"},
    {"epochs", "9"},
    {"steps", "123456789012"},
    {"batch-size", "7"},
    {"accumulate", "2"},
    {"seed", "18446744073709551615"},
    {"devices", "cpu:0,cpu:3"},
    {"threads", "5"},
    {"shards", "4"},
    {"sync-batch-norm", "true"},
    {"bucket-mb", "0.5"},
    {"monitor", "val_accuracy"},
    {"min-delta", "0.001"},
    {"early-stopping", "true"},
    {"patience", "3"},
    {"restore-best", "false"},
    {"reduce-lr-on-plateau", "true"},
    {"reduce-lr-factor", "0.9"},
    {"reduce-lr-patience", "4"},
    {"reduce-lr-min-delta", "0.25"},
    {"min-learning-rate", "1e-7"},
    {"checkpoint-dir", "run dir"},
    {"save-every", "100"},
    {"keep", "0"},
    {"resume", "run/7"},
    {"checkpoint", "run/8"},
    {"output", "out.onnx"},
    {"dump", "loss,plan"},
    {"dump-dir", "d"},
    {"trace", "t.json"},
    {"json", "true"},
};

std::string Describe(const RunConfig& config) {
  std::string out;
  for (Command command : AllCommands()) out += ToYaml(config, command);
  return out;
}

// Whatever a flag can set, --print-config prints and --config reads back.
TEST(Config, EveryFlagSurvivesPrintingAndReading) {
  ASSERT_EQ(sizeof(kValues) / sizeof(kValues[0]), Flags().size());
  RunConfig all;
  all.model = "m.onnx";
  for (const auto& [name, value] : kValues) {
    const Flag* flag = FindFlag(name);
    ASSERT_NE(flag, nullptr) << name;
    RunConfig one;
    const std::vector<std::string> before = flag->get(one);
    ASSERT_TRUE(flag->set({value}, &one).ok()) << name;
    EXPECT_NE(flag->get(one), before) << name;
    ASSERT_TRUE(flag->set({value}, &all).ok()) << name;
  }
  for (Command command : AllCommands()) {
    RunConfig read;
    const std::string yaml = ToYaml(all, command);
    const absl::Status status = ApplyYaml("c.yaml", yaml, &read);
    ASSERT_TRUE(status.ok()) << status << yaml;
    EXPECT_EQ(ToYaml(read, command), yaml);
    EXPECT_EQ(read.model, "m.onnx");
    for (const Flag& flag : Flags()) {
      if (flag.OfCommand(command)) {
        EXPECT_EQ(flag.get(read), flag.get(all)) << flag.name;
      }
    }
  }
}

TEST(Config, PrintConfigShowsDefaultsAndNeedsNoWholeRun) {
  const auto line = Parse("train --optimizer rmsprop --print-config");
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_THAT(line->text, StartsWith("# onward train --config FILE\n"));
  EXPECT_THAT(line->text, HasSubstr("\nlearning-rate: 0.001\n"));
  EXPECT_THAT(line->text, HasSubstr("\nrho: 0.9\n"));
  EXPECT_THAT(line->text, HasSubstr("\nepochs: 1\n"));
  EXPECT_THAT(line->text, HasSubstr("\ndevices: auto\n"));
  RunConfig defaults;
  EXPECT_EQ(Describe(defaults).find("rho"), std::string::npos);
}

}  // namespace
}  // namespace onward
