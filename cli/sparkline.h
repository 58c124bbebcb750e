// Draws a sequence of numbers as one line of small bars.
//
// Thread-safety: pure functions. Units: columns of text.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace holdfast::cli {

// Returns one bar per value, scaled from the smallest to the largest value. A
// missing value is ' ', and a value that is not finite is 'x'. If there are
// more values than `columns_max` (0: no bound), neighbors share a bar, which
// shows their mean, or 'x' if any of them is not finite. Without `utf8`, bars
// are the digits 0 to 7.
std::string Sparkline(const std::vector<std::optional<double>>& values,
                      size_t columns_max, bool utf8);

}  // namespace holdfast::cli
