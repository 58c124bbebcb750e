// Hex text for tests: "0c db 20 de" -> four bytes. Spaces are skipped.
// Thread-safety: pure functions. Tests only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ground/base/bytes.h"

namespace holdfast::ocdbt {

inline std::string FromHex(std::string_view hex) {
  std::string digits;
  for (const char c : hex) {
    if (c != ' ' && c != '\n') digits += c;
  }
  std::string bytes;
  for (size_t i = 0; i + 1 < digits.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

inline Bytes BytesFromHex(std::string_view hex) { return Bytes(FromHex(hex)); }

}  // namespace holdfast::ocdbt
