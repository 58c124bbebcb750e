// When and how late a request is sent again. Pure: the loop has the clock and
// the randomness.
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

// How long to wait after the `failed_count`-th failed attempt (from 1): `first`
// doubled each time, at most `max`, of which a random part between a half and
// the whole. `random` is in [0, 1).
std::chrono::milliseconds BackoffDelay(std::chrono::milliseconds first,
                                       std::chrono::milliseconds max,
                                       int failed_count, double random);

// A Retry-After header: seconds, or a date, which is compared with `now`
// (seconds since 1970, best by the server's own Date). Absent: neither.
std::optional<std::chrono::milliseconds> ParseRetryAfter(std::string_view value,
                                                         int64_t now_s);

}  // namespace holdfast
