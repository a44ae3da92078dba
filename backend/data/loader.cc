#include "backend/data/loader.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "backend/data/data_error.h"
#include "graph/base/status_macros.h"

namespace onward {
namespace {

constexpr int64_t kChunk = 64;  // rows between two looks at whether to stop
constexpr int64_t kMostScratch = int64_t{1} << 20;
constexpr int64_t kLineBytes = 64;       // of a cache line
constexpr int64_t kMostPrefetch = 1024;  // bytes of a row: the hardware follows longer ones
constexpr int64_t kLeastPart = 16384;    // bytes of a batch that earn a thread

absl::Status UsageError(absl::string_view text) {
  return WithExitCode(absl::InvalidArgumentError(text), ExitCode::kUsage);
}

// Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
uint64_t SplitMix64(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}
constexpr uint64_t kGolden = 0x9e3779b97f4a7c15u;

// Rows that are read at once from a column that stays in its file.
int64_t ChunkRows(const Column& column) {
  if (column.in_memory()) return kChunk;
  return std::min(kChunk,
                  std::max<int64_t>(1, kMostScratch / std::max<int64_t>(1, column.row_bytes())));
}

int64_t ScratchBytes(const Column& column) {
  return column.in_memory() ? 0 : ChunkRows(column) * column.row_bytes();
}

int64_t RowsOf(const Dataset& data, const LoaderOptions& options) {
  return (options.end_row < 0 ? data.rows() : options.end_row) - options.first_row;
}

int64_t OrderBytes(const Dataset& data, const LoaderOptions& options) {
  return options.shuffle ? RowsOf(data, options) * static_cast<int64_t>(sizeof(uint32_t)) : 0;
}

int64_t BatchBytes(const ColumnTransform& transform, const LoaderOptions& options) {
  const int end = options.end_shard < 0 ? options.shards : options.end_shard;
  int64_t bytes = 0;
  for (int shard = options.first_shard; shard < end; ++shard) {
    bytes += ShardRows(options.batch_size, options.shards, shard).size() * transform.row_bytes();
  }
  return bytes;
}

}  // namespace

void ShuffleRows(uint64_t seed, int64_t epoch, absl::Span<uint32_t> order) {
  std::iota(order.begin(), order.end(), 0u);
  const uint64_t key =
      SplitMix64(SplitMix64(seed + kGolden) + static_cast<uint64_t>(epoch) * kGolden);
  for (size_t i = order.size(); i > 1; --i) {
    // A number in [0, i): the high half of a product (Lemire), off by 2^-32 at most.
    const uint64_t random = SplitMix64(key + i * kGolden);
    const size_t j = static_cast<size_t>((static_cast<unsigned __int128>(random) * i) >> 64);
    std::swap(order[i - 1], order[j]);
  }
}

int64_t Batch::epoch() const { return loader_->slots_[slot_].epoch; }
int64_t Batch::position() const { return loader_->slots_[slot_].position; }
int64_t Batch::rows() const { return loader_->slots_[slot_].rows; }
bool Batch::last() const { return loader_->slots_[slot_].last; }
int Batch::buffer() const { return slot_; }
const TensorView& Batch::view(int column, int shard) const {
  return loader_->slots_[slot_].views[column][shard - loader_->options_.first_shard];
}

void Batch::Release() {
  if (loader_ != nullptr) loader_->Release(slot_);
  loader_ = nullptr;
}

absl::Status Loader::CheckOptions(const LoaderOptions& o, size_t buffers) {
  if (o.batch_size < 1)
    return UsageError(absl::StrCat("batch size ", o.batch_size, ": at least 1 was expected"));
  if (o.shards < 1 || o.first_shard < 0 || o.end_shard > o.shards || o.first_shard >= o.end_shard) {
    return UsageError(absl::StrCat("shards [", o.first_shard, ", ", o.end_shard, ") of ", o.shards,
                                   ": at least one of them was expected"));
  }
  if (o.buffers < 2)
    return UsageError(absl::StrCat(o.buffers, " batch buffers: at least 2 were expected"));
  if (buffers != 0 && buffers != static_cast<size_t>(o.buffers)) {
    return UsageError(absl::StrCat(buffers, " batch buffers were given, ", o.buffers, " expected"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Loader>> Loader::Create(const Dataset* data,
                                                       std::vector<LoaderColumn> columns,
                                                       LoaderOptions options,
                                                       const std::vector<BatchBuffers>& buffers) {
  if (options.end_shard < 0) options.end_shard = options.shards;
  RETURN_IF_ERROR(CheckOptions(options, buffers.size()));
  const int64_t rows = RowsOf(*data, options);
  if (options.first_row < 0 || options.first_row + rows > data->rows()) {
    return DataError("the data has ", data->rows(), " rows, fewer than row ",
                     options.first_row + rows);
  }
  if (rows <= 0) return DataError("the data has no rows");
  options.end_row = options.first_row + rows;
  if (options.drop_last && rows < options.batch_size) {
    return DataError("the data has ", rows, " rows, less than one batch of ", options.batch_size,
                     ", and smaller batches are dropped");
  }
  if (options.shuffle && rows > int64_t{std::numeric_limits<uint32_t>::max()}) {
    return DataError("the data has ", rows, " rows; at most 2^32 can be shuffled");
  }
  std::unique_ptr<Loader> loader(new Loader(data, options));
  RETURN_IF_ERROR(loader->AddColumns(std::move(columns)));
  RETURN_IF_ERROR(loader->AddBuffers(buffers));
  if (!loader->foreground()) {
    loader->thread_ = std::thread([raw = loader.get()] { raw->Run(); });
  }
  return loader;
}

absl::Status Loader::AddColumns(std::vector<LoaderColumn> columns) {
  int64_t scratch = 0;
  for (LoaderColumn& c : columns) {
    const Column* column = data_->Find(c.name);
    if (column == nullptr) return DataError("the data has no column '", c.name, "'");
    ONWARD_CHECK(column->dtype() == c.transform.from && column->dims() == c.transform.from_dims);
    scratch = std::max(scratch, ScratchBytes(*column));
    columns_.push_back(column);
    if (!column->in_memory()) options_.foreground_threads = 0;
  }
  const int parts = std::max(1, options_.foreground_threads);
  for (LoaderColumn& c : columns) {
    converters_.emplace_back(parts, Converter(std::move(c.transform)));
  }
  ASSIGN_OR_RETURN(scratch_, Buffer::Allocate(scratch));
  row_pointers_.resize(kChunk * parts);
  part_status_.resize(parts);
  if (options_.shuffle) order_.resize(rows());
  return absl::OkStatus();
}

absl::Status Loader::AddBuffers(const std::vector<BatchBuffers>& buffers) {
  slots_.resize(options_.buffers);
  ready_.resize(options_.buffers);
  for (int s = 0; s < options_.buffers; ++s) {
    slots_[s].views.resize(columns_.size());
    for (size_t c = 0; c < columns_.size(); ++c) {
      const ColumnTransform& t = converters_[c][0].transform();
      for (int shard = options_.first_shard; shard < options_.end_shard; ++shard) {
        TensorView view;
        view.type.dtype = t.dtype;
        view.type.dims = t.dims;
        view.type.dims.insert(view.type.dims.begin(),
                              ShardRows(options_.batch_size, options_.shards, shard).size());
        if (buffers.empty()) {
          absl::StatusOr<Tensor> memory = Tensor::Allocate(t.dtype, view.type.dims);
          if (!memory.ok()) return WithExitCode(memory.status(), ExitCode::kData);
          view.data = memory->data();
          own_.push_back(*std::move(memory));
        } else {
          ONWARD_CHECK(buffers[s].size() == columns_.size() &&
                       buffers[s][c].size() == static_cast<size_t>(local_shards()));
          view.data = buffers[s][c][shard - options_.first_shard];
        }
        slots_[s].views[c].push_back(std::move(view));
      }
    }
  }
  return absl::OkStatus();
}

Loader::~Loader() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
    ++run_;
  }
  to_thread_.notify_all();
  if (thread_.joinable()) thread_.join();
}

absl::Status Loader::Start(int64_t epoch, int64_t position, int64_t epochs) {
  if (epoch < 0 || epochs < 0 || position < 0 || position > rows()) {
    return DataError("epoch ", epoch, ", position ", position, ": the data has ", rows(), " rows");
  }
  {
    std::lock_guard<std::mutex> lock(mutex_);
    ++run_;
    start_ = cursor_ = {epoch, position, epochs};
    for (; ready_count_ > 0; --ready_count_) {
      slots_[ready_[ready_first_]].state = SlotState::kFree;
      ready_first_ = (ready_first_ + 1) % ready_.size();
    }
    ended_ = false;
    status_ = absl::OkStatus();
  }
  to_thread_.notify_all();
  return absl::OkStatus();
}

absl::StatusOr<Batch> Loader::MakeNext() {
  if (!status_.ok()) return status_;
  Batch batch;
  if (!FindBatch(&cursor_)) return batch;
  const int s = ClaimSlot(run_);
  ONWARD_CHECK(s >= 0);
  TakeRows(&cursor_, &slots_[s]);
  batch.loader_ = this;
  batch.slot_ = s;
  status_ = Fill(run_, &slots_[s]);
  if (!status_.ok()) return status_;
  return batch;
}

absl::StatusOr<Batch> Loader::Next() {
  ONWARD_CHECK(run_ > 0);
  if (foreground()) return MakeNext();
  std::unique_lock<std::mutex> lock(mutex_);
  to_consumer_.wait(lock, [&] { return ready_count_ > 0 || ended_; });
  if (ready_count_ == 0) {
    if (!status_.ok()) return status_;
    return Batch();
  }
  Batch batch;
  batch.loader_ = this;
  batch.slot_ = ready_[ready_first_];
  slots_[batch.slot_].state = SlotState::kTaken;
  ready_first_ = (ready_first_ + 1) % ready_.size();
  --ready_count_;
  return batch;
}

void Loader::Release(int slot) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    slots_[slot].state = SlotState::kFree;
  }
  to_thread_.notify_one();
}

int64_t Loader::batches_per_epoch() const {
  return options_.drop_last ? rows() / options_.batch_size
                            : (rows() + options_.batch_size - 1) / options_.batch_size;
}

int64_t Loader::bytes() const {
  int64_t bytes = scratch_.size() + static_cast<int64_t>(order_.size() * sizeof(uint32_t));
  for (const Tensor& t : own_) bytes += t.bytes();
  return bytes;
}

int64_t Loader::Forecast(const Dataset& data, const std::vector<LoaderColumn>& columns,
                         const LoaderOptions& options, bool own_buffers) {
  int64_t scratch = 0, batch = 0;
  for (const LoaderColumn& c : columns) {
    const Column* column = data.Find(c.name);
    if (column != nullptr) scratch = std::max(scratch, ScratchBytes(*column));
    batch += BatchBytes(c.transform, options);
  }
  return scratch + OrderBytes(data, options) + (own_buffers ? batch * options.buffers : 0);
}

void Loader::Run() {
  int64_t done = 0;  // the last run that was dealt with
  for (;;) {
    Cursor cursor;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      to_thread_.wait(lock, [&] { return stop_ || run_ != done; });
      if (stop_) return;
      done = run_;
      cursor = start_;
    }
    absl::Status status = MakeEpochs(done, cursor);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (run_ == done) {
        ended_ = true;
        status_ = std::move(status);
      }
    }
    to_consumer_.notify_all();
  }
}

