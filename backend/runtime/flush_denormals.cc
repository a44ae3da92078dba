#include "backend/runtime/flush_denormals.h"

#include "kernels/threads/float_control.h"

namespace onward {

FlushDenormals::FlushDenormals() : before_(FloatControl()) {
  SetFloatControl(before_ | kFlushToZero);
}

FlushDenormals::~FlushDenormals() { SetFloatControl(before_); }

}  // namespace onward
