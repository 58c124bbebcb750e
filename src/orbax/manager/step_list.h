// StepList: the steps that a manager knows of, sorted, and which of them its
// policy lets go.
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
  std::vector<KnownStep> steps;  // by step

  std::vector<StepRecord> Records() const;
  std::vector<int64_t> Numbers() const;
  std::optional<int64_t> Latest() const;
  bool Has(int64_t step) const;
  // Inserts it by step, behind equal ones.
  void Add(KnownStep step);
  // Takes out the steps for which `is_wanted` is true, and returns them.
  std::vector<KnownStep> Take(
      const std::function<bool(const KnownStep&)>& is_wanted);
};

// The numbers of the steps that the policy does not preserve. When it preserves
// none, the last one stays all the same.
Result<std::vector<int64_t>> StepsToRemove(const PreservationPolicy& policy,
                                           const StepList& list,
                                           int64_t now_ns);

}  // namespace holdfast
