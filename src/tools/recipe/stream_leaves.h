// Reads elements that cannot be read directly into the target because they are
// cast or scaled, or because elements that are neighbors in the source are not
// neighbors in the target. The elements pass through a few MiB of scratch
// memory, in the source's order.
//
// Thread-safety: as Checkpoint::ReadInto. Errors: those of the source.
#pragma once

#include <functional>
#include <vector>

#include "holdfast/checkpoint.h"
#include "tools/recipe/plan.h"

namespace holdfast {

// Calls fn with boxes of atoms that together cover a box of the leaf, with the
// strides and offsets of `target`.
Status ForEachAtomBoxOf(const RecipeLeaf& leaf, const Shape& origin,
                        const ArrayView& target,
                        const std::function<Status(PlacedBox)>& fn);
// Returns the index of the source array for the values of the numbering atoms
// in `atoms_origin`.
size_t ArrayNumber(const AxisMap& map, const Shape& atoms_origin);

// Serves the requests for `leaves`, and adds to `stats`.
Status StreamLeaves(const Checkpoint& source,
                    const std::vector<RecipeLeaf>& leaves,
                    const std::vector<const ReadRequest*>& requests,
                    const RunOptions& run, Stats& stats);

}  // namespace holdfast
