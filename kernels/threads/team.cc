#include "kernels/threads/team.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "kernels/threads/float_control.h"
#include "kernels/threads/progress.h"

namespace onward {
namespace {

class Team;

// What a thread is at the moment.
struct Place {
  Team* team = nullptr;  // of the region; null outside, and in one of a single thread
  int index = 0;
  int threads = 1;
  bool shared = false;  // within a region of several threads, however deep
};

// Regions within regions, by this thread.
constexpr int kMostNested = 16;

struct ThisThread {
  int size = 1;
  Place place;
  Place outer[kMostNested];
  int depth = 0;
};
thread_local ThisThread here;

const std::atomic<bool> kNever{false};

class Team {
 public:
  ~Team() {
    quit_.store(true);
    for (auto& worker : workers_) worker->go.Wake();
    for (auto& worker : workers_) worker->thread.join();
  }

  void Begin(int threads, void (*body)(void*), void* data) {
    body_ = body;
    data_ = data;
    threads_ = threads;
    float_control_ = FloatControl();
    arrived_.store(0, std::memory_order_relaxed);
    while (static_cast<int>(workers_.size()) < threads - 1) AddWorker();
    for (int i = 0; i < threads - 1; ++i) {
      Worker& worker = *workers_[i];
      worker.go.Publish(++worker.regions);
    }
  }

  void End() {
    for (int i = 0; i < threads_ - 1; ++i) {
      workers_[i]->done.WaitFor(workers_[i]->regions, kNever);
    }
  }

  void Barrier() {
    // Read before arriving: it cannot be passed until all have arrived.
    const int32_t next = static_cast<int32_t>(static_cast<uint32_t>(passed_.value()) + 1);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 < threads_) {
      passed_.WaitFor(next, kNever);
      return;
    }
    arrived_.store(0, std::memory_order_relaxed);
    passed_.Publish(next);
  }

 private:
  struct Worker {
    Progress go;    // regions that it is to do
    Progress done;  // regions that it has done
    uint32_t regions = 0;
    std::thread thread;
  };

  void AddWorker() {
    workers_.push_back(std::make_unique<Worker>());
    Worker* const worker = workers_.back().get();
    const int index = static_cast<int>(workers_.size());
    worker->thread = std::thread([this, worker, index] {
      for (uint32_t region = 1; worker->go.WaitFor(static_cast<int32_t>(region), quit_); ++region) {
        here.place = {this, index, threads_, true};
        if (FloatControl() != float_control_) SetFloatControl(float_control_);
        body_(data_);
        worker->done.Publish(static_cast<int32_t>(region));
      }
    });
  }

  // Of the region: written before the workers go, and while none runs.
  void (*body_)(void*) = nullptr;
  void* data_ = nullptr;
  int threads_ = 1;
  uint64_t float_control_ = 0;  // the leader's
  std::vector<std::unique_ptr<Worker>> workers_;
  std::atomic<bool> quit_{false};
  std::atomic<int> arrived_{0};  // at the barrier
  Progress passed_;              // barriers
};

// That which this thread leads; made when it first needs one.
Team& Own() {
  thread_local std::unique_ptr<Team> own;
  if (own == nullptr) own = std::make_unique<Team>();
  return *own;
}

}  // namespace

int CoresOfThisProcess() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

int TeamSize() { return here.size; }

TeamSizeScope::TeamSizeScope(int threads) : before_(here.size) { here.size = threads; }
TeamSizeScope::~TeamSizeScope() { here.size = before_; }

void BeginRegion(int threads, void (*body)(void*), void* data) {
  if (here.depth < kMostNested) here.outer[here.depth] = here.place;
  ++here.depth;
  if (here.place.shared || threads <= 1) {
    here.place = {nullptr, 0, 1, here.place.shared};
    return;
  }
  Team& team = Own();
  team.Begin(threads, body, data);
  here.place = {&team, 0, threads, true};
}

void EndRegion() {
  if (here.place.team != nullptr) here.place.team->End();
  --here.depth;
  here.place = here.depth < kMostNested ? here.outer[here.depth] : Place{};
}

bool InRegion() { return here.place.shared; }
int IndexInTeam() { return here.place.index; }
int ThreadsInTeam() { return here.place.threads; }
void TeamBarrier() {
  if (here.place.team != nullptr) here.place.team->Barrier();
}

}  // namespace onward
