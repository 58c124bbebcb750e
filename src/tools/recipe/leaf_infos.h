// Describes the leaves of the target, as a checkpoint describes its leaves.
//
// Thread-safety: pure functions. Errors: InvalidArgument.
#pragma once

#include <string>
#include <vector>

#include "holdfast/checkpoint.h"
#include "tools/recipe/plan.h"
#include "tools/recipe/rules.h"

namespace holdfast {

// Describes the leaf `keys`, made from `stack`. With `has_axes`, the array's
// layout differs from the source's, and only its elements stay the same.
LeafInfo TargetInfo(const std::vector<LeafInfo>& source,
                    const SourceStack& stack, bool has_axes,
                    std::vector<std::string> keys);

// Fails for two leaves of one name, for a leaf below another, and for keys
// nested too deeply. `rules` has the rule that made each leaf; null for a leaf
// that is kept, which may be below another kept one.
Status CheckTargetNames(const std::vector<LeafInfo>& infos,
                        const std::vector<const RecipeRule*>& rules);

}  // namespace holdfast
