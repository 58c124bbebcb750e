// Shows how far a root's tensors have moved from step to step.
//
// A strip has one character for each pair of neighboring steps: '0' if nothing
// moved, '-' if nothing can be compared, and 'A' to 'z' for the logarithm of
// the relative change (LeafDrift::relative), from 1e-8 to 10. A module's strip
// counts all of its tensors together. Only the newest pairs are shown: at most
// 64, and no more than fit in 400,000 characters.
// Thread-safety: any thread. Ownership: borrows everything for the call.
// Errors: Cancelled. The character for a step that cannot be read is '-'.
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

// Makes the strips for the leaves of `shown`. `cache` may be null.
Result<Moved> WhatMoved(const Checkpoint& shown,
                        const std::vector<StepInfo>& steps,
                        const RunOptions& run, StatsCache* cache);

// Returns the character for a relative change.
char MovedCharacter(double relative);

}  // namespace holdfast
