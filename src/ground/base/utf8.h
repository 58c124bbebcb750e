// UTF-8 as Unicode defines it: no overlong forms, no surrogates, nothing above
// U+10FFFF.
// Thread-safety: pure functions. Errors: none; bad input gives kBadCodePoint.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace holdfast {

inline constexpr char32_t kBadCodePoint = 0xFFFFFFFF;

// Decodes the code point at `position` and moves `position` past it, or past
// one byte if the bytes there are not UTF-8. REQUIRES: position < text.size().
char32_t DecodeUtf8(std::string_view text, size_t& position);
// REQUIRES: `code_point` is not a surrogate.
void AppendUtf8(std::string& out, char32_t code_point);
bool IsValidUtf8(std::string_view text);

}  // namespace holdfast
