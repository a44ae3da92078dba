// Golden texts: what a stage gave when it was last read by a person.
//
// They lie in tests/golden/. A change of meaning shows as a change of such a file
// in review; tools/rewrite_golden writes them anew.
#ifndef ONWARD_TESTS_GOLDEN_H_
#define ONWARD_TESTS_GOLDEN_H_

#include <string>

namespace onward {

// Fails the running test unless tests/golden/`name` holds exactly `text`. Under
// tools/rewrite_golden it writes the file instead. The test's `data` must hold
// the folder's files.
void ExpectGolden(const std::string& name, const std::string& text);

// Where the texts part, for people: the first line that differs, and the two. Empty
// where they are the same.
std::string FirstDifference(const std::string& expected, const std::string& actual);

}  // namespace onward

#endif  // ONWARD_TESTS_GOLDEN_H_
