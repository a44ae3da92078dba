// The threads of a device: one that leads, and the workers that it keeps.
//
// Kernels of our own and oneDNN's (kernels/onednn/openmp_calls.cc) run on the same team;
// there is no other. OpenMP's runtime is not used: GNU's spins for milliseconds wherever
// threads wait for one another, which ruins a step as soon as a core is shared (measured
// on a loaded machine: five times slower), and its settings are those of whatever else
// in the process uses it.
#ifndef ONWARD_KERNELS_THREADS_TEAM_H_
#define ONWARD_KERNELS_THREADS_TEAM_H_

namespace onward {

// Cores that this process may run on.
int CoresOfThisProcess();

// How many threads a region of this thread has, where it does not say so itself: for
// oneDNN, which cuts its work by it, also when it makes a primitive. Default: 1.
int TeamSize();

// Sets it for the calling thread as long as it lives. REQUIRES: threads >= 1.
class TeamSizeScope {
 public:
  explicit TeamSizeScope(int threads);
  ~TeamSizeScope();
  TeamSizeScope(const TeamSizeScope&) = delete;
  TeamSizeScope& operator=(const TeamSizeScope&) = delete;

 private:
  int before_;
};

// ---- Regions. The calling thread becomes index 0 of `threads`; its workers, which are
// started when first needed and end with it, become the others. Within a region another
// one has a single thread. Workers compute with the caller's floating-point control
// (float_control.h). No region may throw.

// Starts `body` on the workers and returns; the caller does its part and ends the region,
// which waits for them.
void BeginRegion(int threads, void (*body)(void* data), void* data);
void EndRegion();

// Is this thread within a region of several threads?
bool InRegion();
// In a region: which thread of how many is this? Outside: 0 of 1.
int IndexInTeam();
int ThreadsInTeam();
// Every thread of the region waits until all have come.
void TeamBarrier();

// Calls body(index) for every index in [0, count), at once.
template <typename Body>
void ForTeam(int count, const Body& body) {
  if (count <= 1 || InRegion()) {
    for (int i = 0; i < count; ++i) body(i);
    return;
  }
  const auto call = [](void* data) { (*static_cast<const Body*>(data))(IndexInTeam()); };
  void* const data = const_cast<void*>(static_cast<const void*>(&body));
  BeginRegion(count, call, data);
  body(0);
  EndRegion();
}

}  // namespace onward

#endif  // ONWARD_KERNELS_THREADS_TEAM_H_
