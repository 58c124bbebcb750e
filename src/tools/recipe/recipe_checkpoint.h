// WithRecipe: a checkpoint seen through a recipe.
//
// Its leaves are the targets in the order of the rules. The targets of one rule
// are sorted by the numbers in their names. The checkpoint also implements
// StoredExtents, for leaves whose elements are stored unchanged in the source's
// files.
// Thread-safety: as Checkpoint. Ownership: it owns the source.
// Errors: InvalidArgument for a recipe that does not fit the source, before
// anything is read. Errors of reads are the source's, with the source's names.
#pragma once

#include <memory>

#include "holdfast/checkpoint.h"
#include "holdfast/tools/recipe.h"

namespace holdfast {

Result<std::unique_ptr<Checkpoint>> WithRecipe(
    std::unique_ptr<Checkpoint> source, const Recipe& recipe,
    const RecipeOptions& options);

}  // namespace holdfast
