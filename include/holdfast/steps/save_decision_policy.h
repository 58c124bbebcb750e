// Save-decision policies: decide whether a step is saved, as Orbax's policies
// of the same names do.
//
//   SaveDecisionPolicy policy = AnySavePolicy{{
//       FixedIntervalPolicy{1000}, PreemptionCheckpointingPolicy{}}};
//   ShouldSave(policy, {.step = 2000, .time_ns = now}, previous, context);
//
// Thread-safety: values and a pure function, except for the caller's functions.
// Units: steps; seconds; nanoseconds since 1970-01-01 UTC.
// Errors: InvalidArgument for an interval of 0.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "holdfast/export.h"
#include "holdfast/status.h"
#include "holdfast/steps/step_record.h"

namespace holdfast HOLDFAST_EXPORT {

// Saves steps that are divisible by `interval`.
struct FixedIntervalPolicy {
  int64_t interval = 1;
};

// Saves these steps.
struct SpecificStepsPolicy {
  std::set<int64_t> steps;
};

// Saves as often as possible: whenever no save is running and the last save is
// at least this old.
struct ContinuousCheckpointingPolicy {
  std::optional<double> minimum_interval_secs;
};

// Saves when the machine is about to be preempted.
struct PreemptionCheckpointingPolicy {};

// Saves when no step exists yet.
struct InitialSavePolicy {};

struct DecisionContext {
  bool is_saving_in_progress = false;
  bool reached_preemption = false;
};

// The caller's own policy. `previous` is sorted by step.
struct CustomSavePolicy {
  std::function<bool(const StepRecord& step,
                     std::span<const StepRecord> previous,
                     const DecisionContext& context)>
      should_save;
};

struct SaveDecisionPolicy;
// Saves when any of the policies does. Policies are asked in order, until one
// decides to save.
struct AnySavePolicy {
  std::vector<SaveDecisionPolicy> policies;
};

struct SaveDecisionPolicy {
  using Rule =
      std::variant<FixedIntervalPolicy, SpecificStepsPolicy,
                   ContinuousCheckpointingPolicy, PreemptionCheckpointingPolicy,
                   InitialSavePolicy, CustomSavePolicy, AnySavePolicy>;

  template <typename R>
    requires kIsAlternative<R, Rule>
  SaveDecisionPolicy(R r) : rule(std::move(r)) {}  // NOLINT: implicit

  Rule rule;
};

// Returns whether to save `step`, whose time is the current time. `previous`
// are the existing steps, sorted by step.
Result<bool> ShouldSave(const SaveDecisionPolicy& policy,
                        const StepRecord& step,
                        std::span<const StepRecord> previous,
                        const DecisionContext& context);

}  // namespace holdfast
