// Reading what does not go straight from the source to its place: elements that
// are cast or scaled, or whose neighbours change. They go through a few MiB of
// scratch memory, in the order of the source.
//
// Thread-safety: as Checkpoint::ReadInto. Errors: those of the source.
#pragma once

#include <functional>
#include <vector>

#include "holdfast/checkpoint.h"
#include "tools/recipe/plan.h"

namespace holdfast {

// Calls fn with boxes of atoms that together are a box of the leaf; their
// strides and offsets are those of `target`.
Status ForEachAtomBoxOf(const RecipeLeaf& leaf, const Shape& origin,
                        const ArrayView& target,
                        const std::function<Status(PlacedBox)>& fn);
// Which of the source arrays one step of each numbering atom is.
size_t ArrayNumber(const AxisMap& map, const Shape& atoms_origin);

// Reads what the requests ask for of `leaves`, and adds to `stats`.
Status StreamLeaves(const Checkpoint& source,
                    const std::vector<RecipeLeaf>& leaves,
                    const std::vector<const ReadRequest*>& requests,
                    const RunOptions& run, Stats& stats);

}  // namespace holdfast
