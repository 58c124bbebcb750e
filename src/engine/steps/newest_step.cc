// CheckNewestStep: returns the error to report instead of a damaged step's own
// error.
#include <algorithm>
#include <optional>
#include <utility>

#include "engine/commit/layout.h"
#include "holdfast/steps/steps.h"

namespace holdfast {

Status CheckNewestStep(const std::string& root, const FoundStep& newest,
                       std::string_view met, std::vector<FoundStep> others) {
  const Place place = Place(root).Absolute();
  std::string damage = DescribeStepAt(place / newest.name).damage;
  if (damage.empty()) damage = met;
  if (damage.empty()) return Status();
  std::sort(
      others.begin(), others.end(),
      [](const FoundStep& a, const FoundStep& b) { return a.step > b.step; });
  std::optional<int64_t> whole_step;
  for (const FoundStep& other : others) {
    if (other.step == newest.step) continue;
    const StepInfo step = DescribeStepAt(place / other.name);
    if (!step.committed || !step.damage.empty()) continue;
    whole_step = other.step;
    break;
  }
  return DamagedStepError(root, newest.step, DataLossError(damage), whole_step);
}

}  // namespace holdfast
