// Numbers for tests, whatever the type of the tensor.
#ifndef ONWARD_TESTS_SET_ELEMENT_H_
#define ONWARD_TESTS_SET_ELEMENT_H_

#include <cstdint>

#include "graph/base/tensor.h"

namespace onward {

// Element i becomes `real` in a floating tensor, else `integer` (a bool: whether it is not
// 0). False where tests have no numbers for the type.
inline bool SetElement(Tensor* t, int64_t i, double real, int64_t integer) {
  switch (t->dtype()) {
    case DataType::kFloat32:
      t->mutable_values<float>()[i] = static_cast<float>(real);
      return true;
    case DataType::kFloat64:
      t->mutable_values<double>()[i] = real;
      return true;
    case DataType::kInt64:
      t->mutable_values<int64_t>()[i] = integer;
      return true;
    case DataType::kInt32:
      t->mutable_values<int32_t>()[i] = static_cast<int32_t>(integer);
      return true;
    case DataType::kUint8:
      t->mutable_values<uint8_t>()[i] = static_cast<uint8_t>(integer);
      return true;
    case DataType::kInt8:
      t->mutable_values<int8_t>()[i] = static_cast<int8_t>(integer);
      return true;
    case DataType::kBool:
      t->mutable_values<bool>()[i] = integer != 0;
      return true;
    default:
      return false;
  }
}

}  // namespace onward

#endif  // ONWARD_TESTS_SET_ELEMENT_H_
