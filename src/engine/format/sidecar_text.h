// The common parts of holdfast's own files in a checkpoint: their version, and
// CRCs in hex digits.
//
// Thread-safety: pure functions.
// Errors: Unimplemented for another version.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ground/json/scanner.h"
#include "holdfast/status.h"

namespace holdfast {

inline constexpr size_t kCrcDigits = 8;

// Appends the CRC as eight lower-case hex digits.
void AppendCrcHex(std::string& out, uint32_t crc);
// Sets `crc` from such digits; returns false for any other text.
bool ParseCrcHex(std::string_view text, uint32_t& crc);

// Reads the version member; Unimplemented unless it is `want`.
Status ReadSidecarVersion(JsonScanner& in, uint64_t want);

}  // namespace holdfast
