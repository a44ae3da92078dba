#include "graph/base/layout.h"

#include "absl/strings/str_cat.h"

namespace onward {
namespace {

int64_t BlockOf(const Layout& layout, int axis) {
  int64_t size = 1;
  for (const Layout::Block& b : layout.blocks) {
    if (b.axis == axis) size *= b.size;
  }
  return size;
}

int AxisAt(const Layout& layout, int position) {
  return layout.order.empty() ? position : layout.order[position];
}

}  // namespace

Layout Layout::ChannelsLast(int rank) {
  Layout layout;
  layout.order.push_back(0);
  for (int i = 2; i < rank; ++i) layout.order.push_back(i);
  layout.order.push_back(1);
  return layout;
}

int64_t PaddedElements(absl::Span<const int64_t> dims, const Layout& layout) {
  int64_t n = 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t block = BlockOf(layout, static_cast<int>(i));
    n *= (dims[i] + block - 1) / block * block;
  }
  return n;
}

std::string ToString(const Layout& layout) {
  if (layout.plain()) return "plain";
  std::string out;
  for (int axis : layout.order) out += static_cast<char>('a' + axis);
  if (layout.order.empty()) out = "*";
  for (const Layout::Block& b : layout.blocks) {
    absl::StrAppend(&out, b.size);
    out += static_cast<char>('a' + b.axis);
  }
  return out;
}

int64_t OffsetOf(absl::Span<const int64_t> dims, const Layout& layout,
                 absl::Span<const int64_t> index) {
  Dims outer(index.begin(), index.end());
  // Inner blocks from the innermost out; then the outer axes.
  int64_t offset = 0;
  int64_t stride = 1;
  for (size_t i = layout.blocks.size(); i-- > 0;) {
    const Layout::Block& b = layout.blocks[i];
    offset += outer[b.axis] % b.size * stride;
    outer[b.axis] /= b.size;
    stride *= b.size;
  }
  for (size_t i = dims.size(); i-- > 0;) {
    const int axis = AxisAt(layout, static_cast<int>(i));
    const int64_t block = BlockOf(layout, axis);
    offset += outer[axis] * stride;
    stride *= (dims[axis] + block - 1) / block;
  }
  return offset;
}

}  // namespace onward
