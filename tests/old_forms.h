// What operators looked like in old opsets, and what they mean now.
#ifndef ONWARD_TESTS_OLD_FORMS_H_
#define ONWARD_TESTS_OLD_FORMS_H_

#include <string>
#include <vector>

namespace onward {

struct OldForm {
  std::string op;
  int opset;         // the oldest in which it is defined so; 7 for what is older
  std::string text;  // a graph of that opset
  // What it means in the canonical opset; "refused: WORDS" for what is not taken.
  std::string means;
};

// In the order of their operators' families.
const std::vector<OldForm>& OldForms();

}  // namespace onward

#endif  // ONWARD_TESTS_OLD_FORMS_H_
