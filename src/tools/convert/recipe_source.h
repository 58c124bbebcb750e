// The source of a conversion or a view: opened, and seen through the recipe if
// there is one.
//
// Thread-safety: pure functions of the file system, or of a bucket.
// Units: bytes. Errors: those of Open and WithRecipe; InvalidArgument for
// options of a recipe without one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "holdfast/checkpoint.h"
#include "holdfast/tools/recipe.h"

namespace holdfast {

// `options.config_json` is read from the `config.json` beside the source's
// files where the caller gives none.
Result<std::unique_ptr<Checkpoint>> ThroughRecipe(
    std::unique_ptr<Checkpoint> source, const std::optional<Recipe>& recipe,
    RecipeOptions options);

// Tells two ways of seeing one source apart.
uint64_t RecipeHash(const std::optional<Recipe>& recipe,
                    const RecipeOptions& options);

}  // namespace holdfast
