// Computes what the parts of a run cost under a policy, and checks models and
// policies.
//
// Thread-safety: values, pure functions. Units: seconds, bytes.
// Errors: InvalidArgument with the name of the invalid number.
#pragma once

#include <cstdint>

#include "holdfast/tiers/goodput.h"

namespace holdfast {

struct GoodputCosts {
  double member_bytes = 0;     // of the state, per host
  double host_bytes = 0;       // per host, with parity and the step being saved
  double period_seconds = 0;   // from one save to the next
  double write_seconds = 0;    // until a saved step is on the local tier
  double protect_seconds = 0;  // from then until the step is protected
  double drain_seconds = 0;    // to copy a step to the shared tier
  double local_restore_seconds = 0;
  double parity_restore_seconds = 0;
  double shared_restore_seconds = 0;
  double host_failures_per_second = 0;  // for all hosts together
  double domain_failures_per_second = 0;

  double failures_per_second() const {
    return host_failures_per_second + domain_failures_per_second;
  }
};

// The maximum work of a simulation, counted in visits to a kept step or a lost
// host (some 20 ns each). A save or a failure counts as kGoodputEventWork
// visits.
inline constexpr uint64_t kGoodputWorkMax = 100'000'000;
inline constexpr uint64_t kGoodputEventWork = 5;

Status CheckGoodput(const GoodputModel& model, const GoodputPolicy& policy);
// Returns the costs. REQUIRES: CheckGoodput is ok.
GoodputCosts CostsOf(const GoodputModel& model, const GoodputPolicy& policy);
// Returns InvalidArgument if a simulation is expected to have too many saves
// and failures.
Status CheckPlayable(const GoodputModel& model, const GoodputCosts& costs);
Status TooMuchToPlayError(const GoodputModel& model, const GoodputCosts& costs);

}  // namespace holdfast
