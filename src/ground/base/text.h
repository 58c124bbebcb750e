// Small texts of formats and protocols: numbers, letters, hex and base64.
//
// Only ASCII: other bytes are neither letters nor digits nor spaces.
// Thread-safety: pure functions. Errors: absent for what is not such a text.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast {

// All of the text as one number: no space, no '+', not empty.
template <typename Number, typename... Base>
std::optional<Number> ParseNumber(std::string_view text, Base... base) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number, base...);
  if (error != std::errc() || stop != end) return std::nullopt;
  return number;
}

// The lowest digits of the number, in lower case.
std::string HexNumber(uint64_t value, int digit_count);
// The value of a hex digit; -1 for any other character.
int HexDigit(char c);
// Two digits a byte, of either case.
std::optional<std::string> BytesOfHex(std::string_view hex);

// Takes %XX for the byte; anything that is not an escape stands for itself.
std::string PercentDecoded(std::string_view text);

char LowerCase(char c);
std::string LowerCase(std::string_view text);
bool EqualsInAnyCase(std::string_view a, std::string_view b);

// Without the spaces and tabs at both ends, nor the '\r' of a line.
std::string_view TrimSpaces(std::string_view text);

std::string Joined(const std::vector<std::string>& parts,
                   std::string_view separator);

// RFC 4648, padded.
std::string Base64(std::string_view bytes);
std::string UrlSafeBase64(std::string_view bytes);
std::optional<std::string> UrlSafeBase64Decode(std::string_view text);

}  // namespace holdfast
