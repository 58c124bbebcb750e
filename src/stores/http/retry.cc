#include "stores/http/retry.h"

#include <algorithm>

#include "stores/http/http_date.h"

namespace holdfast {

using std::chrono::milliseconds;

bool IsRetryStatus(int status) {
  return status == 408 || status == 429 || status == 500 || status == 502 ||
         status == 503 || status == 504;
}

bool IsThrottleStatus(int status) { return status == 429 || status == 503; }

milliseconds BackoffDelay(milliseconds first, milliseconds max,
                          int failed_count, double random) {
  milliseconds delay = std::min(first, max);
  for (int i = 1; i < failed_count && delay < max; ++i) {
    delay = std::min(delay * 2, max);
  }
  // The random part keeps clients that failed together from retrying together.
  const double part = 0.5 + 0.5 * random;
  return milliseconds(
      static_cast<int64_t>(static_cast<double>(delay.count()) * part));
}

std::optional<milliseconds> ParseRetryAfter(std::string_view value,
                                            int64_t now_s) {
  constexpr int64_t kSecondsMax = 1'000'000;
  if (const auto date = ParseHttpDate(value)) {
    return milliseconds(std::clamp<int64_t>(*date - now_s, 0, kSecondsMax) *
                        1000);
  }
  if (value.empty()) return std::nullopt;
  int64_t seconds = 0;
  for (const char c : value) {
    if (c < '0' || c > '9') return std::nullopt;
    seconds = std::min(seconds * 10 + (c - '0'), kSecondsMax);
  }
  return milliseconds(seconds * 1000);
}

}  // namespace holdfast
