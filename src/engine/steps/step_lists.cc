#include "engine/steps/step_lists.h"

#include <charconv>

namespace holdfast {

std::string PackSteps(const std::vector<FoundStep>& steps) {
  std::string text;
  for (const FoundStep& step : steps) text += std::to_string(step.step) + ",";
  return text;
}

Result<std::vector<FoundStep>> UnpackSteps(std::string_view text,
                                           const StepNameFormat& format) {
  std::vector<FoundStep> steps;
  const char* const end = text.data() + text.size();
  for (const char* next = text.data(); next != end; ++next) {
    int64_t step = 0;
    const auto [stop, error] = std::from_chars(next, end, step);
    if (error != std::errc() || stop == end || *stop != ',' || step < 0) {
      return InternalError("steps of rank 0: got \"" + std::string(text) +
                           "\"");
    }
    steps.push_back({step, format.BuildName(step)});
    next = stop;
  }
  return steps;
}

}  // namespace holdfast
