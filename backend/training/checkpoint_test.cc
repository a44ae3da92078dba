#include "backend/training/checkpoint.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "backend/training/checkpoint_format.h"
#include "graph/base/errors.h"

namespace onward {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// What a run might hold after `step` steps: all kinds, a scalar, an empty tensor.
std::vector<NamedTensor> StatesAt(int64_t step) {
  std::vector<NamedTensor> states;
  const auto add = [&](const std::string& name, State::Kind kind, Tensor value) {
    states.push_back({name, kind, std::move(value)});
  };
  add("fc.weight", State::Kind::kParameter,
      Tensor::Full(DataType::kFloat32, {300, 100}, 1.5 * step));
  add("fc.bias", State::Kind::kFrozen, Tensor::Full(DataType::kFloat64, {7}, -step));
  add("bn.mean", State::Kind::kStatistic, Tensor::Full(DataType::kFloat16, {3}, 0.5));
  add("none", State::Kind::kMoment, Tensor(DataType::kFloat32, {0, 4}));
  add("onward/step", State::Kind::kCounter, Tensor::Scalar<int64_t>(step));
  return states;
}

json TrainingAt(int64_t step) {
  return {{"epoch", step / 10}, {"position", step * 32}, {"best", 0.1 + 0.2}, {"seed", UINT64_MAX}};
}

bool Equal(const Tensor& a, const Tensor& b) {
  return a.type() == b.type() && std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

// Empty where the checkpoint holds all of StatesAt(its step), else what is wrong.
std::string Differences(const CheckpointReader& reader) {
  const std::vector<NamedTensor> states = StatesAt(reader.step());
  if (reader.states().size() != states.size()) return "number of states";
  for (size_t i = 0; i < states.size(); ++i) {
    if (reader.states()[i].name != states[i].name || reader.states()[i].kind != states[i].kind) {
      return states[i].name;
    }
    const absl::StatusOr<Tensor> value = reader.Read(states[i].name);
    if (!value.ok()) return std::string(value.status().message());
    if (!Equal(*value, states[i].value)) return states[i].name + " has other values";
  }
  return reader.training() == TrainingAt(reader.step()) ? "" : "training";
}

class CheckpointTest : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = absl::StrCat(testing::TempDir(), "/checkpoint_",
                        testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(dir_);
  }
  absl::Status Write(int64_t step, bool best = false, int64_t keep = 3) {
    CheckpointOptions options;
    options.dir = dir_;
    options.step = step;
    options.fingerprint = "f";
    options.keep = keep;
    options.best = best;
    return WriteCheckpoint(options, StatesAt(step), TrainingAt(step), &warnings_).status();
  }
  std::string Path(int64_t step, const std::string& file = "") const {
    return absl::StrCat(dir_, "/", CheckpointName(step), file.empty() ? "" : "/", file);
  }
  // Names in the folder, sorted, without the lock.
  std::string Names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(dir_)) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    std::string out;
    for (const std::string& name : names) {
      if (name != ".lock") absl::StrAppend(&out, out.empty() ? "" : " ", name);
    }
    return out;
  }
  std::string dir_;
  std::vector<std::string> warnings_;
};

TEST_F(CheckpointTest, WhatIsWrittenIsRead) {
  ASSERT_TRUE(Write(123).ok());
  EXPECT_EQ(Names(), "step-00000123");
  const absl::StatusOr<CheckpointReader> reader = OpenCheckpoint(Path(123));
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(reader->step(), 123);
  EXPECT_EQ(reader->fingerprint(), "f");
  EXPECT_EQ(reader->path(), Path(123));
  EXPECT_EQ(Differences(*reader), "");
  for (const auto& entry : reader->states()) EXPECT_EQ(entry.offset % 64, 0) << entry.name;
  EXPECT_EQ(reader->Find("other"), nullptr);
  EXPECT_EQ(ExitCodeOf(reader->Read("other").status()), ExitCode::kNoCheckpoint);
}

TEST_F(CheckpointTest, TheNewestThatVerifiesIsFound) {
  EXPECT_EQ(ExitCodeOf(NewestCheckpoint(dir_, &warnings_).status()), ExitCode::kNoCheckpoint);
  for (int64_t step : {10, 20, 30}) ASSERT_TRUE(Write(step).ok());
  EXPECT_EQ(NewestCheckpoint(dir_, &warnings_)->step(), 30);
  EXPECT_TRUE(warnings_.empty());
  fs::resize_file(Path(30, "states.bin"), 1000);
  fs::remove(Path(20, "manifest.json"));
  const absl::StatusOr<CheckpointReader> newest = NewestCheckpoint(dir_, &warnings_);
  ASSERT_TRUE(newest.ok()) << newest.status();
  EXPECT_EQ(newest->step(), 10);
  ASSERT_EQ(warnings_.size(), 2u);
  EXPECT_TRUE(absl::StrContains(warnings_[0], Path(30))) << warnings_[0];
  EXPECT_TRUE(absl::StrContains(warnings_[1], Path(20))) << warnings_[1];
  fs::remove_all(Path(10));
  EXPECT_EQ(ExitCodeOf(NewestCheckpoint(dir_, nullptr).status()), ExitCode::kNoCheckpoint);
}

