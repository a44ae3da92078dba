#include "backend/data/convert.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "graph/base/status_macros.h"
#include "graph/base/tensor.h"

namespace onward {
namespace {

struct Half {
  uint16_t bits;
};
struct Bfloat {
  uint16_t bits;
};

// Calls `f` with a value of the C++ type that stores `dtype`. bool is read as a
// byte: a file may hold other bytes than 0 and 1 there.
template <typename F>
auto Dispatch(DataType dtype, F f) {
  switch (dtype) {
    case DataType::kBool:
    case DataType::kUint8:
      return f(uint8_t{});
    case DataType::kInt8:
      return f(int8_t{});
    case DataType::kUint16:
      return f(uint16_t{});
    case DataType::kInt16:
      return f(int16_t{});
    case DataType::kUint32:
      return f(uint32_t{});
    case DataType::kInt32:
      return f(int32_t{});
    case DataType::kUint64:
      return f(uint64_t{});
    case DataType::kInt64:
      return f(int64_t{});
    case DataType::kFloat16:
      return f(Half{});
    case DataType::kBfloat16:
      return f(Bfloat{});
    case DataType::kFloat64:
      return f(double{});
    default:
      return f(float{});
  }
}

template <typename C, typename T>
C Load(T v) {
  return static_cast<C>(v);
}
template <typename C>
C Load(Half v) {
  return static_cast<C>(HalfToFloat(v.bits));
}
template <typename C>
C Load(Bfloat v) {
  return static_cast<C>(BfloatToFloat(v.bits));
}

template <typename T>
constexpr bool kFloatingStorage = std::is_floating_point<T>::value ||
                                  std::is_same<T, Half>::value || std::is_same<T, Bfloat>::value;

// Whether the bits are those of infinity or NaN. On bits, so that it is as
// vectorisable as a comparison of integers.
inline bool NonFinite(float v) {
  uint32_t b;
  std::memcpy(&b, &v, sizeof b);
  return (b & 0x7f800000u) == 0x7f800000u;
}
inline bool NonFinite(double v) {
  uint64_t b;
  std::memcpy(&b, &v, sizeof b);
  return (b & 0x7ff0000000000000u) == 0x7ff0000000000000u;
}
inline bool NonFinite(Half v) { return (v.bits & 0x7c00) == 0x7c00; }
inline bool NonFinite(Bfloat v) { return (v.bits & 0x7f80) == 0x7f80; }

inline void Round(double v, Half* out) { out->bits = FloatToHalf(static_cast<float>(v)); }
inline void Round(double v, Bfloat* out) { out->bits = FloatToBfloat(static_cast<float>(v)); }
inline void Round(double v, float* out) { *out = static_cast<float>(v); }
inline void Round(double v, double* out) { *out = v; }

// Stores n computed values as T; true where one cannot be held.
template <typename T, typename C>
bool Store(const C* from, int64_t n, bool allow_non_finite, bool as_bool, T* to) {
  unsigned bad = 0;
  if constexpr (kFloatingStorage<T>) {
    for (int64_t i = 0; i < n; ++i) {
      if constexpr (std::is_same<T, float>::value && std::is_same<C, float>::value) {
        to[i] = from[i];
      } else {
        Round(static_cast<double>(from[i]), &to[i]);
      }
      bad |= NonFinite(to[i]);
    }
    return bad != 0 && !allow_non_finite;
  } else {
    for (int64_t i = 0; i < n; ++i) {
      const C v = from[i];
      if (as_bool) {
        bad |= !(v == C{0} || v == C{1});
        to[i] = static_cast<T>(v != C{0});
        continue;
      }
      if constexpr (std::is_same<C, int64_t>::value) {
        if constexpr (std::is_same<T, uint64_t>::value) {
          bad |= v < 0;
        } else {
          bad |= v < static_cast<int64_t>(std::numeric_limits<T>::min()) ||
                 v > static_cast<int64_t>(std::numeric_limits<T>::max());
        }
        to[i] = static_cast<T>(v);
      } else {
        // Powers of two, which a double holds exactly, bound the range.
        const double low = std::is_signed<T>::value ? -std::ldexp(1.0, 8 * sizeof(T) - 1) : 0.0;
        const double high = std::ldexp(1.0, 8 * sizeof(T) - (std::is_signed<T>::value ? 1 : 0));
        const bool fits = v >= low && v < high && v == std::trunc(v);
        bad |= !fits;
        to[i] = fits ? static_cast<T>(v) : T{0};
      }
    }
    return bad != 0;
  }
}

template <typename T>
void Lookup(const uint8_t* row, int64_t n, const char* table, char* to) {
  const T* t = reinterpret_cast<const T*>(table);
  T* out = reinterpret_cast<T*>(to);
  for (int64_t i = 0; i < n; ++i) out[i] = t[row[i]];
}

void LookupBytes(size_t size, const uint8_t* row, int64_t n, const char* table, char* to) {
  switch (size) {
    case 1:
      return Lookup<uint8_t>(row, n, table, to);
    case 2:
      return Lookup<uint16_t>(row, n, table, to);
    case 4:
      return Lookup<uint32_t>(row, n, table, to);
    default:
      return Lookup<uint64_t>(row, n, table, to);
  }
}

// Compiled for several instruction sets; the best is taken when the program is loaded.
#if defined(__x86_64__)
__attribute__((target_clones("avx512f", "avx2", "default"), optimize("O3")))
#endif
void LineOfBytes(const uint8_t* row, int64_t n, double factor, double shift, float* to) {
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<float>(row[i] * factor + shift);
}

// Elements of `from`, whose axes have `dims`, in the order of axes `order`.
template <typename T>
void PermuteElements(const T* from, const Dims& dims, const absl::InlinedVector<int, 6>& order,
                     T* to) {
  const Dims strides = Strides(dims);
  const int rank = static_cast<int>(dims.size());
  int64_t extent[6], stride[6], index[6] = {0};
  for (int i = 0; i < rank; ++i) {
    extent[i] = dims[order[i]];
    stride[i] = strides[order[i]];
  }
  int64_t at = 0;
  for (;;) {
    for (int64_t i = 0; i < extent[rank - 1]; ++i) *to++ = from[at + i * stride[rank - 1]];
    int axis = rank - 2;
    for (; axis >= 0; --axis) {
      at += stride[axis];
      if (++index[axis] < extent[axis]) break;
      at -= stride[axis] * extent[axis];
      index[axis] = 0;
    }
    if (axis < 0) return;
  }
}

bool OneByte(DataType t) { return SizeOf(t) == 1; }

std::string IndexText(const Dims& dims, int64_t e) {
  if (dims.empty()) return "the value";
  Dims index(dims.size());
  for (size_t axis = dims.size(); axis-- > 0; e /= dims[axis]) index[axis] = e % dims[axis];
  return absl::StrCat("element ", ToString(index));
}

}  // namespace

Converter::Converter(ColumnTransform transform) : t_(std::move(transform)) {
  from_elements_ = Elements(t_.from_dims);
  to_bytes_ = t_.row_bytes();
  scaled_ = t_.rescale.value() != 1 || !t_.mean.empty();
  if (!t_.order.empty()) permute_scratch_.resize(to_bytes_);
  using Kind = ColumnTransform::Kind;
  const bool to_float = IsFloating(t_.dtype);
  const bool from_float = IsFloating(t_.from);
  if (t_.kind == Kind::kToOneHot) {
    path_ = Path::kOneHot;
  } else if (t_.kind == Kind::kFromOneHot) {
    path_ = Path::kFromOneHot;
  } else if (OneByte(t_.from) && (t_.channels == 1 || t_.inner > 1 || t_.from == DataType::kBool)) {
    // Channels that alternate from element to element would change tables each
    // time: those are computed instead.
    path_ = Path::kTable;
    BuildTable();
  } else if (t_.kind == Kind::kIndices) {
    path_ = from_float ? Path::kDouble : Path::kInt;
  } else if (!scaled_ && t_.from == t_.dtype && (!from_float || t_.allow_non_finite)) {
    path_ = Path::kCopy;
  } else if (!scaled_ && !from_float && !to_float) {
    path_ = Path::kInt;
  } else if (!scaled_ && t_.dtype == DataType::kFloat32 && SizeOf(t_.from) <= 4 &&
             (from_float || SizeOf(t_.from) == 2)) {
    path_ = Path::kFloat;
  } else {
    path_ = Path::kDouble;
  }
  if (path_ == Path::kDouble && scaled_) {
    const int64_t copies =
        t_.channels == 1 || t_.inner > 1 ? 1 : (kBlock + t_.channels - 1) / t_.channels + 1;
    for (int64_t i = 0; i < copies; ++i) {
      for (int64_t c = 0; c < t_.channels; ++c) {
        const double deviation =
            t_.deviation.empty() ? 1 : t_.deviation[t_.deviation.size() == 1 ? 0 : c];
        const double mean = t_.mean.empty() ? 0 : t_.mean[t_.mean.size() == 1 ? 0 : c];
        scale_.push_back(t_.rescale.value() / deviation);
        shift_.push_back(-mean / deviation);
      }
    }
  }
}

void Converter::BuildTable() {
  const size_t size = SizeOf(t_.dtype);
  table_.resize(t_.channels * 256 * size);
  std::vector<uint8_t> bad(t_.channels * 256, 0);
  for (int64_t c = 0; c < t_.channels; ++c) {
    for (int64_t byte = 0; byte < 256; ++byte) {
      const uint8_t b = static_cast<uint8_t>(byte);
      double v = SourceValue(&b, 0);
      if (scaled_) v = v * t_.rescale.numerator / t_.rescale.denominator;
      if (!t_.mean.empty())
        v = (v - t_.mean[t_.mean.size() == 1 ? 0 : c]) / t_.deviation[t_.mean.size() == 1 ? 0 : c];
      const int64_t at = c * 256 + byte;
      int64_t label = 0;
      if (t_.kind == ColumnTransform::Kind::kIndices) bad[at] = !Label(v, &label);
      bad[at] |= Dispatch(t_.dtype, [&](auto typed) {
        using T = decltype(typed);
        T stored;
        const bool wrong =
            Store<T, double>(&v, 1, t_.allow_non_finite, t_.dtype == DataType::kBool, &stored);
        std::memcpy(&table_[at * size], &stored, size);
        return wrong;
      });
    }
  }
  if (std::find(bad.begin(), bad.end(), 1) != bad.end()) {
    table_bad_ = std::move(bad);
  } else if (t_.from == DataType::kUint8 && t_.dtype == DataType::kFloat32) {
    FindLines();
  }
}

void Converter::FindLines() {
  uint8_t bytes[256];
  for (int i = 0; i < 256; ++i) bytes[i] = static_cast<uint8_t>(i);
  for (int64_t c = 0; c < t_.channels; ++c) {
    const double deviation = t_.mean.empty() ? 1 : t_.deviation[t_.mean.size() == 1 ? 0 : c];
    const double mean = t_.mean.empty() ? 0 : t_.mean[t_.mean.size() == 1 ? 0 : c];
    const double factor = (scaled_ ? t_.rescale.value() : 1) / deviation, shift = -mean / deviation;
    float line[256];
    LineOfBytes(bytes, 256, factor, shift, line);
    if (std::memcmp(line, table_.data() + c * sizeof line, sizeof line) != 0) return lines_.clear();
    lines_.emplace_back(factor, shift);
  }
}

double Converter::SourceValue(const void* row, int64_t e) const {
  const double v = Dispatch(t_.from, [&](auto typed) {
    return Load<double>(static_cast<const decltype(typed)*>(row)[e]);
  });
  return t_.from == DataType::kBool ? v != 0 : v;
}

bool Converter::TableRow(const uint8_t* row, char* to) const {
  const size_t size = SizeOf(t_.dtype);
  bool bad = false;
  const int64_t run = t_.channels == 1 ? from_elements_ : t_.inner;
  for (int64_t e = 0; e < from_elements_; e += run) {
    const int64_t c = e / t_.inner % t_.channels;
    if (!lines_.empty()) {
      LineOfBytes(row + e, run, lines_[c].first, lines_[c].second,
                  reinterpret_cast<float*>(to + e * size));
      continue;
    }
    LookupBytes(size, row + e, run, table_.data() + c * 256 * size, to + e * size);
    if (!table_bad_.empty()) {
      for (int64_t i = e; i < e + run; ++i) bad |= table_bad_[c * 256 + row[i]] != 0;
    }
  }
  return !bad;
}

void Converter::Scale(double* block, int64_t first, int64_t n) const {
  if (t_.channels == 1 || t_.inner == 1) {
    const bool one = t_.channels == 1;
    const double* scale = scale_.data() + (one ? 0 : first % t_.channels);
    const double* shift = shift_.data() + (one ? 0 : first % t_.channels);
    if (one) {
      const double a = *scale, b = *shift;
      for (int64_t i = 0; i < n; ++i) block[i] = block[i] * a + b;
    } else {
      for (int64_t i = 0; i < n; ++i) block[i] = block[i] * scale[i] + shift[i];
    }
    return;
  }
  for (int64_t i = 0; i < n;) {
    const int64_t e = first + i;
    const int64_t c = e / t_.inner % t_.channels;
    const int64_t end = std::min(n, i + t_.inner - e % t_.inner);
    const double a = scale_[c], b = shift_[c];
    for (; i < end; ++i) block[i] = block[i] * a + b;
  }
}

template <typename C>
bool Converter::BlockRow(const void* row, char* to) const {
  C block[kBlock];
  const size_t size = SizeOf(t_.dtype);
  const bool labels = t_.kind == ColumnTransform::Kind::kIndices;
  bool bad = false;
  for (int64_t first = 0; first < from_elements_; first += kBlock) {
    const int64_t n = std::min(kBlock, from_elements_ - first);
    Dispatch(t_.from, [&](auto typed) {
      using T = decltype(typed);
      const T* from = static_cast<const T*>(row) + first;
      for (int64_t i = 0; i < n; ++i) block[i] = Load<C>(from[i]);
      if (std::is_same<C, int64_t>::value && std::is_same<T, uint64_t>::value) {
        for (int64_t i = 0; i < n; ++i) bad |= block[i] < C{0};  // above 2^63
      }
    });
    if constexpr (std::is_same<C, double>::value) {
      if (scaled_) Scale(block, first, n);
    }
    if (labels) {
      int64_t label;
      for (int64_t i = 0; i < n; ++i) bad |= !Label(static_cast<double>(block[i]), &label);
    }
    bad |= Dispatch(t_.dtype, [&](auto typed) {
      using T = decltype(typed);
      return Store<T, C>(block, n, t_.allow_non_finite, t_.dtype == DataType::kBool,
                         reinterpret_cast<T*>(to + first * size));
    });
  }
  return !bad;
}

bool Converter::Label(double value, int64_t* label) const {
  if (!(std::abs(value) < 9007199254740992.0) || value != std::trunc(value)) return false;
  *label = static_cast<int64_t>(value);
  if (t_.ignore_index.has_value() && *label == *t_.ignore_index) return true;
  return *label >= 0 && (t_.classes == 0 || *label < t_.classes);
}

// An ignored label becomes a row of zeros.
bool Converter::ToOneHot(const void* row, char* to) const {
  std::memset(to, 0, to_bytes_);
  const double one = 1;
  const size_t size = SizeOf(t_.dtype);
  for (int64_t e = 0; e < from_elements_; ++e) {
    int64_t label;
    if (!Label(SourceValue(row, e), &label)) return false;
    if (label < 0 || label >= t_.classes) continue;
    Dispatch(t_.dtype, [&](auto typed) {
      using T = decltype(typed);
      Store<T, double>(&one, 1, false, false,
                       reinterpret_cast<T*>(to + (e * t_.classes + label) * size));
    });
  }
  return true;
}

bool Converter::FromOneHot(const void* row, char* to) const {
  const size_t size = SizeOf(t_.dtype);
  for (int64_t first = 0; first < from_elements_; first += t_.classes) {
    int64_t ones = 0;
    double label = 0;
    for (int64_t c = 0; c < t_.classes; ++c) {
      const double v = SourceValue(row, first + c);
      if (v == 1) {
        label = static_cast<double>(c);
        ++ones;
      } else if (!(v == 0)) {
        return false;
      }
    }
    if (ones != 1) return false;
    const bool bad = Dispatch(t_.dtype, [&](auto typed) {
      using T = decltype(typed);
      return Store<T, double>(&label, 1, false, false,
                              reinterpret_cast<T*>(to + first / t_.classes * size));
    });
    if (bad) return false;
  }
  return true;
}

void Converter::Permute(const char* from, char* to) const {
  const auto permute = [&](auto typed) {
    using T = decltype(typed);
    PermuteElements(reinterpret_cast<const T*>(from), t_.ordered_dims, t_.order,
                    reinterpret_cast<T*>(to));
  };
  switch (SizeOf(t_.dtype)) {
    case 1:
      return permute(uint8_t{});
    case 2:
      return permute(uint16_t{});
    case 4:
      return permute(uint32_t{});
    default:
      return permute(uint64_t{});
  }
}

bool Converter::ConvertRow(const void* row, char* to) {
  switch (path_) {
    case Path::kCopy:
      std::memcpy(to, row, to_bytes_);
      return true;
    case Path::kTable:
      return TableRow(static_cast<const uint8_t*>(row), to);
    case Path::kFloat:
      return BlockRow<float>(row, to);
    case Path::kDouble:
      return BlockRow<double>(row, to);
    case Path::kInt:
      return BlockRow<int64_t>(row, to);
    case Path::kOneHot:
      return ToOneHot(row, to);
    case Path::kFromOneHot:
      return FromOneHot(row, to);
  }
  return false;
}

int64_t Converter::Convert(const void* const* rows, int64_t n, void* to) {
  char* out = static_cast<char*>(to);
  for (int64_t i = 0; i < n; ++i, out += to_bytes_) {
    char* target = t_.order.empty() ? out : permute_scratch_.data();
    if (!ConvertRow(rows[i], target)) return i;
    if (!t_.order.empty()) Permute(target, out);
  }
  return n;
}

std::string Converter::ElementComplaint(const void* row, int64_t e) const {
  const double v = SourceValue(row, e);
  const std::string number = std::isnan(v) ? "NaN" : absl::StrCat(v);
  if (t_.kind == ColumnTransform::Kind::kIndices || t_.kind == ColumnTransform::Kind::kToOneHot) {
    int64_t label;
    if (Label(v, &label)) return "";
    return t_.classes == 0 ? absl::StrCat("label ", number, " is no class number")
                           : absl::StrCat("label ", number, " is no class: integers from 0 to ",
                                          t_.classes - 1, " were expected");
  }
  if (std::isnan(v) && !(t_.allow_non_finite && IsFloating(t_.dtype))) return "is NaN";
  if (std::isinf(v) && !(t_.allow_non_finite && IsFloating(t_.dtype))) return "is infinite";
  // The same conversion, of this element alone.
  double scaled = v;
  if (scaled_) {
    const int64_t c = t_.mean.size() <= 1 ? 0 : e / t_.inner % t_.channels;
    scaled = v * t_.rescale.value();
    if (!t_.mean.empty()) scaled = (scaled - t_.mean[c]) / t_.deviation[c];
  }
  const bool bad = Dispatch(t_.dtype, [&](auto typed) {
    using T = decltype(typed);
    T stored;
    return Store<T, double>(&scaled, 1, t_.allow_non_finite, t_.dtype == DataType::kBool, &stored);
  });
  return bad ? absl::StrCat("is ", number, ", which ", Name(t_.dtype), " cannot hold") : "";
}

std::string Converter::Complaint(const void* row) const {
  if (t_.kind == ColumnTransform::Kind::kFromOneHot) {
    return absl::StrCat("the label is not one-hot: one 1 and ", t_.classes - 1,
                        " zeros were expected");
  }
  for (int64_t e = 0; e < from_elements_; ++e) {
    const std::string complaint = ElementComplaint(row, e);
    if (complaint.empty()) continue;
    if (complaint[0] == 'l' && from_elements_ == 1) return complaint;  // the label itself
    return absl::StrCat(IndexText(t_.from_dims, e), complaint[0] == 'l' ? ": " : " ", complaint);
  }
  return absl::StrCat("a value cannot be held in ", Name(t_.dtype));
}

}  // namespace onward
