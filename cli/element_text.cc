#include "cli/element_text.h"

#include <cassert>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

namespace holdfast::cli {
namespace {

// How the special bit patterns of a small float are encoded.
enum class Specials : uint8_t {
  kIeee,             // top exponent: infinity and NaN
  kNanAllOnes,       // only S.1..1.1..1 is NaN ("fn")
  kNanNegativeZero,  // only the pattern of -0 is NaN ("fnuz")
  kNone,
};

struct SmallFloat {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  Specials specials;
};

SmallFloat SmallFloatOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return {5, 10, 15, Specials::kIeee};
    case DType::kBfloat16:
      return {8, 7, 127, Specials::kIeee};
    case DType::kFloat8E3m4:
      return {3, 4, 3, Specials::kIeee};
    case DType::kFloat8E4m3fn:
      return {4, 3, 7, Specials::kNanAllOnes};
    case DType::kFloat8E4m3fnuz:
      return {4, 3, 8, Specials::kNanNegativeZero};
    case DType::kFloat8E4m3b11fnuz:
      return {4, 3, 11, Specials::kNanNegativeZero};
    case DType::kFloat8E5m2:
      return {5, 2, 15, Specials::kIeee};
    case DType::kFloat8E5m2fnuz:
      return {5, 2, 16, Specials::kNanNegativeZero};
    default:
      assert(dtype == DType::kFloat4E2m1fn);
      return {2, 1, 1, Specials::kNone};
  }
}

double SmallFloatValue(const SmallFloat& format, uint32_t bits) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const int width = 1 + format.exponent_bits + format.mantissa_bits;
  bits &= (1u << width) - 1;
  const uint32_t sign_bit = 1u << (width - 1);
  const uint32_t magnitude = bits & (sign_bit - 1);
  const double sign = bits & sign_bit ? -1.0 : 1.0;
  const uint32_t mantissa = magnitude & ((1u << format.mantissa_bits) - 1);
  const uint32_t exponent = magnitude >> format.mantissa_bits;
  const uint32_t exponent_max = (1u << format.exponent_bits) - 1;

  if (format.specials == Specials::kIeee && exponent == exponent_max) {
    return mantissa ? kNan : sign * std::numeric_limits<double>::infinity();
  }
  if (format.specials == Specials::kNanAllOnes && magnitude == sign_bit - 1) {
    return kNan;
  }
  if (format.specials == Specials::kNanNegativeZero && bits == sign_bit) {
    return kNan;
  }
  // Subnormals have no implied leading 1, and the same scale as exponent 1.
  const uint32_t implied = exponent == 0 ? 0 : 1u << format.mantissa_bits;
  const int power = static_cast<int>(exponent == 0 ? 1 : exponent) -
                    format.bias - format.mantissa_bits;
  return sign * std::ldexp(static_cast<double>(implied + mantissa), power);
}

// Returns the value of an OCP scale, which is only an exponent: it has no sign
// and no zero.
double ScaleValue(uint32_t bits) {
  if (bits == 0xff) return std::numeric_limits<double>::quiet_NaN();
  return std::ldexp(1.0, static_cast<int>(bits) - 127);
}

template <typename T>
T Load(const char* element) {
  T value;
  std::memcpy(&value, element, sizeof(value));
  return value;
}

uint64_t LoadBits(const char* element, size_t byte_count) {
  uint64_t bits = 0;
  for (size_t i = 0; i < byte_count; ++i) {
    bits |= uint64_t{static_cast<unsigned char>(element[i])} << (8 * i);
  }
  return bits;
}

bool IsDouble(DType dtype) {
  return dtype == DType::kFloat64 || dtype == DType::kComplex128;
}

std::string ToChars(DType dtype, double value, std::chars_format format) {
  char text[400];  // the largest double has 309 digits in fixed notation
  char* end = text + sizeof(text);
  const auto result =
      IsDouble(dtype)
          ? std::to_chars(text, end, value, format)
          : std::to_chars(text, end, static_cast<float>(value), format);
  return std::string(text, result.ptr);
}

