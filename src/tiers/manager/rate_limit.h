// RateLimit: keeps a stream of bytes below a rate by waiting.
//
// Thread-safety: any thread; all threads share the rate. Units: bytes, seconds.
// Errors: Cancelled, within 50 ms of the cancellation.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <thread>

#include "ground/base/cancel.h"
#include "ground/base/status_macros.h"

namespace holdfast {

class RateLimit {
 public:
  // A rate of 0 means no limit. The token is borrowed.
  RateLimit(double bytes_per_second, const CancelToken& cancel)
      : bytes_per_second_(bytes_per_second), cancel_(cancel) {}

  // Waits until these bytes may follow the previous bytes.
  Status Take(uint64_t byte_count) {
    if (bytes_per_second_ <= 0) return cancel_.Check();
    Clock::time_point due;
    {
      const std::lock_guard lock(mutex_);
      due = std::max(next_, Clock::now());
      next_ =
          due + std::chrono::duration_cast<Clock::duration>(
                    std::chrono::duration<double>(
                        static_cast<double>(byte_count) / bytes_per_second_));
    }
    for (;;) {
      HF_RETURN_IF_ERROR(cancel_.Check());
      const auto left = due - Clock::now();
      if (left <= Clock::duration::zero()) return Status();
      std::this_thread::sleep_for(std::min<Clock::duration>(left, kLook));
    }
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kLook{50};

  const double bytes_per_second_;
  const CancelToken& cancel_;
  std::mutex mutex_;
  Clock::time_point next_;
};

}  // namespace holdfast
