#include "formats/delta/word_classes.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace holdfast {
namespace {

// The approximate cost of the frequencies of a class.
constexpr double kClassBits = 400;

// Returns the number of bits that record which words change.
double PlaceBits(const ExponentCount& count) {
  if (count.change_count == 0) return 0;
  const auto words = static_cast<double>(count.word_count);
  const auto changes = static_cast<double>(count.change_count);
  const double rest = words - changes;
  double bits = kClassBits + changes * std::log2(words / changes);
  if (rest > 0) bits += rest * std::log2(words / rest);
  return bits;
}

// The best division of the first exponents into a given number of classes.
struct Division {
  double bits = std::numeric_limits<double>::infinity();
  size_t last_first = 0;  // index at which the last class begins
};

}  // namespace

std::vector<uint32_t> ChooseThresholds(std::span<const ExponentCount> counts) {
  std::vector<uint32_t> used;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i].word_count > 0) used.push_back(static_cast<uint32_t>(i));
  }
  if (used.size() < 2) return {};
  // best[n][end] is the best division of the first `end` used exponents into n
  // + 1 classes.
  std::vector<std::vector<Division>> best(
      kClassCountMax, std::vector<Division>(used.size() + 1));
  for (size_t end = 1; end <= used.size(); ++end) {
    ExponentCount sum;
    for (size_t first = end; first-- > 0;) {
      sum.word_count += counts[used[first]].word_count;
      sum.change_count += counts[used[first]].change_count;
      const double bits = PlaceBits(sum);
      if (first == 0) best[0][end] = {bits, 0};
      for (size_t n = 1; n < kClassCountMax && first > 0; ++n) {
        const double all = best[n - 1][first].bits + bits;
        if (all < best[n][end].bits) best[n][end] = {all, first};
      }
    }
  }
  size_t count = 0;
  for (size_t n = 1; n < kClassCountMax; ++n) {
    if (best[n].back().bits < best[count].back().bits) count = n;
  }
  std::vector<uint32_t> thresholds(count);
  for (size_t end = used.size(); count > 0; --count) {
    end = best[count][end].last_first;
    thresholds[count - 1] = used[end];
  }
  return thresholds;
}

}  // namespace holdfast
