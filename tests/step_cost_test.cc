// A step allocates nothing, takes no lock and looks nothing up: the functions of the C
// library that do so are counted while warm steps run, on all threads.
//
// What happens inside oneDNN is its own: it makes a few small objects a call, which its
// interface leaves no way around. That is told by the stack, counted apart, and bounded.
#include <dlfcn.h>
#include <execinfo.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "tests/reference/training_reference.h"
#include "tests/reference_run.h"

namespace {

struct Counts {
  std::atomic<int64_t> allocations{0}, locks{0}, comparisons{0};
  std::atomic<int64_t> primitives{0}, allocations_of_onednn{0}, others_of_onednn{0};
};
Counts counts;
std::atomic<bool> counting{false};
thread_local bool looking = false;  // at the stack, which may itself allocate and lock

// Is oneDNN among the callers?
bool InOneDnn() {
  void* frames[16];
  const int depth = backtrace(frames, 16);
  for (int i = 0; i < depth; ++i) {
    Dl_info found;
    if (dladdr(frames[i], &found) != 0 && found.dli_fname != nullptr &&
        std::string_view(found.dli_fname).find("libdnnl") != std::string_view::npos) {
      return true;
    }
  }
  return false;
}

void Count(std::atomic<int64_t>& ours, std::atomic<int64_t>& of_onednn) {
  if (!counting.load(std::memory_order_relaxed) || looking) return;
  looking = true;
  (InOneDnn() ? of_onednn : ours).fetch_add(1);
  looking = false;
}
void CountAllocation() { Count(counts.allocations, counts.allocations_of_onednn); }

template <typename Function>
Function Next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

// The program's own definitions come before those of libraries.
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

void* malloc(size_t bytes) {
  CountAllocation();
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  CountAllocation();
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, size_t bytes) {
  CountAllocation();
  return __libc_realloc(memory, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  CountAllocation();
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  CountAllocation();
  *memory = __libc_memalign(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}

int pthread_mutex_lock(pthread_mutex_t* mutex) {
  static const auto next = Next<int (*)(pthread_mutex_t*)>("pthread_mutex_lock");
  Count(counts.locks, counts.others_of_onednn);
  return next(mutex);
}

// Names are compared by it, in lists and in tables.
int memcmp(const void* a, const void* b, size_t bytes) {
  Count(counts.comparisons, counts.others_of_onednn);
  const auto* x = static_cast<const volatile unsigned char*>(a);
  const auto* y = static_cast<const volatile unsigned char*>(b);
  for (size_t i = 0; i < bytes; ++i) {
    if (x[i] != y[i]) return x[i] < y[i] ? -1 : 1;
  }
  return 0;
}

int dnnl_primitive_execute(const void* primitive, void* stream, int count, const void* arguments) {
  using Execute = int (*)(const void*, void*, int, const void*);
  static const auto next = Next<Execute>("dnnl_primitive_execute");
  if (counting) counts.primitives.fetch_add(1);
  return next(primitive, stream, count, arguments);
}
}

namespace onward {
namespace {

constexpr int64_t kWarm = 3;  // steps before counting begins

void ExpectFreeSteps(const std::string& model, Setting setting) {
  SCOPED_TRACE(model + ": " + std::to_string(setting.devices) + " devices, " +
               std::to_string(setting.threads) + " threads, " + std::to_string(setting.shards) +
               " shards");
  const auto reference = ReadTrainingReference("tests/reference/training-" + model + ".json");
  ASSERT_TRUE(reference.ok()) << reference.status();
  setting.dtype = DataType::kFloat32;
  setting.dropout = true;
  setting.steps = kWarm + 4;
  for (auto* c : {&counts.allocations, &counts.locks, &counts.comparisons, &counts.primitives,
                  &counts.allocations_of_onednn}) {
    c->store(0);
  }
  setting.watch = [](int64_t step, bool begins) { counting = begins && step >= kWarm; };
  const auto result = TrainOn(*reference, reference->runs[0], setting);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(counts.allocations, 0);
  EXPECT_EQ(counts.locks, 0);
  EXPECT_EQ(counts.comparisons, 0);
  EXPECT_GT(counts.primitives, 0);
  EXPECT_LE(counts.allocations_of_onednn, 10 * counts.primitives);
}

TEST(Counters, See) {
  counting = true;
  std::string text(100, 'a');  // beyond what a string holds itself
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&mutex);
  pthread_mutex_unlock(&mutex);
  const bool same = text == std::string(100, 'b');
  counting = false;
  EXPECT_FALSE(same);
  EXPECT_GE(counts.allocations, 2);
  EXPECT_GE(counts.locks, 1);
  EXPECT_GE(counts.comparisons, 1);
}

Setting On(int devices, int threads, int shards = 0) {
  Setting setting;
  setting.devices = devices;
  setting.threads = threads;
  setting.shards = shards;
  setting.fixed_shards = shards > 0;
  return setting;
}

TEST(Steps, OfAPerceptronCostNothing) {
  for (const Setting& setting : {On(1, 1), On(1, 2), On(2, 2), On(2, 4, 8)}) {
    ExpectFreeSteps("keras_mlp-keras_export-train", setting);
  }
}

TEST(Steps, OfConvolutionalNetsCostNothing) {
  for (const char* model : {"keras_cnn-keras_export-train", "resnet18thin-torch-ts-train"}) {
    for (const Setting& setting : {On(1, 2), On(2, 2)}) ExpectFreeSteps(model, setting);
  }
}

}  // namespace
}  // namespace onward
