// Rows of a column turned into rows of a batch, in one pass.
#ifndef ONWARD_BACKEND_DATA_CONVERT_H_
#define ONWARD_BACKEND_DATA_CONVERT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "backend/data/transform.h"

namespace onward {

// Does what a ColumnTransform says. Values are computed in double and rounded
// once, except that float32 and narrower types that are not scaled go straight;
// one-byte sources go through a table of their 256 values. Not thread-safe (it
// has scratch memory). Convert allocates nothing.
class Converter {
 public:
  explicit Converter(ColumnTransform transform);

  const ColumnTransform& transform() const { return t_; }

  // Writes rows [0, n) to `to`, one behind the other; rows[i] points at a row of
  // the column. Returns n, or the number of the first row that is wrong (NaN,
  // infinity, a label that is no class, a number that the batch's type cannot
  // hold); what was written to that row and those behind it is then undefined.
  int64_t Convert(const void* const* rows, int64_t n, void* to);

  // What is wrong in that row: "element [3, 5] is NaN". REQUIRES: Convert
  // refused it.
  std::string Complaint(const void* row) const;

  // Value of element e of a row, as a double, before scaling.
  double SourceValue(const void* row, int64_t e) const;

 private:
  static constexpr int64_t kBlock = 512;  // elements at once, in L1
  enum class Path { kCopy, kTable, kFloat, kDouble, kInt, kOneHot, kFromOneHot };

  void BuildTable();
  void FindLines();
  bool ConvertRow(const void* row, char* to);
  bool TableRow(const uint8_t* row, char* to) const;
  template <typename C>
  bool BlockRow(const void* row, char* to) const;
  void Scale(double* block, int64_t first, int64_t n) const;
  bool ToOneHot(const void* row, char* to) const;
  bool FromOneHot(const void* row, char* to) const;
  void Permute(const char* from, char* to) const;
  bool Label(double value, int64_t* label) const;
  // Empty where the element is right.
  std::string ElementComplaint(const void* row, int64_t e) const;

  ColumnTransform t_;
  Path path_ = Path::kCopy;
  bool scaled_ = false;
  int64_t from_elements_ = 0;
  int64_t to_bytes_ = 0;
  std::vector<char> table_;  // 256 values of the batch's type per channel
  // Per channel a factor and a shift that make the same floats of bytes as the table does,
  // to the bit: arithmetic on vectors is quicker. Empty: there are none.
  std::vector<std::pair<double, double>> lines_;
  std::vector<uint8_t> table_bad_;     // 256 flags per channel; empty: none is bad
  std::vector<double> scale_, shift_;  // one each, or for inner = 1 repeated over a block
  std::vector<char> permute_scratch_;
};

}  // namespace onward

#endif  // ONWARD_BACKEND_DATA_CONVERT_H_
