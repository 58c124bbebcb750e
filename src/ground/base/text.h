// Small text conversions for formats and protocols: numbers, letter case, hex
// and base64.
//
// Only ASCII counts: other bytes are neither letters nor digits nor spaces.
// Thread-safety: pure functions. Errors: nullopt for text of another form.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast {

// Parses all of the text as one number: no spaces, no '+', not empty.
template <typename Number, typename... Base>
std::optional<Number> ParseNumber(std::string_view text, Base... base) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number, base...);
  if (error != std::errc() || stop != end) return std::nullopt;
  return number;
}

// Returns the lowest `digit_count` hex digits of the number, in lower case.
std::string HexNumber(uint64_t value, int digit_count);
// Returns the value of a hex digit, or -1 for any other character.
int HexDigit(char c);
// Parses two digits per byte, in either case.
std::optional<std::string> BytesOfHex(std::string_view hex);

// Replaces each %XX by its byte; anything that is not an escape stays as it is.
std::string PercentDecoded(std::string_view text);

char LowerCase(char c);
std::string LowerCase(std::string_view text);
bool EqualsInAnyCase(std::string_view a, std::string_view b);

// Removes spaces, tabs and '\r' at both ends.
std::string_view TrimSpaces(std::string_view text);

std::string Joined(const std::vector<std::string>& parts,
                   std::string_view separator);

// RFC 4648, padded.
std::string Base64(std::string_view bytes);
std::string UrlSafeBase64(std::string_view bytes);
std::optional<std::string> UrlSafeBase64Decode(std::string_view text);

}  // namespace holdfast
