#include "holdfast/steps/preservation_policy.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "engine/steps/step_scan.h"
#include "ground/base/status_macros.h"

namespace holdfast {
namespace {

using Answer = std::vector<bool>;

// Returns the index of the first of `count` items that is in Python's slice
// [-n:].
size_t TailStart(int64_t n, size_t count) {
  const auto size = static_cast<int64_t>(count);
  if (n <= 0) return static_cast<size_t>(std::min(-n, size));
  return static_cast<size_t>(std::max<int64_t>(size - n, 0));
}

// Keeps only the last `max_to_keep` of the kept steps. 0 means no limit,
// because Python's slice [:-0] is empty.
void KeepLast(const std::optional<int64_t>& max_to_keep, Answer& keep) {
  if (!max_to_keep || *max_to_keep == 0) return;
  const auto kept =
      static_cast<size_t>(std::count(keep.begin(), keep.end(), true));
  if (static_cast<int64_t>(kept) <= *max_to_keep) return;
  size_t dropped = TailStart(*max_to_keep, kept);
  for (size_t i = 0; i < keep.size() && dropped > 0; ++i) {
    if (!keep[i]) continue;
    keep[i] = false;
    --dropped;
  }
}

Status ZeroInterval() {
  return InvalidArgumentError("interval_steps must not be 0.");
}

struct Preserver {
  std::span<const StepRecord> steps;
  const PreservationContext& context;

  Result<Answer> operator()(const PreserveAll&) const {
    return Answer(steps.size(), true);
  }

  Result<Answer> operator()(const LatestN& policy) const {
    Answer keep(steps.size(), true);
    if (!policy.n) return keep;
    const int64_t n = std::max<int64_t>(*policy.n, 0);
    const auto dropped = static_cast<int64_t>(steps.size()) - n;
    for (int64_t i = 0; i < dropped; ++i) keep[i] = false;
    return keep;
  }

  Result<Answer> operator()(const EveryNSeconds& policy) const {
    const double interval_ns =
        policy.interval_secs * static_cast<double>(kNsASecond);
    Answer keep;
    int64_t last_ns = 0;
    for (const StepRecord& step : steps) {
      const auto passed_ns = static_cast<double>(step.time_ns - last_ns);
      keep.push_back(keep.empty() || passed_ns >= interval_ns);
      if (keep.back()) last_ns = step.time_ns;
    }
    return keep;
  }

  Result<Answer> operator()(const EveryNSteps& policy) const {
    if (policy.interval_steps == 0) return ZeroInterval();
    Answer keep;
    int64_t last = 0;
    for (const StepRecord& step : steps) {
      const bool is_due =
          policy.exact_interval
              ? step.step % policy.interval_steps == 0
              : keep.empty() || step.step - last >= policy.interval_steps;
      keep.push_back(is_due);
      if (is_due) last = step.step;
    }
    KeepLast(policy.max_to_keep, keep);
    return keep;
  }

  Result<Answer> operator()(const EveryNStepsClosest& policy) const {
    if (policy.interval_steps == 0) return ZeroInterval();
    const auto interval = static_cast<double>(policy.interval_steps);
    // For each multiple: the index of the nearest step, and its distance.
    std::map<double, std::pair<size_t, double>> nearest;
    for (size_t i = 0; i < steps.size(); ++i) {
      const auto step = static_cast<double>(steps[i].step);
      // A tie is rounded to the even multiple, as in Python.
      const double multiple = std::nearbyint(step / interval);
      const double distance = std::abs(step - multiple * interval);
      const auto found = nearest.find(multiple);
      if (found == nearest.end() || distance <= found->second.second) {
        nearest[multiple] = {i, distance};
      }
    }
    Answer keep(steps.size(), false);
    for (const auto& [multiple, best] : nearest) keep[best.first] = true;
    if (!keep.empty()) keep.back() = true;
    KeepLast(policy.max_to_keep, keep);
    return keep;
  }

  Result<Answer> operator()(const CustomSteps& policy) const {
    Answer keep;
    for (const StepRecord& step : steps) {
      keep.push_back(policy.steps.contains(step.step));
    }
    return keep;
  }

  Result<Answer> operator()(const BestN& policy) const {
    const auto count = static_cast<int64_t>(steps.size());
    if (!policy.n || count <= *policy.n) return Answer(steps.size(), true);
    Answer keep(steps.size(), false);
    if (*policy.n == 0) return keep;
    const std::vector<size_t> sorted =
        SortedByMetric(policy.get_metric_fn, policy.reverse, steps);
    for (size_t i = TailStart(*policy.n, sorted.size()); i < sorted.size();
         ++i) {
      keep[sorted[i]] = true;
    }
    for (size_t i = 0; i < steps.size(); ++i) {
      if (steps[i].metrics) continue;
      keep[i] = policy.keep_checkpoints_without_metrics;
    }
    return keep;
  }

  Result<Answer> operator()(const LatestDuration& policy) const {
    Answer keep;
    for (const StepRecord& step : steps) {
      const auto age_ns = static_cast<double>(context.now_ns - step.time_ns);
      const bool is_young =
          age_ns <= policy.seconds * static_cast<double>(kNsASecond);
      // As in Orbax, a step older than the duration is kept if the step before
      // it is kept.
      keep.push_back(is_young || (!keep.empty() && keep.back()));
    }
    return keep;
  }

  Result<Answer> operator()(const CustomPreservationPolicy& policy) const {
    Answer keep = policy.should_preserve(steps, context);
    if (keep.size() == steps.size()) return keep;
    return InvalidArgumentError("custom preservation policy: got " +
                                std::to_string(keep.size()) + " answers for " +
                                std::to_string(steps.size()) + " steps");
  }

  Result<Answer> operator()(const AnyPreservationPolicy& any) const {
    Answer keep(steps.size(), false);
    for (const PreservationPolicy& policy : any.policies) {
      HF_ASSIGN_OR_RETURN(const Answer one, std::visit(*this, policy.rule));
      for (size_t i = 0; i < keep.size(); ++i) keep[i] = keep[i] || one[i];
    }
    return keep;
  }
};

}  // namespace

std::vector<size_t> SortedByMetric(const MetricFn& get_metric_fn, bool reverse,
                                   std::span<const StepRecord> steps) {
  std::vector<std::pair<double, size_t>> sorted;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].metrics) {
      sorted.emplace_back(get_metric_fn(*steps[i].metrics), i);
    }
  }
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const auto& a, const auto& b) {
                     // NaN is unordered; it counts as the worst.
                     if (std::isnan(a.first) || std::isnan(b.first)) {
                       return std::isnan(a.first) && !std::isnan(b.first);
                     }
                     return reverse ? a.first > b.first : a.first < b.first;
                   });
  std::vector<size_t> indices;
  for (const auto& [metric, index] : sorted) indices.push_back(index);
  return indices;
}

Result<std::vector<bool>> ShouldPreserve(const PreservationPolicy& policy,
                                         std::span<const StepRecord> steps,
                                         const PreservationContext& context) {
  return std::visit(Preserver{steps, context}, policy.rule);
}

}  // namespace holdfast
