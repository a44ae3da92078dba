#include "backend/runtime/state_store.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backend/runtime/interpreter.h"
#include "graph/base/errors.h"
#include "graph/base/memory.h"
#include "graph/base/status_macros.h"
#include "kernels/threads/team.h"

namespace onward {

namespace {

// What is zero stays zero.
void Touch(char* memory, int64_t bytes) {
  constexpr int64_t kPage = 4096;
  for (int64_t i = 0; i < bytes; i += kPage) *static_cast<volatile char*>(memory + i) = 0;
}

}  // namespace

absl::StatusOr<DeviceMemory> DeviceMemory::Allocate(int64_t bytes, bool touch) {
  DeviceMemory memory;
  memory.data_ = static_cast<char*>(AllocateZeroed(bytes));
  if (memory.data_ == nullptr) {
    return WithExitCode(
        absl::ResourceExhaustedError(absl::StrCat("no memory for ", bytes, " bytes")),
        ExitCode::kUntrainable);
  }
  memory.bytes_ = bytes;
  if (touch) Touch(memory.data_, bytes);
  return memory;
}

DeviceMemory::DeviceMemory(DeviceMemory&& o) noexcept
    : data_(std::exchange(o.data_, nullptr)), bytes_(std::exchange(o.bytes_, 0)) {}
DeviceMemory& DeviceMemory::operator=(DeviceMemory&& o) noexcept {
  std::swap(data_, o.data_);
  std::swap(bytes_, o.bytes_);
  return *this;
}
DeviceMemory::~DeviceMemory() { FreeZeroed(data_, bytes_); }

absl::Status StateStore::CheckKept(const Entry& entry, const PlanState& state) const {
  if (entry.type != state.type) {
    return absl::FailedPreconditionError(absl::StrCat("state '", state.name, "' is kept as ",
                                                      ToString(entry.type), " but planned as ",
                                                      ToString(state.type)));
  }
  if (state.written && devices_ > 1 && state.shared != (entry.memory.size() == 1)) {
    return absl::FailedPreconditionError(
        absl::StrCat("state '", state.name, "' is kept ", state.shared ? "once a device" : "once",
                     " but planned ", state.shared ? "to be shared" : "for each device"));
  }
  return absl::OkStatus();
}

absl::Status StateStore::TakeMemory(const std::vector<const PlanState*>& states) {
  for (int d = 0; d < devices_; ++d) {
    int64_t bytes = 0;
    for (const PlanState* s : states)
      bytes += d > 0 && s->shared ? 0 : AlignedBytes(s->type.bytes());
    ASSIGN_OR_RETURN(DeviceMemory memory, DeviceMemory::Allocate(bytes, /*touch=*/false));
    char* next = memory.data();
    for (const PlanState* s : states) {
      if (d > 0 && s->shared) continue;
      entries_[s->name].memory.push_back(next);
      next += AlignedBytes(s->type.bytes());
    }
    bytes_ += bytes;
    memory_.push_back(std::move(memory));
  }
  return absl::OkStatus();
}

void StateStore::Fill(const Entry& entry, const PlanState& state) {
  for (char* memory : entry.memory) {
    if (memory != entry.memory[0]) {
      std::memcpy(memory, entry.memory[0], entry.type.bytes());
    } else if (state.initial != nullptr) {
      ConvertLayout(state.initial->view(), {entry.type, memory});
    } else if (state.fill != 0) {
      const Tensor full = Tensor::Full(entry.type.dtype, entry.type.dims, state.fill);
      ConvertLayout(full.view(), {entry.type, memory});
    } else {
      Touch(memory, entry.type.bytes());
    }
  }
}

absl::Status StateStore::Add(const Plan& plan) {
  std::vector<const PlanState*> fresh;
  for (const PlanState& state : plan.states) {
    const auto it = entries_.find(state.name);
    if (it != entries_.end()) {
      RETURN_IF_ERROR(CheckKept(it->second, state));
      continue;
    }
    if (state.initial != nullptr &&
        (state.initial->dtype() != state.type.dtype || state.initial->dims() != state.type.dims)) {
      return absl::InternalError(absl::StrCat("state '", state.name, "' begins as ",
                                              ToString(state.initial->type()), ", is ",
                                              ToString(state.type)));
    }
    entries_[state.name].type = state.type;
    names_.push_back({state.name, state.kind});
    fresh.push_back(&state);
  }
  if (fresh.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(TakeMemory(fresh));
  // By all threads of the plan: most of the time goes into pages that are touched first.
  int threads = 0;
  for (const PlanDevice& d : plan.devices) threads += d.lanes * d.threads_per_lane;
  std::atomic<size_t> next{0};
  ForTeam(std::min(threads, CoresOfThisProcess()), [&](int) {
    for (size_t i = next++; i < fresh.size(); i = next++) {
      Fill(entries_.at(fresh[i]->name), *fresh[i]);
    }
  });
  return absl::OkStatus();
}

void* StateStore::data(const std::string& name, int device) const {
  const std::vector<char*>& memory = entries_.at(name).memory;
  return memory[memory.size() == 1 ? 0 : device];
}

Tensor StateStore::Read(const std::string& name) const {
  const Entry& entry = entries_.at(name);
  Tensor out(entry.type.dtype, entry.type.dims);
  ConvertLayout({entry.type, entry.memory[0]}, out.view());
  return out;
}

absl::Status StateStore::Write(const std::string& name, const Tensor& value) {
  Entry& entry = entries_.at(name);
  if (value.dtype() != entry.type.dtype || value.dims() != entry.type.dims) {
    return absl::InvalidArgumentError(absl::StrCat("state '", name, "' is ", ToString(entry.type),
                                                   ", got ", ToString(value.type())));
  }
  for (char* memory : entry.memory) ConvertLayout(value.view(), {entry.type, memory});
  return absl::OkStatus();
}

}  // namespace onward
