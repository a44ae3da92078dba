// Batches, made ahead of the step that takes them by a thread beside it, or by the threads
// of the step itself, between two steps.
#ifndef ONWARD_BACKEND_DATA_LOADER_H_
#define ONWARD_BACKEND_DATA_LOADER_H_

#include <condition_variable>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "backend/data/convert.h"
#include "backend/data/dataset.h"
#include "backend/data/transform.h"
#include "graph/base/shards.h"
#include "graph/base/tensor.h"

namespace onward {

// Fills `order` with a permutation of 0 .. order.size() - 1 that depends on
// (seed, epoch) and the size alone: Fisher and Yates' shuffle, whose i-th number
// is SplitMix64 of a counter. The same on every machine.
void ShuffleRows(uint64_t seed, int64_t epoch, absl::Span<uint32_t> order);

struct LoaderOptions {
  int64_t batch_size = 32;  // global: over all shards
  bool shuffle = true;      // Default: on; off gives rows in their order (validation)
  uint64_t seed = 0;
  bool drop_last = false;  // leave out a last batch that is smaller
  // Only rows [first_row, end_row) of the data. Default (-1): to the end.
  int64_t first_row = 0;
  int64_t end_row = -1;
  int shards = 1;       // that the global batch is cut into
  int first_shard = 0;  // this process makes shards [first_shard, end_shard)
  int end_shard = -1;   // Default (-1): shards
  int buffers = 3;      // batches that exist at once, those in use included; at least 2
  // Default (0): batches are made by one thread in the background. More: by so many of the
  // consumer's team, within Next(), where no core is free for that thread and all columns
  // are in memory: it would take the core from a step whose other threads wait for it.
  int foreground_threads = 0;
  // Calls body(i) for every i in [0, count), at once. REQUIRES: given where there are
  // several foreground threads.
  void (*for_team)(int count, absl::FunctionRef<void(int)> body) = nullptr;
};

// A column of the data set and its way into the batch.
struct LoaderColumn {
  std::string name;
  ColumnTransform transform;
};

// Where a batch is written: buffer[column][shard - first_shard], each with room
// for ShardRows(batch_size, shards, shard).size() rows of the column's transform.
using BatchBuffers = std::vector<std::vector<void*>>;

class Loader;

// One batch. Its memory is valid until it is destroyed or Release() is called,
// which gives the buffer back to the loader. Movable; empty when moved from.
class Batch {
 public:
  Batch() = default;
  Batch(Batch&& o) noexcept { *this = std::move(o); }
  Batch& operator=(Batch&& o) noexcept {
    std::swap(loader_, o.loader_);
    std::swap(slot_, o.slot_);
    return *this;
  }
  ~Batch() { Release(); }

  // False at the end of the last epoch.
  explicit operator bool() const { return loader_ != nullptr; }

  // REQUIRES (all): not empty.
  int64_t epoch() const;
  int64_t position() const;  // global samples of the epoch before this batch
  int64_t rows() const;      // of the whole global batch, all shards
  bool last() const;         // of its epoch
  int buffer() const;        // which of the buffers it is in
  // The rows that `shard` (a global number) takes, first extent its number of rows.
  const TensorView& view(int column, int shard = 0) const;

  void Release();

 private:
  friend class Loader;
  Loader* loader_ = nullptr;
  int slot_ = 0;
};

// Gives the batches of one epoch after another. Errors that are found while a
// batch is made (NaN, a label that is no class, a file that was cut short) are
// given by Next() in that batch's place, and again by every later call.
// One consumer thread; batches may be released by any thread, in any order.
class Loader {
 public:
  // Starts the thread, which waits for Start(); none where batches are made in the
  // foreground. `data` must outlive the loader.
  // With `buffers`, batches are written there (options.buffers is their number)
  // and the loader holds none of its own. InvalidArgument for options that make
  // no sense (kUsage), a data set without rows or without such a column (kData).
  static absl::StatusOr<std::unique_ptr<Loader>> Create(
      const Dataset* data, std::vector<LoaderColumn> columns, LoaderOptions options,
      const std::vector<BatchBuffers>& buffers = {});
  // Returns soon: a batch that is being made is given up. REQUIRES: batches are
  // released.
  ~Loader();

