// Floats of 16 bits and less: how their bits are read and written.
#ifndef ONWARD_GRAPH_BASE_SMALL_FLOAT_H_
#define ONWARD_GRAPH_BASE_SMALL_FLOAT_H_

#include <cstdint>

#include "graph/base/data_type.h"

namespace onward {

// float16 and bfloat16 are stored as uint16_t; arithmetic is done in float32.
float HalfToFloat(uint16_t half);
uint16_t FloatToHalf(float value);
float BfloatToFloat(uint16_t bfloat);
uint16_t FloatToBfloat(float value);

// How float8e8m0, a power of two, is chosen.
enum class RoundMode { kUp, kDown, kNearest };

// The value of a code of one of the types of IsSmallFloat. Bits above those of the type
// are not looked at.
float SmallFloatToFloat(DataType type, uint8_t code);

// Rounded to the nearest, halves to even (float8e8m0 by `mode`, and by magnitude).
// Beyond the largest value: that one where `saturate` is set, infinities included;
// otherwise infinity, or NaN in types that have none. Types that have neither always
// saturate, and turn NaN into zero. As ONNX's Cast has it.
uint8_t FloatToSmallFloat(DataType type, double value, bool saturate = true,
                          RoundMode mode = RoundMode::kUp);

}  // namespace onward

#endif  // ONWARD_GRAPH_BASE_SMALL_FLOAT_H_
