#include "tree/python_repr.h"

#include <cstdint>

#include "tree/python_printable.h"
#include "tree/utf8.h"

namespace holdfast {
namespace {

void AppendHex(std::string& out, uint32_t value, int digit_count) {
  for (int shift = 4 * (digit_count - 1); shift >= 0; shift -= 4) {
    out += "0123456789abcdef"[value >> shift & 0xF];
  }
}

void AppendEscaped(std::string& out, char32_t code_point) {
  if (code_point < 0x100) {
    out += "\\x";
    AppendHex(out, code_point, 2);
  } else if (code_point < 0x10000) {
    out += "\\u";
    AppendHex(out, code_point, 4);
  } else {
    out += "\\U";
    AppendHex(out, code_point, 8);
  }
}

// The letter of the named escapes, or 0.
char NamedEscape(char32_t code_point, char quote) {
  switch (code_point) {
    case '\t':
      return 't';
    case '\n':
      return 'n';
    case '\r':
      return 'r';
    case '\\':
      return '\\';
    default:
      return code_point == static_cast<char32_t>(quote) ? quote : 0;
  }
}

// ASCII that is printed as it is, whatever the quote.
bool IsPlain(char c) {
  return c >= ' ' && c <= '~' && c != '\'' && c != '"' && c != '\\';
}

}  // namespace

void AppendPythonRepr(std::string& out, std::string_view text) {
  const bool has_single = text.find('\'') != text.npos;
  // Python prefers single quotes, and takes double ones only when that saves
  // escapes.
  const char quote = has_single && text.find('"') == text.npos ? '"' : '\'';
  out += quote;
  for (size_t position = 0; position < text.size();) {
    const size_t start = position;
    while (position < text.size() && IsPlain(text[position])) ++position;
    if (position > start) {
      out += text.substr(start, position - start);
      continue;
    }
    const char32_t code_point = DecodeUtf8(text, position);
    if (code_point == kBadCodePoint) {
      AppendEscaped(out, static_cast<uint8_t>(text[start]));
    } else if (const char letter = NamedEscape(code_point, quote)) {
      out += '\\';
      out += letter;
    } else if (IsPythonPrintable(code_point)) {
      out += text.substr(start, position - start);
    } else {
      AppendEscaped(out, code_point);
    }
  }
  out += quote;
}

}  // namespace holdfast
