// Numbers coded as a one-byte symbol and extra bits: each small number has its
// own symbol, and larger numbers share four symbols per power of two.
//
// Thread-safety: pure functions.
#pragma once

#include <bit>
#include <cstdint>

namespace holdfast {

inline constexpr int kOwnSymbolCount = 16;  // for 0 to 15
inline constexpr int kFirstBucketBit = 4;   // 16 is 1 << 4
inline constexpr int kSymbolCount = 256;    // enough for 64 bits

struct Bucketed {
  uint8_t symbol = 0;
  int bit_count = 0;  // of `bits`
  uint64_t bits = 0;
};

// Written without branches, since it is random which numbers are small.
[[gnu::always_inline]] inline Bucketed BucketOf(uint64_t number) {
  const bool is_small = number < kOwnSymbolCount;
  const int top = std::bit_width(number | kOwnSymbolCount) - 1;
  const int bit_count = is_small ? 0 : top - 2;
  const auto quarter = static_cast<int>((number >> bit_count) & 3);
  const int bucket = kOwnSymbolCount + 4 * (top - kFirstBucketBit) + quarter;
  return {static_cast<uint8_t>(is_small ? static_cast<int>(number) : bucket),
          bit_count, number & ((uint64_t{1} << bit_count) - 1)};
}

inline int BucketBitCount(uint8_t symbol) {
  if (symbol < kOwnSymbolCount) return 0;
  return kFirstBucketBit - 2 + (symbol - kOwnSymbolCount) / 4;
}

inline uint64_t BucketStart(uint8_t symbol) {
  if (symbol < kOwnSymbolCount) return symbol;
  const int index = symbol - kOwnSymbolCount;
  return uint64_t{4 + static_cast<unsigned>(index) % 4}
         << (kFirstBucketBit - 2 + index / 4);
}

}  // namespace holdfast
