#include "tests/golden.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace onward {

std::string FirstDifference(const std::string& expected, const std::string& actual) {
  if (expected == actual) return "";
  const std::vector<std::string> a = absl::StrSplit(expected, '\n');
  const std::vector<std::string> b = absl::StrSplit(actual, '\n');
  size_t line = 0;
  while (line < std::min(a.size(), b.size()) && a[line] == b[line]) ++line;
  const auto shown = [line](const std::vector<std::string>& lines) {
    return line < lines.size() ? absl::StrCat("'", lines[line], "'") : std::string("the end");
  };
  return absl::StrCat("line ", line + 1, ": expected ", shown(a), ", got ", shown(b));
}

void ExpectGolden(const std::string& name, const std::string& text) {
  const std::string path = "tests/golden/" + name;
  // Set by `bazel run`: the source tree, which a test has no business with otherwise.
  const char* tree = std::getenv("BUILD_WORKSPACE_DIRECTORY");
  if (std::getenv("ONWARD_REWRITE_GOLDEN") != nullptr && tree != nullptr) {
    std::ofstream file(absl::StrCat(tree, "/", path), std::ios::binary);
    file << text << std::flush;
    EXPECT_TRUE(file.good()) << path << " cannot be written";
    return;
  }
  std::ifstream file(path, std::ios::binary);
  ASSERT_TRUE(file.is_open()) << path << " is missing; tools/rewrite_golden writes it";
  const std::string expected(std::istreambuf_iterator<char>(file), {});
  const std::string difference = FirstDifference(expected, text);
  EXPECT_EQ(difference, "") << path
                            << " differs; if that is meant, run tools/rewrite_golden and read "
                               "the change";
}

}  // namespace onward
