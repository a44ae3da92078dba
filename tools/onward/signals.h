// Signals that ask a run to stop between two steps.
#ifndef ONWARD_TOOLS_ONWARD_SIGNALS_H_
#define ONWARD_TOOLS_ONWARD_SIGNALS_H_

#include <atomic>

namespace onward {

// From now on SIGINT, SIGTERM and SIGUSR1 set the returned number to their own; a
// second one ends the process at once (exit code 130 for SIGINT, else 128 + signal):
// what is saved stays as it is. SIGXFSZ becomes an error of write().
const std::atomic<int>* CatchSignals();

}  // namespace onward

#endif  // ONWARD_TOOLS_ONWARD_SIGNALS_H_
