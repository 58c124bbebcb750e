// Finds renamed leaves: pairs a leaf that only A has with a leaf that only B
// has if both hold the same value.
//
// Thread-safety: pure functions. Units: bytes.
// Errors: Cancelled. A leaf that cannot be read stays unpaired.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "holdfast/tools/diff.h"

namespace holdfast {

// A leaf that only one side has, which may have another name on the other side.
struct RenameCandidate {
  size_t leaf = 0;  // index in leaves()
  std::string name;
  std::string value;  // equal for equal kind, dtype, shape and elements
};

// Returns pairs of positions (in a, in b) of candidates with equal values. If
// several values are equal, names with long common beginnings and ends are
// paired first.
std::vector<std::pair<size_t, size_t>> PairRenamed(
    const std::vector<RenameCandidate>& a,
    const std::vector<RenameCandidate>& b);

// Sets LeafDiff::renamed in `diffs`. Reads a leaf only if an unmatched leaf of
// the other side has the same kind, dtype and shape.
Status FindRenamed(const Checkpoint& a, const Checkpoint& b,
                   const RunOptions& run, std::vector<LeafDiff>& diffs,
                   Stats& stats);

}  // namespace holdfast
