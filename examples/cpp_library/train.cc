// train MODEL.onnx DATA LABELS TRAINED.onnx
//
// Trains a classifier with a program of one's own, and reports each epoch in its own way.
#include <cstdio>
#include <string>

#include "backend/onward.h"

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: train MODEL.onnx DATA LABELS TRAINED.onnx\n");
    return 2;
  }
  onward::RunConfig config;
  config.model = argv[1];
  config.data = {{"", argv[2]}};
  config.labels = {{"", argv[3]}};
  config.loss = *onward::ParseLoss("cross_entropy");
  config.metrics = {*onward::ParseMetric("accuracy")};
  config.optimizer.kind = onward::OptimizerKind::kAdam;
  config.rescale = "1/255";
  config.epochs = 3;
  config.batch_size = 64;

  onward::RunListener listener;
  listener.note = [](const std::string& line) { std::printf("note: %s\n", line.c_str()); };
  absl::Status status = onward::Validate(config, onward::Command::kTrain);
  if (status.ok()) {
    auto trainer = onward::Trainer::Create(config, onward::Command::kTrain, listener);
    status = trainer.status();
    if (status.ok()) status = (*trainer)->Fit();
    if (status.ok()) status = (*trainer)->Export(argv[4]).status();
    if (status.ok()) {
      for (const auto& [name, value] : (*trainer)->last()) {
        std::printf("%s %.4f\n", name.c_str(), value);
      }
    }
  }
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return static_cast<int>(onward::ExitCodeOf(status));
}
