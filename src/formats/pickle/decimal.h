// Integers of any size as decimal text, and doubles as Python writes them.
//
// Thread-safety: pure functions. Errors: nullopt for a malformed number.
// Integers are two's complement, little endian, as in pickles.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace holdfast::pickle {

// The most digits of one integer in text.
inline constexpr size_t kDigitsMax = 9864;  // 4096 bytes

std::string DecimalOfBytes(std::string_view two_complement);
// Parses an optional sign and 1 to kDigitsMax digits.
std::optional<std::string> BytesOfDecimal(std::string_view decimal);

// Returns repr(float): the shortest digits that round-trip, or "inf", "nan".
std::string PythonFloat(double value);

}  // namespace holdfast::pickle
