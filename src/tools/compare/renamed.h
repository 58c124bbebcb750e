// Leaves that only one side has, paired where they hold the same value.
//
// Thread-safety: pure functions. Units: bytes.
// Errors: Cancelled. A leaf that cannot be read has no partner.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "holdfast/tools/diff.h"

namespace holdfast {

// A leaf that may have another name on the other side.
struct RenameCandidate {
  size_t leaf = 0;  // in leaves()
  std::string name;
  std::string value;  // equal for equal kind, dtype, shape and elements
};

// Positions (in a, in b) of those with equal values; where several have, names
// that begin and end alike are paired first.
std::vector<std::pair<size_t, size_t>> PairRenamed(
    const std::vector<RenameCandidate>& a,
    const std::vector<RenameCandidate>& b);

// Sets LeafDiff::renamed. Reads a leaf only if the other side has one of equal
// kind, dtype and shape.
Status FindRenamed(const Checkpoint& a, const Checkpoint& b,
                   const RunOptions& run, std::vector<LeafDiff>& diffs,
                   Stats& stats);

}  // namespace holdfast
