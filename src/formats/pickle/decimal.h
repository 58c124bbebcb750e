// Integers of any size as decimal text, and doubles as Python writes them.
//
// Thread-safety: pure functions. Errors: nullopt for a malformed number.
// Integers are two's complement, little endian, as pickles have them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace holdfast::pickle {

// Digits of one integer in text.
inline constexpr size_t kDigitsMax = 9864;  // 4096 bytes

std::string DecimalOfBytes(std::string_view two_complement);
// Optional sign, then 1 to kDigitsMax digits.
std::optional<std::string> BytesOfDecimal(std::string_view decimal);

// repr(float): the shortest digits that give the value back; "inf", "nan".
std::string PythonFloat(double value);

}  // namespace holdfast::pickle
