// The memory of states on all devices of a process, shared by all plans.
#ifndef ONWARD_BACKEND_RUNTIME_STATE_STORE_H_
#define ONWARD_BACKEND_RUNTIME_STATE_STORE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "graph/plan/plan.h"

namespace onward {

// Aligned memory, zeroed.
class DeviceMemory {
 public:
  // ResourceExhausted (kUntrainable) where it is not to be had. Its pages are touched, so
  // that no step has to wait for them, unless the caller will.
  static absl::StatusOr<DeviceMemory> Allocate(int64_t bytes, bool touch = true);
  DeviceMemory() = default;
  DeviceMemory(DeviceMemory&& o) noexcept;
  DeviceMemory& operator=(DeviceMemory&& o) noexcept;
  ~DeviceMemory();
  char* data() const { return data_; }
  // Of all devices.
  int64_t bytes() const { return bytes_; }

 private:
  char* data_ = nullptr;
  int64_t bytes_ = 0;
};

// Every state by its logical name: one copy per device, or one for all where the first
// plan that writes it says so, in the layout that plan fixed. Not thread-safe: read and
// written between steps only.
class StateStore {
 public:
  explicit StateStore(int devices) : devices_(devices) {}

  // Makes memory for the plan's states that are not here yet and fills it with
  // their initial values. FailedPrecondition where a state is here with another
  // type or layout, or is written in other parts.
  absl::Status Add(const Plan& plan);

  // REQUIRES: added.
  void* data(const std::string& name, int device) const;
  const TensorType& type(const std::string& name) const { return entries_.at(name).type; }
  bool Has(const std::string& name) const { return entries_.contains(name); }

  // A copy in plain layout of device 0's (replicas are equal).
  Tensor Read(const std::string& name) const;
  // Sets every device's copy. InvalidArgument where type or extents differ.
  absl::Status Write(const std::string& name, const Tensor& value);

  // In the order in which plans brought them.
  struct Named {
    std::string name;
    State::Kind kind;
  };
  const std::vector<Named>& names() const { return names_; }
  int64_t bytes() const { return bytes_; }

 private:
  struct Entry {
    TensorType type;
    std::vector<char*> memory;  // by device; a single one: shared by all
  };
  // Whether a state that is here can be used by the plan.
  absl::Status CheckKept(const Entry& entry, const PlanState& state) const;
  // Memory for states of one plan.
  absl::Status TakeMemory(const std::vector<const PlanState*>& states);
  static void Fill(const Entry& entry, const PlanState& state);

  int devices_;
  int64_t bytes_ = 0;
  std::vector<DeviceMemory> memory_;
  std::vector<Named> names_;
  absl::flat_hash_map<std::string, Entry> entries_;
};

}  // namespace onward

#endif  // ONWARD_BACKEND_RUNTIME_STATE_STORE_H_
