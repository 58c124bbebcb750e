// Drift: how far each tensor has moved since another checkpoint.
//
//   auto before = holdfast::Open("/ckpt/6");
//   auto now = holdfast::Open("/ckpt/7");
//   auto drift = holdfast::ComputeDrift(**before, **now);
//   for (const holdfast::LeafDrift& leaf : drift->leaves) leaf.relative();
//
// Arrays and scalars of one name and shape are compared, as numbers, whatever
// their dtypes are; elements that are finite on both sides count, complex ones
// as their two parts. Others are not in the result. Sums do not depend on the
// number of threads. Reads pieces of both at the same time; nothing but those
// pieces is held, within RunOptions::in_flight_bytes_max.
// Thread-safety: may run concurrently on the same checkpoints.
// Units: bytes, elements. Errors: Cancelled; InvalidArgument for two leaves
// that have one name. A leaf that cannot be read is in the result, with the
// reason, and stops nothing else.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "holdfast/checkpoint.h"
#include "holdfast/export.h"
#include "holdfast/options.h"
#include "holdfast/status.h"

namespace holdfast HOLDFAST_EXPORT {

class StatsCache;

struct DriftOptions {
  // Threads, memory, progress (phase "drift", bytes of both sides), cancel.
  RunOptions run;
  // Selects leaves of the checkpoint `now`; empty: all.
  std::function<bool(const LeafInfo&)> select;
  // As StatsOptions has it; both identities, or none.
  StatsCache* cache = nullptr;
  std::string identity_before;
  std::string identity_now;
};

struct LeafDrift {
  size_t before = 0;  // index into leaves() there
  size_t now = 0;
  double moved = 0;  // l2 norm of the difference
  double norm = 0;   // l2 norm of what was before
  Status problem;

  // moved / norm; 0 where nothing moved, infinity from zeros to others.
  double relative() const;
};

struct DriftResult {
  std::vector<LeafDrift> leaves;  // in the order of `now`
  Stats stats;
};

Result<DriftResult> ComputeDrift(const Checkpoint& before,
                                 const Checkpoint& now,
                                 const DriftOptions& options = {});

}  // namespace holdfast
