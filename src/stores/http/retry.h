// Decides whether a request is sent again, and after what delay. The caller
// supplies the clock and the randomness.
//
// Thread-safety: pure functions. Units: in the names and types.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

namespace holdfast {

// True for 408, 429, 500, 502, 503 and 504.
bool IsRetryStatus(int status);
// True for 429 and 503, with which a server asks to slow down.
bool IsThrottleStatus(int status);

// Returns how long to wait after the `failed_count`-th failed attempt (counted
// from 1): `first`, doubled for each further failure, at most `max`, times a
// random factor between one half and one. `random` is in [0, 1).
std::chrono::milliseconds BackoffDelay(std::chrono::milliseconds first,
                                       std::chrono::milliseconds max,
                                       int failed_count, double random);

// Parses a Retry-After header, which contains seconds or a date. A date is
// compared with `now_s` (seconds since 1970, preferably from the server's own
// Date). Nullopt if the header contains neither.
std::optional<std::chrono::milliseconds> ParseRetryAfter(std::string_view value,
                                                         int64_t now_s);

}  // namespace holdfast