bool Loader::Over(int64_t run) {
  std::lock_guard<std::mutex> lock(mutex_);
  return run_ != run;
}

int Loader::ClaimSlot(int64_t run) {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    if (run_ != run) return -1;
    for (size_t s = 0; s < slots_.size(); ++s) {
      if (slots_[s].state != SlotState::kFree) continue;
      slots_[s].state = SlotState::kFilling;
      return static_cast<int>(s);
    }
    to_thread_.wait(lock);
  }
}

int64_t Loader::EndOfEpoch(int64_t position) const {
  if (!options_.drop_last) return rows();
  return position + (rows() - position) / options_.batch_size * options_.batch_size;
}

bool Loader::FindBatch(Cursor* cursor) {
  while (cursor->epochs > 0 && cursor->position >= EndOfEpoch(cursor->position)) {
    --cursor->epochs;
    ++cursor->epoch;
    cursor->position = 0;
  }
  if (cursor->epochs <= 0) return false;
  if (options_.shuffle && ordered_epoch_ != cursor->epoch) {
    ShuffleRows(options_.seed, cursor->epoch, absl::MakeSpan(order_));
    ordered_epoch_ = cursor->epoch;
  }
  return true;
}

void Loader::TakeRows(Cursor* cursor, Slot* slot) const {
  const int64_t end = EndOfEpoch(cursor->position);
  slot->epoch = cursor->epoch;
  slot->position = cursor->position;
  slot->rows = std::min(options_.batch_size, end - cursor->position);
  cursor->position += slot->rows;
  slot->last = cursor->position == end;
}

