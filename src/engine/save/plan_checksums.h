// Checks whether processes that planned independently made the same plan.
//
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "engine/format/part_file.h"
#include "engine/save/save_plan.h"

namespace holdfast {

// Returns checksums of every leaf's name and kind, and of the dtype, shape,
// write shape, chunks, codecs and sharding of arrays. They cover nothing that
// may differ between processes.
PlanChecksums ChecksumsOf(const SavePlan& plan);

// Returns names of the leaves whose buckets differ, at most `count_max`,
// sorted. At least one leaf in these buckets is stored differently, or absent,
// in the other plan.
std::vector<std::string> SuspectLeaves(const std::vector<std::string>& names,
                                       const PlanChecksums& a,
                                       const PlanChecksums& b,
                                       size_t count_max);

}  // namespace holdfast
