#include "backend/data/loader.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <new>
#include <set>

#include "backend/data/npy.h"
#include "backend/data/test_files.h"

namespace {
std::atomic<int64_t> allocations{0};
}
// Not inlined: the compiler would take malloc and delete for a mismatch.
__attribute__((noinline)) void* operator new(size_t n) {
  ++allocations;
  void* p = std::malloc(n == 0 ? 1 : n);
  if (p == nullptr) std::abort();
  return p;
}
__attribute__((noinline)) void operator delete(void* p) noexcept { std::free(p); }
__attribute__((noinline)) void operator delete(void* p, size_t) noexcept { std::free(p); }

namespace onward {
namespace {

// Rows 0 .. n-1: x = {row, row + 0.5}, labels = row % 10.
Dataset Numbered(int64_t n) {
  Tensor x(DataType::kFloat32, {n, 2}), y(DataType::kUint8, {n});
  for (int64_t i = 0; i < n; ++i) {
    x.mutable_values<float>()[2 * i] = static_cast<float>(i);
    x.mutable_values<float>()[2 * i + 1] = i + 0.5f;
    y.mutable_values<uint8_t>()[i] = i % 10;
  }
  Dataset data;
  EXPECT_TRUE(data.Add(ColumnOf("x", x)).ok());
  EXPECT_TRUE(data.Add(ColumnOf("labels", y)).ok());
  return data;
}

std::vector<LoaderColumn> Columns(const Dataset& data) {
  std::vector<std::string> notes;
  LabelSpec labels;
  labels.classes = 10;
  return {{"x", *FitInput(*data.Find("x"), {"x", DataType::kFloat32, {2}}, {}, &notes)},
          {"labels", *FitLabels(*data.Find("labels"), labels, &notes)}};
}

// Every test runs with batches made in the background (0), and by so many threads in the
// foreground.
int foreground_threads = 0;
class LoaderTest : public testing::TestWithParam<int> {
  void SetUp() override { foreground_threads = GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Threads, LoaderTest, testing::Values(0, 1, 3));

std::unique_ptr<Loader> Make(const Dataset& data, LoaderOptions options,
                             std::vector<BatchBuffers> buffers = {}) {
  options.foreground_threads = foreground_threads;
  options.for_team = [](int count, absl::FunctionRef<void(int)> body) {
    for (int i = count; i > 0; --i) body(i - 1);
  };
  auto loader = Loader::Create(&data, Columns(data), options, std::move(buffers));
  EXPECT_TRUE(loader.ok()) << loader.status();
  return std::move(*loader);
}

// The row numbers of all batches until the end, checked against their labels.
std::vector<int64_t> Drain(Loader* loader) {
  std::vector<int64_t> rows;
  for (;;) {
    auto batch = loader->Next();
    EXPECT_TRUE(batch.ok()) << batch.status();
    if (!batch.ok() || !*batch) return rows;
    for (int64_t i = 0; i < batch->rows(); ++i) {
      const float* x = batch->view(0).as<float>() + 2 * i;
      EXPECT_EQ(x[1], x[0] + 0.5f);
      EXPECT_EQ(batch->view(1).as<int64_t>()[i], static_cast<int64_t>(x[0]) % 10);
      rows.push_back(static_cast<int64_t>(x[0]));
    }
  }
}

TEST_P(LoaderTest, APartOfTheRowsIsADataSetOfItsOwn) {
  const Dataset data = Numbered(10);
  LoaderOptions options;
  options.batch_size = 4;
  options.shuffle = true;
  options.first_row = 3;
  options.end_row = 9;
  auto loader = Make(data, options);
  EXPECT_EQ(loader->rows(), 6);
  EXPECT_EQ(loader->batches_per_epoch(), 2);
  ASSERT_TRUE(loader->Start(0, 0, 1).ok());
  std::vector<int64_t> rows = Drain(loader.get());
  std::sort(rows.begin(), rows.end());
  EXPECT_EQ(rows, (std::vector<int64_t>{3, 4, 5, 6, 7, 8}));
  options.end_row = 11;
  EXPECT_FALSE(Loader::Create(&data, Columns(data), options).ok());
}

TEST_P(LoaderTest, SequentialGivesRowsInOrderAndASmallLastBatch) {
  const Dataset data = Numbered(10);
  LoaderOptions options;
  options.batch_size = 4;
  options.shuffle = false;
  auto loader = Make(data, options);
  EXPECT_EQ(loader->batches_per_epoch(), 3);
  ASSERT_TRUE(loader->Start(0, 0, 1).ok());
  for (int64_t i = 0; i < 3; ++i) {
    auto batch = loader->Next();
    ASSERT_TRUE(batch.ok());
    EXPECT_EQ(batch->position(), 4 * i);
    EXPECT_EQ(batch->rows(), i == 2 ? 2 : 4);
    EXPECT_EQ(batch->last(), i == 2);
    EXPECT_EQ(batch->view(0).type.dims, (Dims{batch->rows(), 2}));
    EXPECT_EQ(batch->view(0).as<float>()[0], 4.0f * i);
  }
  EXPECT_FALSE(*loader->Next());
  EXPECT_FALSE(*loader->Next());
}

// Batches of 56 KB, which several threads share.
TEST_P(LoaderTest, LargeBatchesHaveEveryRowOnce) {
  const Dataset data = Numbered(20000);
  LoaderOptions options;
  options.batch_size = 7001;
  auto loader = Make(data, options);
  ASSERT_TRUE(loader->Start(0, 0, 1).ok());
  std::vector<int64_t> rows = Drain(loader.get());
  ASSERT_EQ(rows.size(), 20000u);
  std::sort(rows.begin(), rows.end());
  for (int64_t i = 0; i < 20000; ++i) ASSERT_EQ(rows[i], i);
}

TEST_P(LoaderTest, DropLastLeavesTheSmallBatchOut) {
  const Dataset data = Numbered(10);
  LoaderOptions options;
  options.batch_size = 4;
  options.drop_last = true;
  auto loader = Make(data, options);
  EXPECT_EQ(loader->batches_per_epoch(), 2);
  ASSERT_TRUE(loader->Start(0, 0, 1).ok());
  EXPECT_EQ(Drain(loader.get()).size(), 8u);
  options.batch_size = 11;
  EXPECT_FALSE(Loader::Create(&data, Columns(data), options).ok());
}

TEST_P(LoaderTest, EveryEpochIsAnotherPermutation) {
  const Dataset data = Numbered(1000);
  LoaderOptions options;
  options.batch_size = 7;
  options.seed = 5;
  auto loader = Make(data, options);
  ASSERT_TRUE(loader->Start(0, 0, 3).ok());
  const std::vector<int64_t> rows = Drain(loader.get());
  ASSERT_EQ(rows.size(), 3000u);
  std::set<std::vector<int64_t>> orders;
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::vector<int64_t> one(rows.begin() + 1000 * epoch, rows.begin() + 1000 * (epoch + 1));
    orders.insert(one);
    std::sort(one.begin(), one.end());
    for (int64_t i = 0; i < 1000; ++i) ASSERT_EQ(one[i], i);
  }
  EXPECT_EQ(orders.size(), 3u);
}

// The order is part of what a resumed run relies on: it must never change.
TEST_P(LoaderTest, TheOrderIsFixedForAllTime) {
  std::vector<uint32_t> order(8);
  ShuffleRows(1, 0, absl::MakeSpan(order));
  EXPECT_EQ(order, (std::vector<uint32_t>{2, 4, 1, 7, 6, 0, 5, 3}));
}

TEST_P(LoaderTest, TheOrderIsUniform) {
  // Each of the 24 permutations of 4 rows about equally often (chi-squared).
  std::vector<uint32_t> order(4);
  std::vector<int> count(256);
  for (int64_t epoch = 0; epoch < 24000; ++epoch) {
    ShuffleRows(9, epoch, absl::MakeSpan(order));
    ++count[order[0] | order[1] << 2 | order[2] << 4 | order[3] << 6];
  }
  double chi = 0;
  int seen = 0;
  for (int c : count) {
    if (c > 0) ++seen;
    if (c > 0) chi += (c - 1000.0) * (c - 1000.0) / 1000;
  }
  EXPECT_EQ(seen, 24);
  EXPECT_LT(chi, 49.7);  // 23 degrees of freedom, 0.1 %
}

TEST_P(LoaderTest, ResumesInMidEpochWithAnyBatchSize) {
  const Dataset data = Numbered(100);
  LoaderOptions options;
  options.batch_size = 9;
  options.seed = 3;
  auto loader = Make(data, options);
  ASSERT_TRUE(loader->Start(0, 0, 2).ok());
  const std::vector<int64_t> all = Drain(loader.get());
  options.batch_size = 32;
  options.buffers = 2;
  auto other = Make(data, options);
  for (int64_t position : {0, 1, 41, 99, 100}) {
    ASSERT_TRUE(other->Start(0, position, 2).ok());
    EXPECT_EQ(Drain(other.get()), std::vector<int64_t>(all.begin() + position, all.end()))
        << position;
  }
  EXPECT_FALSE(other->Start(0, 101).ok());
  EXPECT_FALSE(other->Start(-1, 0).ok());
}

TEST_P(LoaderTest, ShardsAreSlicesOfTheGlobalBatchWrittenToGivenBuffers) {
  const Dataset data = Numbered(23);
  LoaderOptions options;
  options.batch_size = 10;
  options.seed = 3;
  auto whole = Make(data, options);
  options.shards = 3;
  options.first_shard = 1;
  options.end_shard = 3;
  options.buffers = 2;
  std::vector<float> x[2][2];
  std::vector<int64_t> y[2][2];
  std::vector<BatchBuffers> buffers(2, BatchBuffers(2, std::vector<void*>(2)));
  for (int b = 0; b < 2; ++b) {
    for (int s = 0; s < 2; ++s) {
      x[b][s].resize(3 * 2);
      y[b][s].resize(3);
      buffers[b][0][s] = x[b][s].data();
      buffers[b][1][s] = y[b][s].data();
    }
  }
  auto sharded = Make(data, options, buffers);
  EXPECT_EQ(sharded->bytes(), Loader::Forecast(data, Columns(data), options, false));
  ASSERT_TRUE(whole->Start(4, 0, 1).ok());
  ASSERT_TRUE(sharded->Start(4, 0, 1).ok());
  for (int i = 0; i < 3; ++i) {
    const Batch all = *whole->Next(), part = *sharded->Next();
    ASSERT_EQ(part.rows(), i == 2 ? 3 : 10);
    for (int shard : {1, 2}) {
      const RowRange range = ShardRows(part.rows(), 3, shard);
      ASSERT_EQ(part.view(0, shard).type.dims[0], range.size());
      EXPECT_EQ(part.view(0, shard).data, x[part.buffer()][shard - 1].data());
      for (int64_t r = 0; r < range.size(); ++r) {
        EXPECT_EQ(part.view(0, shard).as<float>()[2 * r],
                  all.view(0).as<float>()[2 * (range.begin + r)]);
        EXPECT_EQ(part.view(1, shard).as<int64_t>()[r], all.view(1).as<int64_t>()[range.begin + r]);
      }
    }
  }
}

TEST_P(LoaderTest, ShardSizesDifferByAtMostOne) {
  for (int64_t rows : {0, 1, 5, 128, 129}) {
    for (int shards : {1, 2, 3, 8}) {
      int64_t at = 0;
      for (int s = 0; s < shards; ++s) {
        const RowRange r = ShardRows(rows, shards, s);
        EXPECT_EQ(r.begin, at);
        EXPECT_TRUE(r.size() == rows / shards || r.size() == rows / shards + 1);
        at = r.end;
      }
      EXPECT_EQ(at, rows);
    }
  }
}

TEST_P(LoaderTest, ErrorsComeInTheBatchsPlace) {
  Dataset data = Numbered(20);
  Tensor y(DataType::kUint8, {20});
  y.mutable_values<uint8_t>()[13] = 10;
  Dataset bad;
  ASSERT_TRUE(bad.Add(std::move(data.mutable_columns()[0])).ok());
  ASSERT_TRUE(bad.Add(ColumnOf("labels", y)).ok());
  LoaderOptions options;
  options.batch_size = 5;
  options.shuffle = false;
  auto loader = Make(bad, options);
  ASSERT_TRUE(loader->Start(0).ok());
  EXPECT_EQ(loader->Next()->position(), 0);
  EXPECT_EQ(loader->Next()->position(), 5);
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = loader->Next().status();
    ExpectDataError(
        status, "labels.file: row 13, label 10 is no class: integers from 0 to 9 were expected");
  }
  ASSERT_TRUE(loader->Start(0, 15, 1).ok());
  EXPECT_TRUE(loader->Next().ok());
}

TEST_P(LoaderTest, NanIsNamedByRowOfItsFile) {
  Tensor x(DataType::kFloat32, {30, 2});
  Column column = ColumnOf("first", x);
  x.mutable_values<float>()[2 * 7 + 1] = NAN;
  Column second = ColumnOf("second", x);
  column.set_name("x");
  ASSERT_TRUE(column.Append(std::move(second)).ok());
  Dataset data;
  ASSERT_TRUE(data.Add(std::move(column)).ok());
  ASSERT_TRUE(data.Add(ColumnOf("labels", Tensor(DataType::kUint8, {60}))).ok());
  auto loader = Make(data, {});
  ASSERT_TRUE(loader->Start(0).ok());
  absl::Status status;
  for (int i = 0; i < 2 && status.ok(); ++i) status = loader->Next().status();
  ExpectDataError(status, "second.file: row 7, element [1] is NaN");
}

TEST_P(LoaderTest, RowsThatStayInTheirFileAreReadAsBatchesAreMade) {
  const Dataset memory = Numbered(300);
  Tensor x(DataType::kFloat32, {300, 2});
  ASSERT_TRUE(memory.Find("x")->Read(0, 300, x.data()).ok());
  const std::string path = TestPath("rows.npy");
  ASSERT_TRUE(WriteNpy(path, x.view()).ok());
  ReadOptions read;
  read.read_whole_bytes = 0;
  auto reader = ByteReader::Open(path);
  Column column = *ReadNpy(**reader, "x", read);
  EXPECT_EQ(column.bytes(), 0);
  Dataset data;
  ASSERT_TRUE(data.Add(std::move(column)).ok());
  Tensor y(DataType::kUint8, {300});
  ASSERT_TRUE(memory.Find("labels")->Read(0, 300, y.data()).ok());
  ASSERT_TRUE(data.Add(ColumnOf("labels", y)).ok());
  for (bool shuffle : {false, true}) {
    LoaderOptions options;
    options.batch_size = 130;
    options.shuffle = shuffle;
    auto from_memory = Make(memory, options), from_file = Make(data, options);
    EXPECT_EQ(from_file->bytes(), Loader::Forecast(data, Columns(data), options, true));
    ASSERT_TRUE(from_memory->Start(1, 0, 1).ok());
    ASSERT_TRUE(from_file->Start(1, 0, 1).ok());
    EXPECT_EQ(Drain(from_memory.get()), Drain(from_file.get()));
  }
  // Cut short while in use: an error, no signal.
  LoaderOptions options;
  options.batch_size = 10;
  auto loader = Make(data, options);
  WriteFile("rows.npy", ReadWholeFile(path).substr(0, 500));
  ASSERT_TRUE(loader->Start(0).ok());
  ExpectDataError(loader->Next().status(), "rows.npy");
}

TEST_P(LoaderTest, AStepAllocatesNothing) {
  const Dataset data = Numbered(5000);
  LoaderOptions options;
  options.batch_size = 16;
  auto loader = Make(data, options);
  EXPECT_EQ(loader->bytes(), Loader::Forecast(data, Columns(data), options, true));
  ASSERT_TRUE(loader->Start(0).ok());
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(loader->Next().ok());
  const int64_t before = allocations;
  for (int i = 0; i < 1000; ++i) {
    if (!loader->Next().ok()) std::abort();
  }
  EXPECT_EQ(allocations, before);
}

TEST_P(LoaderTest, HeldBatchesStayAsTheyAre) {
  const Dataset data = Numbered(100);
  LoaderOptions options;
  options.batch_size = 10;
  options.shuffle = false;
  options.buffers = 4;
  auto loader = Make(data, options);
  ASSERT_TRUE(loader->Start(0).ok());
  Batch first = *loader->Next(), second = *loader->Next();
  for (int i = 0; i < 30; ++i) ASSERT_TRUE(loader->Next().ok());
  ASSERT_TRUE(loader->Start(3, 50).ok());  // another run leaves them alone, too
  EXPECT_EQ(loader->Next()->position(), 50);
  EXPECT_EQ(first.view(0).as<float>()[0], 0);
  EXPECT_EQ(second.view(0).as<float>()[0], 10);
  first.Release();
}

TEST_P(LoaderTest, StopsPromptlyWhereverItIs) {
  const Dataset data = Numbered(2000);
  for (int i = 0; i < 200; ++i) {
    LoaderOptions options;
    options.batch_size = 1 + i * 7;
    auto loader = Make(data, options);
    if (i % 3 == 0) continue;
    ASSERT_TRUE(loader->Start(0).ok());
    for (int k = 0; k < i % 5; ++k) ASSERT_TRUE(loader->Next().ok());
    if (i % 2 == 0) {
      ASSERT_TRUE(loader->Start(1, i).ok());
    }
    if (i % 4 == 0) {
      const Batch batch = *loader->Next();
      EXPECT_EQ(batch.epoch(), 1);
      EXPECT_EQ(batch.position(), i);
    }
  }
}

TEST_P(LoaderTest, SenselessOptionsAreUsageErrors) {
  const Dataset data = Numbered(10);
  LoaderOptions batch, shards, buffers;
  batch.batch_size = 0;
  shards.shards = 2;
  shards.first_shard = 2;
  buffers.buffers = 1;
  for (const LoaderOptions& options : {batch, shards, buffers}) {
    EXPECT_EQ(ExitCodeOf(Loader::Create(&data, Columns(data), options).status()), ExitCode::kUsage);
  }
  const Dataset empty;
  EXPECT_EQ(ExitCodeOf(Loader::Create(&empty, {}, {}).status()), ExitCode::kData);
}

}  // namespace
}  // namespace onward
