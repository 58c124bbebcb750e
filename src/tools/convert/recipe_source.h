// Opens the source of a conversion or a view, and applies the recipe if there
// is one.
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

// Without `options.config_json`, reads it from the `config.json` next to the
// source's files.
Result<std::unique_ptr<Checkpoint>> ThroughRecipe(
    std::unique_ptr<Checkpoint> source, const std::optional<Recipe>& recipe,
    RecipeOptions options);

// Differs for recipes or options that present one source differently.
uint64_t RecipeHash(const std::optional<Recipe>& recipe,
                    const RecipeOptions& options);

}  // namespace holdfast
