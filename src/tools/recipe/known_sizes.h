// Collects the axis sizes that are known without any array.
//
// Thread-safety: pure function. Errors: InvalidArgument.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "holdfast/tools/recipe.h"
#include "tools/recipe/rules.h"

namespace holdfast {

// Returns the sizes that the caller gives, those that the recipe gives as
// numbers, and those for which the recipe names a member of config.json.
Result<std::map<std::string, int64_t>> KnownSizes(const RecipeRules& rules,
                                                  const RecipeOptions& options);

}  // namespace holdfast
