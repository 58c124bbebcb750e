// The share of its time that a run trains, with steps on its own hosts
// (holdfast/tiers/tiered_manager.h): for machines that fail at given rates, how
// often to save where, and how much parity to keep.
//
//   GoodputModel model{.host_count = 1024, .state_bytes = 2e12};
//   auto plans = PlanGoodput(model, 64e9);     // best first
//
// A simulation plays the run failure by failure: steps, saves, copies to the
// shared tier one after another, failures of hosts and of whole failure domains
// as Poisson processes, and of each what is left. Which ranks keep parity for
// each other, which steps go, and what can be restored is decided by the code
// that the manager itself runs. EstimateGoodput is a formula that it is
// compared with. doc/goodput.md has the model.
//
// Thread-safety: pure functions. Units: seconds, bytes, bytes a second.
// Errors: InvalidArgument naming the number, also where there would be more
// than some 20,000,000 saves and failures to play; FailedPrecondition for too
// few hosts for the parity, and where no plan fits the budget.
#pragma once

#include <cstdint>
#include <vector>

#include "holdfast/export.h"
#include "holdfast/status.h"

namespace holdfast HOLDFAST_EXPORT {

// The machines and the run.
struct GoodputModel {
  int64_t host_count = 256;  // 1 to 65,536
  // Mean time between two failures of one host; and the share of these that
  // also lose what the host keeps, rather than only the process.
  double host_mtbf_seconds = 250 * 86400.0;
  double lost_share = 0.5;
  // Hosts that fail together: a rack, a power line. 0 seconds: never.
  int64_t hosts_per_domain = 1;
  double domain_mtbf_seconds = 0;

  double state_bytes = 0x1p40;  // of all hosts together
  double step_seconds = 10;
  double blocking_seconds = 1;               // of a save
  double local_bytes_per_second = 0x1p31;    // of one host
  double peer_bytes_per_second = 0x5p30;     // that one host receives
  double shared_bytes_per_second = 0x14p30;  // of all hosts together
  // From a failure until all processes run again, replacements among them.
  double restart_seconds = 300;

  double simulated_seconds = 90 * 86400.0;
  uint64_t seed = 1;
};

// The choices of a run: TieredManagerOptions has the same names.
struct GoodputPolicy {
  int64_t local_every = 10;     // steps
  int64_t shared_every = 1000;  // steps; 0: nothing is copied
  int64_t data_shards = 7;
  int64_t parity_shards = 1;
};

struct GoodputResult {
  double goodput = 0;  // of all time, the steps that were not done again
  // The rest of it.
  double blocked_share = 0;    // saves that the steps waited for
  double redone_share = 0;     // steps that were lost, and done again
  double restart_share = 0;    // waiting for processes
  double restore_share = 0;    // reading
  uint64_t failure_count = 0;  // of hosts and domains
  // The places that runs began from, after failures.
  uint64_t local_count = 0;
  uint64_t parity_count = 0;
  uint64_t shared_count = 0;
  uint64_t nothing_count = 0;      // from step 0
  double host_bytes = 0;           // of the local tier, with a step in flight
  double peer_bytes_per_step = 0;  // that one host receives, on average
};

Result<GoodputResult> SimulateGoodput(const GoodputModel& model,
                                      const GoodputPolicy& policy);
// Only goodput and host_bytes, at once, by a formula.
Result<GoodputResult> EstimateGoodput(const GoodputModel& model,
                                      const GoodputPolicy& policy);

struct GoodputPlan {
  GoodputPolicy policy;
  GoodputResult result;  // of a simulation
};
// The best policies that keep at most so many bytes on a host, best first.
Result<std::vector<GoodputPlan>> PlanGoodput(const GoodputModel& model,
                                             double host_bytes_max,
                                             int64_t plan_count_max = 5);

}  // namespace holdfast
