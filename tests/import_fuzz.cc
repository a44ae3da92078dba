// The fuzz target of the door: any bytes as a model file. Linked with fuzz_driver.cc, or
// with libFuzzer.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/model_trial.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::Status status =
      onward::TryModel(std::string(reinterpret_cast<const char*>(data), size));
  const std::string complaint = onward::Complaint(status);
  if (complaint.empty()) return 0;
  std::fprintf(stderr, "the error %s: %s\n", complaint.c_str(), status.ToString().c_str());
  std::abort();
}
