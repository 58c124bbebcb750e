#include "ground/names/code_points.h"

#include <utility>

#include "ground/base/utf8.h"
#include "ground/tree/python_repr.h"

namespace holdfast {

Result<std::u32string> ToCodePoints(std::string_view text,
                                    std::string_view what) {
  std::u32string code_points;
  for (size_t position = 0; position < text.size();) {
    const char32_t c = DecodeUtf8(text, position);
    if (c == kBadCodePoint) {
      return InvalidArgumentError(std::string(what) + " " + PythonRepr(text) +
                                  " is not valid UTF-8");
    }
    code_points += c;
  }
  return code_points;
}

std::string ToUtf8(std::u32string_view code_points) {
  std::string text;
  for (const char32_t c : code_points) AppendUtf8(text, c);
  return text;
}

std::string PythonRepr(std::string_view text) {
  std::string repr;
  AppendPythonRepr(repr, text);
  return repr;
}

bool IsIdentifier(std::u32string_view name) {
  if (name.empty() || IsDecimal(name[0])) return false;
  for (const char32_t c : name) {
    if (c < 0x80 && !IsAsciiLetter(c) && !IsDecimal(c) && c != '_') {
      return false;
    }
  }
  return true;
}

Status RegexError(std::string message, size_t position) {
  return InvalidArgumentError(std::move(message) + " at position " +
                              std::to_string(position));
}

}  // namespace holdfast
