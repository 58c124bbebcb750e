#include "ground/tree/python_repr.h"

#include <cstdint>

#include "ground/base/text.h"
#include "ground/base/utf8.h"
#include "ground/tree/python_printable.h"

namespace holdfast {
namespace {

void AppendEscaped(std::string& out, char32_t code_point) {
  if (code_point < 0x100) {
    out += "\\x" + HexNumber(code_point, 2);
  } else if (code_point < 0x10000) {
    out += "\\u" + HexNumber(code_point, 4);
  } else {
    out += "\\U" + HexNumber(code_point, 8);
  }
}

// Returns the letter of a named escape, or 0.
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

// Returns true for ASCII that is printed as it is, whichever quotes are used.
bool IsPlain(char c) {
  return c >= ' ' && c <= '~' && c != '\'' && c != '"' && c != '\\';
}

}  // namespace

void AppendPythonRepr(std::string& out, std::string_view text) {
  const bool has_single = text.find('\'') != text.npos;
  // Python prefers single quotes, and uses double ones only when that saves
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
