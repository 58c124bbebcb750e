// The facts about a step that policies receive: its number, time and metrics.
//
// Thread-safety: values. Units: nanoseconds since 1970-01-01 UTC.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

#include "holdfast/export.h"

namespace holdfast HOLDFAST_EXPORT {

// The metrics item of a step.
struct Metrics {
  std::string json;  // as stored
  // The numbers in the JSON object, by their keys joined with '.'; true counts
  // as 1.
  std::map<std::string, double> values;

  std::optional<double> Find(std::string_view name) const {
    const auto found = values.find(std::string(name));
    if (found == values.end()) return std::nullopt;
    return found->second;
  }
};

// Parses a JSON object. For other text, sets only Metrics::json.
Metrics MetricsOfJson(std::string_view json);

// Returns a rating of metrics: higher is better, and NaN is the worst.
using MetricFn = std::function<double(const Metrics&)>;
// Returns a function that returns the number with this name; NaN if it is
// missing.
MetricFn MetricNamed(std::string name);

struct StepRecord {
  int64_t step = 0;
  // When the step was committed.
  int64_t time_ns = 0;
  std::optional<Metrics> metrics;
};

// True if T is itself one of the variant's types.
template <typename T, typename Variant>
inline constexpr bool kIsAlternative = false;
template <typename T, typename... Types>
inline constexpr bool kIsAlternative<T, std::variant<Types...>> =
    (std::is_same_v<T, Types> || ...);

}  // namespace holdfast
