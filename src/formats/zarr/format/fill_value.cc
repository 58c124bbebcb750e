#include "formats/zarr/format/fill_value.h"

#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>

#include "ground/base/coding.h"
#include "ground/base/status_macros.h"
#include "ground/base/text.h"
#include "ground/tensor/float_convert.h"

namespace holdfast::zarr {
namespace {

std::string ElementFromBits(uint64_t bits, size_t byte_count) {
  std::string element(byte_count, '\0');
  std::memcpy(element.data(), &bits, byte_count);
  return element;
}

uint64_t BitsOf(std::string_view element) {
  uint64_t bits = 0;
  std::memcpy(&bits, element.data(), element.size());
  return bits;
}

uint64_t ValueMask(DType dtype) {
  const int bit_count = DTypeBits(dtype);
  return bit_count == 64 ? ~uint64_t{0} : (uint64_t{1} << bit_count) - 1;
}

uint64_t FloatBits(DType dtype, double value) {
  // float8_e8m0fnu has no zero. TensorStore stores 0.0 as bits 00, and every
  // checkpoint has 0.0 here.
  if (dtype == DType::kFloat8E8m0fnu && value == 0) return 0;
  return DoubleToFloatBits(dtype, value);
}

uint64_t DefaultNan(DType dtype) {
  return DoubleToFloatBits(dtype, std::numeric_limits<double>::quiet_NaN());
}

// Accepts only decimal numbers; TensorStore's v2 driver also accepts C
// hexadecimal numbers.
std::optional<double> ParseDecimal(std::string_view text) {
  if (text.empty() ||
      text.find_first_not_of("0123456789+-.eE") != std::string_view::npos) {
    return std::nullopt;
  }
  if (text[0] == '+' && text.size() > 1 && text[1] != '-') {
    text.remove_prefix(1);
  }
  return ParseNumber<double>(text);
}

// Parses v3's bit patterns: "0x" followed by 1 to 2 * byte_count hex digits.
std::optional<uint64_t> ParseHexBits(std::string_view text, size_t byte_count) {
  if (!text.starts_with("0x")) return std::nullopt;
  text.remove_prefix(2);
  if (text.empty() || text.size() > 2 * byte_count) return std::nullopt;
  return ParseNumber<uint64_t>(text, 16);
}

std::optional<uint64_t> NamedFloatBits(DType dtype, const std::string& text) {
  const double infinity = std::numeric_limits<double>::infinity();
  if (text == "NaN") return DefaultNan(dtype);
  if (text == "Infinity") return FloatBits(dtype, infinity);
  if (text == "-Infinity") return FloatBits(dtype, -infinity);
  return std::nullopt;
}

std::optional<uint64_t> TextFloatBits(DType dtype, const std::string& text,
                                      int zarr_format) {
  if (auto bits = NamedFloatBits(dtype, text)) return bits;
  if (zarr_format == 3) return ParseHexBits(text, DTypeBytes(dtype));
  const std::optional<double> value = ParseDecimal(text);
  if (!value) return std::nullopt;
  return FloatBits(dtype, *value);
}

Status BadFloat(const Json* value, int zarr_format) {
  if (value == nullptr || (zarr_format == 3 && !value->is_string())) {
    return FailedPreconditionError("Expected floating-point number, " +
                                   Received(value));
  }
  if (zarr_format == 3) {
    return FailedPreconditionError(
        "Expected \"Infinity\", \"-Infinity\", \"NaN\", or hex string, " +
        Received(value));
  }
  return FailedPreconditionError("Invalid floating-point value: " +
                                 Received(value).substr(14));
}

Result<std::string> ParseFloat(DType dtype, const Json* value,
                               int zarr_format) {
  std::optional<uint64_t> bits;
  if (value != nullptr && value->is_number()) {
    bits = FloatBits(dtype, value->get<double>());
  } else if (value != nullptr && value->is_string()) {
    bits =
        TextFloatBits(dtype, value->get_ref<const std::string&>(), zarr_format);
  }
  if (!bits) return BadFloat(value, zarr_format);
  return ElementFromBits(*bits & ValueMask(dtype), DTypeBytes(dtype));
}

DType PartOf(DType complex) {
  return complex == DType::kComplex64 ? DType::kFloat32 : DType::kFloat64;
}

Result<std::string> ParseComplex(DType dtype, const Json* value,
                                 int zarr_format) {
  HF_ASSIGN_OR_RETURN(const Json* pair, ReadArray(value, 2));
  std::string element;
  for (size_t i = 0; i < 2; ++i) {
    Result<std::string> part =
        ParseFloat(PartOf(dtype), &(*pair)[i], zarr_format);
    if (!part.ok()) return AtPosition(i, part.status());
    element += *part;
  }
  return element;
}

Result<std::string> ParseInteger(DType dtype, const Json* value,
                                 int zarr_format) {
  const size_t byte_count = DTypeBytes(dtype);
  if (dtype == DType::kUint64) {
    HF_ASSIGN_OR_RETURN(const uint64_t number, ReadUint64(value));
    return ElementFromBits(number, byte_count);
  }
  int bit_count = DTypeBits(dtype);
  // v2 reads int2 and int4 as int8 and keeps the low bits.
  if (zarr_format == 2 && bit_count < 8) bit_count = 8;
  const uint64_t half = uint64_t{1} << (bit_count - 1);
  const bool is_signed = DTypeKindOf(dtype) == DTypeKind::kSigned;
  const int64_t low = is_signed ? static_cast<int64_t>(-half) : 0;
  const int64_t high =
      static_cast<int64_t>(is_signed ? half - 1 : 2 * half - 1);
  HF_ASSIGN_OR_RETURN(const int64_t number, ReadInt(value, low, high));
  return ElementFromBits(static_cast<uint64_t>(number) & ValueMask(dtype),
                         byte_count);
}

constexpr std::string_view kBase64 =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

// Parses a fill value in base64. In v2, types that TensorStore cannot print are
// stored this way. Here the only such type is float4_e2m1fn, which has one
// byte.
Result<std::string> ParseBase64Byte(DType dtype, const Json* value) {
  if (value != nullptr && value->is_string()) {
    const std::string& text = value->get_ref<const std::string&>();
    const size_t high =
        text.empty() ? std::string::npos : kBase64.find(text[0]);
    if (text.size() == 4 && text.ends_with("==") && high != std::string::npos &&
        kBase64.find(text[1]) != std::string::npos) {
      const uint64_t bits = (high << 2) | (kBase64.find(text[1]) >> 4);
      return ElementFromBits(bits & ValueMask(dtype), 1);
    }
  }
  return FailedPreconditionError("Expected 1 base64-encoded bytes, " +
                                 Received(value));
}

std::string HexBits(std::string_view element) {
  return "0x" + ToHex(std::string(element.rbegin(), element.rend()));
}

Json FloatToJson(DType dtype, std::string_view element, int zarr_format) {
  const uint64_t bits = BitsOf(element);
  if (dtype == DType::kFloat8E8m0fnu && bits == 0) return 0.0;
  const double value = FloatBitsToDouble(dtype, bits);
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  if (!std::isnan(value)) return value;
  if (zarr_format == 2 || bits == DefaultNan(dtype)) return "NaN";
  return HexBits(element);
}

Json SignedToJson(DType dtype, const std::string& element) {
  const int unused_bits = 64 - DTypeBits(dtype);
  const uint64_t shifted = BitsOf(element) << unused_bits;
  return static_cast<int64_t>(shifted) >> unused_bits;
}

}  // namespace

Result<std::string> ParseFill(DType dtype, const Json* value, int zarr_format) {
  if (dtype == DType::kFloat4E2m1fn && zarr_format == 2) {
    return ParseBase64Byte(dtype, value);
  }
  switch (DTypeKindOf(dtype)) {
    case DTypeKind::kBool: {
      HF_ASSIGN_OR_RETURN(const bool flag, ReadBool(value));
      return std::string(1, flag ? '\1' : '\0');
    }
    case DTypeKind::kFloat:
      return ParseFloat(dtype, value, zarr_format);
    case DTypeKind::kComplex:
      return ParseComplex(dtype, value, zarr_format);
    case DTypeKind::kSigned:
    case DTypeKind::kUnsigned:
      break;
  }
  return ParseInteger(dtype, value, zarr_format);
}

Json FillToJson(DType dtype, const std::string& element, int zarr_format) {
  assert(element.size() == DTypeBytes(dtype));
  if (dtype == DType::kFloat4E2m1fn && zarr_format == 2) {
    return Base64(element);
  }
  switch (DTypeKindOf(dtype)) {
    case DTypeKind::kBool:
      return element[0] != '\0';
    case DTypeKind::kFloat:
      return FloatToJson(dtype, element, zarr_format);
    case DTypeKind::kComplex: {
      const size_t half = element.size() / 2;
      const std::string_view view = element;
      return Json::array(
          {FloatToJson(PartOf(dtype), view.substr(0, half), zarr_format),
           FloatToJson(PartOf(dtype), view.substr(half), zarr_format)});
    }
    case DTypeKind::kSigned:
      return SignedToJson(dtype, element);
    case DTypeKind::kUnsigned:
      break;
  }
  return BitsOf(element) & ValueMask(dtype);
}

}  // namespace holdfast::zarr
