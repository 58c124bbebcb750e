// Chooses which words of a tensor are coded together: ranges of exponents in
// which words are about equally likely to change.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "formats/delta/word_masks.h"

namespace holdfast {

inline constexpr size_t kClassCountMax = kThresholdCountMax + 1;

// The counts for the words of one exponent.
struct ExponentCount {
  uint64_t word_count = 0;
  uint64_t change_count = 0;
};

// Returns the exponents at which the second class, the third, ... begin, in
// ascending order and fewer than kClassCountMax. They are chosen so that
// changes cost the fewest bits, including the tables.
std::vector<uint32_t> ChooseThresholds(std::span<const ExponentCount> counts);

}  // namespace holdfast
