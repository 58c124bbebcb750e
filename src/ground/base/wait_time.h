// Converts callers' seconds to durations that clocks can add.
//
// Thread-safety: pure.
#pragma once

#include <chrono>

namespace holdfast {

using WaitClock = std::chrono::steady_clock;

// Converts seconds. NaN and negative numbers become 0; a value too large for
// the clock becomes about three years.
inline WaitClock::duration WaitTime(double seconds) {
  constexpr double kSecondsMax = 1e8;
  if (!(seconds > 0)) return WaitClock::duration(0);
  if (seconds > kSecondsMax) seconds = kSecondsMax;
  return std::chrono::duration_cast<WaitClock::duration>(
      std::chrono::duration<double>(seconds));
}

inline double SecondsUntil(WaitClock::time_point deadline) {
  const std::chrono::duration<double> left = deadline - WaitClock::now();
  return left.count() > 0 ? left.count() : 0;
}

}  // namespace holdfast
