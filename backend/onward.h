// Onward as a library.
//
//   onward::RunConfig config;                       // what to do: backend/training/config.h
//   config.model = "model.onnx";
//   config.data = {{"", "images.npy"}};
//   config.labels = {{"", "labels.npy"}};
//   config.loss = *onward::ParseLoss("cross_entropy");
//   auto trainer = onward::Trainer::Create(config, onward::Command::kTrain, {});
//   if (!trainer.ok()) ...;                         // absl::Status, with the command's exit code
//   absl::Status done = (*trainer)->Fit();
//   auto changes = (*trainer)->Export("trained.onnx");
//
// Nothing is printed and no signal is caught: a RunListener is told what happens. The
// headers below are the public ones; each says what it promises.
#ifndef ONWARD_BACKEND_ONWARD_H_
#define ONWARD_BACKEND_ONWARD_H_

#include "backend/training/config.h"
#include "backend/training/trainer.h"
#include "graph/base/errors.h"
#include "graph/onnx/import.h"

#endif  // ONWARD_BACKEND_ONWARD_H_
