// Checkpoints: all that a run needs to go on as if it had not stopped.
//
// One checkpoint is a folder DIR/step-00000123:
//   manifest.json  format, version, step, fingerprint; name, kind, data type, extents,
//                  place, bytes and XXH64 checksum of every state; `training`, free-form
//                  JSON of the trainer's; and a checksum of all of that
//   states.bin     every state once (not per replica), in plain layout and the byte order
//                  of x86, each at a multiple of 64 bytes
// It is written as DIR/.step-00000123.tmp-PID, synced and renamed: a folder with a name
// of this form is whole, but for what happens to disks, which the checksums tell.
// DIR/best names the checkpoint that was marked as the best; DIR/.lock keeps two
// processes from writing at the same time.
#ifndef ONWARD_BACKEND_TRAINING_CHECKPOINT_H_
#define ONWARD_BACKEND_TRAINING_CHECKPOINT_H_

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "graph/base/tensor.h"
#include "graph/ir/graph.h"

namespace onward {

// A state by its logical name, in plain layout. The tensor may look into memory of
// another (Tensor's constructor with `release`), so that nothing need be copied.
struct NamedTensor {
  std::string name;
  State::Kind kind = State::Kind::kParameter;
  Tensor value;
};

struct CheckpointOptions {
  std::string dir;          // made where it is missing, with its parents
  int64_t step = 0;         // optimizer steps done, >= 0: the checkpoint's name
  std::string fingerprint;  // of the plan, for the one who resumes; may be empty
  // Checkpoints that stay, this one included, by step; 0: all. The best one stays
  // besides.
  int64_t keep = 3;
  // Mark this one as the best so far, instead of the one that was.
  bool best = false;
};

// Writes a checkpoint and gives back its path. One of the same step is replaced. Older
// ones beyond `keep`, and what killed writers have left behind, are removed once the
// new one is in place; where that fails it is said in `warnings`, one line each (may be
// null).
// Errors have exit code kOutput, and nothing that was there is changed by then:
// ResourceExhausted and others of the system for a full disk or an unwritable folder,
// Unavailable where another process has been writing there for 10 s; InvalidArgument
// (kInternal) for names that are empty, there twice or not UTF-8. SIGXFSZ has to be
// ignored where the size of files is limited.
absl::StatusOr<std::string> WriteCheckpoint(const CheckpointOptions& options,
                                            const std::vector<NamedTensor>& states,
                                            const nlohmann::json& training,
                                            std::vector<std::string>* warnings);

// An open checkpoint that has been verified. Movable; its files stay open, so that it
// can be read also after it was removed. Thread-safe for reading.
class CheckpointReader {
 public:
  struct Entry {
    std::string name;
    State::Kind kind = State::Kind::kParameter;
    DataType dtype = DataType::kUndefined;
    Dims dims;
    int64_t offset = 0;  // in states.bin
    int64_t bytes = 0;
    uint64_t checksum = 0;
  };

  const std::string& path() const { return path_; }
  int64_t step() const { return step_; }
  const std::string& fingerprint() const { return fingerprint_; }
  const nlohmann::json& training() const { return training_; }
  // In the order in which they were written.
  const std::vector<Entry>& states() const { return states_; }
  // Null where there is none.
  const Entry* Find(const std::string& name) const;

  // A copy. NotFound, or InvalidArgument where the bytes have changed since the
  // checkpoint was opened, or ResourceExhausted; kNoCheckpoint.
  absl::StatusOr<Tensor> Read(const std::string& name) const;

 private:
  friend absl::StatusOr<CheckpointReader> OpenCheckpoint(const std::string& path);
  class Bytes;
  CheckpointReader() = default;
  absl::Status ReadManifest(const std::string& text);
  absl::Status ReadEntries(const nlohmann::json& list);
  absl::Status Verify() const;

  std::string path_;
  int64_t step_ = 0;
  std::string fingerprint_;
  nlohmann::json training_;
  std::vector<Entry> states_;
  absl::flat_hash_map<std::string, size_t> by_name_;
  std::shared_ptr<const Bytes> bytes_;
};

// Opens the checkpoint in folder `path` and verifies its sizes and checksums: all of it
// is read once. NotFound, InvalidArgument and others, all kNoCheckpoint, with what is
// wrong. What the manifest says is believed only after it was checked: no memory is
// taken by its numbers.
absl::StatusOr<CheckpointReader> OpenCheckpoint(const std::string& path);

// The checkpoint in `dir` with the highest step that verifies. Each one above it that
// does not gets a line in `warnings` (may be null). NotFound (kNoCheckpoint) where there
// is none, or no folder.
absl::StatusOr<CheckpointReader> NewestCheckpoint(const std::string& dir,
                                                  std::vector<std::string>* warnings);

// Steps of the checkpoints in `dir`, by their names, highest first; whether they can be
// used is not looked at. Empty where there is no folder.
std::vector<int64_t> CheckpointSteps(const std::string& dir);

// The checkpoint marked as the best. NotFound (kNoCheckpoint) where none is; the errors
// of OpenCheckpoint.
absl::StatusOr<CheckpointReader> BestCheckpoint(const std::string& dir);

// "step-00000123"
std::string CheckpointName(int64_t step);

}  // namespace onward

#endif  // ONWARD_BACKEND_TRAINING_CHECKPOINT_H_
