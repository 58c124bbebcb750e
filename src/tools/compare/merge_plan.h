// Which leaves a merged checkpoint has, and where each is read. Nothing is
// read.
//
// Thread-safety: pure functions.
// Errors: InvalidArgument, as holdfast/tools/merge.h has them.
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
  // One; with `is_average` one of each part.
  std::vector<MergeOrigin> origins;
  bool is_average = false;
};

Result<std::vector<MergedLeaf>> PlanMerge(const std::vector<MergePart>& parts,
                                          const MergeOptions& options);

// True when values of the leaf can be averaged.
bool IsAveraged(const LeafInfo& leaf);
std::string PartLabel(const MergePart& part);

}  // namespace holdfast
