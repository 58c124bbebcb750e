// The costs of the parts of a run under a policy, and the checks of both.
//
// Thread-safety: values, pure functions. Units: seconds, bytes.
// Errors: InvalidArgument naming the number.
#pragma once

#include <cstdint>

#include "holdfast/tiers/goodput.h"

namespace holdfast {

struct GoodputCosts {
  double member_bytes = 0;     // of the state, on one host
  double host_bytes = 0;       // with parity, and a step in flight
  double period_seconds = 0;   // from one save to the next
  double write_seconds = 0;    // until a step is on the local tier
  double protect_seconds = 0;  // from then on
  double drain_seconds = 0;    // of a step to the shared tier
  double local_restore_seconds = 0;
  double parity_restore_seconds = 0;
  double shared_restore_seconds = 0;
  double host_failures_per_second = 0;  // of any host
  double domain_failures_per_second = 0;

  double failures_per_second() const {
    return host_failures_per_second + domain_failures_per_second;
  }
};

// The work that a simulation may do, in looks at one step that is kept or one
// host that is lost (some 20 ns each); a save or a failure is as many as
// kGoodputEventWork.
inline constexpr uint64_t kGoodputWorkMax = 100'000'000;
inline constexpr uint64_t kGoodputEventWork = 5;

Status CheckGoodput(const GoodputModel& model, const GoodputPolicy& policy);
// REQUIRES: CheckGoodput is ok.
GoodputCosts CostsOf(const GoodputModel& model, const GoodputPolicy& policy);
// InvalidArgument when the saves and failures to expect are too many to play.
Status CheckPlayable(const GoodputModel& model, const GoodputCosts& costs);
Status TooMuchToPlayError(const GoodputModel& model, const GoodputCosts& costs);

}  // namespace holdfast
