// The collectives between the devices of one process, beside their compute.
//
// Every device does its part of every sum, once all devices have arrived at it. Where the
// process has cores to spare, a thread per device does so while compute goes on. Where it
// has none, a thread would only take the core from compute: there compute itself looks,
// between two steps, whether a sum can be made, and makes it.
#ifndef ONWARD_BACKEND_RUNTIME_COLLECTIVES_H_
#define ONWARD_BACKEND_RUNTIME_COLLECTIVES_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "backend/runtime/all_reduce.h"
#include "backend/runtime/trace_event.h"
#include "kernels/threads/progress.h"

namespace onward {

class Collectives {
 public:
  struct Work {
    int step = 0;   // in the device's last program
    int wait = -1;  // compute step that must be done before, or -1
    std::vector<TreeReduction> reductions;
  };

  // `work`: by device, the same number of collectives on each, in order. `stop`, once set
  // and Wake() called, ends all waits; it outlives this.
  Collectives(std::vector<std::vector<Work>> work, const std::atomic<bool>* stop);
  ~Collectives();
  Collectives(const Collectives&) = delete;
  Collectives& operator=(const Collectives&) = delete;

  // Starts a thread per device, which takes part in every step from now on.
  void StartThreads();
  // Waiters leave their cores to others.
  void SetCrowded(bool crowded) { crowded_ = crowded; }

  // ---- Between steps.
  void BeginStep();
  // Returns when the threads have done all of the step or were stopped.
  void EndStep();
  // Where device `d` records when its parts ran; null: nowhere.
  void SetTrace(int d, std::vector<TraceEvent>* trace) { devices_[d]->trace = trace; }
  void Wake();

  // ---- On the thread that computes on device `d`.
  // Compute step `step` is done (-1: compute has begun).
  void Arrive(int d, int step);
  // Does what all devices have arrived at, waiting for nobody.
  void Poll(int d);
  // Sees that all collectives up to `step` are done. False once stopped.
  bool Finish(int d, int step);
  // Collective `number` on the only device, on so many threads.
  void RunAlone(int number, int threads);

 private:
  struct Device {
    std::vector<Work> work;
    int arriving = 0;           // the next to arrive at; compute's
    int finished = 0;           // that compute has seen done on all devices
    Progress arrived;           // collectives whose inputs are ready here
    std::atomic<int> begun{0};  // whose part is done or being done
    Progress reduced;           // whose part is done
    std::vector<TraceEvent>* trace = nullptr;
    std::thread thread;
    Progress done;  // steps that the thread has done
  };

  bool AllArrived(int number) const;
  bool WaitForAll(Progress Device::*progress, int number);
  // The part of device `d`, unless it has been begun.
  void RunPart(int d, int number);
  void RunThread(int d);

  std::vector<std::unique_ptr<Device>> devices_;
  const std::atomic<bool>* stop_;
  bool threads_ = false;
  bool crowded_ = false;
  Progress start_;
  int32_t steps_ = 0;
  std::atomic<bool> quit_{false};
};

}  // namespace onward

#endif  // ONWARD_BACKEND_RUNTIME_COLLECTIVES_H_
