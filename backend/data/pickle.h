// The values in a pickled file of plain data, without executing anything.
#ifndef ONWARD_BACKEND_DATA_PICKLE_H_
#define ONWARD_BACKEND_DATA_PICKLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace onward {

// A tree (or graph) of values, each known by its number. Values look into the
// bytes that were parsed, which must outlive it.
class Pickle {
 public:
  enum class Kind {
    kNone,
    kInt,    // also True and False
    kBytes,  // bytes, bytearray, and the texts of Python 2
    kText,
    kList,
    kTuple,
    kDict,    // items: key, value, key, value ...
    kGlobal,  // one of the few callables that arrays are built by
    kDtype,
    kArray,
  };
  struct Value {
    Kind kind = Kind::kNone;
    int64_t number = 0;          // kInt; kGlobal: which
    absl::string_view bytes;     // kBytes, kText; kDtype: "u1", "i8" ...
    std::vector<int32_t> items;  // kList, kTuple, kDict; kArray: its extents as values
    int32_t data = -1;           // kArray: the kBytes value with its elements
    int32_t dtype = -1;          // kArray
    bool fortran = false;        // kArray
    bool big_endian = false;     // kDtype
  };

  // `file` stands in messages. InvalidArgument (kData) with the byte for
  // anything that is damaged or not of the kinds above, callables other than
  // NumPy's own array constructors above all.
  static absl::StatusOr<Pickle> Parse(absl::string_view file, absl::string_view bytes);

  const Value& root() const { return values_[root_]; }
  const Value& value(int32_t number) const { return values_[number]; }
  // The value of a dictionary's last key of that name; null where there is none.
  const Value* Find(const Value& dict, absl::string_view key) const;

 private:
  friend class PickleParser;
  std::vector<Value> values_;
  std::vector<std::string> decoded_;  // bytes that stood encoded in the file
  int32_t root_ = 0;
};

}  // namespace onward

#endif  // ONWARD_BACKEND_DATA_PICKLE_H_
