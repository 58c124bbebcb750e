// A row of numbers as one line of small bars.
//
// Thread-safety: pure functions. Units: columns of text.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace holdfast::cli {

// One bar a value, from the least to the greatest; ' ' where it is missing, 'x'
// where it is not finite. With more values than `columns_max` (0: no bound)
// neighbours are one bar: their mean, or an 'x' when one of them is one.
// Without `utf8`, bars are the digits 0 to 7.
std::string Sparkline(const std::vector<std::optional<double>>& values,
                      size_t columns_max, bool utf8);

}  // namespace holdfast::cli
