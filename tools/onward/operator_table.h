// The table of operators: what Onward does with each one of ONNX, and with those of other
// domains that it knows.
#ifndef ONWARD_TOOLS_ONWARD_OPERATOR_TABLE_H_
#define ONWARD_TOOLS_ONWARD_OPERATOR_TABLE_H_

#include <string>
#include <utility>
#include <vector>

namespace onward {

struct OperatorRow {
  std::string domain;  // "" is ONNX's own
  std::string name;
  std::vector<int> versions;  // opsets in which it was defined anew; empty outside of ONNX
  // By device: names of its kernels, in the order in which they are tried. An operator
  // without any is computed as its lowering.
  std::vector<std::pair<std::string, std::vector<std::string>>> kernels;
  bool lowering = false;  // it is stated in simpler operators
  bool runs = true;
  enum class Gradient { kRule, kLowering, kNone };
  Gradient gradient = Gradient::kNone;
  std::string reason;  // why it has no gradient, no block, or does not run
  // Names of the inputs that are differentiable; then notes where the schema says otherwise.
  std::vector<std::string> differentiable;
  std::vector<std::pair<std::string, std::string>> notes;
};

// ONNX's operators by name, then the others by domain and name.
std::vector<OperatorRow> MakeOperatorTable();

struct OperatorCounts {
  int onnx = 0;            // operators of ONNX's default domain
  int running = 0;         // those that run
  int differentiable = 0;  // those with a differentiable input
  int with_gradient = 0;   // those of them with a gradient
};
OperatorCounts CountOperators(const std::vector<OperatorRow>& table);

// "rule", "lowering" or "none".
const char* Name(OperatorRow::Gradient gradient);

}  // namespace onward

#endif  // ONWARD_TOOLS_ONWARD_OPERATOR_TABLE_H_
