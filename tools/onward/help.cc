#include "tools/onward/help.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tools/onward/flag_table.h"

namespace onward {
namespace {

constexpr size_t kColumns = 100;
constexpr size_t kIndent = 33;  // where a flag's explanation begins

constexpr char kTrainExamples[] =
    R"(  Images and integer labels; checkpoints, and going on after an interruption:
    onward train mlp.onnx --data train-images-idx3-ubyte.gz --labels train-labels-idx1-ubyte.gz \
      --rescale 1/255 --loss sparse_categorical_crossentropy --optimizer adam \
      --metrics accuracy --epochs 5 --batch-size 128 --validation-split 0.1 \
      --checkpoint-dir run --save-every 100 --resume auto --output trained.onnx
  On two devices, with the same result as on one:
    onward train mlp.onnx ... --devices cpu:0,cpu:1 --shards 2
  A model with two inputs, numbers to predict:
    onward train model.onnx --data user=users.npy,item=items.npy --labels ratings.npy --loss mse
  Only the head, with a rate that warms up and then falls:
    onward train resnet.onnx ... --train-only 'fc.*' --schedule cosine --warmup-steps 200
  Until nothing improves any more:
    onward train model.onnx ... --epochs 50 --early-stopping --patience 10 --reduce-lr-on-plateau
  The whole run in a file; flags override it:
    onward train model.onnx ... --print-config > run.yaml
    onward train --config run.yaml --learning-rate 1e-4
)";

constexpr char kEvaluateExamples[] = R"(  Loss and accuracy of a trained model:
    onward evaluate trained.onnx --data t10k-images-idx3-ubyte.gz \
      --labels t10k-labels-idx1-ubyte.gz --rescale 1/255 \
      --loss sparse_categorical_crossentropy --metrics accuracy
  Of a checkpoint, before its run has ended:
    onward evaluate mlp.onnx --checkpoint run/CHECKPOINT --data x.npy --labels y.npy --loss mse
)";

constexpr char kPredictExamples[] = R"(  One row of outputs per sample:
    onward predict trained.onnx --data x.npy --output predictions.npy
  As text:
    onward predict trained.onnx --data x.csv --output predictions.csv
)";

constexpr char kInspectExamples[] = R"(  Can this model be trained here, and if not, why?
    onward inspect model.onnx
  Which parameters would train:
    onward inspect model.onnx --train-only 'head.*'
  For a program:
    onward inspect model.onnx --json
)";

constexpr char kPlanExamples[] = R"(  Memory of a batch of 256 on two devices:
    onward plan model.onnx --loss cross_entropy --optimizer adam --batch-size 256 \
      --devices cpu:0,cpu:1
  The planned graph, for Netron:
    onward plan model.onnx --loss cross_entropy --batch-size 32 -o plan.onnx
)";

constexpr char kExportExamples[] = R"(  The trained model out of the newest checkpoint:
    onward export mlp.onnx --checkpoint-dir run --output trained.onnx
  Out of a certain one:
    onward export mlp.onnx --checkpoint run/CHECKPOINT --output trained.onnx
)";

struct Page {
  Command command;
  const char* summary;
  const char* text;
  const char* examples;
};

const Page& PageOf(Command command) {
  static constexpr Page kPages[] = {
      {Command::kTrain, "trains a model and writes the trained one",
       "Trains MODEL.onnx, as any framework exported it, on the data, and writes a model of the "
       "same form with trained parameters. MODEL.onnx itself is never changed.",
       kTrainExamples},
      {Command::kEvaluate, "measures loss and metrics of a model on data",
       "Runs MODEL.onnx in inference form over all samples and prints the loss and the metrics, "
       "exact to the last, smaller batch.",
       kEvaluateExamples},
      {Command::kPredict, "writes a model's outputs for data",
       "Runs MODEL.onnx in inference form over all samples and writes its outputs in the "
       "samples' order.",
       kPredictExamples},
      {Command::kInspect, "says what is in a model, and whether it can be trained here",
       "Lists operators, parameters, inputs and outputs of MODEL.onnx, what its exporter folded "
       "or merged, and whether it can be trained here, with reasons.",
       kInspectExamples},
      {Command::kPlan, "shows the work and the memory of a step before it runs",
       "Prints the stages, the nodes of each device, the collectives with their bytes and the "
       "exact memory of one training step, and runs nothing.",
       kPlanExamples},
      {Command::kExport, "writes a checkpoint's parameters into a model",
       "Writes MODEL.onnx with the parameters of a checkpoint of its training to a new file.",
       kExportExamples},
  };
  for (const Page& page : kPages) {
    if (page.command == command) return page;
  }
  return kPages[0];
}

