// The axis sizes that are known without looking at any array.
//
// Thread-safety: pure function. Errors: InvalidArgument.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "holdfast/tools/recipe.h"
#include "tools/recipe/rules.h"

namespace holdfast {

// The sizes given by the caller, by the recipe, and by config.json where the
// recipe names its members.
Result<std::map<std::string, int64_t>> KnownSizes(const RecipeRules& rules,
                                                  const RecipeOptions& options);

}  // namespace holdfast
