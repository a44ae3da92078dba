#include "tools/onward/signals.h"

#include <signal.h>
#include <unistd.h>

namespace onward {
namespace {

std::atomic<int> caught{0};
static_assert(std::atomic<int>::is_always_lock_free, "set in a signal handler");

void Handle(int signal) {
  int none = 0;
  if (!caught.compare_exchange_strong(none, signal)) _exit(signal == SIGINT ? 130 : 128 + signal);
}

}  // namespace

const std::atomic<int>* CatchSignals() {
  struct sigaction action = {};
  action.sa_handler = Handle;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGUSR1, &action, nullptr);
  ::signal(SIGXFSZ, SIG_IGN);
  return &caught;
}

}  // namespace onward
