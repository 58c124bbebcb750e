// Preservation policies: which steps are kept, as Orbax's policies of the same
// names decide.
//
//   PreservationPolicy policy =
//       AnyPreservationPolicy{{LatestN{3}, EveryNSteps{1000}}};
//   auto keep = ShouldPreserve(policy, steps, {.now_ns = now});
//
// Thread-safety: values and a pure function, but for functions of the caller's.
// Units: steps; seconds; nanoseconds since 1970-01-01 UTC.
// Errors: InvalidArgument "interval_steps must not be 0.", and for an answer of
// another length from a function of the caller's.
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

struct PreserveAll {};

// The last n; absent: all.
struct LatestN {
  std::optional<int64_t> n;
};

// The first, and from there each that is so much younger than the last kept.
struct EveryNSeconds {
  double interval_secs = 0;
};

struct EveryNSteps {
  int64_t interval_steps = 1;
  // True: steps that the interval divides. False: the first, and from there
  // each that is so much further than the last kept.
  bool exact_interval = true;
  // Keeps the last so many of these; absent, or 0 as in Orbax: all.
  std::optional<int64_t> max_to_keep;
};

// Keeps, for each multiple of the interval, the step nearest to it (the later
// of two), and the last step.
struct EveryNStepsClosest {
  int64_t interval_steps = 1;
  std::optional<int64_t> max_to_keep;  // as EveryNSteps
};

struct CustomSteps {
  std::set<int64_t> steps;
};

// The n steps whose metric is highest (lowest, if `reverse`), the later of
// equal ones; absent: all; 0: none.
struct BestN {
  MetricFn get_metric_fn;
  bool reverse = false;
  std::optional<int64_t> n;
  // Whether steps without metrics are kept as well.
  bool keep_checkpoints_without_metrics = true;
};

// Keeps steps from the first one of at most this age on.
struct LatestDuration {
  double seconds = 0;
};

struct PreservationContext {
  int64_t now_ns = 0;
};

// The caller's own: one answer a step.
struct CustomPreservationPolicy {
  std::function<std::vector<bool>(std::span<const StepRecord> steps,
                                  const PreservationContext& context)>
      should_preserve;
};

struct PreservationPolicy;
// Keeps what any one of them keeps.
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
      : rule(std::move(r)) {}  // NOLINT: any rule is one

  Rule rule;
};

// One answer a step; `steps` are sorted by step.
Result<std::vector<bool>> ShouldPreserve(const PreservationPolicy& policy,
                                         std::span<const StepRecord> steps,
                                         const PreservationContext& context);

// The steps' indices from the worst to the best, without steps that have no
// metrics. `reverse`: the lowest is the best. NaN is the worst either way, and
// so never the best of several. The later of equal ones is
// better.
std::vector<size_t> SortedByMetric(const MetricFn& get_metric_fn, bool reverse,
                                   std::span<const StepRecord> steps);

}  // namespace HOLDFAST_EXPORT
