#include "cli/json_out.h"

#include <cassert>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/units.h"

namespace holdfast::cli {
namespace {

void AppendControl(char c, std::string* out) {
  constexpr char kHex[] = "0123456789abcdef";
  const auto code = static_cast<unsigned char>(c);
  *out += "\\u00";
  *out += kHex[code >> 4];
  *out += kHex[code & 15];
}

void AppendAscii(char c, std::string* out) {
  switch (c) {
    case '"':
      *out += "\\\"";
      return;
    case '\\':
      *out += "\\\\";
      return;
    case '\n':
      *out += "\\n";
      return;
    case '\r':
      *out += "\\r";
      return;
    case '\t':
      *out += "\\t";
      return;
    default:
      break;
  }
  const auto code = static_cast<unsigned char>(c);
  if (code < 0x20 || code == 0x7f) {
    AppendControl(c, out);
  } else {
    *out += c;
  }
}

std::string DoubleText(double value) {
  char text[40];
  const auto result = std::to_chars(text, text + sizeof(text), value);
  std::string digits(text, result.ptr);
  // Some readers distinguish integers from floats, so a float needs a point or
  // an exponent.
  if (digits.find_first_of(".e") == std::string::npos) digits += ".0";
  return digits;
}

}  // namespace

std::string JsonQuoted(std::string_view text) {
  std::string quoted = "\"";
  quoted.reserve(text.size() + 2);
  while (!text.empty()) {
    const size_t length = Utf8SequenceBytes(text);
    if (length == 1) {
      AppendAscii(text[0], &quoted);
    } else if (length == 0) {
      quoted += "\xef\xbf\xbd";  // U+FFFD
    } else {
      quoted += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  quoted += '"';
  return quoted;
}

void JsonWriter::Separate() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (has_member_.empty()) return;
  if (has_member_.back()) out_ << ", ";
  has_member_.back() = true;
}

void JsonWriter::Begin(char bracket) {
  Separate();
  out_ << bracket;
  has_member_.push_back(false);
}

void JsonWriter::End(char bracket) {
  assert(!has_member_.empty() && !after_key_);
  has_member_.pop_back();
  out_ << bracket;
}

void JsonWriter::Key(std::string_view key) {
  assert(!after_key_);
  Separate();
  out_ << JsonQuoted(key) << ": ";
  after_key_ = true;
}

void JsonWriter::Raw(std::string_view json) {
  Separate();
  out_ << json;
}

void JsonWriter::String(std::string_view text) { Raw(JsonQuoted(text)); }
void JsonWriter::Int(int64_t value) { Raw(std::to_string(value)); }
void JsonWriter::Uint(uint64_t value) { Raw(std::to_string(value)); }
void JsonWriter::Bool(bool value) { Raw(value ? "true" : "false"); }
void JsonWriter::Null() { Raw("null"); }

void JsonWriter::Double(double value) {
  if (std::isnan(value)) return String("NaN");
  if (std::isinf(value)) return String(value > 0 ? "Infinity" : "-Infinity");
  Raw(DoubleText(value));
}

void JsonWriter::Field(std::string_view key, std::string_view text) {
  Key(key);
  String(text);
}

void JsonWriter::Field(std::string_view key, uint64_t value) {
  Key(key);
  Uint(value);
}

void JsonWriter::Field(std::string_view key, int64_t value) {
  Key(key);
  Int(value);
}

void JsonWriter::Field(std::string_view key, double value) {
  Key(key);
  Double(value);
}

void JsonWriter::Field(std::string_view key, bool value) {
  Key(key);
  Bool(value);
}

void JsonWriter::NullField(std::string_view key) {
  Key(key);
  Null();
}

void JsonWriter::ShapeField(std::string_view key, const Shape& shape) {
  Key(key);
  BeginArray();
  for (const int64_t extent : shape) Int(extent);
  EndArray();
}

void JsonWriter::StringsField(std::string_view key,
                              const std::vector<std::string>& texts) {
  Key(key);
  BeginArray();
  for (const std::string& text : texts) String(text);
  EndArray();
}

void JsonWriter::EmbeddedField(std::string_view key, std::string_view text) {
  if (text.empty()) return NullField(key);
  Key(key);
  // Text that is not valid JSON stays a string: Python writes NaN, for example.
  if (nlohmann::json::accept(text)) return Raw(text);
  String(text);
}

}  // namespace holdfast::cli
