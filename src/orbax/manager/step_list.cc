#include "orbax/manager/step_list.h"

#include <algorithm>
#include <utility>

#include "ground/base/status_macros.h"

namespace holdfast {

std::vector<StepRecord> StepList::Records() const {
  std::vector<StepRecord> records;
  for (const KnownStep& step : steps) records.push_back(step.record);
  return records;
}

std::vector<int64_t> StepList::Numbers() const {
  std::vector<int64_t> numbers;
  for (const KnownStep& step : steps) numbers.push_back(step.record.step);
  return numbers;
}

std::optional<int64_t> StepList::Latest() const {
  if (steps.empty()) return std::nullopt;
  return steps.back().record.step;
}

bool StepList::Has(int64_t step) const {
  return std::any_of(steps.begin(), steps.end(), [&](const KnownStep& known) {
    return known.record.step == step;
  });
}

void StepList::Add(KnownStep step) {
  const auto place = std::upper_bound(
      steps.begin(), steps.end(), step.record.step,
      [](int64_t a, const KnownStep& b) { return a < b.record.step; });
  steps.insert(place, std::move(step));
}

std::vector<KnownStep> StepList::Take(
    const std::function<bool(const KnownStep&)>& is_wanted) {
  std::vector<KnownStep> taken, left;
  for (KnownStep& step : steps) {
    (is_wanted(step) ? taken : left).push_back(std::move(step));
  }
  steps = std::move(left);
  return taken;
}

Result<std::vector<int64_t>> StepsToRemove(const PreservationPolicy& policy,
                                           const StepList& list,
                                           int64_t now_ns) {
  const std::vector<StepRecord> records = list.Records();
  HF_ASSIGN_OR_RETURN(std::vector<bool> keep,
                      ShouldPreserve(policy, records, {now_ns}));
  const bool some_stay =
      std::find(keep.begin(), keep.end(), true) != keep.end();
  // The last step is kept whatever the policy says.
  if (!some_stay && !keep.empty()) keep.back() = true;
  std::vector<int64_t> removed;
  for (size_t i = 0; i < keep.size(); ++i) {
    if (!keep[i]) removed.push_back(records[i].step);
  }
  return removed;
}

}  // namespace holdfast