TEST_F(CheckpointTest, TheOldestGoAndTheBestStays) {
  ASSERT_TRUE(Write(1).ok());
  ASSERT_TRUE(Write(2, /*best=*/true).ok());
  for (int64_t step : {3, 4, 5}) ASSERT_TRUE(Write(step).ok());
  EXPECT_EQ(Names(), "step-00000002 step-00000003 step-00000004 step-00000005");
  EXPECT_EQ(BestCheckpoint(dir_)->step(), 2);
  ASSERT_TRUE(Write(6, /*best=*/true, /*keep=*/1).ok());
  EXPECT_EQ(Names(), "step-00000006");
  for (int64_t step : {7, 8, 9}) ASSERT_TRUE(Write(step, false, /*keep=*/0).ok());
  EXPECT_EQ(Names(), "step-00000006 step-00000007 step-00000008 step-00000009");
  EXPECT_EQ(BestCheckpoint(dir_)->step(), 6);
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(CheckpointTest, WithoutAMarkThereIsNoBest) {
  ASSERT_TRUE(Write(1).ok());
  EXPECT_EQ(ExitCodeOf(BestCheckpoint(dir_).status()), ExitCode::kNoCheckpoint);
}

TEST_F(CheckpointTest, OneOfTheSameStepIsReplaced) {
  ASSERT_TRUE(Write(5).ok());
  CheckpointOptions options;
  options.dir = dir_;
  options.step = 5;
  ASSERT_TRUE(WriteCheckpoint(options, StatesAt(5), {{"epoch", 77}}, nullptr).ok());
  EXPECT_EQ(Names(), "step-00000005");
  EXPECT_EQ(NewestCheckpoint(dir_, nullptr)->training()["epoch"], 77);
}

TEST_F(CheckpointTest, AnyChangedByteIsFound) {
  ASSERT_TRUE(Write(1).ok());
  const CheckpointReader reader = *OpenCheckpoint(Path(1));
  const auto flip = [&](const std::string& file, int64_t at) {
    std::fstream stream(Path(1, file), std::ios::binary | std::ios::in | std::ios::out);
    stream.seekg(at);
    const char byte = static_cast<char>(stream.get());
    stream.seekp(at);
    stream.put(static_cast<char>(byte ^ 4));
  };
  for (const auto& entry : reader.states()) {
    if (entry.bytes == 0) continue;
    for (const int64_t at : {entry.offset, entry.offset + entry.bytes - 1}) {
      flip("states.bin", at);
      EXPECT_EQ(ExitCodeOf(OpenCheckpoint(Path(1)).status()), ExitCode::kNoCheckpoint);
      EXPECT_FALSE(reader.Read(entry.name).ok()) << entry.name;
      flip("states.bin", at);
    }
  }
  const int64_t size = static_cast<int64_t>(fs::file_size(Path(1, "manifest.json")));
  for (int64_t at = 0; at < size - 1; at += 3) {  // the last byte is a newline
    flip("manifest.json", at);
    EXPECT_FALSE(OpenCheckpoint(Path(1)).ok()) << "byte " << at;
    flip("manifest.json", at);
  }
  EXPECT_TRUE(OpenCheckpoint(Path(1)).ok());
}

// Manifests that state their own checksum rightly, and lie.
TEST_F(CheckpointTest, HostileManifestsAreErrors) {
  ASSERT_TRUE(Write(1).ok());
  std::ifstream file(Path(1, "manifest.json"));
  const json good = json::parse(file);
  const auto refused = [&](const std::function<void(json*)>& change) {
    json manifest = good;
    manifest.erase("xxh64");
    change(&manifest);
    const std::string rest = manifest.dump();
    if (manifest.is_object()) {
      manifest["xxh64"] = checkpoint_format::ChecksumText(
          checkpoint_format::Checksum(rest.data(), static_cast<int64_t>(rest.size())));
    }
    std::ofstream(Path(1, "manifest.json")) << manifest.dump();
    return ExitCodeOf(OpenCheckpoint(Path(1)).status());
  };
  EXPECT_EQ(refused([](json*) {}), ExitCode::kDone);
  const auto state = [](const char* field, json value) {
    return [field, value](json* m) { (*m)["states"][0][field] = value; };
  };
  const int64_t most = INT64_MAX;
  const std::vector<std::function<void(json*)>> changes = {
      state("offset", -64),
      state("offset", 1),
      state("offset", most / 64 * 64),
      state("offset", UINT64_MAX),
      state("offset", 64),
      state("bytes", -1),
      state("bytes", most),
      state("bytes", 119999),
      state("bytes", 0),
      state("bytes", 1.5),
      state("dims", {-300, -100}),
      state("dims", {most, 2}),
      state("dims", {1 << 30, 1 << 30, 1 << 30}),
      state("dims", "x"),
      state("dims", std::vector<int>(100, 1)),
      state("dims", {0.5}),
      state("dtype", "float31"),
      state("dtype", "string"),
      state("dtype", 1),
      state("kind", "other"),
      state("name", ""),
      state("name", "fc.bias"),
      state("name", 3),
      state("xxh64", "0"),
      state("xxh64", "zzzzzzzzzzzzzzzz"),
      [](json* m) { (*m)["states"][0] = 7; },
      [](json* m) { (*m)["states"].erase(4); },
      [](json* m) { (*m)["states"].push_back((*m)["states"][1]); },
      [](json* m) { std::swap((*m)["states"][0], (*m)["states"][1]); },
      [](json* m) { (*m)["states"] = 3; },
      [](json* m) { m->erase("states"); },
      [](json* m) { m->erase("training"); },
      [](json* m) { (*m)["version"] = 2; },
      [](json* m) { (*m)["step"] = -1; },
      [](json* m) { (*m)["format"] = "other"; },
      [](json* m) { *m = json::array(); },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    EXPECT_EQ(refused(changes[i]), ExitCode::kNoCheckpoint) << "change " << i;
  }
}

TEST_F(CheckpointTest, DeepLongAndStrangeManifestsAreErrors) {
  ASSERT_TRUE(Write(1).ok());
  const std::string path = Path(1, "manifest.json");
  const auto refused = [&](const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
    return ExitCodeOf(OpenCheckpoint(Path(1)).status()) == ExitCode::kNoCheckpoint;
  };
  EXPECT_TRUE(refused(""));
  EXPECT_TRUE(refused(std::string(1000000, '[')));
  EXPECT_TRUE(refused(std::string(500000, '[') + std::string(500000, ']')));
  EXPECT_TRUE(refused("{\"training\":" + std::string(100, '[') + std::string(100, ']') + "}"));
  EXPECT_TRUE(refused("{\"format\":\"\xff\xfe\"}"));
  EXPECT_TRUE(refused("null"));
  fs::resize_file(path, int64_t{1} << 40);  // sparse
  EXPECT_EQ(ExitCodeOf(OpenCheckpoint(Path(1)).status()), ExitCode::kNoCheckpoint);
  fs::remove(path);
  fs::create_directory(path);
  EXPECT_EQ(ExitCodeOf(OpenCheckpoint(Path(1)).status()), ExitCode::kNoCheckpoint);
}

TEST_F(CheckpointTest, AFullDiskLeavesTheOldOnesAlone) {
  ASSERT_TRUE(Write(1).ok());
  ASSERT_TRUE(Write(2).ok());
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    int code = 0;
    for (const rlim_t most : {rlim_t{0}, rlim_t{64}, rlim_t{50000}, rlim_t{120000}}) {
      const rlimit limit = {most, RLIM_INFINITY};
      if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(100);
      if (ExitCodeOf(Write(2)) != ExitCode::kOutput) code |= 1;
      if (ExitCodeOf(Write(3)) != ExitCode::kOutput) code |= 2;
    }
    _exit(code);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(Names(), "step-00000001 step-00000002");
  const absl::StatusOr<CheckpointReader> newest = NewestCheckpoint(dir_, &warnings_);
  ASSERT_TRUE(newest.ok()) << newest.status();
  EXPECT_EQ(newest->step(), 2);
  EXPECT_EQ(Differences(*newest), "");
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(CheckpointTest, UnwritableFoldersAreSaid) {
  const std::string folder = dir_;
  fs::create_directory(folder);
  std::ofstream(folder + "/file") << "x";
  for (const std::string& bad : {folder + "/file", folder + "/file/under", std::string()}) {
    dir_ = bad;
    const absl::Status status = Write(1);
    EXPECT_EQ(ExitCodeOf(status), ExitCode::kOutput) << bad;
    EXPECT_TRUE(absl::StrContains(status.message(), bad)) << status;
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 1);
}

TEST_F(CheckpointTest, WrongStatesAreRefused) {
  CheckpointOptions options;
  options.dir = dir_;
  const auto write = [&](const std::string& a, const std::string& b, json training) {
    std::vector<NamedTensor> states;
    states.push_back({a, State::Kind::kParameter, Tensor::Scalar<float>(1)});
    states.push_back({b, State::Kind::kParameter, Tensor::Scalar<float>(2)});
    return WriteCheckpoint(options, states, training, nullptr).ok();
  };
  EXPECT_TRUE(write("a", "b", {}));
  EXPECT_FALSE(write("a", "a", {}));
  EXPECT_FALSE(write("a", "", {}));
  EXPECT_FALSE(write("a", "\xff", {}));
  EXPECT_FALSE(write("a", "b", "\xff"));
  options.step = -1;
  EXPECT_FALSE(write("a", "b", {}));
}

TEST_F(CheckpointTest, AnotherWriterIsWaitedForAndLeftAlone) {
  ASSERT_TRUE(Write(1).ok());
  // What a live writer has made so far stays as long as it holds the lock.
  const int fd = open((dir_ + "/.lock").c_str(), O_RDWR);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(flock(fd, LOCK_EX), 0);
  fs::create_directory(dir_ + "/.step-00000002.tmp-1");
  const pid_t child = fork();
  if (child == 0) {
    close(fd);  // children share locks
    _exit(Write(3).ok() ? 0 : 1);
  }
  usleep(100000);
  EXPECT_EQ(waitpid(child, nullptr, WNOHANG), 0);
  EXPECT_EQ(Names(), ".step-00000002.tmp-1 step-00000001");
  close(fd);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(Names(), "step-00000001 step-00000003");
}

// Runs `body` in a child that is killed (SIGKILL) as it enters its system call number
// `calls`. False where it ended before, or where children cannot be traced here.
bool KilledAtCall(int calls, const std::function<void()>& body, bool* traced) {
  const pid_t child = fork();
  if (child == 0) {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(99);
    raise(SIGSTOP);
    body();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  *traced = WIFSTOPPED(status);
  if (!*traced) return false;
  // Two stops per call: entry and return.
  for (int stops = 0; stops < 2 * calls - 1; ++stops) {
    if (ptrace(PTRACE_SYSCALL, child, nullptr, nullptr) != 0) break;
    waitpid(child, &status, 0);
    if (WIFEXITED(status)) return false;
  }
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  return true;
}

// At every single system call of a writer: a new checkpoint, with the removal of an
// older one (`replace` false), and one of the same step.
void KillAtEveryCall(const std::string& dir, bool replace,
                     const std::function<absl::Status(int64_t)>& write) {
  bool traced = true;
  int kills = 0, old = 0, fresh = 0;
  const std::string start = dir + "_start";
  fs::remove_all(start);
  for (const int64_t step : {1, 2, 3}) ASSERT_TRUE(write(step).ok());
  fs::rename(dir, start);
  for (int calls = 1; calls < 2000; ++calls) {
    fs::remove_all(dir);
    fs::copy(start, dir, fs::copy_options::recursive);
    const int64_t step = replace ? 3 : 4;
    if (!KilledAtCall(
            calls, [&] { (void)write(step); }, &traced))
      break;
    ++kills;
    std::vector<std::string> warnings;
    const absl::StatusOr<CheckpointReader> newest = NewestCheckpoint(dir, &warnings);
    ASSERT_TRUE(newest.ok()) << "killed at call " << calls << ": " << newest.status();
    ASSERT_TRUE(warnings.empty()) << "killed at call " << calls << ": " << warnings[0];
    ASSERT_EQ(Differences(*newest), "") << "killed at call " << calls;
    ASSERT_GE(newest->step(), 3) << "killed at call " << calls;
    ++(newest->step() == 3 ? old : fresh);
    ASSERT_TRUE(write(5).ok()) << "killed at call " << calls;
    for (const auto& entry : fs::directory_iterator(dir)) {
      ASSERT_FALSE(absl::StrContains(entry.path().string(), ".tmp-")) << entry.path();
    }
  }
  if (!traced) GTEST_SKIP() << "processes cannot be traced here (ptrace)";
  EXPECT_GT(kills, 20);
  EXPECT_GT(old, 10);
  if (!replace) {
    EXPECT_GT(fresh, 3);
  }
}

TEST_F(CheckpointTest, KilledWhileWritingANewOne) {
  KillAtEveryCall(dir_, false, [&](int64_t step) { return Write(step); });
}

TEST_F(CheckpointTest, KilledWhileReplacingOne) {
  KillAtEveryCall(dir_, true, [&](int64_t step) { return Write(step); });
}

}  // namespace
}  // namespace onward
