// Text as code points, so that positions in messages match Python's.
//
// Thread-safety: pure functions. Errors: InvalidArgument for text that is not
// UTF-8.
#pragma once

#include <string>
#include <string_view>

#include "holdfast/status.h"

namespace holdfast {

// `what` names the text in the message.
Result<std::u32string> ToCodePoints(std::string_view text,
                                    std::string_view what);
std::string ToUtf8(std::u32string_view code_points);
// Returns Python's repr() of a str.
std::string PythonRepr(std::string_view text);

constexpr bool IsDecimal(char32_t c) { return c >= '0' && c <= '9'; }
constexpr bool IsOctal(char32_t c) { return c >= '0' && c <= '7'; }
constexpr bool IsAsciiLetter(char32_t c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
// Returns true for identifiers, in which any character beyond ASCII counts as a
// letter.
bool IsIdentifier(std::u32string_view name);
// Returns "MESSAGE at position N", as Python's re.error prints it.
Status RegexError(std::string message, size_t position);

}  // namespace holdfast
