#include "graph/base/small_float.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace onward {
namespace {

// A sign, exponent bits and mantissa bits, as IEEE has them.
struct Format {
  int bits;
  int mantissa;
  int bias;
  uint8_t largest;     // the largest finite code
  uint8_t infinity;    // 0: there is none
  uint8_t nan;         // 0: there is none
  bool negative_zero;  // or its code is that of NaN

  uint8_t sign() const { return static_cast<uint8_t>(1 << (bits - 1)); }
};

Format FormatOf(DataType type) {
  switch (type) {
    case DataType::kFloat8E4M3Fn:
      return {8, 3, 7, 0x7e, 0, 0x7f, true};
    case DataType::kFloat8E4M3Fnuz:
      return {8, 3, 8, 0x7f, 0, 0x80, false};
    case DataType::kFloat8E5M2:
      return {8, 2, 15, 0x7b, 0x7c, 0x7e, true};
    case DataType::kFloat8E5M2Fnuz:
      return {8, 2, 16, 0x7f, 0, 0x80, false};
    case DataType::kFloat6E2M3:
      return {6, 3, 1, 0x1f, 0, 0, true};
    case DataType::kFloat6E3M2:
      return {6, 2, 3, 0x1f, 0, 0, true};
    default:
      return {4, 1, 1, 0x7, 0, 0, true};  // float4e2m1
  }
}

constexpr uint8_t kE8m0Nan = 0xff;

uint8_t ToE8m0(float value, bool saturate, RoundMode mode) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const uint32_t exponent = (bits >> 23) & 0xff;
  const uint32_t fraction = bits & 0x7fffff;
  if (exponent == 0xff) return kE8m0Nan;
  bool up = false;
  if (mode == RoundMode::kUp) up = fraction > 0;
  // Half a step is the first bit of the fraction alone; such halves go up, but for zero's.
  if (mode == RoundMode::kNearest) up = fraction > 0x400000 || (fraction == 0x400000 && exponent);
  if (up && exponent == 0xfe && saturate) up = false;
  return static_cast<uint8_t>(exponent + (up ? 1 : 0));
}

}  // namespace

float HalfToFloat(uint16_t half) {
  _Float16 h;
  std::memcpy(&h, &half, sizeof h);
  return static_cast<float>(h);
}

uint16_t FloatToHalf(float value) {
  const _Float16 h = static_cast<_Float16>(value);
  uint16_t bits;
  std::memcpy(&bits, &h, sizeof bits);
  return bits;
}

float BfloatToFloat(uint16_t bfloat) {
  const uint32_t bits = static_cast<uint32_t>(bfloat) << 16;
  float f;
  std::memcpy(&f, &bits, sizeof f);
  return f;
}

uint16_t FloatToBfloat(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if (value != value) return static_cast<uint16_t>((bits >> 16) | 0x40);  // quiet NaN
  bits += 0x7fff + ((bits >> 16) & 1);  // round to nearest, ties to even
  return static_cast<uint16_t>(bits >> 16);
}

float SmallFloatToFloat(DataType type, uint8_t code) {
  if (type == DataType::kFloat8E8M0) {
    if (code == kE8m0Nan) return std::numeric_limits<float>::quiet_NaN();
    return std::ldexp(1.0f, code - 127);
  }
  const Format f = FormatOf(type);
  code &= static_cast<uint8_t>(2 * f.sign() - 1);
  const bool negative = (code & f.sign()) != 0;
  const int magnitude = code & (f.sign() - 1);
  if (!f.negative_zero && code == f.nan) return std::numeric_limits<float>::quiet_NaN();
  if (magnitude > f.largest) {
    const float special = f.infinity != 0 && magnitude == f.infinity
                              ? std::numeric_limits<float>::infinity()
                              : std::numeric_limits<float>::quiet_NaN();
    return negative ? -special : special;
  }
  const int exponent = magnitude >> f.mantissa;
  const int mantissa = magnitude & ((1 << f.mantissa) - 1);
  const float value = exponent == 0
                          ? std::ldexp(static_cast<float>(mantissa), 1 - f.bias - f.mantissa)
                          : std::ldexp(static_cast<float>(mantissa + (1 << f.mantissa)),
                                       exponent - f.bias - f.mantissa);
  return negative ? -value : value;
}

uint8_t FloatToSmallFloat(DataType type, double value, bool saturate, RoundMode mode) {
  if (type == DataType::kFloat8E8M0) return ToE8m0(static_cast<float>(value), saturate, mode);
  const Format f = FormatOf(type);
  const uint8_t sign = std::signbit(value) ? f.sign() : 0;
  if (std::isnan(value)) {
    if (f.nan == 0) return f.sign();
    return f.negative_zero ? static_cast<uint8_t>(f.nan | sign) : f.nan;
  }
  const double magnitude = std::fabs(value);
  int code = f.largest + 1;
  if (std::isfinite(magnitude)) {
    // In units of the last place, of the smallest normal numbers at least.
    const int lowest = 1 - f.bias;
    const int exponent = magnitude == 0 ? lowest : std::max(std::ilogb(magnitude), lowest);
    if (exponent - lowest < (1 << f.bits)) {
      const int units =
          static_cast<int>(std::nearbyint(std::ldexp(magnitude, f.mantissa - exponent)));
      code = std::min(units + ((exponent - lowest) << f.mantissa), f.largest + 1);
    }
  }
  if (code > f.largest) {
    if (!saturate && f.infinity != 0) return f.infinity | sign;
    if (!saturate && f.nan != 0)
      return f.negative_zero ? static_cast<uint8_t>(f.nan | sign) : f.nan;
    code = f.largest;
  }
  if (code == 0 && !f.negative_zero) return 0;
  return static_cast<uint8_t>(code | sign);
}

}  // namespace onward
