// Models that were exported with one batch size.
#ifndef ONWARD_BACKEND_TRAINING_FREE_BATCH_H_
#define ONWARD_BACKEND_TRAINING_FREE_BATCH_H_

#include <string>

#include "graph/onnx/import.h"

namespace onward {

// Takes the batch size that the exporter has written into the model out of it, where that
// is safe: with every other batch the shapes are the same but for the batch, and every
// output has its samples on its first axis. What was done, or why it was not, in a line;
// empty where the file fixes no batch.
std::string FreeBatchOf(OnnxModel* model);

}  // namespace onward

#endif  // ONWARD_BACKEND_TRAINING_FREE_BATCH_H_
