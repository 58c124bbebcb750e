#include "holdfast/steps/step_record.h"

#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>

#include "ground/json/scanner.h"
#include "ground/json/text.h"

namespace holdfast {
namespace {

// Metrics nested deeper are ignored; the parser has its own limits.
constexpr int kMetricDepthMax = 64;

void CollectNumbers(const nlohmann::ordered_json& value,
                    const std::string& name, int depth,
                    std::map<std::string, double>& numbers) {
  if (depth > kMetricDepthMax) return;
  if (value.is_number()) numbers[name] = value.get<double>();
  if (const auto digits = DigitsOfBigInteger(value)) {
    numbers[name] = std::strtod(digits->c_str(), nullptr);
  }
  if (value.is_boolean()) numbers[name] = value.get<bool>() ? 1 : 0;
  if (!value.is_structured()) return;
  for (const auto& [key, member] : value.items()) {
    CollectNumbers(member, name.empty() ? key : name + "." + key, depth + 1,
                   numbers);
  }
}

}  // namespace

Metrics MetricsOfJson(std::string_view json) {
  Metrics metrics;
  metrics.json = json;
  const auto parsed = ParseJsonText(json);
  if (parsed.ok()) CollectNumbers(*parsed, "", 0, metrics.values);
  return metrics;
}

MetricFn MetricNamed(std::string name) {
  return [name = std::move(name)](const Metrics& metrics) {
    return metrics.Find(name).value_or(
        std::numeric_limits<double>::quiet_NaN());
  };
}

}  // namespace holdfast
