// Preservation policies: decide which steps are kept, as Orbax's policies of
// the same names do.
//
//   PreservationPolicy policy =
//       AnyPreservationPolicy{{LatestN{3}, EveryNSteps{1000}}};
//   auto keep = ShouldPreserve(policy, steps, {.now_ns = now});
//
// Thread-safety: values and a pure function, except for the caller's functions.
// Units: steps; seconds; nanoseconds since 1970-01-01 UTC.
// Errors: InvalidArgument "interval_steps must not be 0."; also if a caller's
// function returns the wrong number of answers.
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

// Keeps all steps.
struct PreserveAll {};

// Keeps the last n steps; absent: all.
struct LatestN {
  std::optional<int64_t> n;
};

// Keeps the first step, and then each step that is at least this much newer
// than the last kept step.
struct EveryNSeconds {
  double interval_secs = 0;
};

struct EveryNSteps {
  int64_t interval_steps = 1;
  // If true, keeps steps that are divisible by the interval. If false, keeps
  // the first step, and then each step that is at least the interval after the
  // last kept step.
  bool exact_interval = true;
  // Keeps only the last `max_to_keep` of these steps. Absent, or 0 as in Orbax:
  // all.
  std::optional<int64_t> max_to_keep;
};

// Keeps the nearest step to each multiple of the interval (of two equally near
// steps, the later), and the last step.
struct EveryNStepsClosest {
  int64_t interval_steps = 1;
  std::optional<int64_t> max_to_keep;  // as in EveryNSteps
};

// Keeps these steps.
struct CustomSteps {
  std::set<int64_t> steps;
};

// Keeps the n steps with the highest metric (the lowest, if `reverse`); of
// equal steps, the later. An absent n keeps all steps, 0 none.
struct BestN {
  MetricFn get_metric_fn;
  bool reverse = false;
  std::optional<int64_t> n;
  // Whether steps without metrics are kept, too.
  bool keep_checkpoints_without_metrics = true;
};

// Keeps all steps from the first step on that has at most this age.
struct LatestDuration {
  double seconds = 0;
};

struct PreservationContext {
  int64_t now_ns = 0;
};

// The caller's own policy: returns one answer per step.
struct CustomPreservationPolicy {
  std::function<std::vector<bool>(std::span<const StepRecord> steps,
                                  const PreservationContext& context)>
      should_preserve;
};

struct PreservationPolicy;
// Keeps the steps that any of the policies keeps.
struct AnyPreservationPolicy {
  std::vector<PreservationPolicy> policies;
};

struct PreservationPolicy {
  using Rule =
      std::variant<PreserveAll, LatestN, EveryNSeconds, EveryNSteps,
                   EveryNStepsClosest, CustomSteps, BestN, LatestDuration,
                   CustomPreservationPolicy, AnyPreservationPolicy>;

  template <typename R>
  requires kIsAlternative<R, Rule> PreservationPolicy(R r)
      : rule(std::move(r)) {}  // NOLINT: implicit on purpose

  Rule rule;
};

// Returns one answer per step; `steps` are sorted by step.
Result<std::vector<bool>> ShouldPreserve(const PreservationPolicy& policy,
                                         std::span<const StepRecord> steps,
                                         const PreservationContext& context);

// Returns the indices of the steps that have metrics, from worst to best. With
// `reverse`, the lowest metric is the best. NaN is worse than every number.
// Among equal steps, the later is better.
std::vector<size_t> SortedByMetric(const MetricFn& get_metric_fn, bool reverse,
                                   std::span<const StepRecord> steps);

}  // namespace HOLDFAST_EXPORT
