// Computes the share of its time that a run spends on training when it keeps
// steps on its own hosts (holdfast/tiers/tiered_manager.h). For machines that
// fail at given rates, plans how often to save where, and how much parity to
// keep.
//
//   GoodputModel model{.host_count = 1024, .state_bytes = 2e12};
//   auto plans = PlanGoodput(model, 64e9);     // best first
//
// The simulation goes through the run failure by failure. It models steps,
// saves, copies to the shared tier (one after another), failures of hosts and
// failure domains (as Poisson processes), and what each failure leaves. The
// manager's own code decides which ranks keep parity for each other, which
// steps are removed, and what can be restored. EstimateGoodput is a formula,
// with which the simulation can be compared. doc/goodput.md describes the
// model.
//
// Thread-safety: pure functions.
// Units: seconds, bytes, bytes per second. Errors: InvalidArgument naming the
// value, also if more than about 20,000,000 saves and failures would have to be
// simulated; FailedPrecondition if there are too few hosts for the parity, and
// if no plan fits the budget.
#pragma once

#include <cstdint>
#include <vector>

#include "holdfast/export.h"
#include "holdfast/status.h"

namespace holdfast HOLDFAST_EXPORT {

// The machines and the run.
struct GoodputModel {
  int64_t host_count = 256;  // 1 to 65,536
  // Mean time between two failures of one host, and the share of these failures
  // that lose the host's data, not only its process.
  double host_mtbf_seconds = 250 * 86400.0;
  double lost_share = 0.5;
  // Hosts that fail together: a rack, a power line. 0 seconds: never.
  int64_t hosts_per_domain = 1;
  double domain_mtbf_seconds = 0;

  double state_bytes = 0x1p40;  // of all hosts together
  double step_seconds = 10;
  double blocking_seconds = 1;               // per save
  double local_bytes_per_second = 0x1p31;    // per host
  double peer_bytes_per_second = 0x5p30;     // received by one host
  double shared_bytes_per_second = 0x14p30;  // of all hosts together
  // From a failure until all processes run again, including replacements.
  double restart_seconds = 300;

  double simulated_seconds = 90 * 86400.0;
  uint64_t seed = 1;
};

// The choices for a run, with the names of TieredManagerOptions.
struct GoodputPolicy {
  int64_t local_every = 10;     // steps
  int64_t shared_every = 1000;  // steps; 0: no step is copied
  int64_t data_shards = 7;
  int64_t parity_shards = 1;
};

struct GoodputResult {
  double goodput = 0;  // share of the time spent on steps that were not redone
  // The other shares of the time.
  double blocked_share = 0;    // steps that wait for saves
  double redone_share = 0;     // steps that were lost, and redone
  double restart_share = 0;    // waiting for processes
  double restore_share = 0;    // reading
  uint64_t failure_count = 0;  // of hosts and domains
  // Where the run resumed from after failures.
  uint64_t local_count = 0;
  uint64_t parity_count = 0;
  uint64_t shared_count = 0;
  uint64_t nothing_count = 0;      // from step 0
  double host_bytes = 0;           // in the local tier, with a step in flight
  double peer_bytes_per_step = 0;  // received by one host, on average
};

Result<GoodputResult> SimulateGoodput(const GoodputModel& model,
                                      const GoodputPolicy& policy);
// Computes only goodput and host_bytes, by a formula instead of a simulation.
Result<GoodputResult> EstimateGoodput(const GoodputModel& model,
                                      const GoodputPolicy& policy);

struct GoodputPlan {
  GoodputPolicy policy;
  GoodputResult result;  // of the simulation
};
// Returns the best policies that keep at most host_bytes_max on a host, best
// first.
Result<std::vector<GoodputPlan>> PlanGoodput(const GoodputModel& model,
                                             double host_bytes_max,
                                             int64_t plan_count_max = 5);

}  // namespace holdfast
