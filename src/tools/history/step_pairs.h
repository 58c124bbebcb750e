// Opens the steps of a root one after the other, and compares each with the one
// before it.
//
// Thread-safety: any thread. Ownership: borrows everything for the call.
// Errors: Cancelled, and those of the callback. A step that cannot be read is
// included in its pairs, with the reason.
#pragma once

#include <functional>
#include <vector>

#include "holdfast/checkpoint.h"
#include "holdfast/tools/drift.h"
#include "holdfast/tools/stats_cache.h"

namespace holdfast {

struct StepPair {
  const StepInfo& before;
  const StepInfo& now;
  const Checkpoint* opened;  // of `now`; null if `drift` is a failed open
  const Result<DriftResult>& drift;
};

// Calls back for each pair of neighbours, in the order of `steps`. `cache` may
// be null.
Status ForEachStepPair(const std::vector<const StepInfo*>& steps,
                       const RunOptions& run, StatsCache* cache,
                       const std::function<void(const StepPair&)>& on_pair);

}  // namespace holdfast
