// Which leaf of one checkpoint stands for which of another, and what their
// metadata say about them. Nothing is read.
//
// Thread-safety: pure functions. Errors: InvalidArgument for two leaves of one
// name; those of DiffOptions::map.
#pragma once

#include <string>
#include <vector>

#include "holdfast/tools/diff.h"

namespace holdfast {

// The leaves of A in order, then those only in B; verdicts from metadata, and
// kSame for the rest.
Result<std::vector<LeafDiff>> MatchLeaves(const std::vector<LeafInfo>& a,
                                          const std::vector<LeafInfo>& b,
                                          const DiffOptions& options);

}  // namespace holdfast
