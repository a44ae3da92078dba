// Names of devices: "cpu:0", "gpu:1".
#ifndef ONWARD_GRAPH_BASE_DEVICE_H_
#define ONWARD_GRAPH_BASE_DEVICE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace onward {

// cpu:0, cpu:1, ... are distinct virtual devices of one host, each with its own
// threads; gpu:N is the N-th GPU that the driver shows.
struct Device {
  enum class Kind { kCpu, kGpu };
  Kind kind = Kind::kCpu;
  int index = 0;

  bool operator==(const Device& o) const { return kind == o.kind && index == o.index; }
  bool operator!=(const Device& o) const { return !(*this == o); }
};

std::string ToString(const Device& device);
absl::StatusOr<Device> ParseDevice(absl::string_view text);

// "cpu:0,cpu:1". InvalidArgument for a device named twice, a mixture of kinds,
// or an empty list.
absl::StatusOr<std::vector<Device>> ParseDevices(absl::string_view text);

}  // namespace onward

#endif  // ONWARD_GRAPH_BASE_DEVICE_H_
