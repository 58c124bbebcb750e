// Records how long recent requests of each size took, and decides when a
// request lags.
//
// Thread-safety: one thread. Units: bytes, microseconds.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>

namespace holdfast {

class LatencyBook {
 public:
  void Add(uint64_t byte_count, std::chrono::microseconds took);
  // Returns the time after which a request of this size lags: three times the
  // 90th percentile of this size. While too few requests of this size are
  // recorded, it is four times the longest time of any request. Nullopt before
  // the first request.
  std::optional<std::chrono::microseconds> LagsAfter(uint64_t byte_count) const;

 private:
  std::optional<std::chrono::microseconds> LagsBeyondAny() const;

  // How many of the last requests are kept for each size class, [2^(k-1), 2^k)
  // bytes, and how many are needed for a percentile.
  static constexpr uint64_t kKept = 32;
  static constexpr uint64_t kNeeded = 8;
  struct SizeClass {
    std::array<std::chrono::microseconds, kKept> took = {};
    uint64_t seen_count = 0;
  };
  std::array<SizeClass, 65> classes_ = {};
};

}  // namespace holdfast
