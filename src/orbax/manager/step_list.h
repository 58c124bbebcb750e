// StepList: the steps that a manager knows, sorted. StepsToRemove: the steps
// that its policy removes.
//
// Thread-safety: values, pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/status.h"
#include "holdfast/steps/preservation_policy.h"
#include "holdfast/steps/step_record.h"

namespace holdfast {

struct KnownStep {
  StepRecord record;
  std::string name;  // of its directory
};

struct StepList {
  std::vector<KnownStep> steps;  // sorted by step

  std::vector<StepRecord> Records() const;
  std::vector<int64_t> Numbers() const;
  std::optional<int64_t> Latest() const;
  bool Has(int64_t step) const;
  // Inserts a step in order, after equal steps.
  void Add(KnownStep step);
  // Removes the steps for which `is_wanted` is true, and returns them.
  std::vector<KnownStep> Take(
      const std::function<bool(const KnownStep&)>& is_wanted);
};

// Returns the numbers of the steps that the policy does not preserve, except
// that the last step is kept if the policy preserves no step.
Result<std::vector<int64_t>> StepsToRemove(const PreservationPolicy& policy,
                                           const StepList& list,
                                           int64_t now_ns);

}  // namespace holdfast
