// Parses dates in HTTP headers (Date, Last-Modified, Retry-After), and times in
// stores' answers.
//
// Thread-safety: pure functions. Units: seconds since 1970, UTC.
// Errors: nullopt if the text is not a date in the years 1970 to 9999.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace holdfast {

// Parses "Sun, 06 Nov 1994 08:49:37 GMT", the only form that servers may send
// today.
std::optional<int64_t> ParseHttpDate(std::string_view text);

// Returns the nanoseconds since 1970 of "2026-01-02T03:04:05.678Z". Accepts any
// number of decimals; an offset, "+01:00" or "-0400"; or no zone, which means
// UTC. Nullopt before 1970 and after 2200.
std::optional<int64_t> ParseIsoTime(std::string_view text);

}  // namespace holdfast
