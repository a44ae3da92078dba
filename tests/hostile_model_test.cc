// Broken and hostile model files: every one is refused with one clear line and the right
// exit code, or taken for what it is; none may crash, or take memory out of proportion.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "graph/base/errors.h"
#include "graph/onnx/hostile_models.h"
#include "tests/model_trial.h"

namespace onward {
namespace {

namespace fs = std::filesystem;

// The most memory that the process has had, in bytes.
int64_t PeakMemory() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{1024} * usage.ru_maxrss;
}

void Write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

class HostileModelTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "/hostile";
    fs::remove_all(folder_);
    fs::create_directories(folder_ + "/inside");
  }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }

  // `path` is refused with exit code 3, in a line that begins with the path and says `says`.
  static void ExpectRefused(const std::string& path, const std::string& says) {
    const auto model = OnnxModel::Load(path);
    ASSERT_FALSE(model.ok()) << path;
    const std::string message(model.status().message());
    EXPECT_EQ(Complaint(model.status()), "") << message;
    EXPECT_EQ(ExitCodeOf(model.status()), ExitCode::kUntrainable) << message;
    EXPECT_TRUE(absl::StartsWith(message, path + ": ")) << message;
    EXPECT_TRUE(absl::StrContains(message, says)) << message;
  }

  void ExpectExternalRefused(const std::string& location, const std::string& offset,
                             const std::string& length, const std::string& says) {
    SCOPED_TRACE(location + " " + offset + " " + length);
    Write(Path("m.onnx"), ModelWithExternalData(location, offset, length));
    ExpectRefused(Path("m.onnx"), says);
  }

  std::string folder_;
};

TEST_F(HostileModelTest, TheSoundOneTrains) {
  const absl::Status status = TryModel(SoundModel());
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(HostileModelTest, EveryOneIsRefusedOrTaken) {
  int refused = 0;
  for (const HostileModel& hostile : HostileModels()) {
    SCOPED_TRACE(hostile.name);
    const int64_t before = PeakMemory();
    const absl::Status status = TryModel(hostile.bytes);
    EXPECT_EQ(Complaint(status), "") << status;
    // Of the program's own: a graph of a thousand nodes, folded shapes, a plan.
    EXPECT_LT(PeakMemory() - before, 512 << 20);
    refused += !status.ok();
    if (hostile.says.empty()) continue;
    EXPECT_FALSE(status.ok());
    EXPECT_TRUE(absl::StrContains(status.message(), hostile.says)) << status;
    EXPECT_EQ(ExitCodeOf(status), ExitCode::kUntrainable) << status;
  }
  EXPECT_GT(refused, 300);
}

TEST_F(HostileModelTest, WhatIsNoFile) {
  ExpectRefused(Path("absent.onnx"), "cannot be opened");
  ExpectRefused(Path("inside"), "is not a file");
  ASSERT_EQ(mkfifo(Path("pipe.onnx").c_str(), 0600), 0);
  ExpectRefused(Path("pipe.onnx"), "is not a file");
  ExpectRefused("/dev/null", "is not a file");
  fs::create_symlink("nowhere", Path("link.onnx"));
  ExpectRefused(Path("link.onnx"), "cannot be opened");
  // Three gigabytes that take no room on the disk.
  Write(Path("large.onnx"), SoundModel());
  fs::resize_file(Path("large.onnx"), int64_t{3} << 30);
  ExpectRefused(Path("large.onnx"), "over 2 GB");
}

TEST_F(HostileModelTest, AnUnreadableFile) {
  if (geteuid() == 0) GTEST_SKIP() << "root may read everything";
  Write(Path("m.onnx"), SoundModel());
  chmod(Path("m.onnx").c_str(), 0);
  ExpectRefused(Path("m.onnx"), "Permission denied");
}

TEST_F(HostileModelTest, ExternalDataThatIsWhereItSays) {
  Write(Path("w.bin"), std::string(100, '\0'));
  Write(Path("inside/w.bin"), std::string(48, '\0'));
  fs::create_symlink("inside/w.bin", Path("link.bin"));
  for (const auto& [location, offset, length] :
       std::vector<std::array<std::string, 3>>{{"w.bin", "", ""},
                                               {"w.bin", "52", "48"},
                                               {"inside/w.bin", "0", ""},
                                               {"link.bin", "", ""}}) {
    Write(Path("m.onnx"), ModelWithExternalData(location, offset, length));
    const auto model = OnnxModel::Load(Path("m.onnx"));
    EXPECT_TRUE(model.ok()) << model.status();
  }
}

// Stores of models keep files under the names of their contents, and links to them.
TEST_F(HostileModelTest, LinksOutOfTheFolderAreFollowedWhereTheModelIsOne) {
  fs::create_directories(Path("store"));
  fs::create_directories(Path("shown"));
  Write(Path("store/1234"), ModelWithExternalData("w.bin", "", ""));
  Write(Path("store/5678"), std::string(48, '\0'));
  fs::create_symlink("../store/1234", Path("shown/m.onnx"));
  fs::create_symlink("../store/5678", Path("shown/w.bin"));
  const auto model = OnnxModel::Load(Path("shown/m.onnx"));
  EXPECT_TRUE(model.ok()) << model.status();
}

TEST_F(HostileModelTest, ExternalDataOutsideTheFolder) {
  Write(testing::TempDir() + "/secret.bin", std::string(48, 's'));
  const std::string says = "lies outside the model's folder";
  ExpectExternalRefused("../secret.bin", "", "", says);
  ExpectExternalRefused("inside/../../secret.bin", "", "", says);
  ExpectExternalRefused(testing::TempDir() + "/secret.bin", "", "", says);
  ExpectExternalRefused("/dev/zero", "", "", says);
  fs::create_symlink("../secret.bin", Path("link.bin"));
  ExpectExternalRefused("link.bin", "", "", says);
  fs::create_symlink("..", Path("up"));
  ExpectExternalRefused("up/secret.bin", "", "", says);
}

TEST_F(HostileModelTest, ExternalDataThatDoesNotFit) {
  Write(Path("w.bin"), std::string(100, '\0'));
  ExpectExternalRefused("", "", "", "without location");
  ExpectExternalRefused("absent.bin", "", "", "is missing");
  ExpectExternalRefused("inside", "", "", "is missing");
  ExpectExternalRefused(std::string("w.bin\0x", 7), "", "", "is not a file's name");
  ExpectExternalRefused("w.bin", "60", "", "expected 48 from byte 60");
  ExpectExternalRefused("w.bin", "101", "", "expected 48");
  ExpectExternalRefused("w.bin", "9223372036854775807", "", "expected 48");
  ExpectExternalRefused("w.bin", "99999999999999999999", "", "is not a size");
  ExpectExternalRefused("w.bin", "-1", "", "is not a size");
  ExpectExternalRefused("w.bin", "four", "", "is not a size");
  ExpectExternalRefused("w.bin", "0", "47", "expected 48");
  ExpectExternalRefused("w.bin", "0", "-48", "is not a size");
  ExpectExternalRefused("w.bin", "0", "9223372036854775807", "expected 48");
  ASSERT_EQ(mkfifo(Path("pipe.bin").c_str(), 0600), 0);
  ExpectExternalRefused("pipe.bin", "", "", "is missing");
}

}  // namespace
}  // namespace onward
