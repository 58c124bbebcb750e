// WithRecipe: a checkpoint seen through a recipe.
//
// Its leaves are the targets, in the order of the rules and, within a rule, of
// the numbers in their names. It also implements StoredExtents: leaves whose
// elements are stored unchanged in the source's files have extents there.
// Thread-safety: as Checkpoint. Ownership: it owns the source.
// Errors: InvalidArgument for a recipe that does not fit the source, found
// before anything is read; reads fail as the source's do, with the source's
// names.
#pragma once

#include <memory>

#include "holdfast/checkpoint.h"
#include "holdfast/tools/recipe.h"

namespace holdfast {

Result<std::unique_ptr<Checkpoint>> WithRecipe(
    std::unique_ptr<Checkpoint> source, const Recipe& recipe,
    const RecipeOptions& options);

}  // namespace holdfast
