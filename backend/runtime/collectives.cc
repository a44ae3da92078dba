#include "backend/runtime/collectives.h"

#include <limits>
#include <utility>

#include "backend/runtime/flush_denormals.h"
#include "kernels/threads/team.h"

namespace onward {

Collectives::Collectives(std::vector<std::vector<Work>> work, const std::atomic<bool>* stop)
    : stop_(stop) {
  for (std::vector<Work>& of_device : work) {
    devices_.push_back(std::make_unique<Device>());
    devices_.back()->work = std::move(of_device);
  }
}

Collectives::~Collectives() {
  quit_.store(true);
  start_.Wake();
  for (auto& d : devices_) {
    if (d->thread.joinable()) d->thread.join();
  }
}

void Collectives::StartThreads() {
  threads_ = true;
  for (int d = 0; d < static_cast<int>(devices_.size()); ++d) {
    devices_[d]->thread = std::thread([this, d] {
      const FlushDenormals flush;
      for (int32_t step = 1; start_.WaitFor(step, quit_, !crowded_) && !quit_.load(); ++step) {
        RunThread(d);
        devices_[d]->done.Publish(step);
      }
    });
  }
}

void Collectives::BeginStep() {
  for (auto& d : devices_) {
    d->arriving = d->finished = 0;
    d->begun.store(0, std::memory_order_relaxed);
    d->arrived.Reset();
    d->reduced.Reset();
  }
  if (threads_) start_.Publish(++steps_);
}

void Collectives::EndStep() {
  const std::atomic<bool> never{false};
  for (auto& d : devices_) {
    if (threads_) d->done.WaitFor(steps_, never, !crowded_);
  }
}

void Collectives::Wake() {
  for (auto& d : devices_) {
    d->arrived.Wake();
    d->reduced.Wake();
  }
}

void Collectives::Arrive(int d, int step) {
  Device& device = *devices_[d];
  const int before = device.arriving;
  const int count = static_cast<int>(device.work.size());
  while (device.arriving < count && device.work[device.arriving].wait <= step) ++device.arriving;
  if (device.arriving > before) device.arrived.Publish(device.arriving);
}

void Collectives::Poll(int d) {
  Device& device = *devices_[d];
  if (threads_) return;
  for (int n = device.reduced.value(); n < device.arriving && AllArrived(n); ++n) RunPart(d, n);
}

bool Collectives::Finish(int d, int step) {
  Device& device = *devices_[d];
  const int count = static_cast<int>(device.work.size());
  for (int& n = device.finished; n < count && device.work[n].step <= step; ++n) {
    if (!WaitForAll(&Device::arrived, n)) return false;
    RunPart(d, n);
    if (!WaitForAll(&Device::reduced, n)) return false;
  }
  return true;
}

void Collectives::RunAlone(int number, int threads) {
  const std::vector<TreeReduction>& reductions = devices_[0]->work[number].reductions;
  ForTeam(threads, [&](int part) {
    for (const TreeReduction& r : reductions) r.Run(part, threads);
  });
}

void Collectives::RunThread(int d) {
  for (int n = 0; n < static_cast<int>(devices_[d]->work.size()); ++n) {
    if (!WaitForAll(&Device::arrived, n)) return;
    RunPart(d, n);
    // Compute may have begun it: the next one follows when it is done.
    if (!devices_[d]->reduced.WaitFor(n + 1, *stop_, !crowded_)) return;
  }
}

bool Collectives::AllArrived(int number) const {
  for (const auto& d : devices_) {
    if (d->arrived.value() <= number) return false;
  }
  return true;
}

bool Collectives::WaitForAll(Progress Device::*progress, int number) {
  for (auto& d : devices_) {
    if (!((*d).*progress).WaitFor(number + 1, *stop_, !crowded_)) return false;
  }
  return true;
}

void Collectives::RunPart(int d, int number) {
  Device& device = *devices_[d];
  int before = number;
  if (!device.begun.compare_exchange_strong(before, number + 1)) return;
  const Work& work = device.work[number];
  const int64_t begin = device.trace != nullptr ? TraceClock() : 0;
  for (const TreeReduction& r : work.reductions) r.Run(d, static_cast<int>(devices_.size()));
  if (device.trace != nullptr && device.trace->size() < device.trace->capacity()) {
    device.trace->push_back({d, -1, -1, work.step, -1, begin, TraceClock()});
  }
  device.reduced.Publish(number + 1);
}

}  // namespace onward
