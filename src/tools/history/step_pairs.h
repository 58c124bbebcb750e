// Opens the steps of a root one after the other, and compares each with the
// step before it.
//
// Thread-safety: any thread. Ownership: borrows everything for the call.
// Errors: Cancelled, and those of the callback. The pairs of a step that cannot
// be read carry the reason.
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

// Calls `on_pair` for each pair of neighboring steps, in the order of `steps`.
// `cache` may be null.
Status ForEachStepPair(const std::vector<const StepInfo*>& steps,
                       const RunOptions& run, StatsCache* cache,
                       const std::function<void(const StepPair&)>& on_pair);

}  // namespace holdfast
