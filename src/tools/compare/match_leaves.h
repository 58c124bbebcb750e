// Matches the leaves of one checkpoint with those of another, and compares
// their metadata. No elements are read.
//
// Thread-safety: pure functions. Errors: InvalidArgument for two leaves of one
// name; the errors of DiffOptions::map.
#pragma once

#include <string>
#include <vector>

#include "holdfast/tools/diff.h"

namespace holdfast {

// Returns the leaves of A in order, then those that only B has. Verdicts come
// from the metadata; the other leaves are kSame.
Result<std::vector<LeafDiff>> MatchLeaves(const std::vector<LeafInfo>& a,
                                          const std::vector<LeafInfo>& b,
                                          const DiffOptions& options);

}  // namespace holdfast