  // From sample `position` of `epoch` on, for `epochs` epochs, the first counted.
  // What was made before is given up; batches in use stay valid. `position` =
  // rows means the next epoch. InvalidArgument for a position that is not in it.
  absl::Status Start(int64_t epoch, int64_t position = 0,
                     int64_t epochs = std::numeric_limits<int64_t>::max());

  // The next batch, waiting for it where it is not made yet, or making it; an empty one at
  // the end. REQUIRES: Start() was called, and fewer than `buffers` batches are held.
  absl::StatusOr<Batch> Next();

  int columns() const { return static_cast<int>(columns_.size()); }
  int64_t rows() const { return options_.end_row - options_.first_row; }
  // Batches of a whole epoch from position 0.
  int64_t batches_per_epoch() const;

  // Memory that the loader takes: its buffers, the order, scratch. Equal to
  // Forecast of the same arguments.
  int64_t bytes() const;
  static int64_t Forecast(const Dataset& data, const std::vector<LoaderColumn>& columns,
                          const LoaderOptions& options, bool own_buffers);

 private:
  friend class Batch;
  enum class SlotState { kFree, kFilling, kReady, kTaken };
  struct Slot {
    SlotState state = SlotState::kFree;  // guarded by mutex_
    // The rest belongs to the thread while kFilling, to the consumer while kTaken.
    int64_t epoch = 0, position = 0, rows = 0;
    bool last = false;
    std::vector<std::vector<TensorView>> views;  // [column][local shard]
  };

  Loader(const Dataset* data, LoaderOptions options) : data_(data), options_(options) {}
  static absl::Status CheckOptions(const LoaderOptions& options, size_t buffers);
  absl::Status AddColumns(std::vector<LoaderColumn> columns);
  absl::Status AddBuffers(const std::vector<BatchBuffers>& buffers);
  int local_shards() const { return options_.end_shard - options_.first_shard; }

  // What is made next.
  struct Cursor {
    int64_t epoch = 0, position = 0, epochs = 0;  // `epochs`: left, this one counted
  };

  bool foreground() const { return options_.foreground_threads > 0; }
  void Run();
  // Makes batches from the cursor on, until the last or until `run` is over.
  absl::Status MakeEpochs(int64_t run, Cursor cursor);
  // Brings the cursor, and the order, to a batch that there is. False at the end.
  bool FindBatch(Cursor* cursor);
  // That batch's number and rows into the slot; the cursor goes behind it.
  void TakeRows(Cursor* cursor, Slot* slot) const;
  int64_t EndOfEpoch(int64_t position) const;
  absl::StatusOr<Batch> MakeNext();
  // A free slot, now kFilling; -1 where `run` is over.
  int ClaimSlot(int64_t run);
  absl::Status Fill(int64_t run, Slot* slot);
  absl::Status FillShard(int64_t run, int column, int64_t position, int64_t rows, char* to);
  // Rows [begin, end) of those, by part `part` of the team.
  absl::Status FillRows(int64_t run, int column, int64_t position, RowRange rows, char* to,
                        int part);
  bool Over(int64_t run);
  void Release(int slot);

  const Dataset* data_;
  LoaderOptions options_;
  std::vector<const Column*> columns_;

  // Of the threads that make batches.
  std::vector<std::vector<Converter>> converters_;  // column, part
  std::vector<uint32_t> order_;
  int64_t ordered_epoch_ = -1;
  Buffer scratch_;                         // rows of columns that stay in their file
  std::vector<const void*> row_pointers_;  // part, kChunk
  std::vector<absl::Status> part_status_;
  Cursor cursor_;  // in the foreground

  std::vector<Tensor> own_;  // memory of the slots' views, unless the consumer gave it
  std::vector<Slot> slots_;

  std::mutex mutex_;  // guards all that follows
  std::condition_variable to_thread_, to_consumer_;
  int64_t run_ = 0;  // counts Start(); what an earlier one made is given up
  Cursor start_;
  bool stop_ = false;
  std::vector<int> ready_;  // a ring of slot numbers, as long as slots_
  size_t ready_first_ = 0, ready_count_ = 0;
  bool ended_ = false;  // the run's last batch is made, or it failed by status_
  absl::Status status_;

  std::thread thread_;
};

}  // namespace onward

#endif  // ONWARD_BACKEND_DATA_LOADER_H_
