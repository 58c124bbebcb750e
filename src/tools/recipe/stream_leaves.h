// Reads elements that cannot be read straight into place because they are cast
// or scaled, or because their neighbours change. They pass through a few MiB of
// scratch memory, in the order of the source.
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
// The index of the source array at these values of the numbering atoms.
size_t ArrayNumber(const AxisMap& map, const Shape& atoms_origin);

// Reads from `leaves` what the requests ask for, and adds to `stats`.
Status StreamLeaves(const Checkpoint& source,
                    const std::vector<RecipeLeaf>& leaves,
                    const std::vector<const ReadRequest*>& requests,
                    const RunOptions& run, Stats& stats);

}  // namespace holdfast
