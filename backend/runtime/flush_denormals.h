// Denormal numbers (below 1.2e-38 in float32) are as good as zero in training, but
// processors compute with them up to a hundred times slower, and moments of gradients
// that stay zero decay into them.
#ifndef ONWARD_BACKEND_RUNTIME_FLUSH_DENORMALS_H_
#define ONWARD_BACKEND_RUNTIME_FLUSH_DENORMALS_H_

#include <cstdint>

namespace onward {

// While it lives, this thread, and the team in the regions that it begins, read and
// write denormal numbers as zero, as TensorFlow's threads do. Then the setting of
// before returns. Does nothing on a processor without such a setting.
class FlushDenormals {
 public:
  FlushDenormals();
  ~FlushDenormals();
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
  uint64_t before_;
};

}  // namespace onward

#endif  // ONWARD_BACKEND_RUNTIME_FLUSH_DENORMALS_H_
