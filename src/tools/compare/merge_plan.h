// Plans which leaves a merged checkpoint has, and where each is read from. No
// elements are read.
//
// Thread-safety: pure functions.
// Errors: InvalidArgument, as described in holdfast/tools/merge.h.
#pragma once

#include <string>
#include <vector>

#include "holdfast/tools/merge.h"

namespace holdfast {

struct MergeOrigin {
  size_t part = 0;
  size_t leaf = 0;
};

struct MergedLeaf {
  LeafInfo info;
  // One origin; with `is_average`, one for each part.
  std::vector<MergeOrigin> origins;
  bool is_average = false;
};

Result<std::vector<MergedLeaf>> PlanMerge(const std::vector<MergePart>& parts,
                                          const MergeOptions& options);

// Returns true if the leaf's values can be averaged.
bool IsAveraged(const LeafInfo& leaf);
std::string PartLabel(const MergePart& part);

}  // namespace holdfast
