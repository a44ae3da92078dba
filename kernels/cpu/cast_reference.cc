// Conversions between any two data types, and of bits.
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "graph/base/status_macros.h"
#include "kernels/cpu/elementwise_functors.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/reference.h"

namespace onward {
namespace {

// A number of any type, without loss.
struct Number {
  enum class Kind { kSigned, kUnsigned, kReal } kind = Kind::kReal;
  int64_t integer = 0;  // of kUnsigned: its bits
  double real = 0;
};

Number Integer(int64_t i) { return {Number::Kind::kSigned, i, 0}; }

absl::Status NoNumber(const std::string& text, DataType to) {
  return WithExitCode(
      absl::InvalidArgumentError(absl::StrCat(
          "Cast: '", text, "' is no number, expected one to make ", std::string(Name(to)), " of")),
      ExitCode::kData);
}

// As ONNX has it: plain and scientific, and INF, +INF, -INF, NaN in any case.
absl::StatusOr<Number> Parse(const std::string& text, DataType to) {
  int64_t integer;
  if (absl::SimpleAtoi(text, &integer)) return Integer(integer);
  uint64_t positive;
  if (absl::SimpleAtoi(text, &positive)) {
    return Number{Number::Kind::kUnsigned, static_cast<int64_t>(positive), 0};
  }
  if (absl::EqualsIgnoreCase(text, "true")) return Integer(1);  // as bools are written
  if (absl::EqualsIgnoreCase(text, "false")) return Integer(0);
  Number n;
  if (absl::SimpleAtod(text, &n.real)) return n;
  return NoNumber(text, to);
}

absl::StatusOr<Number> ReadNumber(const TensorView& x, int64_t i, DataType to) {
  const DataType type = x.type.dtype;
  if (type == DataType::kString) return Parse(x.as<StringRef>()[i].text(), to);
  Number n;
  if (type == DataType::kFloat16) {
    n.real = HalfToFloat(x.as<uint16_t>()[i]);
  } else if (type == DataType::kBfloat16) {
    n.real = BfloatToFloat(x.as<uint16_t>()[i]);
  } else if (IsSmallFloat(type)) {
    n.real = SmallFloatToFloat(type, x.as<uint8_t>()[i]);
  } else if (type == DataType::kInt4 || type == DataType::kInt2) {
    n = Integer(x.as<int8_t>()[i]);
  } else if (type == DataType::kUint4 || type == DataType::kUint2) {
    n = Integer(x.as<uint8_t>()[i]);
  } else {
    RETURN_IF_ERROR(ForType(AllTypes(), type, [&](auto t) {
      using T = decltype(t);
      if constexpr (std::is_floating_point_v<T>) {
        n.real = x.as<T>()[i];
      } else {
        n = Integer(static_cast<int64_t>(x.as<T>()[i]));
        if (std::is_same_v<T, uint64_t>) n.kind = Number::Kind::kUnsigned;
      }
      return absl::OkStatus();
    }));
  }
  return n;
}

double AsReal(const Number& n) {
  if (n.kind == Number::Kind::kReal) return n.real;
  if (n.kind == Number::Kind::kUnsigned)
    return static_cast<double>(static_cast<uint64_t>(n.integer));
  return static_cast<double>(n.integer);
}

// The shortest text that gives the number back: plain from 1e-4 up to 1e16, scientific
// beyond, as numpy writes it.
template <typename T>
std::string TextOfReal(T real) {
  if (std::isnan(real)) return "NaN";
  if (std::isinf(real)) return real > 0 ? "INF" : "-INF";
  const double magnitude = std::fabs(static_cast<double>(real));
  const bool plain = magnitude == 0 || (magnitude >= 1e-4 && magnitude < 1e16);
  char text[64];
  const auto end = std::to_chars(text, text + sizeof text, real,
                                 plain ? std::chars_format::fixed : std::chars_format::scientific);
  std::string out(text, end.ptr);
  if (plain && out.find('.') == std::string::npos) out += ".0";
  return out;
}

std::string TextOf(const Number& n, DataType from) {
  if (from == DataType::kBool) return n.integer != 0 ? "True" : "False";
  switch (n.kind) {
    case Number::Kind::kSigned:
      return absl::StrCat(n.integer);
    case Number::Kind::kUnsigned:
      return absl::StrCat(static_cast<uint64_t>(n.integer));
    default:
      break;
  }
  if (from == DataType::kFloat64) return TextOfReal(n.real);
  if (from == DataType::kFloat16) {
    // The shortest that gives this float16 back.
    for (int digits = 1; digits <= 5; ++digits) {
      char text[32];
      std::snprintf(text, sizeof text, "%.*e", digits - 1, n.real);
      double back = 0;
      if (absl::SimpleAtod(text, &back) &&
          FloatToHalf(static_cast<float>(back)) == FloatToHalf(static_cast<float>(n.real))) {
        return TextOfReal(back);
      }
    }
  }
  return TextOfReal(static_cast<float>(n.real));
}

void WriteReal(const TensorView& y, int64_t i, double real) {
  switch (y.type.dtype) {
    case DataType::kFloat64:
      y.as<double>()[i] = real;
      return;
    case DataType::kFloat32:
      y.as<float>()[i] = static_cast<float>(real);
      return;
    case DataType::kBfloat16:
      y.as<uint16_t>()[i] = FloatToBfloat(static_cast<float>(real));
      return;
    default: {
      const _Float16 half = static_cast<_Float16>(real);  // rounded once
      std::memcpy(&y.as<uint16_t>()[i], &half, sizeof half);
    }
  }
}

struct CastOptions {
  bool saturate = true;
  RoundMode mode = RoundMode::kUp;
};

void WriteNumber(const TensorView& y, int64_t i, const Number& n, const CastOptions& options) {
  const DataType type = y.type.dtype;
  const bool is_real = n.kind == Number::Kind::kReal;
  if (IsFloating(type)) {
    WriteReal(y, i, AsReal(n));
  } else if (IsSmallFloat(type)) {
    y.as<uint8_t>()[i] = FloatToSmallFloat(type, AsReal(n), options.saturate, options.mode);
  } else if (IsSmallInteger(type)) {
    // (Reals out of range are anybody's: their lowest bits, as of integers.)
    y.as<uint8_t>()[i] = SmallIntegerOf(type, is_real ? ConvertTo<int64_t>(n.real) : n.integer);
  } else {
    (void)ForType(AllTypes(), type, [&](auto t) {
      using T = decltype(t);
      y.as<T>()[i] = is_real ? ConvertTo<T>(n.real) : ConvertTo<T>(n.integer);
      return absl::OkStatus();
    });
  }
}

absl::Status CastAny(const KernelCall& call, const KernelMemory& memory, const Execution&) {
  const TensorView &x = memory.inputs[0], &y = memory.outputs[0];
  const DataType from = x.type.dtype, to = y.type.dtype;
  CastOptions options;
  options.saturate = call.attributes->Int("saturate", 1) != 0;
  const absl::string_view mode = StringOf(*call.attributes, "round_mode", "up");
  if (mode == "down") options.mode = RoundMode::kDown;
  if (mode == "nearest") options.mode = RoundMode::kNearest;
  const int64_t n = y.type.elements();
  if (from == to) {
    if (n > 0) std::memcpy(y.data, x.data, y.type.bytes());
    return absl::OkStatus();
  }
  for (int64_t i = 0; i < n; ++i) {
    ASSIGN_OR_RETURN(const Number number, ReadNumber(x, i, to));
    if (to == DataType::kString) {
      y.as<StringRef>()[i] = StringRef::Of(TextOf(number, from));
    } else {
      WriteNumber(y, i, number, options);
    }
  }
  return absl::OkStatus();
}

absl::Status AcceptCastAny(const KernelCall& call) {
  if (SizeOf(call.inputs[0]->dtype) == 0 || SizeOf(call.outputs[0]->dtype) == 0) {
    return absl::UnimplementedError("not on this type");
  }
  return AcceptPlain(call);
}

// The same bits as another type of as many.
absl::Status BitCast(const KernelCall&, const KernelMemory& memory, const Execution&) {
  const TensorView &x = memory.inputs[0], &y = memory.outputs[0];
  const DataType to = y.type.dtype;
  const int64_t n = y.type.elements();
  if (n > 0) std::memcpy(y.data, x.data, y.type.bytes());
  uint8_t* const bytes = y.as<uint8_t>();
  if (IsSmallInteger(to)) {
    for (int64_t i = 0; i < n; ++i) bytes[i] = SmallIntegerOf(to, bytes[i]);
  } else if (PackedBits(to) < 8) {
    for (int64_t i = 0; i < n; ++i) bytes[i] &= static_cast<uint8_t>((1 << PackedBits(to)) - 1);
  } else if (to == DataType::kBool) {
    for (int64_t i = 0; i < n; ++i) bytes[i] = bytes[i] != 0;
  }
  return absl::OkStatus();
}

absl::Status AcceptBitCast(const KernelCall& call) {
  const int from = PackedBits(call.inputs[0]->dtype), to = PackedBits(call.outputs[0]->dtype);
  if (from == 0 || from != to) {
    return absl::UnimplementedError(absl::StrCat("from ", from, " bits to ", to));
  }
  return AcceptPlain(call);
}

}  // namespace

void AddCastReference(KernelTable& table) {
  Kernel cast = ReferenceKernel<CastAny>("Cast");
  cast.name = "reference.Cast.any";
  cast.accepts = AcceptCastAny;
  table.push_back(std::move(cast));
  Kernel bits = ReferenceKernel<BitCast>("BitCast");
  bits.accepts = AcceptBitCast;
  table.push_back(std::move(bits));
}

}  // namespace onward
