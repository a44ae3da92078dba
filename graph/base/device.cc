#include "graph/base/device.h"

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "graph/base/status_macros.h"

namespace onward {

std::string ToString(const Device& device) {
  return absl::StrCat(device.kind == Device::Kind::kCpu ? "cpu" : "gpu", ":", device.index);
}

absl::StatusOr<Device> ParseDevice(absl::string_view text) {
  Device device;
  absl::string_view rest = text;
  if (absl::ConsumePrefix(&rest, "cpu:")) {
    device.kind = Device::Kind::kCpu;
  } else if (absl::ConsumePrefix(&rest, "gpu:")) {
    device.kind = Device::Kind::kGpu;
  } else {
    rest = "";
  }
  if (!absl::SimpleAtoi(rest, &device.index) || device.index < 0 || device.index > 4095) {
    return absl::InvalidArgumentError(
        absl::StrCat("device '", text, "': expected cpu:N or gpu:N, for example cpu:0"));
  }
  return device;
}

absl::StatusOr<std::vector<Device>> ParseDevices(absl::string_view text) {
  std::vector<Device> devices;
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    ASSIGN_OR_RETURN(const Device device, ParseDevice(part));
    for (const Device& other : devices) {
      if (other == device) {
        return absl::InvalidArgumentError(
            absl::StrCat("devices '", text, "': ", part, " is named twice"));
      }
      if (other.kind != device.kind) {
        return absl::InvalidArgumentError(
            absl::StrCat("devices '", text, "': CPUs and GPUs cannot be mixed"));
      }
    }
    devices.push_back(device);
  }
  return devices;
}

}  // namespace onward