absl::Status Loader::MakeEpochs(int64_t run, Cursor cursor) {
  while (FindBatch(&cursor)) {
    const int s = ClaimSlot(run);
    if (s < 0) return absl::OkStatus();
    Slot& slot = slots_[s];
    TakeRows(&cursor, &slot);
    const absl::Status status = Fill(run, &slot);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (run_ != run || !status.ok()) {
        slot.state = SlotState::kFree;
        return status;
      }
      slot.state = SlotState::kReady;
      ready_[(ready_first_ + ready_count_) % ready_.size()] = s;
      ++ready_count_;
    }
    to_consumer_.notify_one();
  }
  return absl::OkStatus();
}

absl::Status Loader::Fill(int64_t run, Slot* slot) {
  for (size_t c = 0; c < columns_.size(); ++c) {
    for (int s = 0; s < local_shards(); ++s) {
      const RowRange range = ShardRows(slot->rows, options_.shards, options_.first_shard + s);
      TensorView& view = slot->views[c][s];
      view.type.dims[0] = range.size();
      RETURN_IF_ERROR(FillShard(run, static_cast<int>(c), slot->position + range.begin,
                                range.size(), view.as<char>()));
    }
    RETURN_IF_ERROR(columns_[c]->CheckUnchanged());
  }
  return absl::OkStatus();
}

