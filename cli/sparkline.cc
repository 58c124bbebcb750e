#include "cli/sparkline.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace holdfast::cli {
namespace {

constexpr int kBarCount = 8;

std::optional<double> MeanOf(const std::vector<std::optional<double>>& values,
                             size_t begin, size_t end) {
  double sum = 0;
  size_t count = 0;
  for (size_t i = begin; i < end; ++i) {
    if (!values[i]) continue;
    sum += *values[i];
    ++count;
  }
  if (count == 0) return std::nullopt;
  return sum / static_cast<double>(count);
}

std::vector<std::optional<double>> Gathered(
    const std::vector<std::optional<double>>& values, size_t columns_max) {
  if (columns_max == 0 || values.size() <= columns_max) return values;
  std::vector<std::optional<double>> gathered;
  for (size_t i = 0; i < columns_max; ++i) {
    gathered.push_back(MeanOf(values, i * values.size() / columns_max,
                              (i + 1) * values.size() / columns_max));
  }
  return gathered;
}

std::string BarOf(int level, bool utf8) {
  // U+2581 to U+2588.
  if (utf8) return std::string("\xe2\x96") + static_cast<char>(0x81 + level);
  return std::string(1, static_cast<char>('0' + level));
}

}  // namespace

std::string Sparkline(const std::vector<std::optional<double>>& values,
                      size_t columns_max, bool utf8) {
  const auto bars = Gathered(values, columns_max);
  double least = std::numeric_limits<double>::infinity();
  double greatest = -least;
  for (const auto& value : bars) {
    if (!value || !std::isfinite(*value)) continue;
    least = std::min(least, *value);
    greatest = std::max(greatest, *value);
  }
  std::string line;
  for (const auto& value : bars) {
    if (!value) {
      line += ' ';
    } else if (!std::isfinite(*value)) {
      line += 'x';
    } else {
      // Halve the numbers, because the difference of two doubles may overflow.
      const double range = greatest / 2 - least / 2;
      const double share = range > 0 ? (*value / 2 - least / 2) / range : 0;
      line += BarOf(
          std::min(static_cast<int>(share * kBarCount), kBarCount - 1), utf8);
    }
  }
  return line;
}

}  // namespace holdfast::cli
