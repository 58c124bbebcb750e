// Which words of a tensor are coded together: ranges of exponents in which
// words are about as likely to change.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "formats/delta/word_masks.h"

namespace holdfast {

inline constexpr size_t kClassCountMax = kThresholdCountMax + 1;

// The count of the words of one exponent.
struct ExponentCount {
  uint64_t word_count = 0;
  uint64_t change_count = 0;
};

// The exponents from which on the second class, the third, ... begin: those
// with which changes take the fewest bits, tables included. Ascending; fewer
// than kClassCountMax.
std::vector<uint32_t> ChooseThresholds(std::span<const ExponentCount> counts);

}  // namespace holdfast
