// What is done to a model file whose content nobody vouches for.
#ifndef ONWARD_TESTS_MODEL_TRIAL_H_
#define ONWARD_TESTS_MODEL_TRIAL_H_

#include <string>

#include "absl/status/status.h"
#include "graph/onnx/import.h"

namespace onward {

// Everything that training does with a model before and at its first step: the graph, the
// parameters, loss, gradients and optimizer, the plan; and where the plan is small, one
// step on zeros. A model that cannot be trained must predict, or say why not: the status is
// training's, or what Complaint() has to say about that of prediction. Open extents are 3, a
// batch is the file's or 2.
absl::Status TryModel(const OnnxModel& model);

// The same from the bytes of a file.
absl::Status TryModel(const std::string& bytes);

// What is wrong with an error as it would be printed: it must be one line that tells
// something, and no fault of ours. Empty: nothing.
std::string Complaint(const absl::Status& status);

}  // namespace onward

#endif  // ONWARD_TESTS_MODEL_TRIAL_H_
