#include "graph/base/tensor.h"

#include <cstdlib>
#include <cstring>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "graph/base/memory.h"

namespace onward {
std::string ToString(const TensorType& type) {
  std::string out = absl::StrCat(Name(type.dtype), ToString(type.dims));
  if (!type.layout.plain()) absl::StrAppend(&out, ":", ToString(type.layout));
  return out;
}

void Tensor::Deleter::operator()(const void* p) const {
  if (release) {
    release();
  } else {
    FreeZeroed(const_cast<void*>(p), bytes);
  }
}

Tensor::Tensor(DataType dtype, Dims dims) : type_{dtype, std::move(dims), {}} {
  data_ = AllocateZeroed(type_.bytes());
  if (data_ == nullptr) std::abort();  // callers with sizes from outside use Allocate
  owner_ = std::unique_ptr<const void, Deleter>(data_, Deleter{nullptr, type_.bytes()});
}

Tensor::Tensor(DataType dtype, Dims dims, const void* data, std::function<void()> release)
    : type_{dtype, std::move(dims), {}},
      data_(data),
      owner_(data, Deleter{release ? std::move(release) : [] {}, 0}) {}

absl::StatusOr<Tensor> Tensor::Allocate(DataType dtype, Dims dims) {
  const absl::StatusOr<int64_t> elements = CheckedElements(dims);
  if (!elements.ok()) return elements.status();
  Tensor t;
  t.type_ = TensorType{dtype, std::move(dims), {}};
  t.data_ = AllocateZeroed(t.type_.bytes());
  if (t.data_ == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for ", t.type_.bytes(), " bytes of ", ToString(t.type_)));
  }
  t.owner_ = std::unique_ptr<const void, Deleter>(t.data_, Deleter{nullptr, t.type_.bytes()});
  return t;
}

Tensor Tensor::Full(DataType dtype, Dims dims, double value) {
  Tensor t(dtype, std::move(dims));
  const int64_t n = t.elements();
  const auto fill = [&](auto typed) {
    using T = decltype(typed);
    for (T& x : t.mutable_values<T>()) x = typed;
  };
  switch (dtype) {
    case DataType::kFloat32:
      fill(static_cast<float>(value));
      break;
    case DataType::kFloat64:
      fill(value);
      break;
    case DataType::kInt8:
      fill(static_cast<int8_t>(value));
      break;
    case DataType::kUint8:
      fill(static_cast<uint8_t>(value));
      break;
    case DataType::kInt16:
      fill(static_cast<int16_t>(value));
      break;
    case DataType::kUint16:
      fill(static_cast<uint16_t>(value));
      break;
    case DataType::kInt32:
      fill(static_cast<int32_t>(value));
      break;
    case DataType::kUint32:
      fill(static_cast<uint32_t>(value));
      break;
    case DataType::kInt64:
      fill(static_cast<int64_t>(value));
      break;
    case DataType::kUint64:
      fill(static_cast<uint64_t>(value));
      break;
    case DataType::kBool:
      fill(value != 0);
      break;
    case DataType::kFloat16:
    case DataType::kBfloat16: {
      const float f = static_cast<float>(value);
      const uint16_t bits = dtype == DataType::kFloat16 ? FloatToHalf(f) : FloatToBfloat(f);
      uint16_t* p = static_cast<uint16_t*>(t.data());
      for (int64_t i = 0; i < n; ++i) p[i] = bits;
      break;
    }
    case DataType::kInt4:
    case DataType::kUint4:
    case DataType::kInt2:
    case DataType::kUint2:
      fill(SmallIntegerOf(dtype, static_cast<int64_t>(value)));
      break;
    case DataType::kUndefined:
    case DataType::kString:
      break;
    default:
      fill(FloatToSmallFloat(dtype, value));
      break;
  }
  return t;
}

Tensor Tensor::Clone() const {
  Tensor t(type_.dtype, type_.dims);
  if (bytes() > 0) std::memcpy(t.data(), data_, bytes());
  return t;
}

double Tensor::At(int64_t i) const {
  switch (dtype()) {
    case DataType::kFloat32:
      return static_cast<const float*>(data_)[i];
    case DataType::kFloat64:
      return static_cast<const double*>(data_)[i];
    case DataType::kFloat16:
      return HalfToFloat(static_cast<const uint16_t*>(data_)[i]);
    case DataType::kBfloat16:
      return BfloatToFloat(static_cast<const uint16_t*>(data_)[i]);
    default:
      if (IsSmallFloat(dtype())) {
        return SmallFloatToFloat(dtype(), static_cast<const uint8_t*>(data_)[i]);
      }
      return static_cast<double>(IntAt(i));
  }
}

int64_t Tensor::IntAt(int64_t i) const {
  switch (dtype()) {
    case DataType::kInt8:
      return static_cast<const int8_t*>(data_)[i];
    case DataType::kUint8:
      return static_cast<const uint8_t*>(data_)[i];
    case DataType::kInt16:
      return static_cast<const int16_t*>(data_)[i];
    case DataType::kUint16:
      return static_cast<const uint16_t*>(data_)[i];
    case DataType::kInt32:
      return static_cast<const int32_t*>(data_)[i];
    case DataType::kUint32:
      return static_cast<const uint32_t*>(data_)[i];
    case DataType::kInt64:
      return static_cast<const int64_t*>(data_)[i];
    case DataType::kUint64:
      return static_cast<int64_t>(static_cast<const uint64_t*>(data_)[i]);
    case DataType::kBool:
      return static_cast<const bool*>(data_)[i] ? 1 : 0;
    case DataType::kInt4:
    case DataType::kInt2:
      return static_cast<const int8_t*>(data_)[i];
    case DataType::kUint4:
    case DataType::kUint2:
      return static_cast<const uint8_t*>(data_)[i];
    case DataType::kUndefined:
    case DataType::kString:
      return 0;
    default:
      return static_cast<int64_t>(At(i));
  }
}

namespace {

// Where in `layout` the elements of each axis lie: an element's offset is the sum of
// its indices' entries, for every axis has digits of the offset to itself.
std::vector<std::vector<int64_t>> OffsetsOfAxes(const Dims& dims, const Layout& layout) {
  std::vector<std::vector<int64_t>> offsets(dims.size());
  Dims index(dims.size(), 0);
  for (size_t a = 0; a < dims.size(); ++a) {
    for (index[a] = 0; index[a] < dims[a]; ++index[a]) {
      offsets[a].push_back(OffsetOf(dims, layout, index));
    }
    index[a] = 0;
  }
  return offsets;
}

// The last axes as one, as long as it stays short: rows of three elements would be work
// in vain.
size_t JoinLastAxes(std::vector<std::vector<int64_t>>* sources,
                    std::vector<std::vector<int64_t>>* targets) {
  constexpr size_t kLongest = 8192;
  const auto join = [](std::vector<std::vector<int64_t>>* offsets) {
    const std::vector<int64_t> inner = std::move(offsets->back());
    offsets->pop_back();
    std::vector<int64_t> joined;
    for (int64_t outer : offsets->back()) {
      for (int64_t i : inner) joined.push_back(outer + i);
    }
    offsets->back() = std::move(joined);
  };
  while (sources->size() > 1 &&
         (*sources)[sources->size() - 2].size() * sources->back().size() <= kLongest) {
    join(sources);
    join(targets);
  }
  return sources->size();
}

template <size_t kSize>
void ConvertElements(const TensorView& from, const TensorView& to) {
  auto sources = OffsetsOfAxes(from.type.dims, from.type.layout);
  auto targets = OffsetsOfAxes(from.type.dims, to.type.layout);
  const size_t last = JoinLastAxes(&sources, &targets) - 1;
  const int64_t row = static_cast<int64_t>(sources[last].size());
  const int64_t *source_in_row = sources[last].data(), *target_in_row = targets[last].data();
  Dims index(last + 1, 0);
  for (int64_t rows = Elements(from.type.dims) / row; rows > 0; --rows) {
    int64_t source = 0, target = 0;
    for (size_t a = 0; a < last; ++a) {
      source += sources[a][index[a]];
      target += targets[a][index[a]];
    }
    const char* const source_row = from.as<char>() + source * kSize;
    char* const target_row = to.as<char>() + target * kSize;
    for (int64_t i = 0; i < row; ++i) {
      std::memcpy(target_row + target_in_row[i] * kSize, source_row + source_in_row[i] * kSize,
                  kSize);
    }
    for (size_t a = last; a-- > 0;) {
      if (++index[a] < static_cast<int64_t>(sources[a].size())) break;
      index[a] = 0;
    }
  }
}

}  // namespace

void ConvertLayout(const TensorView& from, const TensorView& to) {
  if (from.type.layout == to.type.layout || from.type.dims.empty()) {
    std::memcpy(to.data, from.data, from.type.bytes());
    return;
  }
  const int64_t elements = Elements(from.type.dims);
  if (PaddedElements(to.type.dims, to.type.layout) != elements) {
    std::memset(to.data, 0, to.type.bytes());  // the padding of blocks is zero
  }
  if (elements == 0) return;
  switch (SizeOf(from.type.dtype)) {
    case 1:
      return ConvertElements<1>(from, to);
    case 2:
      return ConvertElements<2>(from, to);
    case 4:
      return ConvertElements<4>(from, to);
    default:
      return ConvertElements<8>(from, to);
  }
}

}  // namespace onward
