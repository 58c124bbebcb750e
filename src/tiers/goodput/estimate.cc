#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "ground/base/status_macros.h"
#include "tiers/goodput/costs.h"
#include "tiers/parity/placement.h"

namespace holdfast {
namespace {

// Returns the share of failures in which a group loses more hosts than it has
// parity shards, because others fail while the first host is replaced and
// before the step is rebuilt.
double UncoveredShare(const GoodputModel& model, const GoodputPolicy& policy,
                      const GoodputCosts& costs) {
  const double window = model.restart_seconds + costs.parity_restore_seconds;
  const double group_size =
      static_cast<double>(policy.data_shards + policy.parity_shards);
  const double lost_per_second = model.lost_share / model.host_mtbf_seconds;
  // The number of other hosts that are lost in this window has a Poisson
  // distribution.
  const double expected = (group_size - 1) * lost_per_second * window;
  double covered = 0;
  double term = std::exp(-expected);
  for (int64_t k = 0; k < policy.parity_shards; ++k) {
    covered += term;
    term *= expected / static_cast<double>(k + 1);
  }
  const double by_hosts = model.lost_share * (1 - covered);
  double by_domains = 0;
  if (model.domain_mtbf_seconds > 0) {
    const double groups = std::max(
        1.0, std::floor(static_cast<double>(model.host_count) / group_size));
    const double of_a_group =
        std::ceil(static_cast<double>(model.hosts_per_domain) / groups);
    by_domains = of_a_group > static_cast<double>(policy.parity_shards) ? 1 : 0;
  }
  return (by_hosts * costs.host_failures_per_second +
          by_domains * costs.domain_failures_per_second) /
         costs.failures_per_second();
}

// Returns the expected time until something that takes `seconds` has completed
// without a failure.
double UntilDone(double seconds, double failures_per_second) {
  return std::expm1(failures_per_second * seconds) / failures_per_second;
}

}  // namespace

Result<GoodputResult> EstimateGoodput(const GoodputModel& model,
                                      const GoodputPolicy& policy) {
  HF_RETURN_IF_ERROR(CheckGoodput(model, policy));
  const GoodputCosts costs = CostsOf(model, policy);
  const double rate = costs.failures_per_second();
  const double uncovered = UncoveredShare(model, policy, costs);
  // The periods whose step was already protected survive a failure. Their
  // number has a geometric distribution.
  const double lag = costs.write_seconds + costs.protect_seconds;
  const double period_count =
      std::exp(-rate * lag) / std::expm1(rate * costs.period_seconds);
  const double useful_seconds = period_count *
                                static_cast<double>(policy.local_every) *
                                model.step_seconds;
  const double local_seconds =
      (1 - model.lost_share) * costs.local_restore_seconds +
      model.lost_share * costs.parity_restore_seconds;
  const double restore_seconds = (1 - uncovered) * local_seconds +
                                 uncovered * costs.shared_restore_seconds;
  const double cycle_seconds =
      1 / rate + UntilDone(model.restart_seconds + restore_seconds, rate);
  // The expected time between the newest step in the shared tier and the
  // failure.
  const double shared_gap_seconds =
      policy.shared_every == 0
          ? model.simulated_seconds / 2
          : static_cast<double>(policy.shared_every) * model.step_seconds / 2 +
                costs.drain_seconds;
  GoodputResult result;
  result.goodput = std::max(
      0.0, (useful_seconds - uncovered * shared_gap_seconds) / cycle_seconds);
  result.host_bytes = costs.host_bytes;
  return result;
}

namespace {

// Common numbers of steps between saves.
constexpr int64_t kEvery[] = {1,   2,   5,    10,   20,   50,    100,
                              200, 500, 1000, 2000, 5000, 10'000};
constexpr int64_t kDataShards[] = {2, 3, 4, 6, 7, 8, 10, 14, 16, 30, 62};
constexpr int64_t kParityShards[] = {0, 1, 2, 3, 4};
// Plans whose goodput differs by less count as equal. The equal plan that
// copies least is chosen.
constexpr double kEqualGoodput = 1e-4;
// How many of the formula's best plans are simulated, since the formula is only
// an approximation.
constexpr size_t kSimulatedCount = 12;

bool IsBetter(const GoodputPlan& a, const GoodputPlan& b) {
  const double more = a.result.goodput - b.result.goodput;
  if (std::abs(more) > kEqualGoodput) return more > 0;
  if (a.policy.shared_every != b.policy.shared_every) {
    return a.policy.shared_every > b.policy.shared_every;
  }
  return a.policy.local_every > b.policy.local_every;
}

// Chooses how often to save with this parity.
std::optional<GoodputPlan> BestWith(const GoodputModel& model, int64_t n,
                                    int64_t m, double host_bytes_max) {
  std::optional<GoodputPlan> best;
  for (const int64_t local : kEvery) {
    for (const int64_t shared : kEvery) {
      if (shared % local != 0) continue;
      GoodputPlan plan{{local, shared, n, m}, {}};
      const auto estimate = EstimateGoodput(model, plan.policy);
      if (!estimate.ok() || estimate->host_bytes > host_bytes_max) continue;
      plan.result = *estimate;
      if (!best || IsBetter(plan, *best)) best = plan;
    }
  }
  return best;
}

std::vector<GoodputPlan> PlansThatFit(const GoodputModel& model,
                                      double host_bytes_max) {
  std::vector<GoodputPlan> plans;
  for (const int64_t m : kParityShards) {
    for (const int64_t n : kDataShards) {
      // Without parity, the size of a group has no effect.
      if (n + m > model.host_count || (m == 0 && n != kDataShards[0])) continue;
      const auto best = BestWith(model, n, m, host_bytes_max);
      if (best) plans.push_back(*best);
    }
  }
  return plans;
}

std::string ByteText(double bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f", std::min(bytes, 0x1p80));
  return text;
}

void SortByGoodput(std::vector<GoodputPlan>& plans) {
  std::stable_sort(plans.begin(), plans.end(),
                   [](const GoodputPlan& a, const GoodputPlan& b) {
                     return a.result.goodput > b.result.goodput;
                   });
}

}  // namespace

Result<std::vector<GoodputPlan>> PlanGoodput(const GoodputModel& model,
                                             double host_bytes_max,
                                             int64_t plan_count_max) {
  HF_RETURN_IF_ERROR(CheckGoodput(model, GoodputPolicy()));
  std::vector<GoodputPlan> plans = PlansThatFit(model, host_bytes_max);
  if (plans.empty()) {
    return FailedPreconditionError(
        "goodput: no plan keeps at most " + ByteText(host_bytes_max) +
        " bytes on a host: two steps of its part of the state are " +
        ByteText(2 * model.state_bytes /
                 static_cast<double>(model.host_count)));
  }
  SortByGoodput(plans);
  plans.resize(std::min(plans.size(), kSimulatedCount));
  Status unplayed;
  std::erase_if(plans, [&](GoodputPlan& plan) {
    const auto result = SimulateGoodput(model, plan.policy);
    if (result.ok()) plan.result = *result;
    unplayed = result.status();
    return !result.ok();
  });
  if (plans.empty()) return unplayed;
  SortByGoodput(plans);
  plans.resize(std::min<size_t>(plans.size(), plan_count_max));
  return plans;
}

}  // namespace holdfast
