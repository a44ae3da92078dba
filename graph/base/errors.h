// Which exit code of the command an error leads to.
#ifndef ONWARD_GRAPH_BASE_ERRORS_H_
#define ONWARD_GRAPH_BASE_ERRORS_H_

#include "absl/status/status.h"

namespace onward {

// The command's exit codes; a library user finds the same number on a Status.
enum class ExitCode : int {
  kDone = 0,
  kInternal = 1,       // a fault of ours
  kUsage = 2,          // usage or configuration
  kUntrainable = 3,    // the model cannot be trained here: operator, device or memory
  kData = 4,           // data
  kDiverged = 5,       // NaN or divergence, or replicas that differ
  kPeerLost = 6,       // a peer was lost or timed out
  kNoCheckpoint = 7,   // no usable checkpoint
  kOutput = 8,         // output could not be written
  kPreempted = 42,     // saved, start me again
  kInterrupted = 130,  // interrupted, saved
};

// `status` marked with the exit code, unless it carries one already (the layer
// nearest to the cause knows best). Ok stays ok.
absl::Status WithExitCode(absl::Status status, ExitCode code);

// The code that a status carries; kDone for ok, kInternal where there is none.
ExitCode ExitCodeOf(const absl::Status& status);

}  // namespace onward

#endif  // ONWARD_GRAPH_BASE_ERRORS_H_