absl::Status Loader::FillShard(int64_t run, int column, int64_t position, int64_t rows, char* to) {
  const int64_t bytes = rows * converters_[column][0].transform().row_bytes();
  const int parts =
      static_cast<int>(std::min<int64_t>(part_status_.size(), 1 + bytes / kLeastPart));
  const auto fill = [&](int part) {
    part_status_[part] = FillRows(run, column, position, ShardRows(rows, parts, part), to, part);
  };
  if (parts == 1) {
    fill(0);
  } else {
    options_.for_team(parts, fill);
  }
  for (int part = 0; part < parts; ++part) RETURN_IF_ERROR(part_status_[part]);
  return absl::OkStatus();
}

absl::Status Loader::FillRows(int64_t run, int column, int64_t position, RowRange rows, char* to,
                              int part) {
  const Column& from = *columns_[column];
  Converter& converter = converters_[column][part];
  const void** const row_pointers = row_pointers_.data() + part * kChunk;
  const int64_t chunk = ChunkRows(from);
  const int64_t row_bytes = from.row_bytes();
  const auto row_at = [&](int64_t i) {
    return options_.first_row + (options_.shuffle ? int64_t{order_[position + i]} : position + i);
  };
  for (int64_t first = rows.begin; first < rows.end; first += chunk) {
    if (!foreground() && Over(run)) return absl::OkStatus();  // given up: nobody sees the batch
    const int64_t n = std::min(chunk, rows.end - first);
    for (int64_t i = 0; i < n;) {
      const int64_t row = row_at(first + i);
      const void* at = from.Row(row);
      int64_t count = 1;
      if (at == nullptr) {  // neighbours are read together
        while (i + count < n && row_at(first + i + count) == row + count) ++count;
        char* scratch = scratch_.data() + i * row_bytes;
        RETURN_IF_ERROR(from.Read(row, count, scratch));
        for (int64_t k = 0; k < count; ++k) row_pointers[i + k] = scratch + k * row_bytes;
      } else {
        row_pointers[i] = at;
        // Shuffled rows lie anywhere: they are all fetched before the first is converted.
        for (int64_t b = 0; b < std::min(row_bytes, kMostPrefetch); b += kLineBytes) {
          __builtin_prefetch(static_cast<const char*>(at) + b);
        }
      }
      i += count;
    }
    char* out = to + first * converter.transform().row_bytes();
    const int64_t good = converter.Convert(row_pointers, n, out);
    if (good != n) {
      return DataError(from.Where(row_at(first + good)), ", ",
                       converter.Complaint(row_pointers[good]));
    }
  }
  return absl::OkStatus();
}

}  // namespace onward
