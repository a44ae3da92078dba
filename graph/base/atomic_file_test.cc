#include "graph/base/atomic_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "graph/base/errors.h"

namespace onward {
namespace {

namespace fs = std::filesystem;

std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream out;
  out << file.rdbuf();
  return out.str();
}

class AtomicFileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "/atomic_file_" +
              testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  size_t Entries() const {
    return std::distance(fs::directory_iterator(folder_), fs::directory_iterator());
  }
  std::string folder_;
};

TEST_F(AtomicFileTest, TheOldFileStaysUntilTheNewOneIsWhole) {
  ASSERT_TRUE(WriteFileAtomically(Path("a"), "old").ok());
  {
    absl::StatusOr<AtomicFile> file = AtomicFile::Create(Path("a"));
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE(file->Append("new").ok());
    EXPECT_EQ(Contents(Path("a")), "old");
    ASSERT_TRUE(file->Append("er").ok());
    ASSERT_TRUE(file->Commit().ok());
  }
  EXPECT_EQ(Contents(Path("a")), "newer");
  EXPECT_EQ(Entries(), 1u);
}

TEST_F(AtomicFileTest, WithoutCommitNothingHappens) {
  {
    absl::StatusOr<AtomicFile> file = AtomicFile::Create(Path("a"));
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file->Append("half").ok());
    EXPECT_EQ(Entries(), 1u);
  }
  EXPECT_EQ(Entries(), 0u);
}

TEST_F(AtomicFileTest, LinksAndPermissionsStay) {
  ASSERT_TRUE(WriteFileAtomically(Path("target"), "old").ok());
  ASSERT_EQ(chmod(Path("target").c_str(), 0640), 0);
  fs::create_symlink("target", Path("link"));
  ASSERT_TRUE(WriteFileAtomically(Path("link"), "new").ok());
  EXPECT_TRUE(fs::is_symlink(Path("link")));
  EXPECT_EQ(Contents(Path("target")), "new");
  EXPECT_EQ(static_cast<int>(fs::status(Path("target")).permissions()), 0640);
}

TEST_F(AtomicFileTest, DevicesAreWrittenToAndNotReplaced) {
  EXPECT_TRUE(WriteFileAtomically("/dev/null", "x").ok());
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  const absl::Status full = WriteFileAtomically("/dev/full", "x");
  EXPECT_EQ(ExitCodeOf(full), ExitCode::kOutput);
  EXPECT_TRUE(absl::StrContains(full.message(), "No space left")) << full;
}

TEST_F(AtomicFileTest, UnwritablePlacesAreSaid) {
  ASSERT_TRUE(WriteFileAtomically(Path("file"), "x").ok());
  for (const std::string& bad :
       {Path("file/under"), Path("missing/file"), folder_, folder_ + "/", std::string()}) {
    const absl::Status status = WriteFileAtomically(bad, "x");
    EXPECT_EQ(ExitCodeOf(status), ExitCode::kOutput) << bad;
    EXPECT_TRUE(absl::StartsWith(status.message(), bad)) << status;
  }
  EXPECT_EQ(Entries(), 1u);
}

TEST_F(AtomicFileTest, LeftoversOfTheKilledGoThoseOfTheLivingStay) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    absl::StatusOr<AtomicFile> file = AtomicFile::Create(Path("a"));
    const char ok = file.ok() && file->Append("half").ok();
    if (write(ready[1], &ok, 1) != 1) _exit(1);
    pause();
    _exit(1);
  }
  char ok = 0;
  ASSERT_EQ(read(ready[0], &ok, 1), 1);
  ASSERT_EQ(ok, 1);
  ASSERT_TRUE(WriteFileAtomically(Path("a"), "first").ok());
  EXPECT_EQ(Entries(), 2u);  // the child's is still in use
  ASSERT_EQ(kill(child, SIGKILL), 0);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_EQ(Entries(), 2u);
  ASSERT_TRUE(WriteFileAtomically(Path("a"), "second").ok());
  EXPECT_EQ(Entries(), 1u);
  EXPECT_EQ(Contents(Path("a")), "second");
  close(ready[0]);
  close(ready[1]);
}

}  // namespace
}  // namespace onward
