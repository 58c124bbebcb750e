// How far the tensors of a root have moved from step to step.
//
// A strip has one character a pair of neighbouring steps: '0' where nothing
// moved, '-' where nothing can be compared, and 'A' to 'z' for the logarithm of
// the relative change (LeafDrift::relative), from 1e-8 to 10. For a module all
// of its tensors count together. Only the newest pairs are shown: 64 at most,
// and as many as take 400,000 characters.
// Thread-safety: any thread. Ownership: borrows everything for the call.
// Errors: Cancelled; a step that cannot be read has '-'.
#pragma once

#include <string>
#include <vector>

#include "holdfast/checkpoint.h"
#include "holdfast/tools/stats_cache.h"

namespace holdfast {

struct Moved {
  std::vector<std::string> steps;   // the later one of each pair
  std::vector<std::string> strips;  // by node of MakeModuleTree
};

// `shown`: whose leaves they are, by name. `cache` may be null.
Result<Moved> WhatMoved(const Checkpoint& shown,
                        const std::vector<StepInfo>& steps,
                        const RunOptions& run, StatsCache* cache);

// The character of a relative change.
char MovedCharacter(double relative);

}  // namespace holdfast
