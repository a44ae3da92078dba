// The onward command's seven commands: six runs from a RunConfig to an exit, and a table.
#ifndef ONWARD_TOOLS_ONWARD_COMMANDS_H_
#define ONWARD_TOOLS_ONWARD_COMMANDS_H_

#include "absl/status/status.h"
#include "backend/training/config.h"

namespace onward {

// Each prints to standard output (`config.json`: one JSON object per line) and
// returns what went wrong, marked with its exit code (graph/base/errors.h): nothing
// of it has been printed yet.
// REQUIRES: Validate(config, the command) is ok.

// Trains config.model on config.data and writes config.output.
absl::Status Train(const RunConfig& config);
// Measures loss and metrics.
absl::Status Evaluate(const RunConfig& config);
// Writes the model's outputs for all samples to config.output.
absl::Status Predict(const RunConfig& config);
// Says what is in the model, and whether it can be trained here.
absl::Status Inspect(const RunConfig& config);
// Prints the plan of a step; writes it to config.output where that is given.
absl::Status PlanCommand(const RunConfig& config);
// Writes the model with a checkpoint's parameters to config.output.
absl::Status Export(const RunConfig& config);

// Prints the table of operators; `json`: one object per line.
absl::Status Operators(bool json);

}  // namespace onward

#endif  // ONWARD_TOOLS_ONWARD_COMMANDS_H_