// Formats like Python's repr: in scientific notation from 1e16 on and below
// 1e-4.
std::string PythonFloat(DType dtype, double value) {
  if (!std::isfinite(value)) return FloatDigits(dtype, value, false);
  const double size = std::fabs(value);
  if (size != 0 && (size >= 1e16 || size < 1e-4)) {
    return ToChars(dtype, value, std::chars_format::scientific);
  }
  std::string digits = ToChars(dtype, value, std::chars_format::fixed);
  if (digits.find('.') == std::string::npos) digits += ".0";
  return digits;
}

std::string ComplexPart(DType dtype, double value) {
  std::string digits = PythonFloat(dtype, value);
  // Python omits ".0" inside a complex number.
  if (digits.ends_with(".0")) digits.resize(digits.size() - 2);
  return digits;
}

}  // namespace

double FloatValue(DType dtype, const char* element) {
  if (dtype == DType::kFloat64) return Load<double>(element);
  if (dtype == DType::kFloat32) return Load<float>(element);
  const auto bits = static_cast<uint32_t>(LoadBits(element, DTypeBytes(dtype)));
  if (dtype == DType::kFloat8E8m0fnu) return ScaleValue(bits);
  return SmallFloatValue(SmallFloatOf(dtype), bits);
}

int64_t SignedValue(DType dtype, const char* element) {
  const int unused_bits = 64 - DTypeBits(dtype);
  const uint64_t bits = LoadBits(element, DTypeBytes(dtype)) << unused_bits;
  return static_cast<int64_t>(bits) >> unused_bits;  // extends the sign
}

uint64_t UnsignedValue(DType dtype, const char* element) {
  const int unused_bits = 64 - DTypeBits(dtype);
  return LoadBits(element, DTypeBytes(dtype)) << unused_bits >> unused_bits;
}

ComplexValue ComplexElement(DType dtype, const char* element) {
  if (dtype == DType::kComplex64) {
    return {Load<float>(element), Load<float>(element + 4)};
  }
  return {Load<double>(element), Load<double>(element + 8)};
}

std::string FloatDigits(DType dtype, double value, bool scientific) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::string digits = ToChars(
      dtype, value,
      scientific ? std::chars_format::scientific : std::chars_format::fixed);
  if (digits.find('.') != std::string::npos) return digits;
  const size_t exponent = digits.find('e');
  digits.insert(exponent == std::string::npos ? digits.size() : exponent, ".");
  return digits;
}

std::string ElementText(DType dtype, const char* element) {
  switch (DTypeKindOf(dtype)) {
    case DTypeKind::kBool:
      return *element ? "True" : "False";
    case DTypeKind::kSigned:
      return std::to_string(SignedValue(dtype, element));
    case DTypeKind::kUnsigned:
      return std::to_string(UnsignedValue(dtype, element));
    case DTypeKind::kFloat:
      return PythonFloat(dtype, FloatValue(dtype, element));
    case DTypeKind::kComplex:
      break;
  }
  const ComplexValue value = ComplexElement(dtype, element);
  const std::string imag = ComplexPart(dtype, value.imag);
  return "(" + ComplexPart(dtype, value.real) + (imag[0] == '-' ? "" : "+") +
         imag + "j)";
}

void WriteElement(DType dtype, const char* element, JsonWriter* json) {
  switch (DTypeKindOf(dtype)) {
    case DTypeKind::kBool:
      return json->Bool(*element != 0);
    case DTypeKind::kSigned:
      return json->Int(SignedValue(dtype, element));
    case DTypeKind::kUnsigned:
      return json->Uint(UnsignedValue(dtype, element));
    case DTypeKind::kFloat:
      return json->Double(FloatValue(dtype, element));
    case DTypeKind::kComplex:
      break;
  }
  const ComplexValue value = ComplexElement(dtype, element);
  json->BeginArray();
  json->Double(value.real);
  json->Double(value.imag);
  json->EndArray();
}

}  // namespace holdfast::cli
