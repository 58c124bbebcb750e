// Matches the leaves of one checkpoint with those of another, and compares
// their metadata. No elements are read.
//
// Thread-safety: pure functions. Errors: InvalidArgument for two leaves with
// the same name; the errors of DiffOptions::map.
#pragma once

#include <string>
#include <vector>

#include "holdfast/tools/diff.h"

namespace holdfast {

// Returns the leaves of `a` in order, then those that only `b` has. A leaf
// whose metadata agree gets the verdict kSame.
Result<std::vector<LeafDiff>> MatchLeaves(const std::vector<LeafInfo>& a,
                                          const std::vector<LeafInfo>& b,
                                          const DiffOptions& options);

}  // namespace holdfast