// `text` broken at spaces; lines after the first begin with `indent` spaces.
// `column`: where the first begins.
std::string Wrapped(absl::string_view text, size_t column, size_t indent) {
  std::string out;
  bool first = true;
  for (absl::string_view word : absl::StrSplit(text, ' ')) {
    if (!first && column + 1 + word.size() > kColumns) {
      absl::StrAppend(&out, "\n", std::string(indent, ' '), word);
      column = indent + word.size();
    } else {
      absl::StrAppend(&out, first ? "" : " ", word);
      column += word.size() + (first ? 0 : 1);
    }
    first = false;
  }
  return out;
}

void AppendFlag(absl::string_view name, absl::string_view placeholder, absl::string_view help,
                std::string* out) {
  std::string left = absl::StrCat("  --", name);
  if (name == "output") left = "  -o, --output";
  if (!placeholder.empty()) absl::StrAppend(&left, " ", placeholder);
  if (left.size() + 1 > kIndent) {
    absl::StrAppend(out, left, "\n", std::string(kIndent, ' '));
  } else {
    absl::StrAppend(out, left, std::string(kIndent - left.size(), ' '));
  }
  absl::StrAppend(out, Wrapped(help, kIndent, kIndent), "\n");
}

}  // namespace

std::string Summary(Command command) { return PageOf(command).summary; }

std::string Overview() {
  std::string out =
      "onward trains ONNX models: a model exported from any framework goes in, the trained\n"
      "model comes out.\n\nUsage: onward COMMAND MODEL.onnx [FLAGS]\n\nCommands:\n";
  for (Command command : AllCommands()) {
    const std::string name(Name(command));
    absl::StrAppend(&out, "  ", name, std::string(10 - name.size(), ' '), Summary(command), "\n");
  }
  out += "  operators lists the operators that run here, their kernels and gradients\n";
  return out +
         "\nA first run:\n"
         "  onward inspect model.onnx\n"
         "  onward train model.onnx --data x.npy --labels y.npy --loss cross_entropy \\\n"
         "    --optimizer adam --metrics accuracy --epochs 5 --output trained.onnx\n"
         "  onward evaluate trained.onnx --data x_test.npy --labels y_test.npy \\\n"
         "    --loss cross_entropy --metrics accuracy\n"
         "\n`onward COMMAND --help` shows examples and every flag.\n\n"
         "Exit codes: 0 done, 1 a fault of onward's, 2 usage or configuration, 3 the model cannot\n"
         "be trained here, 4 data, 5 divergence, 6 a peer was lost, 7 no usable checkpoint,\n"
         "8 output could not be written, 42 preempted (saved; start it again), 130 interrupted\n"
         "(saved).\n";
}

std::string OperatorsHelp() {
  std::string out =
      "Usage: onward operators [--json]\n\n"
      "Lists ONNX's operators and those of other domains that onward knows: the opsets that\n"
      "defined each anew, its kernels on every device, where its gradient comes from, and the\n"
      "reason where there is none.\n\n"
      "Examples:\n"
      "  onward operators | grep Attention\n"
      "  onward operators --json\n\nOutput:\n";
  AppendFlag("[no-]json", "", "One JSON object per line instead of text", &out);
  return out;
}

std::string Help(Command command) {
  const Page& page = PageOf(command);
  std::string out = absl::StrCat("Usage: onward ", Name(command), " MODEL.onnx [FLAGS]\n\n");
  absl::StrAppend(&out, Wrapped(page.text, 0, 0), "\n\nExamples:\n", page.examples);
  std::string group;
  for (const Flag& flag : Flags()) {
    if (!flag.OfCommand(command)) continue;
    if (flag.group != group) {
      group = flag.group;
      absl::StrAppend(&out, "\n", group, ":\n");
    }
    AppendFlag(flag.placeholder.empty() ? "[no-]" + flag.name : flag.name, flag.placeholder,
               flag.help, &out);
  }
  out += "\nConfiguration:\n";
  AppendFlag("config", "FILE.yaml", "Read flags from FILE.yaml, by their names; flags override it",
             &out);
  AppendFlag("print-config", "", "Print the configuration as YAML, defaults included, and stop",
             &out);
  AppendFlag("help", "", "Print this", &out);
  return out;
}

}  // namespace onward
