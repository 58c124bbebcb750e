// Save-decision policies: whether a step is to be saved, as Orbax's policies of
// the same names decide.
//
//   SaveDecisionPolicy policy = AnySavePolicy{{
//       FixedIntervalPolicy{1000}, PreemptionCheckpointingPolicy{}}};
//   ShouldSave(policy, {.step = 2000, .time_ns = now}, previous, context);
//
// Thread-safety: values and a pure function, but for functions of the caller's.
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

// Steps that `interval` divides.
struct FixedIntervalPolicy {
  int64_t interval = 1;
};

struct SpecificStepsPolicy {
  std::set<int64_t> steps;
};

// Saves as often as possible: when no save runs, and the last one is at least
// this old.
struct ContinuousCheckpointingPolicy {
  std::optional<double> minimum_interval_secs;
};

// When the machine is about to be taken away.
struct PreemptionCheckpointingPolicy {};

// When there is no step yet.
struct InitialSavePolicy {};

struct DecisionContext {
  bool is_saving_in_progress = false;
  bool reached_preemption = false;
};

// The caller's own. `previous` is sorted by step.
struct CustomSavePolicy {
  std::function<bool(const StepRecord& step,
                     std::span<const StepRecord> previous,
                     const DecisionContext& context)>
      should_save;
};

struct SaveDecisionPolicy;
// When one of them says so; asked in order until then.
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
  SaveDecisionPolicy(R r) : rule(std::move(r)) {}  // NOLINT: any rule is one

  Rule rule;
};

// `step` is the one to decide, with the present as its time; `previous` are
// those that exist, sorted by step.
Result<bool> ShouldSave(const SaveDecisionPolicy& policy,
                        const StepRecord& step,
                        std::span<const StepRecord> previous,
                        const DecisionContext& context);

}  // namespace holdfast
