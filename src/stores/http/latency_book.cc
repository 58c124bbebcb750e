#include "stores/http/latency_book.h"

#include <algorithm>
#include <bit>

namespace holdfast {

using std::chrono::microseconds;

void LatencyBook::Add(uint64_t byte_count, microseconds took) {
  // Each class covers sizes between two powers of two, so a read of 8 MiB is
  // not late because a read of 4 KiB was fast.
  SizeClass& kept = classes_[std::bit_width(byte_count)];
  kept.took[kept.seen_count++ % kKept] = took;
}

std::optional<microseconds> LatencyBook::LagsAfter(uint64_t byte_count) const {
  constexpr microseconds kLeast{20'000};
  const SizeClass& kept = classes_[std::bit_width(byte_count)];
  if (kept.seen_count < kNeeded) return LagsBeyondAny();
  const auto count = static_cast<ptrdiff_t>(std::min(kept.seen_count, kKept));
  auto sorted = kept.took;
  const auto rank = sorted.begin() + count * 9 / 10;
  std::nth_element(sorted.begin(), rank, sorted.begin() + count);
  // Three times the 90th percentile, so that few requests are sent twice.
  return std::max(*rank * 3, kLeast);
}

// Returns the lag for a size with few records: far longer than any time seen so
// far.
std::optional<microseconds> LatencyBook::LagsBeyondAny() const {
  constexpr microseconds kLeast{100'000};
  microseconds longest{0};
  for (const SizeClass& kept : classes_) {
    longest = std::max(longest, *std::ranges::max_element(kept.took));
  }
  if (longest == microseconds{0}) return std::nullopt;
  return std::max(longest * 4, kLeast);
}

}  // namespace holdfast
