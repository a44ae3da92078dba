#include "backend/runtime/state_store.h"

#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backend/runtime/interpreter.h"
#include "graph/base/errors.h"
#include "graph/base/status_macros.h"

namespace onward {

absl::StatusOr<DeviceMemory> DeviceMemory::Allocate(int64_t bytes) {
  DeviceMemory memory;
  const int64_t rounded = (std::max<int64_t>(bytes, 1) + 63) / 64 * 64;
  memory.data_ = static_cast<char*>(std::aligned_alloc(64, rounded));
  if (memory.data_ == nullptr) {
    return WithExitCode(
        absl::ResourceExhaustedError(absl::StrCat("no memory for ", bytes, " bytes")),
        ExitCode::kUntrainable);
  }
  memory.bytes_ = bytes;
  std::memset(memory.data_, 0, rounded);
  return memory;
}

DeviceMemory::DeviceMemory(DeviceMemory&& o) noexcept
    : data_(std::exchange(o.data_, nullptr)), bytes_(std::exchange(o.bytes_, 0)) {}
DeviceMemory& DeviceMemory::operator=(DeviceMemory&& o) noexcept {
  std::swap(data_, o.data_);
  std::swap(bytes_, o.bytes_);
  return *this;
}
DeviceMemory::~DeviceMemory() { std::free(data_); }

absl::Status StateStore::Add(const Plan& plan) {
  for (const PlanState& state : plan.states) {
    const auto it = entries_.find(state.name);
    if (it != entries_.end()) {
      if (it->second.type != state.type) {
        return absl::FailedPreconditionError(
            absl::StrCat("state '", state.name, "' is kept as ", ToString(it->second.type),
                         " but planned as ", ToString(state.type)));
      }
      if (state.written && devices_ > 1 && state.shared != (it->second.memory.size() == 1)) {
        return absl::FailedPreconditionError(absl::StrCat(
            "state '", state.name, "' is kept ", state.shared ? "once a device" : "once",
            " but planned ", state.shared ? "to be shared" : "for each device"));
      }
      continue;
    }
    Entry entry;
    entry.type = state.type;
    for (int d = 0; d < (state.shared ? 1 : devices_); ++d) {
      ASSIGN_OR_RETURN(DeviceMemory memory, DeviceMemory::Allocate(state.type.bytes()));
      entry.memory.push_back(std::move(memory));
    }
    bytes_ += (state.type.bytes() + 63) / 64 * 64 * static_cast<int64_t>(entry.memory.size());
    names_.push_back({state.name, state.kind});
    entries_.emplace(state.name, std::move(entry));
    if (state.initial != nullptr) {
      RETURN_IF_ERROR(Write(state.name, *state.initial));
    } else if (state.fill != 0) {
      RETURN_IF_ERROR(
          Write(state.name, Tensor::Full(state.type.dtype, state.type.dims, state.fill)));
    }
  }
  return absl::OkStatus();
}

void* StateStore::data(const std::string& name, int device) const {
  const std::vector<DeviceMemory>& memory = entries_.at(name).memory;
  return memory[memory.size() == 1 ? 0 : device].data();
}

Tensor StateStore::Read(const std::string& name) const {
  const Entry& entry = entries_.at(name);
  Tensor out(entry.type.dtype, entry.type.dims);
  ConvertLayout({entry.type, entry.memory[0].data()}, out.view());
  return out;
}

absl::Status StateStore::Write(const std::string& name, const Tensor& value) {
  Entry& entry = entries_.at(name);
  if (value.dtype() != entry.type.dtype || value.dims() != entry.type.dims) {
    return absl::InvalidArgumentError(absl::StrCat("state '", name, "' is ", ToString(entry.type),
                                                   ", got ", ToString(value.type())));
  }
  for (DeviceMemory& memory : entry.memory) {
    ConvertLayout(value.view(), {entry.type, memory.data()});
  }
  return absl::OkStatus();
}

}  // namespace onward
