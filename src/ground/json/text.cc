#include "ground/json/text.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>

#include "ground/base/status_macros.h"
#include "ground/base/text.h"
#include "ground/base/utf8.h"
#include "ground/json/scanner.h"

namespace holdfast {
namespace {

using nlohmann::ordered_json;

constexpr char32_t kReplacement = 0xFFFD;

void AppendUnit(std::string& out, uint32_t unit) {
  out += "\\u" + HexNumber(unit, 4);
}

void AppendCodePoint(std::string& out, char32_t code_point) {
  if (code_point < 0x10000) return AppendUnit(out, code_point);
  AppendUnit(out, 0xD800 + ((code_point - 0x10000) >> 10));
  AppendUnit(out, 0xDC00 + ((code_point - 0x10000) & 0x3FF));
}

// Returns the letter of a two-character escape, or 0.
char ShortEscape(char c) {
  switch (c) {
    case '"':
    case '\\':
      return c;
    case '\b':
      return 'b';
    case '\f':
      return 'f';
    case '\n':
      return 'n';
    case '\r':
      return 'r';
    case '\t':
      return 't';
    default:
      return 0;
  }
}

bool IsPlain(char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; }

void AppendInteger(std::string& out, const ordered_json& value) {
  out += value.is_number_unsigned() ? std::to_string(value.get<uint64_t>())
                                    : std::to_string(value.get<int64_t>());
}

void AppendObject(std::string& out, const ordered_json& value) {
  out += '{';
  const char* separator = "";
  for (const auto& [key, member] : value.items()) {
    out += separator;
    separator = ", ";
    AppendPythonJsonString(out, key);
    out += ": ";
    AppendPythonJson(out, member);
  }
  out += '}';
}

void AppendArray(std::string& out, const ordered_json& value) {
  out += '[';
  const char* separator = "";
  for (const ordered_json& element : value) {
    out += separator;
    separator = ", ";
    AppendPythonJson(out, element);
  }
  out += ']';
}

// Inserts the decimal point into `digits`. `exponent` is the first digit's
// power of ten: 1.5e3 is "15" and 3.
std::string FixedPoint(const std::string& digits, int exponent) {
  if (exponent < 0) return "0." + std::string(-exponent - 1, '0') + digits;
  const size_t integer_count = exponent + 1;
  if (digits.size() <= integer_count) {
    return digits + std::string(integer_count - digits.size(), '0') + ".0";
  }
  return digits.substr(0, integer_count) + "." + digits.substr(integer_count);
}

std::string Scientific(const std::string& digits, int exponent) {
  std::string text = digits.substr(0, 1);
  if (digits.size() > 1) text += "." + digits.substr(1);
  text += exponent < 0 ? "e-" : "e+";
  const std::string magnitude = std::to_string(std::abs(exponent));
  return text + (magnitude.size() < 2 ? "0" : "") + magnitude;
}

}  // namespace

void AppendPythonJsonString(std::string& out, std::string_view text) {
  out += '"';
  for (size_t position = 0; position < text.size();) {
    const size_t start = position;
    while (position < text.size() && IsPlain(text[position])) ++position;
    out += text.substr(start, position - start);
    if (position == text.size()) break;
    if (const char letter = ShortEscape(text[position])) {
      out += '\\';
      out += letter;
      ++position;
      continue;
    }
    const char32_t code_point = DecodeUtf8(text, position);
    AppendCodePoint(out,
                    code_point == kBadCodePoint ? kReplacement : code_point);
  }
  out += '"';
}

void AppendPythonJsonFloat(std::string& out, double value) {
  if (std::isnan(value)) {
    out += "NaN";
    return;
  }
  if (std::signbit(value)) out += '-';
  if (std::isinf(value)) {
    out += "Infinity";
    return;
  }
  char buffer[64];
  const auto [end, error] =
      std::to_chars(buffer, buffer + sizeof buffer, std::abs(value),
                    std::chars_format::scientific);
  const std::string_view text(buffer, end - buffer);
  const size_t e = text.find('e');
  const int exponent = std::atoi(std::string(text.substr(e + 1)).c_str());
  std::string digits(1, text[0]);
  if (e > 2) digits += text.substr(2, e - 2);
  // repr() switches notation at these bounds (float_repr_style "short").
  const bool fixed = exponent >= -4 && exponent < 16;
  out += fixed ? FixedPoint(digits, exponent) : Scientific(digits, exponent);
}

void AppendPythonJson(std::string& out, const ordered_json& value) {
  switch (value.type()) {
    case ordered_json::value_t::object:
      return AppendObject(out, value);
    case ordered_json::value_t::array:
      return AppendArray(out, value);
    case ordered_json::value_t::string:
      return AppendPythonJsonString(out, value.get_ref<const std::string&>());
    case ordered_json::value_t::boolean:
      out += value.get<bool>() ? "true" : "false";
      return;
    case ordered_json::value_t::number_float:
      return AppendPythonJsonFloat(out, value.get<double>());
    case ordered_json::value_t::number_integer:
    case ordered_json::value_t::number_unsigned:
      return AppendInteger(out, value);
    case ordered_json::value_t::binary:
      out += DigitsOfBigInteger(value).value_or("null");
      return;
    default:
      out += "null";
  }
}

std::string PythonJsonText(const ordered_json& value) {
  std::string out;
  AppendPythonJson(out, value);
  return out;
}

void AppendCompactJsonString(std::string& out, std::string_view text) {
  out += '"';
  for (size_t position = 0; position < text.size();) {
    const size_t start = position;
    while (position < text.size() && IsPlain(text[position])) ++position;
    if (position > start) {
      out += text.substr(start, position - start);
      continue;
    }
    const char32_t code_point = DecodeUtf8(text, position);
    if (const char letter = ShortEscape(text[start])) {
      out += '\\';
      out += letter;
    } else if (code_point < 0x20) {
      AppendUnit(out, code_point);
    } else if (code_point == kBadCodePoint) {
      AppendUtf8(out, kReplacement);
    } else {
      out += text.substr(start, position - start);
    }
  }
  out += '"';
}

Result<ordered_json> ParseJsonText(std::string_view text) {
  JsonScanner in(text);
  ordered_json value;
  HF_RETURN_IF_ERROR(in.ReadDocument(value));
  HF_RETURN_IF_ERROR(in.ReadEnd());
  return value;
}

}  // namespace holdfast
