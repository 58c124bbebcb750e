// Drift: measures how far each tensor has moved from its value in another
// checkpoint.
//
//   auto before = holdfast::Open("/ckpt/6");
//   auto now = holdfast::Open("/ckpt/7");
//   auto drift = holdfast::ComputeDrift(**before, **now);
//   for (const holdfast::LeafDrift& leaf : drift->leaves) leaf.relative();
//
// Arrays and scalars with the same name and shape are compared as numbers,
// whatever their dtypes; other leaves are not in the result. Only elements that
// are finite on both sides count; a complex element counts as its two parts.
// Sums do not depend on the number of threads. Pieces of both checkpoints are
// read at the same time; only these pieces are held in memory, within
// RunOptions::memory_bytes.
// Thread-safety: may run concurrently on the same checkpoints.
// Units: bytes, elements.
// Errors: Cancelled; InvalidArgument for two leaves with the same name. A leaf
// that cannot be read is listed in the result, with the reason, and does not
// stop the rest.
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
  // Returns true for the leaves of `now` to compare. Empty: all.
  std::function<bool(const LeafInfo&)> select;
  // As in StatsOptions. Set both identities, or neither.
  StatsCache* cache = nullptr;
  std::string identity_before;
  std::string identity_now;
};

struct LeafDrift {
  size_t before = 0;  // index into leaves() of `before`
  size_t now = 0;
  double moved = 0;  // l2 norm of the difference
  double norm = 0;   // l2 norm of the value before
  Status problem;

  // Returns moved / norm; 0 if `moved` is 0, infinity if only `norm` is 0.
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
