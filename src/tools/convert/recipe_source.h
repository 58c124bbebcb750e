// Applies a recipe, if there is one, to the source of a conversion or a view.
//
// Thread-safety: pure functions of the file system, or of a bucket.
// Units: bytes. Errors: those of Open and WithRecipe; InvalidArgument for
// recipe options without a recipe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "holdfast/checkpoint.h"
#include "holdfast/tools/recipe.h"

namespace holdfast {

// Returns `source` itself without a recipe. If `options.config_json` is empty,
// reads the `config.json` next to the source's files.
Result<std::unique_ptr<Checkpoint>> ThroughRecipe(
    std::unique_ptr<Checkpoint> source, const std::optional<Recipe>& recipe,
    RecipeOptions options);

// Returns a hash that differs for recipes or options that present the same
// source differently.
uint64_t RecipeHash(const std::optional<Recipe>& recipe,
                    const RecipeOptions& options);

}  // namespace holdfast
