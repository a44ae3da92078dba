// Files that another program cuts short and writes again while they are read: what is read
// is whole, or there is an error that names the file. A mapped file would end the process.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "backend/data/npy.h"
#include "backend/data/read_dataset.h"
#include "graph/base/errors.h"
#include "graph/base/status_macros.h"
#include "graph/base/tensor.h"
#include "graph/onnx/hostile_models.h"
#include "graph/onnx/import.h"
#include "tests/model_trial.h"

namespace onward {
namespace {

constexpr int64_t kRows = 1 << 18;  // of three numbers: some megabytes, so that the cut falls
                                    // into the reading
constexpr int kTurns = 40;

// A file with these bytes, of which another thread takes away more or less, over and over.
class ChangingFile {
 public:
  ChangingFile(const std::string& name, std::string bytes)
      : path_(testing::TempDir() + "/" + name), bytes_(std::move(bytes)) {
    fd_ = open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    Fill();
    thread_ = std::thread([this] {
      for (size_t turn = 1; !ended_; ++turn) {
        EXPECT_EQ(ftruncate(fd_, static_cast<off_t>(bytes_.size() * (turn % 8) / 8)), 0);
        std::this_thread::yield();
        Fill();
      }
    });
  }
  ~ChangingFile() {
    ended_ = true;
    thread_.join();
    close(fd_);
    unlink(path_.c_str());
  }
  ChangingFile(const ChangingFile&) = delete;
  ChangingFile& operator=(const ChangingFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  void Fill() const {
    EXPECT_EQ(pwrite(fd_, bytes_.data(), bytes_.size(), 0), static_cast<ssize_t>(bytes_.size()));
  }

  std::string path_;
  std::string bytes_;
  int fd_;
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

void ExpectWholeOrAnError(const std::string& path, ExitCode code,
                          const std::function<absl::Status(const std::string&)>& read) {
  for (int turn = 0; turn < kTurns; ++turn) {
    const absl::Status status = read(path);
    if (status.ok()) continue;
    EXPECT_EQ(Complaint(status), "") << status;
    EXPECT_EQ(ExitCodeOf(status), code) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), path)) << status;
  }
}

absl::Status Load(const std::string& path) { return OnnxModel::Load(path).status(); }

absl::Status Read(const std::string& path) {
  DataSpec spec;
  spec.data = path;
  return ReadDataset(spec).status();
}

std::string BytesOf(const std::string& path) {
  std::string bytes;
  char buffer[1 << 16];
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  for (ssize_t n; (n = read(fd, buffer, sizeof buffer)) > 0;) {
    bytes.append(buffer, static_cast<size_t>(n));
  }
  close(fd);
  return bytes;
}

TEST(ChangingFile, Model) {
  const ChangingFile file("model.onnx", ModelOfRows(kRows));
  ExpectWholeOrAnError(file.path(), ExitCode::kUntrainable, Load);
}

TEST(ChangingFile, ExternalData) {
  const ChangingFile data("weights.bin", std::string(12 * kRows, 'w'));
  const std::string model = testing::TempDir() + "/outside.onnx";
  const std::string bytes = ModelWithExternalData("weights.bin", "", "", kRows);
  const int fd = open(model.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  ASSERT_EQ(write(fd, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  close(fd);
  ExpectWholeOrAnError(model, ExitCode::kUntrainable, Load);
}

TEST(ChangingFile, Npy) {
  const std::string path = testing::TempDir() + "/whole.npy";
  ASSERT_TRUE(WriteNpy(path, Tensor::Full(DataType::kFloat32, {kRows, 3}, 1).view()).ok());
  const ChangingFile file("data.npy", BytesOf(path));
  ExpectWholeOrAnError(file.path(), ExitCode::kData, Read);
  // Large files stay where they are: their rows are read when they are needed.
  ExpectWholeOrAnError(file.path(), ExitCode::kData, [](const std::string& large) -> absl::Status {
    ASSIGN_OR_RETURN(const std::unique_ptr<ByteReader> reader, ByteReader::Open(large));
    ReadOptions options;
    options.read_whole_bytes = 0;
    ASSIGN_OR_RETURN(const Column column, ReadNpy(*reader, "data", options));
    std::vector<float> rows(3 * kRows);
    return column.Read(0, kRows, rows.data());
  });
}

TEST(ChangingFile, Npz) {
  const std::string path = testing::TempDir() + "/whole.npz";
  const Tensor tensor = Tensor::Full(DataType::kFloat32, {kRows, 3}, 1);
  ASSERT_TRUE(WriteNpz(path, {{"data", tensor.view()}}).ok());
  const ChangingFile file("data.npz", BytesOf(path));
  ExpectWholeOrAnError(file.path(), ExitCode::kData, Read);
}

TEST(ChangingFile, Csv) {
  std::string text = "a,b,c\n";
  for (int64_t row = 0; row < kRows / 16; ++row) absl::StrAppend(&text, row, ",0.5,7\n");
  const ChangingFile file("data.csv", std::move(text));
  ExpectWholeOrAnError(file.path(), ExitCode::kData, Read);
}

}  // namespace
}  // namespace onward
