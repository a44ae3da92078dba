#include "graph/base/window.h"

#include <algorithm>
#include <string>

namespace onward {
namespace {

Dims OrOnes(const std::vector<int64_t>& values, size_t axes) {
  return values.empty() ? Dims(axes, 1) : Dims(values.begin(), values.end());
}

}  // namespace

std::vector<int64_t> Window::Pads() const {
  std::vector<int64_t> pads(begin.begin(), begin.end());
  pads.insert(pads.end(), end.begin(), end.end());
  return pads;
}

Window ReadWindow(const Attributes& attributes, absl::Span<const int64_t> input,
                  absl::Span<const int64_t> output, absl::Span<const int64_t> kernel) {
  const size_t axes = kernel.size();
  Window w;
  w.input.assign(input.begin(), input.end());
  w.output.assign(output.begin(), output.end());
  w.kernel.assign(kernel.begin(), kernel.end());
  w.stride = OrOnes(attributes.Ints("strides"), axes);
  w.dilation = OrOnes(attributes.Ints("dilations"), axes);
  w.begin.assign(axes, 0);
  w.end.assign(axes, 0);
  const std::string automatic = attributes.String("auto_pad", "NOTSET");
  const std::vector<int64_t> pads = attributes.Ints("pads");
  for (size_t i = 0; i < axes; ++i) {
    if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
      const int64_t reach = w.dilation[i] * (kernel[i] - 1) + 1;
      const int64_t total = std::max<int64_t>(0, (output[i] - 1) * w.stride[i] + reach - input[i]);
      w.begin[i] = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
      w.end[i] = total - w.begin[i];
    } else if (automatic != "VALID" && pads.size() == 2 * axes) {
      w.begin[i] = pads[i];
      w.end[i] = pads[i + axes];
    }
  }
  return w;
}

bool Next(Dims& index, absl::Span<const int64_t> dims) {
  for (size_t i = dims.size(); i-- > 0;) {
    if (++index[i] < dims[i]) return true;
    index[i] = 0;
  }
  return false;
}

}  // namespace onward
