// The system's clock, in nanoseconds since 1970 UTC.
//
// Thread-safety: any thread. Errors: none.
#pragma once

#include <chrono>
#include <cstdint>

namespace holdfast {

inline int64_t SystemNowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace holdfast
