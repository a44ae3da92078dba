// Feeds a fuzz target with mutations of small models, always the same for the same seed:
//   import_fuzz_test [--inputs=N] [--seconds=N] [--seed=N] [--keep=FILE] [MODEL...]
// Without models: those of tests/models, of the hostile corpus, and the examples of
// operators. Stops after N inputs or N seconds (--seconds=0: each model once, unchanged). The input
// at work is kept in FILE (default last_input.onnx in the test's folder), so that the one which
// ended the process is there.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "graph/onnx/hostile_models.h"
#include "graph/onnx/schema.h"
#include "graph/onnx/text.h"
#include "graph/ops/operators.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

constexpr size_t kLargestModel = 64 << 10;
constexpr int64_t kMostMemory = int64_t{1} << 30;  // for one input
constexpr unsigned kMostSeconds = 60;              // for one input: a loop without end

std::string Read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

int64_t PeakMemory() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{1024} * usage.ru_maxrss;
}

class Driver {
 public:
  explicit Driver(const std::string& keep)
      : keep_(open(keep.c_str(), O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0600)) {}
  ~Driver() { close(keep_); }

  bool Try(const std::string& bytes) {
    if (ftruncate(keep_, 0) != 0 ||
        pwrite(keep_, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
      std::perror("the input cannot be kept");
      return false;
    }
    const int64_t before = PeakMemory();
    alarm(kMostSeconds);
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    alarm(0);
    ++count_;
    if (PeakMemory() - before <= kMostMemory) return true;
    std::fprintf(stderr, "an input of %zu bytes took more than 1 GB of memory\n", bytes.size());
    return false;
  }

  int count() const { return count_; }

 private:
  int keep_;
  int count_ = 0;
};

// Loops and branches, unrolled and left to data, and sequences.
constexpr const char* kControlFlow[] = {
    R"(g (float[2, 3] x) => (float[2, 3] y) {
      three = Constant <value = int64 {3}> ()
      ten = Constant <value = float {10}> ()
      w = Constant <value = float[3] {0.5, 1.5, 2.5}> ()
      a, s = Loop <body = b (int64 i, bool go, float[2, 3] v) => (bool on, float[2, 3] u, float[2, 3] o) {
        u = Mul(v, w)
        o = Identity(u)
        t = ReduceSum <keepdims = 0> (u)
        on = Less(t, ten)
      }> (three, "", x)
      n = Constant <value = int64[1] {0}> ()
      y = ReduceSum <keepdims = 0> (s, n)
    })",
    R"(g (float[2, 3] x) => (float[2, 3] y) {
      zero = Constant <value = float {0}> ()
      t = ReduceSum <keepdims = 0> (x)
      c = Greater(t, zero)
      y = If (c) <then_branch = p () => (float[2, 3] a) { a = Add(x, x) },
                  else_branch = q () => (float[2, 3] b) { b = Sin(x) }>
    })",
    R"(g (float[3, 2] x, float[2] h) => (float[2] y) {
      y, z = Scan <num_scan_inputs = 1, body = b (float[2] a, float[2] e) => (float[2] n, float[2] o) {
        n = Add(a, e)
        o = Mul(n, e)
      }> (h, x)
    })",
    R"(g (float[4, 2] x) => (float[4, 2] y) {
      two = Constant <value = int64 {2}> ()
      one = Constant <value = int64 {1}> ()
      parts = SplitToSequence <axis = 0> (x, two)
      first = SequenceAt(parts, one)
      more = SequenceInsert(parts, first)
      less = SequenceErase(more, one)
      y = ConcatFromSequence <axis = 0> (less)
    })",
};

std::vector<std::string> Corpus(const std::vector<std::string>& paths) {
  std::vector<std::string> corpus;
  for (const std::string& path : paths) corpus.push_back(Read(path));
  if (!corpus.empty()) return corpus;
  std::vector<std::string> models;
  for (const auto& entry : std::filesystem::directory_iterator("tests/models")) {
    if (entry.path().extension() == ".onnx") models.push_back(entry.path().string());
  }
  std::sort(models.begin(), models.end());
  for (const std::string& path : models) {
    std::string bytes = Read(path);
    if (bytes.size() <= kLargestModel) corpus.push_back(std::move(bytes));
  }
  for (onward::HostileModel& hostile : onward::HostileModels()) {
    if (hostile.bytes.size() <= 4096) corpus.push_back(std::move(hostile.bytes));
  }
  for (const char* text : kControlFlow) {
    const auto bytes =
        onward::ModelFromText(absl::StrCat("<ir_version: 10, opset_import: [\"\" : 21]> ", text));
    if (bytes.ok()) corpus.push_back(onward::WithParameters(*bytes));
  }
  for (const auto& op : onward::StandardOperators().all()) {
    // Of LpPool's lowering the plan may choose a convolution of oneDNN that it then refuses.
    // What is always lowered may write its extents out, as constants or steps: those have no
    // limit yet.
    if (!op->domain.empty() || op->name == "LpPool" || op->always_lower) continue;
    for (const std::string& example : op->examples) {
      const auto bytes = onward::ModelFromText(absl::StrCat(
          "<ir_version: 10, opset_import: [\"\" : ", onward::kCanonicalOpset, "]> ", example));
      if (bytes.ok()) corpus.push_back(onward::WithParameters(*bytes));
    }
  }
  return corpus;
}

}  // namespace

int main(int argc, char** argv) {
  int64_t seconds = INT32_MAX;
  int64_t inputs = INT64_MAX;
  uint64_t seed = 1;
  const char* folder = std::getenv("TEST_TMPDIR");
  std::string keep = absl::StrCat(folder == nullptr ? "." : folder, "/last_input.onnx");
  std::vector<std::string> paths;
  for (int i = 1; i < argc; ++i) {
    absl::string_view word = argv[i];
    if (absl::ConsumePrefix(&word, "--seconds=")) {
      if (!absl::SimpleAtoi(word, &seconds)) return 2;
    } else if (absl::ConsumePrefix(&word, "--inputs=")) {
      if (!absl::SimpleAtoi(word, &inputs)) return 2;
    } else if (absl::ConsumePrefix(&word, "--seed=")) {
      if (!absl::SimpleAtoi(word, &seed)) return 2;
    } else if (absl::ConsumePrefix(&word, "--keep=")) {
      keep = std::string(word);
    } else {
      paths.emplace_back(word);
    }
  }
  const std::vector<std::string> corpus = Corpus(paths);
  Driver driver(keep);
  const auto begin = std::chrono::steady_clock::now();
  if (seconds == 0 || !paths.empty()) {
    for (const std::string& bytes : corpus) {
      if (!driver.Try(bytes)) return 1;
    }
  }
  const auto more = [&] {
    return driver.count() < inputs &&
           std::chrono::steady_clock::now() - begin < std::chrono::seconds(seconds);
  };
  for (; more(); ++seed) {
    std::string bytes = corpus[seed % corpus.size()];
    // Some inputs are changed again and again.
    for (uint64_t turn = 0; turn <= seed % 5; ++turn) {
      bytes = onward::MutatedModel(bytes, seed * 8 + turn);
    }
    if (!driver.Try(bytes)) return 1;
  }
  std::printf("%d inputs, the next seed is %llu\n", driver.count(),
              static_cast<unsigned long long>(seed));
  return 0;
}
