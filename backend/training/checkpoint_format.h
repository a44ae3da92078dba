// What the writer and the reader of checkpoints agree on. For those two only.
#ifndef ONWARD_BACKEND_TRAINING_CHECKPOINT_FORMAT_H_
#define ONWARD_BACKEND_TRAINING_CHECKPOINT_FORMAT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/ir/graph.h"

namespace onward {
namespace checkpoint_format {

inline constexpr char kFormat[] = "onward checkpoint";
inline constexpr int64_t kVersion = 1;
inline constexpr char kManifestFile[] = "manifest.json";
inline constexpr char kStatesFile[] = "states.bin";
inline constexpr char kBestFile[] = "best";  // empty; there in checkpoints that were the best
inline constexpr int64_t kAlignment = 64;
inline constexpr int64_t kMostManifestBytes = int64_t{16} << 20;

uint64_t Checksum(const void* data, int64_t bytes);
// 16 hexadecimal digits.
std::string ChecksumText(uint64_t checksum);

absl::string_view Name(State::Kind kind);
absl::StatusOr<State::Kind> ParseKind(absl::string_view name);

// Steps of the checkpoints in `dir` by their names, highest first.
std::vector<int64_t> StepsIn(const std::string& dir);
// The highest of `steps` whose checkpoint is marked as the best; -1 for none.
int64_t BestIn(const std::string& dir, const std::vector<int64_t>& steps);

}  // namespace checkpoint_format
}  // namespace onward

#endif  // ONWARD_BACKEND_TRAINING_CHECKPOINT_FORMAT_H_
