#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <fstream>
#include <iterator>

#include "tests/golden.h"

namespace onward {
namespace {

TEST(FirstDifference, NamesTheLine) {
  EXPECT_EQ(FirstDifference("a\nb\n", "a\nb\n"), "");
  EXPECT_EQ(FirstDifference("a\nb\n", "a\nc\n"), "line 2: expected 'b', got 'c'");
  EXPECT_EQ(FirstDifference("a\n", "a\nb\n"), "line 2: expected '', got 'b'");
  EXPECT_EQ(FirstDifference("a\nb", "a"), "line 2: expected 'b', got the end");
}

TEST(ExpectGolden, HoldsTheFileAgainstTheText) {
  ExpectGolden("sample.txt", "A golden text\nof two lines\n");
  EXPECT_NONFATAL_FAILURE(ExpectGolden("sample.txt", "A golden text\nof two line\n"),
                          "line 2: expected 'of two lines', got 'of two line'");
  EXPECT_FATAL_FAILURE(ExpectGolden("nothing.txt", ""), "nothing.txt is missing");
}

TEST(ExpectGolden, WritesOnlyWhenAsked) {
  const std::string tree = std::string(getenv("TEST_TMPDIR")) + "/tree";
  mkdir(tree.c_str(), 0777);
  mkdir((tree + "/tests").c_str(), 0777);
  mkdir((tree + "/tests/golden").c_str(), 0777);
  setenv("BUILD_WORKSPACE_DIRECTORY", tree.c_str(), 1);
  EXPECT_NONFATAL_FAILURE(ExpectGolden("sample.txt", "other"), "differs");
  setenv("ONWARD_REWRITE_GOLDEN", "1", 1);
  ExpectGolden("sample.txt", "other");
  std::ifstream file(tree + "/tests/golden/sample.txt");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "other");
  setenv("BUILD_WORKSPACE_DIRECTORY", (tree + "/nowhere").c_str(), 1);
  EXPECT_NONFATAL_FAILURE(ExpectGolden("sample.txt", "other"), "cannot be written");
  unsetenv("BUILD_WORKSPACE_DIRECTORY");
  unsetenv("ONWARD_REWRITE_GOLDEN");
}

}  // namespace
}  // namespace onward
