// The sizes of axes that are known without any array.
//
// Thread-safety: pure function. Errors: InvalidArgument.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "holdfast/tools/recipe.h"
#include "tools/recipe/rules.h"

namespace holdfast {

// Those of the caller, of the recipe, and of config.json where it names members
// of it.
Result<std::map<std::string, int64_t>> KnownSizes(const RecipeRules& rules,
                                                  const RecipeOptions& options);

}  // namespace holdfast
