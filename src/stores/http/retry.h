// Whether a request is sent again, and after what delay. Pure: the loop
// supplies the clock and the randomness.
//
// Thread-safety: pure functions. Units: in the names and types.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

namespace holdfast {

// 408, 429, 500, 502, 503, 504.
bool IsRetryStatus(int status);
// 429 and 503: the server asks to slow down.
bool IsThrottleStatus(int status);

// How long to wait after the `failed_count`-th failed attempt (from 1):
// `first`, doubled each time, at most `max`, times a random factor between one
// half and one. `random` is in [0, 1).
std::chrono::milliseconds BackoffDelay(std::chrono::milliseconds first,
                                       std::chrono::milliseconds max,
                                       int failed_count, double random);

// Parses a Retry-After header: seconds, or a date, which is compared with `now`
// (seconds since 1970, preferably from the server's own Date). Nullopt if it is
// neither.
std::optional<std::chrono::milliseconds> ParseRetryAfter(std::string_view value,
                                                         int64_t now_s);

}  // namespace holdfast
